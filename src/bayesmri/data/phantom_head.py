"""A head, cut axially: scalp, skull, folded cortex, white matter, ventricles, deep nuclei, falx and vessels."""

from dataclasses import dataclass

import numpy as np

from bayesmri.data.phantom_canvas import Canvas, Field, Scene, blank, carve, ellipse, merge, ramp, strand

FRONT_HORN = [(0.03, -0.06), (0.05, -0.14), (0.08, -0.22), (0.14, -0.3)]
BACK_HORN = [(0.14, 0.22), (0.2, 0.29), (0.21, 0.37), (0.17, 0.47)]


@dataclass(frozen=True)
class _Shapes:
    """Warped coordinates (the front of the head is y < 0) and the surfaces that everything is placed by."""

    x: Field
    y: Field
    head: Field
    skull: Field  # its outer face
    dura: Field  # its inner face
    depth: Field  # distance below the surface of the brain, ignoring folds
    pia: Field  # distance into the cortex from the nearest fold; negative in fluid


def head(scene: Scene) -> Canvas:
    s = _shapes(scene)
    canvas = blank(scene)
    _shell(scene, canvas, s)
    _brain(scene, canvas, s)
    _deep(scene, canvas, s)
    _falx_and_vessels(scene, canvas, s)
    _lesions(scene, canvas, s)
    grain = 1 + 0.035 * scene.waves(0.06, 0.012, 120, decay=0.4)
    canvas.water[...] *= grain
    canvas.fat[...] *= grain
    return canvas


def _shapes(scene: Scene) -> _Shapes:
    turn, dx, dy = scene.vary(-0.12, 0.12), scene.vary(-0.03, 0.03), scene.vary(-0.03, 0.03)
    u, v = scene.x - dx, scene.y - dy
    x = np.cos(turn) * u - np.sin(turn) * v + 0.012 * scene.waves(2.0, 0.8, 24)
    y = np.sin(turn) * u + np.cos(turn) * v + 0.012 * scene.waves(2.0, 0.8, 24)
    x, y = x.astype(np.float32), y.astype(np.float32)
    egg = x / (1 + scene.draw(0.04, 0.17) * y)
    size = float(np.sqrt(1 - (0.45 * scene.z + scene.draw(-0.25, 0.25)) ** 2))
    outer = ellipse(egg, y, (0.0, 0.0), (size * scene.draw(0.68, 0.78), size * scene.draw(0.85, 0.93)))
    skull = outer + scene.vary(0.03, 0.055) * (1 + 0.25 * scene.waves(1.5, 0.6, 16))
    dura = skull + scene.vary(0.045, 0.07) * (1 + 0.2 * scene.waves(1.0, 0.3, 16))
    depth = -(dura + scene.vary(0.006, 0.025) * (1 + 0.5 * scene.waves(0.8, 0.2, 16)))
    x = x + 0.012 * scene.waves(0.6, 0.2, 24)  # what lies within bends more than the skull
    y = y + 0.012 * scene.waves(0.6, 0.2, 24)
    return _Shapes(x, y, outer, skull, dura, depth, _folds(scene, x, y, depth))


def _folds(scene: Scene, x: Field, y: Field, depth: Field) -> Field:
    """Distance from the nearest sulcus, fissure or the outer surface.

    Sulci are the zero set of g, a narrow band of waves that near the surface is mixed with one wave around the head,
    so that folds there run inwards; |g|/|∇g| measures the distance to it. They reach to a depth that wanders, and
    pinch shut where the width goes below zero.
    """
    turns = int(scene.rng.integers(11, 16))
    around = np.cos(turns * np.arctan2(y / 0.85, x / 0.7) + 1.6 * scene.waves(0.9, 0.35, 24))
    g = scene.waves(0.34, 0.18, 64, decay=0.0) + 1.1 * ramp(depth - 0.1, 0.2) * around
    slope = np.hypot(*np.gradient(g, np.float32(scene.px)))
    near = np.abs(g) / np.sqrt(slope**2 + 5.0**2)
    width = scene.vary(0.005, 0.011) + 0.006 * scene.waves(0.5, 0.2, 32)
    floor = scene.vary(0.17, 0.24) + 0.08 * scene.waves(0.35, 0.12, 32)
    sulci = carve(near - width, depth - floor, 0.03)
    bridge = scene.vary(0.26, 0.36)  # the corpus callosum closes the midline
    midline = np.maximum(np.abs(x) - 0.007, bridge - np.abs(y + 0.03))
    fissures = np.minimum(midline, _insulae(scene, x, y))
    pia: Field = np.minimum(depth, np.minimum(sulci, fissures))
    return pia


