"""What a pattern of acquired lines or points looks like; plain NumPy: files can be refused before torch loads."""

from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import MaskError

MaskKind = Literal["random", "equispaced", "poisson", "elliptical", "partial-fourier"]  # that can be drawn
Pattern = MaskKind | Literal["points"]  # that can be found
Mask = NDArray[np.bool_]

LEAST_GAPS = 3  # fewer than this tell no order from chance
BY_CHANCE = 1e-5  # probability of an empty edge below which it is partial Fourier
PARTIAL = 5 / 8  # of the lines, that a partial Fourier scan covers
APART = 0.5  # of the touching neighbours that chance would bring: points with fewer keep a distance
POINTS: tuple[MaskKind, ...] = ("poisson", "elliptical")  # kinds that are no whole lines


def mask_kind(name: str) -> MaskKind:
    """A kind by its name, which is checked."""
    if name not in get_args(MaskKind):
        raise MaskError(f"got the mask kind {name!r}, expected one of {', '.join(get_args(MaskKind))}")
    return cast(MaskKind, name)


def center_share(R: float, center_fraction: float | None) -> float:
    """Share of the lines in the fully sampled centre: the paper's 8 % at R = 4 and 4 % at R = 8 unless given."""
    return 0.32 / R if center_fraction is None else center_fraction


def n_center_lines(W: int, R: float, center_fraction: float | None) -> int:
    """Lines of the fully sampled centre; at least one unless the fraction is 0."""
    fraction = center_share(R, center_fraction)
    return 0 if fraction == 0 else min(W, max(1, round(W * fraction)))


def n_center_points(shape: tuple[int, ...], R: float, center_fraction: float | None) -> list[int]:
    """Rows and columns of the fully sampled block of points: 0.64/R of both unless given, twice that of lines.

    They cost little, 5 % of the points at R = 8, and sensitivities of fewer than eight rows or columns are poor.
    """
    fraction = 2 * center_share(R, None) if center_fraction is None else center_fraction
    return [n_center_lines(size, R, min(1.0, fraction)) for size in shape]


def centre_run(mask: Mask) -> int:
    """The length of the run of acquired lines around W // 2; of points the shorter side of `centre_block`."""
    if mask.ndim == 2:
        return min(centre_block(mask))
    left, right = _ends(mask)
    return right - left - 1


