"""Elements with a few draws: what the predictor of σ̂ and the head of σ_total learn from, kept in a folder.

Element i is a function of (model, data, seed, i) alone, so that a folder can be filled in several goes.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch, Dataset, generator
from bayesmri.errors import DivergedError, ModelError
from bayesmri.io.atomic import atomic_path
from bayesmri.machine.crew import Parcel, Shelf, current
from bayesmri.machine.workers import one_thread
from bayesmri.model import Model
from bayesmri.physics.operator import batched
from bayesmri.posterior.evidence import Evidence, evidence
from bayesmri.posterior.predictor import Few
from bayesmri.posterior.rescans import Rescans, rescanned
from bayesmri.regularizers.base import Bound, ParametricRegularizer
from bayesmri.sealed import Sealed, sealed

AGAIN = "again_"  # before what is kept of `Rescans`


@dataclass(frozen=True, eq=False)
class Drawn:
    """Slices of one shape with N draws each.

    seen: what the reconstruction at the mean of θ says. Y: the truth, (B, H, W), in the model's scale.
    deviations: X_i − X_μ of every draw, (B, N, H, W) in half precision.
    coil_distance: (Σ_q |x_{i,q} − x_{μ,q}|²)^{1/2} of every draw, likewise.
    again: what becomes of the image at the mean of θ under other lines, where that was asked for.
    """

    seen: Evidence
    Y: Tensor
    deviations: Tensor
    coil_distance: Tensor
    again: Rescans | None = None

    def to(self, device: torch.device | str) -> "Drawn":
        return self._each(lambda part: part.to(device), self.seen.to(device))

    def __len__(self) -> int:
        return len(self.Y)

    @property
    def N(self) -> int:
        return self.deviations.shape[1]

    def slice(self, i: int) -> "Drawn":
        """The i-th as a batch of one."""
        return self._each(lambda part: part[i : i + 1], Evidence(*(part[i : i + 1] for part in self.seen)))

    def few(self, chosen: Tensor) -> Few:
        """The moments of the draws of these indices, as a reconstruction has them of its samples."""
        d = self.deviations[:, chosen].float()
        mean = self.seen.at_mean + d.mean(dim=1)
        power = self.coil_distance[:, chosen].float().square().mean(dim=1)
        return Few(self.seen.at_mean, self.seen.zero_filled, mean, d.var(dim=1, correction=0), power, len(chosen))

    def rows(self, first: int, n: int) -> "Drawn":
        """n rows from the first on, or what there is of them."""
        parts = ((part[..., first : first + n, :] if part.ndim > 1 else part) for part in self.seen)
        return self._each(lambda part: part[..., first : first + n, :], Evidence(*parts))

    def flip(self, axes: list[int]) -> "Drawn":
        """Turned over along these of the axes −2 and −1."""
        return self._each(lambda part: part.flip(axes), self.seen.flip(axes))

    def _each(self, change: Callable[[Tensor], Tensor], seen: Evidence) -> "Drawn":
        again = None if self.again is None else Rescans(*map(change, self.again))
        Y, deviations, distances = map(change, (self.Y, self.deviations, self.coil_distance))
        return Drawn(seen, Y, deviations, distances, again)


@torch.no_grad()
def draw(model: Model, batch: Batch, N: int, rng: torch.Generator, *, again: bool = False) -> Drawn:
    """N draws of θ, each serving all slices of the batch, on whose device all is computed.

    again: the image at the mean of θ is scanned once more, too.
    """
    reg, posterior = model.regularizer, model.distribution().to(batch.z.device)
    if not posterior.stochastic or not isinstance(reg, ParametricRegularizer):
        raise ModelError(
            "got a model without a posterior, which has no samples to learn from, expected one with a posterior"
        )
    D = model.scheme.data_term(batch.z, batch.mask, batch.s)

    def solved(bound: Bound) -> Tensor:
        return model.scheme.run(D, bound)

    mean = reg.bind({name: w.detach() for name, w in posterior.mean().items()})
    x = solved(mean)
    X, deviations, distances = rss(x), [], []
    for _ in range(N):
        x_i = solved(reg.bind(posterior.sample(rng)))
        deviations.append((rss(x_i) - X).half())
        distances.append(rss(x_i - x).half())
    seen = evidence(x, batch.z, batch.mask)
    rescans = rescanned(D, x, model.scheme.data_term, lambda D: model.scheme.run(D, mean)) if again else None
    found = Drawn(seen, batch.Y, torch.stack(deviations, dim=1), torch.stack(distances, dim=1), rescans)
    if not all(bool(part.isfinite().all()) for part in (X, found.deviations, found.coil_distance, *(rescans or ()))):
        raise DivergedError(
            "a sample of a training slice holds NaN or Inf, expected finite images to learn from; the model diverges "
            "on the data it was trained on, take another"
        )
    return found


def drawn(
    model: Model,
    dataset: Dataset,
    elements: range,
    N: int,
    *,
    seed: int,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    again: bool = False,
) -> Iterator[Drawn]:
    """Elements one by one: computed on the device, kept on the CPU; those that a folder holds are read from it."""

    def asked() -> Iterator[_Element]:
        for i in elements:
            path = None if folder is None else folder / f"element-{i:06d}.safetensors"
            yield _Element(f"element {i}", path, partial(dataset.element, i, 0), (seed, "drawn", i), again)

    return _each(model, asked(), N, device)


def validating(
    model: Model,
    dataset: Dataset,
    N: int,
    *,
    seed: int,
    device: torch.device | str = "cpu",
    folder: Path | None = None,
    again: bool = False,
) -> Iterator[Drawn]:
    """The same of the validation volumes, slice by slice: whole, as they would be reconstructed."""

    def asked() -> Iterator[_Element]:
        for k, volume in enumerate(dataset.validation()):
            for i in range(len(volume.z)):
                path = None if folder is None else folder / f"validation-{seed}-{k:03d}-{i:03d}.safetensors"
                s = volume.s[i] if volume.s else None
                batch = partial(Batch, volume.z[i : i + 1], batched(volume.mask), volume.Y[i : i + 1], s)
                label = f"slice {i} of validation volume {k}"
                yield _Element(label, path, batch, (seed, "validating", k, i), again)

    return _each(model, asked(), N, device)


@dataclass(frozen=True, eq=False)
class _Element:
    """label: for people. path: where it is kept. batch: makes the data. seed: of its draws. again: see `draw`."""

    label: str
    path: Path | None
    batch: Callable[[], Batch]
    seed: tuple[object, ...]
    again: bool

    def kept(self, N: int) -> Drawn | None:
        found = None if self.path is None else _read(self.path)
        return None if found is None or found.N < N or (self.again and found.again is None) else found


@final
@dataclass(frozen=True, eq=False)
class DrawJob:
    """One element, as another process is asked for it."""

    model: Parcel[Sealed[Model]]
    batch: Batch
    N: int
    seed: tuple[object, ...]
    device: str
    label: str
    again: bool = False

    def light(self) -> "DrawJob":
        return replace(self, model=self.model.light())

    def run(self) -> Drawn:
        model = MODELS.get(self.model.key, lambda: self.model.open(Shelf(1)).open())
        return _drawn(model, self.batch, self.N, self.seed, self.device, again=self.again)


MODELS: Shelf[Model] = Shelf(2)


def _each(model: Model, elements: Iterator[_Element], N: int, device: torch.device | str) -> Iterator[Drawn]:
    """Read where they are kept, else drawn: here, or by a crew."""
    crew = current()
    parcel = None if crew is None else sealed(model)
    asked: deque[_Element] = deque()  # in the order of their jobs, which are taken ahead of the results

    def job(one: _Element) -> DrawJob:
        assert parcel is not None
        return DrawJob(parcel, one.batch(), N, one.seed, str(device), one.label, one.again)

    def jobs() -> Iterator[DrawJob]:
        for one in elements:
            asked.append(one)
            if one.kept(N) is None:
                yield job(one)

    if crew is None:
        for one in elements:
            yield one.kept(N) or _stored(one, _drawn(model, one.batch(), N, one.seed, device, again=one.again))
        return
    results = crew.results(jobs())
    yield from _in_order(asked, results, N)


def _drawn(
    model: Model, batch: Batch, N: int, seed: tuple[object, ...], device: torch.device | str, *, again: bool
) -> Drawn:
    """The same bits with any number of threads."""
    with one_thread():
        return draw(model, batch.to(device), N, generator(*seed), again=again).to("cpu")


def _in_order(asked: "deque[_Element]", results: Iterator[Drawn], N: int) -> Iterator[Drawn]:
    """Elements that were kept between those that come."""
    for found in results:
        while (kept := asked[0].kept(N)) is not None:
            asked.popleft()
            yield kept
        yield _stored(asked.popleft(), found)
    for one in asked:
        kept = one.kept(N)
        assert kept is not None
        yield kept


def _stored(one: _Element, found: Drawn) -> Drawn:
    if one.path is not None:
        _write(one.path, found)
    return found


def _write(path: Path, found: Drawn) -> None:
    parts = found.seen._asdict() | {name: getattr(found, name) for name in ("Y", "deviations", "coil_distance")}
    if found.again is not None:
        parts |= {AGAIN + name: part for name, part in found.again._asdict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        save_file({name: part.contiguous() for name, part in parts.items()}, temporary)


def _read(path: Path) -> Drawn | None:
    """None where there is none, or none that is whole."""
    try:
        parts = load_file(path)
        Y, deviations, distances = (parts.pop(name) for name in ("Y", "deviations", "coil_distance"))
        again = {name.removeprefix(AGAIN): parts.pop(name) for name in list(parts) if name.startswith(AGAIN)}
        return Drawn(Evidence(**parts), Y, deviations, distances, Rescans(**again) if again else None)
    except (OSError, SafetensorError, KeyError, TypeError):
        return None
