"""Where samples differ most: square regions of the largest mean σ̂², and the two samples that differ most in each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import ConfigError, ShapeError

Image = NDArray[np.floating]
COUNT, SHARE = 3, 0.2  # regions, and their side as a share of the image's shorter one


@dataclass(frozen=True)
class Region:
    """Rows row … row + size − 1, columns alike."""

    row: int
    column: int
    size: int

    def of(self, image: NDArray[np.generic]) -> NDArray[np.generic]:
        """The part of (..., h, w) inside."""
        return image[..., self.row : self.row + self.size, self.column : self.column + self.size]

    def overlaps(self, other: "Region") -> bool:
        """Whether they share a pixel; both of one size."""
        return max(abs(self.row - other.row), abs(self.column - other.column)) < self.size


def side(shape: tuple[int, int], share: float = SHARE) -> int:
    """Of a region in an image of this shape: at least 4 pixels, at most all."""
    return min(min(shape), max(4, round(share * min(shape))))


def most_spread(std: Image, *, size: int, count: int = COUNT) -> list[Region]:
    """The region of the largest mean σ̂², then the largest of those that do not touch it, and so on.

    Fewer than `count` where there is no room left.
    """
    if std.ndim != 2 or not 1 <= size <= min(std.shape):
        raise ShapeError(f"got regions of {size} pixels in an image {std.shape}, expected (h, w) with room for one")
    if count < 1:
        raise ConfigError(f"got {count} regions, expected at least 1")
    means = _window_sums(np.square(std, dtype=np.float64), size)
    found: list[Region] = []
    while len(found) < count and np.isfinite(means).any():
        row, column = np.unravel_index(int(np.argmax(means)), means.shape)
        found.append(Region(int(row), int(column), size))
        first = (max(0, int(row) - size + 1), max(0, int(column) - size + 1))
        means[first[0] : int(row) + size, first[1] : int(column) + size] = -np.inf
    return found


def most_telling(image: Image, std: Image | None, *, size: int) -> list[Region]:
    """Where to look closer, without the truth: the largest mean σ̂², and the largest mean |∇X| that does not touch it.

    Without σ̂ the two of the most detail; fewer where there is no room.
    """
    spread = [] if std is None else most_spread(std, size=size, count=1)
    # a square touches at most four of equal size that do not touch each other
    detailed = most_spread(np.sqrt(_slope(image)), size=size, count=6)
    apart = [region for region in detailed if not any(region.overlaps(other) for other in spread)]
    return (spread + apart)[:2]


def most_different(samples: Image) -> tuple[int, int]:
    """i < j with the largest ‖X_i − X_j‖ of (N, h, w), N ≥ 2."""
    if samples.ndim != 3 or len(samples) < 2:
        raise ShapeError(f"got samples {samples.shape}, expected at least two, (N, h, w)")
    flat = samples.reshape(len(samples), -1).astype(np.float64)
    flat = flat - flat.mean(axis=0)  # small numbers: what the samples share would cancel with loss of digits
    squares = np.sum(flat * flat, axis=1)
    distance = np.triu(squares[:, None] + squares[None] - 2 * flat @ flat.T, k=1)
    i, j = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return (int(i), int(j)) if i < j else (0, 1)  # all alike: any two


def _slope(image: Image) -> NDArray[np.float64]:
    """|∇X| by differences to the next pixel, which see the finest lines; 0 beyond the last one."""
    X = image.astype(np.float64)
    rows, columns = np.diff(X, axis=0, append=X[-1:]), np.diff(X, axis=1, append=X[:, -1:])
    slope: NDArray[np.float64] = np.hypot(rows, columns)
    return slope


def _window_sums(values: Image, size: int) -> NDArray[np.float64]:
    """The sum of every size x size window that lies inside: (h − size + 1, w − size + 1)."""
    sums = np.pad(np.cumsum(np.cumsum(values, axis=0), axis=1), ((1, 0), (1, 0)))
    windows: NDArray[np.float64] = sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    return windows
