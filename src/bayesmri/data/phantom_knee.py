"""A knee, cut coronally: femur above, tibia and fibula below, cartilage, menisci, ligaments, muscle and fat."""

from dataclasses import dataclass

import numpy as np

from bayesmri.data.phantom_canvas import Canvas, Field, Scene, blank, carve, ellipse, merge, ramp, strand


@dataclass(frozen=True)
class _Shapes:
    """Warped coordinates and the signed distances that everything else is placed by; medial is x < 0."""

    x: Field
    y: Field
    limb: Field
    inner: Field  # what the subcutaneous fat encloses
    femur: Field
    tibia: Field
    fibula: Field


def knee(scene: Scene) -> Canvas:
    s = _shapes(scene)
    canvas = blank(scene)
    _soft_tissue(scene, canvas, s)
    _bones(scene, canvas, s)
    _joint(scene, canvas, s)
    _ligaments(scene, canvas, s)
    _vessels(scene, canvas, s)
    _lesions(scene, canvas, s)
    _finish(scene, canvas, s)
    return canvas


def _edge(scene: Scene) -> float:
    """Width of an edge: a pixel and a half, and what a thick slice adds where surfaces are oblique to it."""
    return 1.5 * scene.px + 0.003


def _shapes(scene: Scene) -> _Shapes:
    zoom, turn, left = scene.draw(0.85, 1.12), scene.vary(-0.12, 0.12), scene.side()
    dx, dy = scene.vary(-0.06, 0.06), scene.vary(-0.14, 0.14)
    u, v = (scene.x - dx) * left / zoom, (scene.y - dy) / zoom
    x = np.cos(turn) * u - np.sin(turn) * v + 0.014 * scene.waves(1.2, 0.35, 24)
    y = np.sin(turn) * u + np.cos(turn) * v + 0.014 * scene.waves(1.2, 0.35, 24)
    x, y = x.astype(np.float32), y.astype(np.float32)
    femur, tibia, fibula = _femur(scene, x, y), _tibia(scene, x, y), _fibula(scene, x, y)
    limb, inner = _limb(scene, x, y)
    # the bones never pierce the fat: it gives way
    inner = np.minimum(inner, np.minimum(femur, tibia) - 0.07)
    return _Shapes(x, y, limb, inner, femur, tibia, fibula)


def _limb(scene: Scene, x: Field, y: Field) -> tuple[Field, Field]:
    thigh, calf, waist = scene.vary(0.0, 0.12), scene.vary(-0.04, 0.08), scene.vary(0.78, 0.86)
    width = waist + thigh * ramp(y + 0.45, 0.9) + calf * ramp(0.5 - y, 0.7)
    bulge = 0.02 * scene.waves(2.0, 0.6, 12, tall=1.5)
    limb = np.abs(x - scene.vary(-0.03, 0.03)) - width - bulge
    fat = scene.vary(0.05, 0.15) + scene.vary(0.0, 0.06) * ramp(x, 0.8)  # thicker on the medial side
    return limb, limb + fat * (1 + 0.3 * scene.waves(1.5, 0.5, 12))


def _femur(scene: Scene, x: Field, y: Field) -> Field:
    shaft, reach = scene.vary(0.17, 0.3), scene.vary(-0.56, -0.36)
    flare = scene.vary(0.24, 0.32) * ramp(reach - y, 0.62)
    d = carve((np.abs(x) - shaft - flare) * 0.85, y + 0.17, 0.2)
    for side in (-1.0, 1.0):
        centre = (side * scene.vary(0.29, 0.33), scene.vary(-0.29, -0.26))
        d = merge(d, ellipse(x, y, centre, (scene.vary(0.29, 0.34), scene.vary(0.245, 0.28))), 0.1)
    roof = scene.vary(-0.22, -0.1)
    notch = strand(x, y, [(scene.vary(-0.03, 0.03), roof), (0.0, 0.3)], [scene.vary(0.06, 0.1), 0.14])
    return carve(d, -notch, 0.08)


