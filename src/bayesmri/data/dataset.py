"""Training elements (z, M, Y), each a function of (seed, step, index) alone, and the fixed validation volumes.

No state runs along with training: element i of step k is the same whichever thread or process asks, in whatever order,
so resuming, prefetching and several processes are exact.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.augment import Augment, cut, turn_and_flip, uniform, vary, window
from bayesmri.data.catalog import Catalog, SourceConfig, Volume, find
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.data.volumes import SliceReader
from bayesmri.errors import ConfigError, DataError
from bayesmri.physics.centre import middle_lines, n_central_lines
from bayesmri.physics.coils import CoilMode, coil_gram, compress_coils, compression_matrix, emulate_single_coil
from bayesmri.physics.espirit import FEWEST, MOST
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.operator import batched
from bayesmri.physics.scaling import Scaling
from bayesmri.physics.scene import loop_sensitivities
from bayesmri.physics.sense import sensitivity_sets

Side = Literal["train", "val", "both"]


@dataclass(frozen=True)
class Simulation:
    """What magnitude images are given; raw coils always number the model's Q.

    snr_db, coils: ranges drawn from, per slice. phase: its std in radians.
    single: where coils are in the forward operator, the share of slices that are seen by one coil.
    """

    snr_db: tuple[float, float] = (20.0, 40.0)
    coils: tuple[int, int] = (4, 16)
    phase: float = 1.0
    single: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.single <= 1:
            raise ConfigError(f"got simulation.single = {self.single}, expected a share between 0 and 1")


@dataclass(frozen=True)
class DataConfig:
    """Where the data is and how slices are cut.

    patch_rows: window of the readout axis, exact since that axis is fully sampled; None, or 0, is all of it. Where the
        mask is of points both axes are encoded: the window is then an image of its own, with a mask and coils for its
        size.
    patch_cols: columns are cut or padded in the image domain before the mask, so that all batches have one shape;
        None keeps W, as the paper does.
    val_slices: slices that validate, at most, spread over the volumes.
    """

    sources: tuple[SourceConfig, ...]
    patch_rows: int | None = 96
    patch_cols: int | None = None
    val_fraction: float = 0.1
    val_subjects: tuple[str, ...] = ()
    val_slices: int = 24
    cache_mb: int = 1024

    def __post_init__(self) -> None:
        if not self.sources:
            raise ConfigError("data.sources is empty, expected at least one [[data.sources]] with a path or a phantom")
        if not 0 <= self.val_fraction < 1:
            raise ConfigError(
                f"got data.val_fraction = {self.val_fraction}, expected a share of at least 0 and below 1"
            )
        if self.patch_rows == 0:  # a file of settings has no word for None
            object.__setattr__(self, "patch_rows", None)
        for name in ("patch_rows", "patch_cols"):
            value = getattr(self, name)
            if value is not None and value < 16:
                raise ConfigError(f"got data.{name} = {value}, expected at least 16")


@dataclass(frozen=True)
class Recipe:
    """How a slice becomes an element: everything besides the data itself.

    Q, coils: what the model takes, see `Coils` of a model.
    """

    Q: int = 1
    coils: CoilMode = "raw"
    mask: MaskSpec = field(default_factory=MaskSpec)
    scaling: Scaling = field(default_factory=Scaling)
    augment: Augment = field(default_factory=Augment)
    simulation: Simulation = field(default_factory=Simulation)

    @property
    def any_array(self) -> bool:
        """Whether arrays of any number of coils serve."""
        return self.coils != "raw"

    def compression(self, z: Tensor) -> Tensor | None:
        """The matrix that makes virtual coils of those of z; None where they stay as they are."""
        if self.coils == "raw" or (self.coils == "sensitivities" and z.shape[-3] == 1):
            return None
        return compression_matrix(coil_gram(z))

    def compressed(self, z: Tensor, matrix: Tensor | None) -> Tensor:
        """z in the coils that the model takes."""
        if matrix is None:
            return z
        Q = self.Q if self.coils == "virtual" else min(self.Q, z.shape[-3])
        return compress_coils(z, Q, matrix)


@dataclass(frozen=True)
class Batch:
    """Elements of one shape: z complex (B, Q, H, W), mask bool (B, 1, 1 or H, W), Y real (B, H, W).

    s: sensitivities, complex (B, J, Q, H, W), where the model wants them and there are several coils.
    """

    z: Tensor
    mask: Tensor
    Y: Tensor
    s: Tensor | None = None

    def to(self, device: torch.device | str) -> "Batch":
        s = None if self.s is None else self.s.to(device)
        return Batch(self.z.to(device), self.mask.to(device), self.Y.to(device), s)

    @staticmethod
    def joined(elements: Sequence["Batch"]) -> "Batch":
        """Elements of one shape as one batch."""
        s = [e.s for e in elements if e.s is not None]
        z, mask, Y = (torch.cat([getattr(e, name) for e in elements]) for name in ("z", "mask", "Y"))
        return Batch(z, mask, Y, torch.cat(s) if s else None)


@dataclass(frozen=True)
class Validation:
    """Slices of one volume, scaled: z (slices, Q, H, W), mask (W,) or (H, W), Y (slices, H, W).

    s: sensitivities of every slice, each (1, J, Q, H, W), where the model wants them and they are known.
    """

    name: str
    z: Tensor
    mask: Tensor
    Y: Tensor
    s: tuple[Tensor | None, ...] = ()


def generator(*key: object) -> torch.Generator:
    """A generator that is a function of the key."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)


