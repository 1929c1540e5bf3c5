"""Dead leaves: random shapes that cover each other, of all sizes, plain or textured; the statistics of edges and scales
of natural images without any anatomy (Lee, Mumford and Huang 2001)."""

import numpy as np

from bayesmri.data.phantom_canvas import Canvas, Scene, blank, ellipse, ramp, strand

SHAPES = 160
SMALLEST = 0.012  # radius, in half fields of view: about a pixel and a half of 256
LARGEST = 0.7
EXPONENT = 3.0  # density of radii ∝ r^(−3): every scale covers alike


def leaves(scene: Scene) -> Canvas:
    """From back to front, within a rounded outline whose outside is air."""
    canvas = blank(scene)
    body = ellipse(
        scene.x,
        scene.y,
        (scene.draw(-0.1, 0.1), scene.draw(-0.1, 0.1)),
        (scene.draw(0.6, 1.1), scene.draw(0.6, 1.1)),
        scene.draw(0, np.pi),
    )
    canvas.paint(np.ones_like(canvas.water), scene.draw(0.2, 0.8))
    # large ones first: small ones painted before would be covered
    for radius in sorted((_radius(scene) for _ in range(SHAPES)), reverse=True):
        _leaf(canvas, scene, radius)
    inside = ramp(body, 1.5 * scene.px)
    canvas.water[...] *= inside
    return canvas


def _radius(scene: Scene) -> float:
    """By the inverse of the distribution function."""
    u, k = scene.draw(0.0, 1.0), 1 - EXPONENT
    return float((SMALLEST**k + u * (LARGEST**k - SMALLEST**k)) ** (1 / k))


def _leaf(canvas: Canvas, scene: Scene, radius: float) -> None:
    centre = (scene.draw(-1.0, 1.0), scene.draw(-1.0, 1.0))
    angle, flat, kind = scene.draw(0.0, np.pi), scene.draw(0.25, 1.0), scene.draw(0.0, 1.0)
    tone, soft = scene.draw(0.0, 1.0), scene.draw(0.0, 1.0)
    if kind < 0.75:
        d = ellipse(scene.x, scene.y, centre, (radius, flat * radius), angle)
    else:
        end = (centre[0] + 3 * radius * np.cos(angle), centre[1] + 3 * radius * np.sin(angle))
        d = strand(scene.x, scene.y, [centre, end], [0.3 * flat * radius, 0.2 * radius])
    cover = ramp(d, (1.5 if soft < 0.8 else 1.5 + 8 * soft) * scene.px)
    water: float | np.ndarray = tone
    if scene.draw(0.0, 1.0) < 0.3 and radius > 0.1:
        water = np.clip(tone * (1 + 0.25 * scene.waves(4 * scene.px + 0.1 * radius, 3 * scene.px, 12)), 0, 1)
    canvas.paint(cover, water)
