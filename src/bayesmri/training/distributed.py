"""One process or several: the elements of a batch are shared out, sums are taken over all, the first process writes."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """This process's place among `size` processes."""

    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        return self.rank == 0

    def share(self, batch: int) -> range:
        """The elements of a global batch that fall to this process."""
        return range(self.rank, batch, self.size)

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Each tensor summed over all processes, in one message."""
        if self.size == 1:
            return list(tensors)
        flat = torch.cat([t.detach().flatten() for t in tensors])
        dist.all_reduce(flat)
        parts = torch.split_with_sizes(flat, [t.numel() for t in tensors])
        return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]


def join(device: torch.device) -> World:
    """The world that torchrun describes in the environment; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if device.type == "cuda":
        torch.cuda.set_device(device)  # else every process would also take memory of the first device
    if not dist.is_initialized():
        begin("nccl" if device.type == "cuda" else "gloo")
    return World(dist.get_rank(), size)


def begin(backend: str) -> None:
    """What processes that died left in torchrun's store would be waited for in vain: each attempt has its own keys."""
    store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    prefix = f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    attempt = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=attempt, rank=rank, world_size=size)


def leave() -> None:
    """Ends the group, where there is one."""
    with suppress(RuntimeError, ValueError):
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()