def _insulae(scene: Scene, x: Field, y: Field) -> Field:
    """The Sylvian fissures: in from the side, then along the island behind."""
    d: Field = np.full_like(x, np.inf)
    for side in (-1.0, 1.0):
        lip, y0, long = scene.vary(0.01, 0.022), scene.vary(-0.16, -0.06), scene.vary(0.16, 0.26)
        deep = scene.vary(0.38, 0.42)
        path = [(0.7, y0 - 0.05), (deep + 0.1, y0 - 0.03), (deep + 0.02, y0 - 0.09), (deep, y0 - 0.03)]
        path += [(deep, y0 + 0.4 * long), (deep + 0.04, y0 + long)]
        d = np.minimum(d, strand(side * x, y, path, [lip, lip, lip, 0.7 * lip, 0.4 * lip, 0.002]))
    return d


def _shell(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = 1.5 * scene.px
    canvas.paint(ramp(s.head, px), scene.draw(0.35, 0.5), 0.1)
    lobules = scene.waves(0.2, 0.05, 48)
    canvas.paint(ramp(s.head + 0.012, px), 0.07, 0.85 + 0.06 * lobules)
    for side in (-1.0, 1.0):  # the temporal muscles lie in the scalp's sides
        radii = (scene.vary(0.05, 0.09), scene.vary(0.15, 0.22))
        lump = ellipse(s.x, s.y, (side * 0.66, scene.vary(-0.3, -0.2)), radii)
        canvas.paint(ramp(carve(lump, s.head + 0.03, 0.02), px), 0.36 + 0.04 * lobules, 0.04)
    canvas.paint(ramp(s.skull, px), 0.03)
    table = scene.draw(0.012, 0.018)
    diploe = carve(s.skull + table, -(s.dura - table), 0.01)
    pores = scene.waves(0.06, 0.018, 96, decay=0.5)
    canvas.paint(ramp(diploe, px), 0.1, 0.45 * (1 - 0.25 * np.clip(0.6 + pores, 0, 2)))
    canvas.paint(ramp(s.dura, px), scene.draw(0.75, 1.0))


def _brain(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = 1.5 * scene.px
    grey, white = scene.draw(0.62, 0.74), scene.draw(0.36, 0.5)
    ribbon = scene.vary(0.025, 0.034) * (1 + 0.15 * scene.waves(0.4, 0.15, 24))
    tracts = scene.waves(0.3, 0.06, 56)
    canvas.paint(ramp(-s.pia, px), grey * (1 + 0.03 * scene.waves(0.15, 0.04, 48)))
    # the border of grey and white is softer than that of grey and fluid
    canvas.paint(ramp(ribbon - s.pia, 0.008 + px), white * (1 + 0.03 * tracts + 0.05 * s.depth))


def _deep(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """Nuclei around the ventricles, painted first; then the fluid of the horns and the third ventricle."""
    px = 1.5 * scene.px
    grey, iron = scene.draw(0.56, 0.66), scene.draw(0.38, 0.48)
    wide, shift = scene.vary(0.6, 1.5), scene.vary(-0.03, 0.03)
    fluid = scene.draw(0.85, 1.0)
    y = s.y - shift
    for side in (-1.0, 1.0):
        x = s.x * side
        canvas.paint(ramp(ellipse(x, y, (0.165, -0.17), (0.045, 0.105), -0.3), 0.02), grey)
        canvas.paint(ramp(ellipse(x, y, (0.285, -0.02), (0.05, 0.15), 0.18), 0.02), grey)
        canvas.paint(ramp(ellipse(x, y, (0.225, 0.0), (0.03, 0.09), 0.3), 0.025), iron)
        canvas.paint(ramp(ellipse(x, y, (0.115, 0.13), (0.085, 0.13), -0.45), 0.025), 0.95 * grey)
        front = strand(x, y, FRONT_HORN, [0.01, 0.02 * wide, 0.024 * wide, 0.012])
        back = strand(x, y, BACK_HORN, [0.01, 0.03 * wide, 0.026 * wide, 0.005])
        horns = merge(front, back, 0.02)
        plexus = ellipse(x, y, (0.185, 0.3), (0.016, 0.024))
        canvas.paint(ramp(horns, px), fluid)
        canvas.paint(ramp(carve(plexus, horns + 0.008, 0.005), px), 0.6 + 0.2 * scene.waves(0.05, 0.02, 32))
    third = strand(s.x, y, [(0.0, 0.0), (0.0, 0.18)], [0.006 * wide, 0.014 * wide])
    canvas.paint(ramp(third, px), fluid)
    septum = np.maximum(np.abs(s.x) - 0.006, np.maximum(-0.25 - y, y + 0.05))
    canvas.paint(ramp(septum, px), 0.9 * grey)


def _falx_and_vessels(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    px = 1.5 * scene.px
    falx = np.maximum(np.abs(s.x + 0.004) - 0.0035, 0.38 - np.abs(s.y))
    canvas.paint(ramp(np.maximum(falx, s.dura), px) * 0.8, 0.1)
    sinus = carve(ellipse(s.x, s.dura, (0.0, -0.02), (0.035, 0.03)), -s.y, 0.01)
    canvas.paint(ramp(sinus, px), scene.draw(0.03, 0.4))
    for _ in range(22):
        angle, down, r = scene.draw(0, 2 * np.pi), scene.draw(0.0, 0.2), scene.draw(0.006, 0.014)
        x0, y0 = 0.58 * (1 - down) * np.cos(angle), 0.75 * (1 - down) * np.sin(angle)
        at = (x0 + scene.vary(-0.03, 0.03), y0 + scene.vary(-0.03, 0.03))
        tone = 0.05 if scene.draw(0, 1) < 0.7 else 1.0
        tube = ellipse(s.x, s.y, at, (r, r * scene.draw(1, 2.5)), angle)
        # arteries run in the folds
        canvas.paint(ramp(tube, px) * ramp(s.pia - 0.015, 0.01) * ramp(s.dura, px), tone)
    threads = scene.waves(0.05, 0.02, 80, decay=0.5)
    spots = np.clip(threads - 2.2, 0, 1) * ramp(0.09 - s.pia, 0.04)  # perivascular spaces of the white matter
    canvas.paint(spots.astype(np.float32), 0.9)


def _lesions(scene: Scene, canvas: Canvas, s: _Shapes) -> None:
    """Small bright foci in white matter, sometimes a dark one with a rim, sometimes a mass with a halo."""
    px = 1.5 * scene.px
    ragged = 0.008 * scene.waves(0.15, 0.03, 48)
    inside = ramp(0.02 - s.depth, px)
    kinds = scene.rng.choice(3, size=int(scene.rng.integers(1, 6)), p=(0.7, 0.15, 0.15))
    for kind in kinds:
        z0, angle, out = scene.draw(-0.08, 0.08), scene.draw(0, 2 * np.pi), scene.draw(0.45, 0.8)
        size, oblong = scene.draw(0.5, 1.0) * scene.bulge(z0, 0.15), scene.draw(0.6, 1.4)
        if size == 0:
            continue
        at = (0.5 * out * np.cos(angle), 0.66 * out * np.sin(angle))
        spot = ellipse(s.x, s.y, at, (0.035 * size, 0.035 * size * oblong), angle) + ragged * size
        if kind == 0:
            canvas.paint_lesion(ramp(spot, 0.015 + px) * inside, 0.88)
        elif kind == 1:
            canvas.paint_lesion(ramp(spot - 0.004, px) * inside, 0.06)
            canvas.paint(ramp(spot + 0.015, 0.02) * inside, 0.75 + 12 * ragged)
        else:
            canvas.paint(ramp(spot - 0.05, 0.07) * inside * 0.6, 0.82)
            canvas.paint_lesion(ramp(spot - 0.02, px) * inside, 0.6)
            canvas.paint(ramp(spot + 0.005, 0.015) * inside, 0.95)