class Dataset:
    """Elements by (step, index), and the validation volumes."""

    def __init__(self, config: DataConfig, recipe: Recipe, *, seed: int, side: Side = "train") -> None:
        """side: whose subjects the elements are of."""
        self.config, self.recipe, self.seed = config, recipe, seed
        self.catalog = find(config.sources, val_fraction=config.val_fraction, val_subjects=config.val_subjects)
        self._reader = SliceReader(
            single=recipe.Q == 1 and recipe.coils != "sensitivities", cache_bytes=config.cache_mb * 2**20
        )
        _check_coils(self.catalog, recipe)
        self._lists = _slice_lists(self._side(side), len(config.sources))
        weights = torch.tensor([s.weight if n else 0.0 for s, n in zip(config.sources, self._lists, strict=True)])
        if not weights.sum() > 0:
            wanted = f"a {'larger' if side == 'val' else 'smaller'} data.val_fraction"
            raise DataError(f"no slice is left to {side} with: give more subjects, or {wanted}")
        self._shares = weights.double().cumsum(0) / weights.sum()

    def _side(self, side: Side) -> tuple[Volume, ...]:
        train, val = self.catalog.train, self.catalog.val
        return {"train": train, "val": val, "both": (*train, *val)}[side]

    def element(self, step: int, index: int) -> Batch:
        """Element `index` of step `step`, as a batch of one."""
        rng = generator(self.seed, "train", step, index)
        source = int(torch.searchsorted(self._shares, torch.rand(1, generator=rng, dtype=torch.float64), right=True))
        slices = self._lists[min(source, len(self._lists) - 1)]
        volume, number = slices[int(torch.randint(len(slices), (1,), generator=rng))]
        y = self._slice(volume, number, self.recipe.augment, self.config.patch_cols, rng)
        share = self._reader.share(volume, y)
        return make_element(y, self.recipe, patch_rows=self.config.patch_rows, share=share, rng=rng)

    def batches(self, step: int, indices: Sequence[int]) -> list[Batch]:
        """The elements of a step, those of one shape together."""
        groups: dict[tuple[int, ...], list[Batch]] = {}
        for index in indices:
            element = self.element(step, index)
            key = (*element.z.shape, element.mask.shape[-2], 0 if element.s is None else element.s.shape[1])
            groups.setdefault(key, []).append(element)
        return [Batch.joined(group) for group in groups.values()]

    def validation(self) -> Iterator[Validation]:
        """The validation volumes, whole slices, with the same masks, coils and noise every time."""
        for volume, numbers in _spread(self.catalog.val, self.config.val_slices):
            name = self._name(volume)
            rng = generator(self.seed, "val", name)
            yield make_validation(name, self._slices(volume, numbers, rng), self.recipe, rng=rng)

    def _name(self, volume: Volume) -> str:
        """The volume's own, or its path from its source on where another of the source has that name, too."""
        root, own = self.config.sources[volume.source].path, (volume.source, volume.name)
        shared = [(v.source, v.name) for v in (*self.catalog.train, *self.catalog.val)].count(own) > 1
        if root is None or volume.path is None or not shared:
            return volume.name
        return volume.path.relative_to(Path(root).expanduser()).as_posix()

    def _slices(self, volume: Volume, numbers: Sequence[int], rng: torch.Generator) -> Sequence[Tensor]:
        """Whole slices of one volume, seen by one scanner."""
        if volume.coils:
            return list(self._in_array(torch.stack([self._reader.coil_images(volume, n) for n in numbers]), rng))
        X = torch.stack([self._reader.magnitude(volume, n) for n in numbers])
        return list(ifft2c(acquire(X, self._scanner(rng), rng=rng)))

    def _slice(self, volume: Volume, number: int, augment: Augment, cols: int | None, rng: torch.Generator) -> Tensor:
        """Fully sampled coil images y, complex (Q', H, W): measured, or simulated from magnitude."""
        if volume.coils:
            y = turn_and_flip(self._reader.coil_images(volume, number), augment, rng)
            return self._in_array(cut(y, -1, *window(y.shape[-1], cols, rng)), rng)
        X = vary(turn_and_flip(self._reader.magnitude(volume, number), augment, rng), augment, rng)
        X = cut(X, -1, *window(X.shape[-1], cols, rng))
        return ifft2c(acquire(X[None], self._scanner(rng), rng=rng))[0]

    def _in_array(self, y: Tensor, rng: torch.Generator) -> Tensor:
        """s_q · y, measured images of one coil as a simulated array would see them, for a model of any array.

        Other images, complex (..., Q', H, W), stay as they are; a measured array becomes one coil where the share of
        single coils wants that.
        """
        if not self.recipe.any_array:
            return y
        n = _n_coils(self.recipe, rng)
        if y.shape[-3] > 1:
            return emulate_single_coil(y) if n == 1 else y
        return y if n == 1 else y * loop_sensitivities(n, (y.shape[-2], y.shape[-1]), rng=rng)

    def _scanner(self, rng: torch.Generator) -> Scanner:
        simulation = self.recipe.simulation
        return Scanner(_n_coils(self.recipe, rng), uniform(simulation.snr_db, rng), simulation.phase)


