"""Whether ∇R is compiled: worth its minute in a long run, never in a short one."""

from collections.abc import Callable

import torch

from bayesmri.model import BoundLearned
from bayesmri.regularizers.base import Bound
from bayesmri.regularizers.compiled import can_compile, compiled
from bayesmri.regularizers.tdv import by_kernels
from bayesmri.training.settings import TrainConfig

LONG = 500  # updates; below, compiling costs more than it saves
LONG_MINUTES = 10  # likewise, of a run that the clock ends


def accelerator(
    config: TrainConfig, *, first: int, device: torch.device, say: Callable[[str], None]
) -> Callable[[BoundLearned], BoundLearned]:
    """What to make of a bound regularizer before it is unrolled.

    first: the step the run begins at; what is left decides. Batches of many shapes would compile again and again.
    device: of the run, on which it is tried whether compiling works.
    """
    wanted, minutes = config.train.compile, config.train.max_minutes
    long = config.train.iterations - first >= LONG and config.data.patch_cols is not None
    long = long and (minutes is None or minutes >= LONG_MINUTES)
    if wanted == "off" or (wanted == "auto" and not long) or not config.unrolled:
        return _as_it_is
    if wanted == "auto" and device.type == "cpu" and by_kernels(config.model):
        return _as_it_is  # faster than compiled, for any size, and at once
    if not can_compile(str(device)):
        say(f"∇R runs uncompiled: no working compiler for {device}; slower, the same results to rounding")
        return _as_it_is
    say("∇R is compiled first, which takes about a minute; train.compile = off does without")
    return _compiled


def _compiled(reg: BoundLearned) -> BoundLearned:
    return compiled(reg) if isinstance(reg, Bound) else reg


def _as_it_is(reg: BoundLearned) -> BoundLearned:
    return reg