def centre_block(mask: Mask) -> tuple[int, int]:
    """Rows and columns of the acquired rectangle around (H // 2, W // 2), the longest shorter side first; or (0, 0)."""
    H, W = mask.shape
    ends = np.array([_ends(row) for row in mask])
    left, right = ends[:, 0], ends[:, 1]
    best, row = (0, 0), H // 2
    top = bottom = row
    if not mask[row, W // 2]:
        return best
    while True:
        columns = int(right[top : bottom + 1].min() - left[top : bottom + 1].max()) - 1
        found = (bottom - top + 1, columns)
        if columns > 0 and (min(found), found[0] * found[1]) > (min(best), best[0] * best[1]):
            best = found
        if columns < 1 or (top == 0 and bottom == H - 1):
            return best
        # the side that has fewer rows grows first: what is sampled fully lies around it
        if bottom == H - 1 or (top > 0 and row - top <= bottom - row):
            top -= 1
        else:
            bottom += 1


def kind_of(mask: Mask) -> Pattern | None:
    """What a mask looks like, None where there is too little outside the centre to tell.

    Lines (W,): partial-fourier where one edge is empty as chance would not have it; equispaced where the gaps on both
    sides of the centre differ by no more than one line, as rounding makes them; else random.

    Points (H, W): poisson where those outside the centre keep a distance, elliptical where the corners are empty
    besides; else points.
    """
    if mask.ndim == 2:
        return _kind_of_points(mask)
    left, right = _ends(mask)
    lines = np.flatnonzero(mask)
    if _one_sided(mask):
        return "partial-fourier"
    gaps = np.concatenate([np.diff(lines[lines < left]), np.diff(lines[lines > right])])
    if gaps.size < LEAST_GAPS:
        return None
    return "equispaced" if gaps.max() - gaps.min() <= 1 else "random"


def kind_words(kind: Pattern) -> str:
    """ "random lines", "points of a Poisson disc", …"""
    return {
        "random": "random lines",
        "equispaced": "equispaced lines",
        "partial-fourier": "lines of one side (partial Fourier)",
        "poisson": "points of a Poisson disc",
        "elliptical": "points of a Poisson disc within an ellipse",
        "points": "single points",
    }[kind]


def sampling_words(mask: Mask) -> str:
    """ "64 of 256 lines" or "4096 of 128x128 points"."""
    if mask.ndim == 1:
        return f"{int(mask.sum())} of {mask.size} lines"
    return f"{int(mask.sum())} of {mask.shape[0]}x{mask.shape[1]} points"


def cell_counts(mask: Mask) -> dict[str, int]:
    """The same for programs: acquired_lines of lines, or acquired_points of points."""
    what = "lines" if mask.ndim == 1 else "points"
    return {f"acquired_{what}": int(mask.sum()), what: mask.size}


def mask_notes(mask: Mask) -> tuple[str, ...]:
    """What is to be known of a pattern beside R, one sentence each."""
    if mask.ndim == 2:
        if not empty_corners(mask):
            return ()
        R, inside = mask.size / int(mask.sum()), inside_ellipse((mask.shape[0], mask.shape[1]))
        return (
            f"the corners of k-space, {100 * (1 - inside.mean()):.0f} % of the grid, lie outside the ellipse that was "
            f"scanned: R = {R:.2f} counts them, within the ellipse it is {inside.sum() / int(mask.sum()):.2f}",
        )
    held = np.flatnonzero(mask)
    left, right = int(held[0]), len(mask) - 1 - int(held[-1])
    if kind_of(mask) != "partial-fourier":
        return ()
    side, n = ("left", left) if left > right else ("right", right)
    return (f"{n} of {len(mask)} lines are missing at the {side} edge (partial Fourier): taken as missing lines",)


def inside_ellipse(shape: tuple[int, int]) -> Mask:
    """((h − H/2)/(H/2))² + ((w − W/2)/(W/2))² ≤ 1, bool (H, W), for the indices from the centres H // 2 and W // 2."""
    y, x = (2 * (np.arange(n) - n // 2) / n for n in shape)
    inside: Mask = y[:, None] ** 2 + x**2 <= 1
    return inside


def empty_corners(mask: Mask) -> bool:
    """Whether points (H, W) fill the ellipse to its edge and leave the corners of the grid empty.

    A pixel of slack, since scanners round in different ways.
    """
    H, W = mask.shape
    y, x = (2 * np.abs(np.arange(n) - n // 2) / n for n in (H, W))
    radius = np.sqrt(y[:, None] ** 2 + x**2)
    slack = 3 / min(H, W)
    outside = radius > 1 + slack
    rim = (radius <= 1 - slack) & (radius > 0.85)
    return bool(outside.any() and rim.any() and not mask[outside].any() and mask[rim].any())


def _kind_of_points(mask: Mask) -> Pattern | None:
    H, W = mask.shape
    y, x = (2 * np.abs(np.arange(n) - n // 2) / n for n in (H, W))
    far = y[:, None] ** 2 + x**2 > 0.36  # where a variable density is thinner than around the centre
    ellipse = empty_corners(mask)
    region = far & inside_ellipse((H, W)) if ellipse else far
    share = float(mask[region].mean()) if region.any() else 0.0
    pairs = (mask[1:] & mask[:-1])[region[1:] & region[:-1]].mean() + (mask[:, 1:] & mask[:, :-1])[
        region[:, 1:] & region[:, :-1]
    ].mean()
    if int(mask[region].sum()) < 3 * LEAST_GAPS or pairs > APART * 2 * share**2 or _regular(mask & region):
        return "points"
    return "elliptical" if ellipse else "poisson"


def _regular(mask: Mask) -> bool:
    """Whether rows and columns are taken at fixed steps, as a lattice does and Poisson discs do not."""
    rows, columns = mask.any(axis=1), mask.any(axis=0)
    used = mask[rows][:, columns]
    return bool(used.mean() > 0.6 or rows.mean() < 0.7 or columns.mean() < 0.7 or _few_steps(mask))


def _few_steps(mask: Mask) -> bool:
    """Whether nearly all neighbours along the rows have one and the same distance."""
    h, w = np.nonzero(mask)
    steps = np.diff(w)[np.diff(h) == 0]
    return bool(steps.size and np.bincount(steps).max() > 0.8 * steps.size)


def _one_sided(mask: Mask) -> bool:
    """Whether the lines at one edge are missing beyond chance, given how dense the others are, and not at both."""
    held, W = np.flatnonzero(mask), len(mask)
    if not len(held):
        return False
    edges = int(held[0]), W - 1 - int(held[-1])
    left, right = _ends(mask)
    inner = W - sum(edges) - (right - left - 1)  # lines between the outermost ones, the centre left out
    share = min((len(held) - (right - left - 1)) / inner if inner > 0 else 1.0, 1 - 1e-3)
    return max(edges) > 2 * min(edges) + 2 and (1 - share) ** (max(edges) - min(edges)) < BY_CHANCE


def radius(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """|k| of every cell in units of the grid, 0 … about ½ for lines (W,) and points (H, W)."""
    axes = [(np.arange(n) - n // 2) / n for n in shape]
    found: NDArray[np.float64] = np.abs(axes[0]) if len(axes) == 1 else np.hypot(axes[0][:, None], axes[1])
    return found


def centre(mask: Mask) -> Mask:
    """The fully sampled centre: the run of lines around the middle, or the points nearer than the first missing one."""
    if mask.ndim == 2:
        k = radius(mask.shape)
        return np.asarray(k < k[~mask].min(initial=np.inf))
    left, right = _ends(mask)
    index = np.arange(mask.size)
    inside: Mask = (index > left) & (index < right)
    return inside


def _ends(mask: Mask) -> tuple[int, int]:
    """The missing lines to the left and right of the centre; beside each other where the centre itself is missing."""
    centre = len(mask) // 2
    if not mask[centre]:
        return centre, centre + 1
    missing = np.flatnonzero(~mask)
    return int(missing[missing < centre].max(initial=-1)), int(missing[missing > centre].min(initial=len(mask)))
