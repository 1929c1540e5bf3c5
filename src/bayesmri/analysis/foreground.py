"""The body, without the air around it."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesmri.errors import DataError

FOREGROUND = 0.1  # of the truth's maximum: above the noise outside the body, below nearly all tissue


def foreground(truth: ArrayLike, *, share: float = FOREGROUND) -> NDArray[np.bool_]:
    """Where the truth exceeds a share of its maximum: the body, without the air around it."""
    Y = np.asarray(truth)
    if not 0 <= share < 1:
        raise DataError(f"got a foreground above {share:g} of the maximum, expected a share from 0 to below 1")
    if Y.size == 0 or not np.isfinite(Y).all() or not Y.max() > 0:
        raise DataError("the truth has no positive pixel or holds NaN or Inf: there is no foreground to judge")
    inside: NDArray[np.bool_] = np.greater(Y, share * Y.max())
    return inside