def _tibia(scene: Scene, x: Field, y: Field) -> Field:
    spread, shaft = scene.vary(0.33, 0.38), scene.vary(0.2, 0.29)
    width = shaft + spread * np.exp(-((np.maximum(y - 0.12, 0) / scene.vary(0.24, 0.4)) ** 2))
    spines = scene.vary(0.04, 0.09) * np.exp(-(((np.abs(x + 0.01) - 0.05) / 0.06) ** 2))
    dish = scene.vary(0.0, 0.02) * np.cos(2 * np.pi * x / 0.6)
    plateau = scene.vary(0.075, 0.095) - spines + dish + scene.vary(-0.04, 0.04) * x
    return carve((np.abs(x) - width) * 0.85, (plateau - y) * 0.9, 0.07)


def _fibula(scene: Scene, x: Field, y: Field) -> Field:
    top, away = scene.vary(0.3, 0.42), scene.vary(0.56, 0.62)
    head, neck = scene.vary(0.08, 0.11), scene.vary(0.05, 0.07)
    return strand(x, y, [(away, top), (away - 0.03, top + 0.25), (away - 0.06, 2.5)], [head, neck, neck])


def _soft_tissue(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = _edge(scene)
    canvas.paint(ramp(s.limb, px), scene.draw(0.3, 0.45), 0.1)
    lobules = scene.waves(0.3, 0.08, 48, tall=1.6)
    fat = ramp(s.limb + scene.draw(0.012, 0.02), px)
    canvas.paint(fat, 0.07, 0.84 + 0.06 * lobules)
    septa = ramp(np.abs(scene.waves(0.35, 0.14, 32, tall=2.5)) - 0.05, 0.1)
    canvas.paint(fat * septa * ramp(scene.waves(0.8, 0.4, 16), 1.5) * 0.7, 0.3, 0.25)
    inside = ramp(s.inner, px)
    canvas.paint(inside, 0.12, 0.72 + 0.05 * lobules)
    strips = ramp(np.abs(scene.waves(0.3, 0.1, 48, tall=3.0)) - 0.18, 0.25)
    canvas.paint(inside * strips * 0.6, 0.25, 0.2)
    _muscles(scene, canvas, s)
    canvas.paint(ramp(np.abs(s.inner) - 0.005, 2 * px) * 0.8, 0.1)


def _muscles(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """Vasti above, the calf's below; bellies are parted by fat and marbled along their fibres."""
    px = _edge(scene)
    ends = 0.08 * scene.waves(0.9, 0.25, 24)
    above = s.y + scene.vary(0.3, 0.42) + 0.35 * (0.75 - np.abs(s.x)) + ends
    below = scene.vary(0.3, 0.42) - s.y + 0.15 * (0.75 - np.abs(s.x)) + ends
    part = 0.012 - np.abs(scene.waves(1.4, 0.7, 12, tall=3.0)) * 0.12
    belly = carve(carve(np.minimum(above, below), s.inner + 0.02, 0.06), part, 0.03)
    tone = scene.draw(0.34, 0.44)
    fibres = scene.waves(0.1, 0.022, 96, tall=8.0, decay=0.5)
    marbling = np.clip(fibres - scene.draw(1.2, 1.9), 0, 1)
    canvas.paint(ramp(belly, px), tone * (1 + 0.07 * fibres) * (1 - 0.3 * marbling), 0.04 + 0.5 * marbling)


def _bones(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = _edge(scene)
    beams = 0.75 * scene.waves(0.07, 0.018, 96, tall=4.0, decay=1.0) + 0.5 * scene.waves(0.06, 0.017, 96, decay=1.0)
    clouds = scene.waves(0.6, 0.15, 40)
    marrow = scene.draw(0.56, 0.7) * (1 + 0.06 * clouds)
    scars = ((s.femur, -scene.vary(0.36, 0.44)), (s.tibia, scene.vary(0.3, 0.38)), (s.fibula, 0.5))
    far = ramp(0.55 - np.abs(s.y), 0.5)  # 0 at the joint, 1 in the shafts
    for bone, scar_y in scars:
        canvas.paint(ramp(bone, px), 0.03)
        shell = scene.draw(0.01, 0.016) + scene.draw(0.008, 0.022) * far
        # trabeculae take marrow away; they are densest under the joint surface and gone in the shaft
        dense = (0.09 + 0.07 * np.exp(-np.abs(bone) / 0.06)) * (1 - 0.6 * far)
        fat = marrow * (1 - dense * np.clip(0.7 + beams, -0.3, 2.2))
        canvas.paint(ramp(bone + shell, px), 0.1 + 0.02 * clouds, fat)
        line = np.abs(s.y - scar_y + 0.03 * scene.waves(0.7, 0.12, 24)) - 0.003
        canvas.paint(ramp(line, 2 * px) * ramp(bone + shell, px) * scene.draw(0.3, 0.7), 0.08, 0.15)


def _joint(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """Cartilage lines the bones, a film of fluid parts them; menisci fill the wedge that opens towards the rim."""
    px = _edge(scene)
    reach = scene.vary(0.6, 0.66)
    nearest, opening = np.minimum(s.femur, s.tibia), s.femur + s.tibia
    band = np.maximum(-0.13 - s.y, s.y - 0.15)
    capsule = carve(carve(np.abs(s.x) - reach - 0.02, band, 0.05), opening - 0.3, 0.05)
    space = ramp(-nearest, px)
    canvas.paint(space * ramp(capsule, 0.05), 0.5 + 0.1 * scene.waves(0.2, 0.06, 32), 0.15)
    thick = scene.vary(0.026, 0.038) * (1 + 0.12 * scene.waves(0.5, 0.15, 24))
    film = np.maximum(capsule, opening - 2 * thick - scene.vary(0.02, 0.05))
    canvas.paint(space * ramp(film, 2 * px), scene.draw(0.8, 1.0))
    _menisci(scene, canvas, s, np.maximum(np.maximum(thick * 0.85 - nearest, np.abs(s.x) - reach), band + 0.02))
    middle = 0.11 - np.abs(s.x)
    upper = carve(np.maximum(s.femur - thick, -s.femur), np.maximum(-0.14 - s.y, middle - 0.05), 0.02)
    lower = carve(np.maximum(s.tibia - thick * 0.85, -s.tibia), np.maximum(np.abs(s.x) - reach + 0.04, middle), 0.02)
    lining = np.minimum(upper, np.maximum(lower, s.y - 0.15))
    canvas.paint(ramp(lining, px), scene.draw(0.5, 0.64) * (1 + 0.06 * scene.waves(0.12, 0.03, 48)))


def _menisci(scene: Scene, canvas: Canvas, s: _Shapes, wedge: Field) -> None:
    for side in (-1.0, 1.0):
        inner = scene.vary(0.3, 0.47)
        # the free edge tapers to a point half way between the bones
        taper = inner + 0.9 * np.abs(s.femur - s.tibia) - side * s.x
        body = carve(wedge, taper, 0.01)
        canvas.paint(ramp(body, _edge(scene)), 0.08 + 0.02 * scene.waves(0.1, 0.03, 32))


def _ligaments(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = _edge(scene)
    streaks = 1 + 0.3 * scene.waves(0.06, 0.02, 48, tall=5.0)
    bones = np.minimum(s.femur, s.tibia)
    medial = [(-0.6, -0.38), (-0.665, -0.2), (-0.675, 0.04), (-0.64, 0.2), (-0.5, 0.46)]
    lateral = [(0.61, -0.34), (0.675, -0.15), (0.69, 0.08), (0.64, 0.36)]
    for path in (medial, lateral):
        r = scene.vary(0.007, 0.014)
        band = strand(s.x, s.y, path, [0.004] + [r] * (len(path) - 2) + [0.006])
        canvas.paint(ramp(np.maximum(band, -bones), px), 0.08 * streaks)
    lean = scene.vary(0.04, 0.09)
    acl = strand(s.x, s.y, [(lean, -0.2), (-0.03, 0.04)], [scene.vary(0.015, 0.03), 0.02])
    pcl = ellipse(s.x, s.y, (-scene.vary(0.03, 0.07), -scene.vary(0.04, 0.1)), (scene.vary(0.025, 0.045), 0.05), 0.3)
    free = ramp(0.01 - bones, px)
    canvas.paint(ramp(acl, 2 * px) * free, 0.2 * streaks, 0.05)
    canvas.paint(ramp(pcl, px) * free, 0.1 * streaks)


def _vessels(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = _edge(scene)
    soft = ramp(0.03 - np.minimum(np.minimum(s.femur, s.tibia), s.fibula), px) * ramp(s.limb + 0.03, px)
    for _ in range(14):
        x0, y0 = scene.side() * scene.draw(0.5, 0.85), scene.draw(-1.1, 1.1)
        at = (x0 + scene.vary(-0.05, 0.05), y0 + scene.vary(-0.08, 0.08))
        r, long = scene.draw(0.008, 0.024), scene.draw(1.0, 2.5)
        tone = 0.9 if scene.side() > 0 else 0.03
        tube = ellipse(s.x, s.y, at, (r, r * long), scene.draw(-0.5, 0.5))
        canvas.paint(ramp(tube - 0.006, px) * soft, 0.15)
        canvas.paint(ramp(tube, px) * soft, tone)


def _lesions(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """One to three of: a bone bruise, a cyst, a cartilage defect, a meniscal tear."""
    px = _edge(scene)
    marrow = ramp(np.minimum(s.femur, s.tibia) + 0.02, px)
    ragged = 0.03 * scene.waves(0.25, 0.08, 32)
    for kind in scene.rng.permutation(4)[: scene.rng.integers(1, 4)]:
        side, below, z0 = scene.side(), scene.side() > 0, scene.draw(-0.08, 0.08)
        a, b, size = scene.draw(0.0, 1.0), scene.draw(0.0, 1.0), scene.draw(0.6, 1.0) * scene.bulge(z0, 0.2)
        if size == 0:
            continue
        x0, y0 = side * (0.2 + 0.22 * a), (0.17 + 0.12 * b) if below else (-0.1 - 0.25 * b)
        if kind == 0:
            soft = ramp(ellipse(s.x, s.y, (x0, y0), (0.13 * size, 0.09 * size)) + ragged, 0.08)
            canvas.paint_lesion(soft * marrow * 0.7, 0.6, 0.2)
        elif kind == 1:
            cyst = ellipse(s.x, s.y, (x0, y0), (0.035 * size, 0.03 * size), a)
            canvas.paint(ramp(cyst - 0.008, px) * marrow, 0.06)
            canvas.paint_lesion(ramp(cyst, px) * marrow, 0.95)
        elif kind == 2:
            pit = ellipse(s.x, s.y, (side * (0.22 + 0.15 * a), 0.02), (0.035 * size, 0.05))
            canvas.paint_lesion(ramp(pit, px) * ramp(-np.minimum(s.femur, s.tibia), px), 0.95)
        else:
            tear = strand(s.x, s.y, [(side * 0.4, 0.045 - 0.04 * b), (side * 0.58, 0.03 + 0.05 * a)], [0.006, 0.008])
            canvas.paint_lesion(ramp(tear, px) * ramp(-np.minimum(s.femur, s.tibia) + 0.01, px) * size, 0.85)


def _finish(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """Grain within tissues; the coil fades along the limb, where long fields of view outrun it."""
    grain = 1 + 0.02 * scene.waves(0.07, 0.016, 110, decay=0.7)
    fade = ramp(np.abs(scene.y) - scene.draw(1.15, 1.3), 0.7)
    for part in (canvas.water, canvas.fat, canvas.lesion):
        part *= fade
    canvas.water[...] *= grain
    canvas.fat[...] *= grain
