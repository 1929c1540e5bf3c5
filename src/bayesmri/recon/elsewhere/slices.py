"""All slices of a volume from a crew, in their order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayesmri.bounds.left_out import N_FOLDS
from bayesmri.machine.crew import Crew, Parcel, digest
from bayesmri.physics.data_terms import Channels, DataTerm
from bayesmri.recon.elsewhere.jobs import Find, Origin, SliceJob, key_of, piece_of, unpacked
from bayesmri.recon.task import Task
from bayesmri.sampler import Stream
from bayesmri.sealed import sealed
from bayesmri.statistics import Summary, blocks, merged


@dataclass(frozen=True, eq=False)
class Asked:
    """What is wanted of every slice. N: samples, by the slices' streams. fold: of every line, which is left out with
    which others; None: nothing is left out. keep: the samples' images. again: x_μ is scanned once more.
    """

    N: int = 0
    streams: Sequence[Stream] | None = None
    fold: NDArray[np.int64] | None = None
    keep: bool = False
    full_fov: bool = False
    again: bool = False
    scale: float | None = None

    @property
    def blocks(self) -> list[range]:
        """Of samples."""
        return blocks(self.N) if self.streams is not None else []


@dataclass(frozen=True, eq=False)
class Far:
    """A slice with all that was made of it elsewhere, in the method's scale.

    D: its data term; of one that came back only z and mask. x: (Q, H, W). std: σ where the method predicts it.
    without: x₋ of every fold, None of an empty one. summary: of its samples; kept: their images (N, h, w).
    unseen: what the method's head says of its error beside the draws, (H, W).
    """

    D: DataTerm
    x: Tensor
    std: NDArray[np.float32] | None
    without: Sequence[Tensor | None] = ()
    summary: Summary | None = None
    kept: NDArray[np.float32] | None = None
    unseen: Tensor | None = None


def far_slices(
    crew: Crew, task: Task, asked: Asked, *, name: str, origin: Origin | None, on_step: Callable[[], None] | None
) -> Iterator[Far]:
    """Every slice of the task. name: of the volume. origin: where others may read it. on_step: after every sample."""
    assert task.method.again is not None
    again = sealed(task.method.again)
    volume = digest(name, again.key, task.factor, tuple(task.volume.shape))

    def jobs() -> Iterator[SliceJob]:
        for s in range(len(task.volume)):
            piece = piece_of(task, s)
            key = key_of(piece)
            find = None if origin is None else Find(origin, again.light(), volume, s, key, asked.full_fov, asked.scale)
            stream = None if asked.streams is None else asked.streams[s]
            one = SliceJob(again, Parcel(key, piece, find), s, name, stream=stream, keep=asked.keep)
            first, others = next(iter(asked.blocks), None), asked.blocks[1:]
            yield replace(one, mean=True, draws=first, again_too=asked.again)
            for lines in _lines(task, asked.fold):
                if lines is not None:
                    yield replace(one, lines=lines)
            for block in others:
                yield replace(one, draws=block)

    results = crew.results(jobs())
    for s in range(len(task.volume)):
        yield _slice(task, s, asked, results, on_step)


def _slice(
    task: Task, s: int, asked: Asked, results: Iterator[dict[str, Any]], on_step: Callable[[], None] | None
) -> Far:
    def step(n: int) -> None:
        for _ in range(n if on_step is not None else 0):
            assert on_step is not None
            on_step()

    device = task.method.device
    first = next(results)
    without: list[Tensor | None] = []
    for lines in _lines(task, asked.fold):
        without.append(None if lines is None else _tensor(next(results)["x"]))
        step(1)
    summary, kept = None, None
    if asked.streams is not None:
        found = [first]
        step(len(asked.blocks[0]))
        for block in asked.blocks[1:]:
            found.append(next(results))
            step(len(block))
        summary = merged(map(unpacked, found))
        kept = np.concatenate([part["kept"] for part in found]) if asked.keep else None
    elif on_step is not None:
        on_step()
    z = (task.volume[s][None].to(device) / task.factor) * task.mask
    x, rest = (_tensor(first[name]).to(device) if name in first else None for name in ("x", "unseen"))
    assert x is not None
    return Far(Channels(z, task.mask), x, first.get("std"), without, summary, kept, rest)


def _lines(task: Task, fold: NDArray[np.int64] | None) -> list[Tensor | None]:
    """What is left of the mask without each fold; None of an empty one."""
    if fold is None:
        return []
    gone = [torch.from_numpy(fold == j) for j in range(N_FOLDS)]
    mask = task.mask.cpu()
    return [mask & ~part if bool(part.any()) else None for part in gone]


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(array))
