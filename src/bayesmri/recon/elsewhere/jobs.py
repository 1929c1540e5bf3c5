"""One slice times one block of samples, as another process is asked for it.

    a slice at the mean of θ            x
    its samples i … i + 7               their mean and spread, in double precision
    the slice without some of its lines x₋

The first two come as one job where the samples are the first, since both begin with the slice's sensitivities; with
them what the method's head says of the error beside the draws. All are what this process would have made, bit by bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.errors import BayesMRIError
from bayesmri.kspace import KSpace
from bayesmri.machine.crew import Lacking, Parcel, Shelf, digest
from bayesmri.machine.workers import one_thread
from bayesmri.physics.data_terms import DataTerm
from bayesmri.recon.error_std import unseen
from bayesmri.recon.method import Method
from bayesmri.recon.task import Task, drawn_samples, solved_slice, task_of
from bayesmri.sampler import Stream
from bayesmri.sealed import Sealed
from bayesmri.statistics import Moments, Summary, merged

Origin = Callable[[], KSpace]
Again = Callable[[], Method]
Piece = dict[str, Any]  # a task of one slice, without its method
Arrays = dict[str, NDArray[Any]]

# of this process, where it works for others
METHODS: Shelf[Method] = Shelf(4)
VOLUMES: Shelf[Task] = Shelf(1)
PIECES: Shelf[Piece] = Shelf(4)
TERMS: Shelf[DataTerm] = Shelf(2)


def piece_of(task: Task, s: int) -> Piece:
    """Slice s as a task of its own, on the CPU."""
    own = {part.name: getattr(task, part.name) for part in fields(Task) if part.name != "method"}
    maps, reference = task.maps, task.reference
    own["volume"] = task.volume[s : s + 1].clone()
    own["mask"] = task.mask.cpu()
    own["maps"] = maps if maps is None or len(maps) == 1 else maps[s : s + 1].clone()
    own["reference"] = None if reference is None else reference[s : s + 1].clone()
    return own


def key_of(piece: Piece) -> str:
    """Of all that a slice is."""
    parts: list[object] = []
    for name, value in sorted(piece.items()):
        parts += [name, *(_bytes(value) if isinstance(value, Tensor) else [value])]
    return digest(*parts)


def _bytes(t: Tensor) -> list[object]:
    array = np.ascontiguousarray(t.numpy())
    return [array.dtype.str, array.shape, array.reshape(-1).view(np.uint8).data]


@final
@dataclass(frozen=True, eq=False)
class Find:
    """A slice from where its volume comes from, such as a file that this process sees as well."""

    origin: Origin
    again: Parcel[Sealed[Again]]
    volume: str
    s: int
    key: str
    full_fov: bool = False
    scale: float | None = None

    def __call__(self) -> Piece:
        def prepared() -> Task:
            return task_of(self.origin(), opened(self.again), full_fov=self.full_fov, scale=self.scale)

        try:
            task = VOLUMES.get(self.volume, prepared)
        except (BayesMRIError, OSError) as error:  # not to be seen from here, or not the same
            raise Lacking(self.key) from error
        piece = piece_of(task, self.s) if self.s < len(task.volume) else {}
        if key_of(piece) != self.key:
            raise Lacking(self.key)
        return piece


@final
@dataclass(frozen=True, eq=False)
class SliceJob:
    """lines: those to be used, a part of the mask; None for all. mean: at the mean of θ. draws: indices of samples.

    keep: also their images. name: of the file, for people. again_too: x_μ is scanned once more, for the error's size.
    """

    again: Parcel[Sealed[Again]]
    piece: Parcel[Piece]
    s: int
    name: str
    lines: Tensor | None = None
    mean: bool = False
    draws: range | None = None
    stream: Stream | None = None
    keep: bool = False
    again_too: bool = False

    @property
    def label(self) -> str:
        drawn = "" if self.draws is None else f", samples {self.draws.start} to {self.draws.stop - 1}"
        return f"slice {self.s} of {self.name}{drawn}"

    def light(self) -> "SliceJob":
        return replace(self, again=self.again.light(), piece=self.piece.light())

    @torch.no_grad()
    def run(self) -> Arrays:
        with one_thread():
            method = opened(self.again)
            task = _on(method, self.piece.open(PIECES))
            if self.lines is not None:
                return {"x": _numpy(task.scan().solve(0, self.lines))}
            D = TERMS.get(f"{self.again.key}/{self.piece.key}", lambda: task.begin(0))
            found = Arrays()
            if self.mean:
                x, std = solved_slice(task, D, self.s)
                found |= {"x": _numpy(x)} | ({} if std is None else {"std": std})
                if method.error_head is not None:
                    again = task.rescans(D, x) if self.again_too else None
                    found["unseen"] = _numpy(unseen(method.error_head, D, x, again))
            return found | ({} if self.draws is None else self._drawn(task, D, self.draws))

    def _drawn(self, task: Task, D: DataTerm, draws: range) -> Arrays:
        assert self.stream is not None
        kept: list[NDArray[Any]] = []

        def summary(x: Tensor) -> Summary:
            if self.keep:
                kept.append(_numpy(rss(x).float())[task.window])
            return Summary.of(x)

        found = merged(map(summary, drawn_samples(task, D, self.stream, draws, self.s)))
        return packed(found) | ({"kept": np.stack(kept)} if self.keep else {})


def opened(again: Parcel[Sealed[Again]]) -> Method:
    """Made once for many jobs."""
    return METHODS.get(again.key, lambda: again.open(Shelf(1)).open()())


def _on(method: Method, piece: Piece) -> Task:
    return Task(method, **{**piece, "mask": piece["mask"].to(method.device)})


def packed(found: Summary) -> Arrays:
    """Arrays by name."""
    parts = {name: getattr(found, name) for name in ("X", "x", "u")}
    arrays = {
        f"{name}_{what}": _numpy(getattr(part, what)) for name, part in parts.items() for what in ("mean", "spread")
    }
    return {"n": np.array(found.X.n), **arrays}


def unpacked(arrays: Arrays) -> Summary:
    """The inverse of `packed`."""

    def moments(name: str) -> Moments:
        mean, spread = (torch.from_numpy(np.array(arrays[f"{name}_{what}"])) for what in ("mean", "spread"))
        return Moments(int(arrays["n"]), mean, spread)

    return Summary(*(moments(name) for name in ("X", "x", "u")))


def _numpy(t: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = t.cpu().numpy()
    return found