def make_element(
    y: Tensor, recipe: Recipe, *, patch_rows: int | None, rng: torch.Generator, share: float = 1.0
) -> Batch:
    """z = M F y / c and Y = RSS(y) / c on a window of rows; with a mask of points that window is y itself.

    c: the scale of the volume's zero-filled image, which is taken to be that of y, over y's share of the brightness.
    """
    mask = recipe.mask.draw((patch_rows or y.shape[-2], y.shape[-1]), rng)
    if mask.ndim == 2:
        y, patch_rows = cut(y, -2, *window(y.shape[-2], patch_rows, rng)), None
    u = fft2c(y)
    matrix = recipe.compression(mask * u)
    u = recipe.compressed(u, matrix)
    z = mask * u
    share *= 1 - recipe.augment.jitter * float(torch.rand(1, generator=rng))
    factor = recipe.scaling.factor(z) / share
    first, size = window(y.shape[-2], patch_rows, rng)
    part = cut(y, -2, first, size) / factor
    s = None
    if recipe.coils == "sensitivities" and len(z) > 1:
        # of the whole slice, as in a reconstruction: a window of rows has fewer samples to learn from
        inside = slice(max(0, first), min(z.shape[-2], first + size))
        s = _known_sensitivities(u, mask, rows=inside)
        s = s if s is None else cut(s, -2, min(0, first), size)
    rows = mask.reshape(1, 1, -1, mask.shape[-1])
    return Batch(recipe.compressed(mask * fft2c(part), matrix)[None], rows, rss(part)[None], s)


def make_validation(name: str, slices: Sequence[Tensor], recipe: Recipe, *, rng: torch.Generator) -> Validation:
    """One mask, one scale and one compression for the volume, as in a reconstruction."""
    y = torch.stack(list(slices))
    mask = recipe.mask.plain().draw((y.shape[-2], y.shape[-1]), rng)
    u = fft2c(y)
    u = recipe.compressed(u, recipe.compression(mask * u))
    factor = recipe.scaling.factor(mask * u)
    known = recipe.coils == "sensitivities" and u.shape[1] > 1
    s = tuple(_known_sensitivities(part, mask) for part in u) if known else ()
    return Validation(name, mask * u / factor, mask, rss(y) / factor, s)


def _known_sensitivities(u: Tensor, mask: Tensor, *, rows: slice = slice(None)) -> Tensor | None:
    """Of one slice u, (Q, H, W), fully sampled: from the central lines that the mask keeps, (1, J, Q, rows, W).

    Where those are too few, from as many as a reconstruction would fill while it refines them: see `coil_refinement`.
    """
    W = mask.shape[-1]
    few = int(n_central_lines(batched(mask))) < FEWEST
    lines = middle_lines(W, min(MOST, W)).flatten() if few else mask
    return sensitivity_sets(lines * u[None], lines, rows=rows)


def _n_coils(recipe: Recipe, rng: torch.Generator) -> int:
    low, high = recipe.simulation.coils
    if recipe.coils == "sensitivities":
        share, place = torch.rand(2, generator=rng, dtype=torch.float64).tolist()
        return 1 if share < recipe.simulation.single else round(low * (high / low) ** place)
    drawn = low + int(torch.randint(max(1, high - low + 1), (1,), generator=rng))
    return drawn if recipe.any_array else recipe.Q


def _slice_lists(volumes: Sequence[Volume], n_sources: int) -> list[list[tuple[Volume, int]]]:
    lists: list[list[tuple[Volume, int]]] = [[] for _ in range(n_sources)]
    for volume in volumes:
        lists[volume.source].extend((volume, n) for n in range(volume.slices))
    return lists


def _spread(volumes: Sequence[Volume], n_slices: int) -> Iterator[tuple[Volume, list[int]]]:
    """At most n_slices in all, the same number from every volume, evenly through its middle."""
    chosen = volumes[:: -(-len(volumes) // n_slices)] if volumes and n_slices else ()
    for volume in chosen:
        n = min(volume.slices, max(1, n_slices // len(chosen)))
        yield replace(volume), [(2 * i + 1) * volume.slices // (2 * n) for i in range(n)]


def _check_coils(catalog: Catalog, recipe: Recipe) -> None:
    """Raw coils must number the model's Q; one coil is emulated from several."""
    for volume in (*catalog.train, *catalog.val):
        if recipe.Q > 1 and not recipe.any_array and volume.coils not in (0, recipe.Q):
            raise DataError(
                f"{volume.name} has {volume.coils} coils and the model takes {recipe.Q} raw ones: "
                'set coils.mode = "virtual", or model.Q to the number of coils'
            )
