"""N samples of every slice, kept as mean and standard deviation; what large volumes leave of them waits on the disk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.machine.scratch import out_of_sight, room
from bayesmri.posterior.predictor import Few, Predictor
from bayesmri.statistics import Summary, summarize

Window = tuple[slice, slice]
Estimate = Callable[[Summary], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Sampled:
    """Filled slice by slice, in the units of the input.

    mean, std: X̄ and σ̂ of the root-sum-of-squares images, float32 (slices, h, w).
    kspace_mean, kspace_std: of F x, complex64 and float32 (slices, Q, H, W), for the coils that the model takes.
    coil_std: σ of the coil images x, float32 (slices, Q, H, W); their mean is F⁻¹ of the k-space mean.
    samples: the N images, float32 (slices, N, h, w), where they are kept.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    kspace_mean: NDArray[np.complex64]
    kspace_std: NDArray[np.float32]
    coil_std: NDArray[np.float32]
    samples: NDArray[np.float32] | None

    @staticmethod
    def empty(grid: tuple[int, ...], shape: tuple[int, int], *, keep: int) -> "Sampled":
        """grid: (slices, Q, H, W). shape: (h, w) of the images. keep: how many samples of each slice."""
        image = (grid[0], *shape)
        return Sampled(
            mean=np.empty(image, np.float32),
            std=np.empty(image, np.float32),
            kspace_mean=room(grid, np.complex64),
            kspace_std=room(grid, np.float32),
            coil_std=room(grid, np.float32),
            samples=room((grid[0], keep, *shape), np.float32) if keep else None,
        )

    def fill(self, s: int, samples: Iterable[Tensor], *, window: Window, estimate: Estimate | None = None) -> Tensor:
        """Slice s from its samples, complex (Q, H, W) each, taken one at a time.

        window: rows and columns of the grid that the image shows.
        estimate: X̄ and σ̂ where they are not simply the moments of X. Returns σ̂ of the whole grid, (H, W).
        """
        return self.put(s, summarize(self._kept(s, samples, window)), window=window, estimate=estimate)

    def put(
        self,
        s: int,
        found: Summary,
        *,
        window: Window,
        estimate: Estimate | None = None,
        kept: NDArray[np.float32] | None = None,
    ) -> Tensor:
        """Slice s from the summary of its samples, and their images where they are kept; otherwise as `fill`."""
        if kept is not None and self.samples is not None:
            self.samples[s] = kept
        mean, std = (found.X.mean, found.X.std()) if estimate is None else estimate(found)
        self.mean[s] = _numpy(mean)[window]
        self.std[s] = _numpy(std)[window]
        self.kspace_mean[s] = _numpy(found.u.mean)
        self.kspace_std[s] = _numpy(found.u.std())
        self.coil_std[s] = _numpy(found.x.std())
        for whole in (self.kspace_mean, self.kspace_std, self.coil_std, self.samples):
            if whole is not None:
                out_of_sight(whole)
        return std

    def _kept(self, s: int, samples: Iterable[Tensor], window: Window) -> Iterator[Tensor]:
        for i, x in enumerate(samples):
            if self.samples is not None:
                self.samples[s, i] = _numpy(rss(x))[window]
            yield x


def predicted(predictor: Predictor, at_mean: Tensor, start: Tensor, factor: float) -> Estimate:
    """X̄ and σ̂ of many samples from the moments of a few.

    at_mean, start: the coil images x_μ and x₀ (Q, H, W) of the same slice, in the model's units.
    factor: of these units to those of the samples. In the model's, single precision suffices whatever the scanner's.
    """

    @torch.no_grad()
    def estimate(found: Summary) -> tuple[Tensor, Tensor]:
        X, x = found.X, found.x
        power = (x.spread / x.n / factor**2 + (x.mean / factor - at_mean).abs().square()).sum(dim=0)
        images = (rss(at_mean), rss(start), X.mean / factor, X.spread / X.n / factor**2, power)
        at, zero, mean, variance, power = (image.float()[None] for image in images)
        few = Few(at, zero, mean, variance, power, X.n)
        return factor * predictor.mean(few)[0].double(), factor * predictor.std(few)[0].double()

    return estimate


def column_std(kspace_std: NDArray[np.float32], mask: NDArray[np.bool_]) -> tuple[float, float | None]:
    """The root mean square of the k-space standard deviation on acquired and on missing columns (None: none missing).

    By Parseval its square is the variance that these columns bring to the coil images. mask: columns (W,) or points
    (H, W).
    """
    power = np.zeros(mask.shape)
    axes = (0, 1) if mask.ndim == 1 else 0
    for part in kspace_std:
        power += np.mean(np.square(part, dtype=np.float64), axis=axes) / len(kspace_std)
    out_of_sight(kspace_std)
    missing = None if mask.all() else float(np.sqrt(power[~mask].mean()))
    return float(np.sqrt(power[mask].mean())), missing


def _numpy(t: Tensor) -> NDArray[np.generic]:
    single = torch.complex64 if t.is_complex() else torch.float32
    array: NDArray[np.generic] = t.to("cpu", single).numpy()
    return array
