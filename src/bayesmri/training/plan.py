"""What a training run would be, without running it: parameters, data, schedule, memory and time from a small step."""

import resource
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bayesmri.config import as_dict
from bayesmri.data.dataset import Batch, Dataset
from bayesmri.errors import BayesMRIError, MaskError
from bayesmri.machine.devices import check_device
from bayesmri.physics.mask import MaskSpec
from bayesmri.training.objective import objective
from bayesmri.training.run_folder import data_facts
from bayesmri.training.schedule import rate, resets, unrolled_steps
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import State, as_model, start


def plan(config: TrainConfig) -> dict[str, Any]:
    """JSON values; data that is not there is reported, not an error. Masks that cannot be drawn are one.

    Time and memory are those of the run's own device.
    """

    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    state = start(config, device=check_device(config.train.device))
    try:
        dataset = Dataset(config.data, config.recipe(), seed=config.seed)
        found: dict[str, Any] = _data_facts(dataset)
        batch: Batch | None = dataset.element(0, 0)
    except MaskError:
        raise
    except BayesMRIError as error:
        found, batch = {"missing": str(error)}, None
    if batch is not None:
        _check_masks(config.mask, (batch.z.shape[-2], batch.z.shape[-1]))
    return {
        "name": config.name,
        "parameters": as_model(config, state, {}).n_parameters,
        "data": found,
        "schedule": _schedule(config),
        "expected": _expected(config, state, batch),
        "config": as_dict(config),
    }


def _check_masks(spec: MaskSpec, shape: tuple[int, int]) -> None:
    """Every R can be drawn with so many lines and points, not only the one of the element at hand."""

    for R in (spec.acceleration, *spec.also):
        replace(spec, acceleration=R, also=()).draw(shape, torch.Generator().manual_seed(0))


def _data_facts(dataset: Any) -> dict[str, Any]:

    return data_facts(dataset)


def _schedule(config: TrainConfig) -> list[dict[str, Any]]:
    """Every step at which S or the learning rate's halving changes."""

    n, rows = config.train.iterations, []
    steps = {0, n - 1, *(range(0, n, config.unroll.S_every) if config.unrolled else ())}
    if config.optimizer.schedule == "halving":
        steps |= set(range(0, n, config.optimizer.halve_every))
    before = None
    for step in sorted(steps):
        S = _steps(config, step) if config.unrolled else None
        lr = config.optimizer.lr * rate(config.optimizer, step, progress=step / n)
        if (S, lr) != before:
            rows.append({"step": step, "S": S, "lr": lr, "resets_moments": resets(config.optimizer, step)})
        before = (S, lr)
    return rows


def _expected(config: TrainConfig, state: State, batch: Batch | None) -> dict[str, Any]:
    """One element with S = 1 is run for real; a step is that times batch and S. A network is run whole."""
    device = state.T.device
    if batch is None:
        return {"device": str(device), "seconds": "not measured", "memory_bytes": "not measured"}
    seconds, saved = _measure(config, state, batch)
    n, B = config.train.iterations, config.train.batch
    steps = [_steps(config, step) for step in range(n)]
    total = sum(steps) * B * seconds
    if config.train.max_minutes is not None:
        total = min(total, 60 * config.train.max_minutes)
    kept = saved * B if config.train.recompute else saved * B * steps[-1]
    states = batch.z.numel() * batch.z.element_size() * B * (steps[-1] + 4)
    weights = 5 * 4 * state.posterior().n_parameters
    return {
        "device": str(device),
        "seconds": round(total, 1),
        "seconds_per_step": {"first": seconds * B * steps[0], "last": seconds * B * steps[-1]},
        "memory_bytes": kept + states + weights + _held(device),
        "basis": "one element with S = 1, eager, times batch and S" if config.unrolled else "one element, times batch",
    }


def _steps(config: TrainConfig, step: int) -> int:
    """S during an update; 1 for a network."""

    return unrolled_steps(config.unroll, step) if config.unrolled else 1


def _measure(config: TrainConfig, state: State, batch: Batch) -> tuple[float, int]:
    """Seconds of one gradient of one element with S = 1, and the bytes autograd keeps for it; on the state's device."""

    seen: dict[int, int] = {}

    def keep(t: Tensor) -> Tensor:
        seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    theta = state.reg.weights()
    for _ in range(2):  # the first warms up
        begun = _clock(state.T.device)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            J = objective(config, state.reg.bind(theta), batch, scheme=state.scheme(config, 1)).sum()
        torch.autograd.grad(J, [p for p in (*theta.values(), state.T) if p.requires_grad])
        seconds = _clock(state.T.device) - begun
        saved = sum(seen.values())
        seen.clear()
    return seconds * (4 / 3 if config.train.recompute and config.unrolled else 1), saved


def _clock(device: torch.device) -> float:
    """Seconds, read when the device has done all that it was asked for: CUDA runs behind the program."""

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _held(device: torch.device) -> int:
    """What the process holds on the device already; on the CPU with torch itself."""

    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
