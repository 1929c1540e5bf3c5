"""How fast, as ratios within one run: against the machine's own convolution peak, plain eager code, plain autograd."""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bayesmri.benchmarks.rival import ByAutograd, plain_gradient
from bayesmri.complexes import rss
from bayesmri.errors import ConfigError
from bayesmri.machine.memory import give_memory_back, keep_memory
from bayesmri.physics.data_terms import Channels
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.regularizers.base import Bound, Regularizer, Weights
from bayesmri.regularizers.compiled import compiled
from bayesmri.regularizers.tdv import TDV, TDVConfig, TDVCore
from bayesmri.solver import descend
from bayesmri.training.loss import LossConfig, loss

PAPER = TDVConfig()  # m = 64, 3 macroblocks, 4 scales
TRAINED = TDVConfig(features=32, macroblocks=1, scales=3)  # what trains on a laptop
IMAGE, PATCH, BATCH, TRAIN_STEPS = (320, 320), (96, 128), 4, 3
PEAK_SHAPES = ((64, 320, 320), (64, 160, 160), (128, 160, 160), (128, 80, 80), (256, 80, 80))  # channels, H, W
LOSS = LossConfig(reduction="mean")


@dataclass(frozen=True)
class Effort:
    """How long to measure: the best of `repeats`, after one run that does not count. memory: measured on Linux only."""

    repeats: int = 5
    memory: bool = True
    image: tuple[int, int] = IMAGE
    config: TDVConfig = PAPER


def bench(
    effort: Effort, *, threads: int | None = None, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """The four ratios, and the times behind them."""
    if threads is not None:
        torch.set_num_threads(threads)
    say("training steps, compiled and by autograd")
    training = training_speed(effort.repeats)
    say("∇R, compiled and plain, and the machine's convolution peak")
    keep_memory()  # as reconstructing does, and training does not
    gradient = gradient_speed(effort)
    say("training memory at S = 5 and S = 15")
    memory = {S: training_memory(S) for S in (5, 15)} if effort.memory else None
    return {
        "grad_share_of_peak": gradient["gflops"] / gradient["peak_gflops"],
        "grad_speedup_vs_eager": gradient["eager_seconds"] / gradient["seconds"],
        "train_speedup_vs_autograd": training["autograd_seconds"] / training["seconds"],
        "train_memory_S15_over_S5": None if memory is None else memory[15] / memory[5],
        "threads": torch.get_num_threads(),
        "gradient": gradient,
        "training": training,
        "training_memory_MB": {f"S{S}": size / 1e6 for S, size in (memory or {}).items()},
    }


def gradient_speed(effort: Effort) -> dict[str, float]:
    """∇R of one image: compiled, plain (autograd on contiguous tensors), its own sweeps eagerly on contiguous tensors;
    and the rate of plain convolutions."""
    reg = _regularizer(effort.config)
    x = _noise((1, effort.config.Q, *effort.image))
    core = reg.core
    assert isinstance(core, TDVCore)
    sweeps = replace(reg, core=replace(core, memory_format=torch.contiguous_format))
    fast = compiled(reg)
    peaks = [convolution(*shape) for shape in PEAK_SHAPES]
    with torch.no_grad(), plain_gradient(effort.config, effort.image, torch.get_num_threads()) as plain:
        runs = [lambda: fast.grad(x), plain, lambda: sweeps.grad(x), *peaks]
        seconds, eager, swept, *convolutions = best_times(runs, effort.repeats)
    rates = [2 * 9 * m * m * H * W / t / 1e9 for (m, H, W), t in zip(PEAK_SHAPES, convolutions, strict=True)]
    work = gradient_flops(effort.config, effort.image) / 1e9
    return {
        "seconds": seconds,
        "eager_seconds": eager,
        "eager_sweeps_seconds": swept,
        "gflop": work,
        "gflops": work / seconds,
        "peak_gflops": max(rates),
    }


def convolution(m: int, H: int, W: int) -> Callable[[], Tensor]:
    """A channels_last 3x3 convolution of m features, the fastest thing this machine does of the kind."""
    x = torch.ones(1, m, H, W).contiguous(memory_format=torch.channels_last)
    k = torch.ones(m, m, 3, 3).contiguous(memory_format=torch.channels_last)
    return lambda: F.conv2d(x, k, padding=1)


def gradient_flops(config: TDVConfig, image: tuple[int, int]) -> int:
    """Multiplications and additions of the convolutions of ∇R; each acts once forward and once transposed."""
    m, a = config.features, config.scales
    sizes = [image]
    for _ in range(a - 1):
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    pixels = [H * W for H, W in sizes]
    blocks = sum(2 * pixels[s] * (2 if s < a - 1 else 1) for s in range(a))  # K1 and K2, on the way down and up
    strided = 2 * sum(pixels[1:])
    per_pixel = 2 * 9 * m * m
    # of the last K2 nothing but its adjoint on a constant image is needed, and of that 4x4 pixels
    work = 2 * config.macroblocks * (blocks + strided) - 2 * pixels[0] + 16
    return work * per_pixel + 2 * pixels[0] * 2 * 9 * 2 * config.Q * m


def training_speed(repeats: int) -> dict[str, float]:
    """One update's gradients: compiled without recomputation, and by autograd through the energy."""
    reg, batch = _regularizer(TRAINED), _batch()
    fast, rival = compiled(reg), ByAutograd(TRAINED, reg.theta)
    runs = [lambda r=r: update_gradients(r, reg.theta, batch, S=TRAIN_STEPS) for r in (fast, rival)]
    seconds, autograd = best_times(runs, repeats)
    return {"seconds": seconds, "autograd_seconds": autograd}


def training_memory(S: int) -> int:
    """Bytes that one training step with S unrolled steps adds to a process of its own, at its peak."""
    if not Path("/proc/self/clear_refs").exists():
        raise ConfigError("the memory of a step is measured on Linux only: leave it out with --no-memory")
    code = f"from bayesmri.benchmarks.speed import report_memory; report_memory({S})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["bytes"])


def report_memory(S: int) -> None:
    """Runs in the child: prints how far the step's peak lies above the resident size before it."""
    give_memory_back()
    reg, batch = _regularizer(TRAINED), _batch()
    update_gradients(
        reg, reg.theta, tuple(t[:1] if t.ndim > 1 else t for t in batch), S=1, recompute=True
    )  # libraries are loaded now
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak that importing left
    before = _resident("VmRSS")
    update_gradients(reg, reg.theta, batch, S=S, recompute=True)
    print(json.dumps({"bytes": _resident("VmHWM") - before}))


def _resident(which: str) -> int:
    """VmRSS, the resident size now, or VmHWM, its peak, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def best_times(runs: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Seconds of the fastest of several calls of each run; the first call of each warms up and does not count.

    The runs take turns, so that a machine which slows down for a while slows all of them down.
    """
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, taken in zip(runs, times, strict=True):
            began = time.perf_counter()
            run()
            taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]


def update_gradients(
    reg: Regularizer, theta: Weights, batch: tuple[Tensor, ...], *, S: int, recompute: bool = False, plain: bool = False
) -> tuple[Tensor, ...]:
    """plain: the proximal map by torch alone."""
    z, mask, Y = batch
    x = descend(Channels(z, mask, plain=plain), reg, T=1.0, S=S, checkpoint=recompute)
    return torch.autograd.grad(loss(rss(x), Y, LOSS).mean(), list(theta.values()))


def _regularizer(config: TDVConfig) -> Bound:
    module = TDV(config, torch.Generator().manual_seed(0))
    return module.bind(module.weights())


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    mask = random_mask(PATCH[1], 4, rng=torch.Generator().manual_seed(0))
    z = mask * _noise((BATCH, 1, *PATCH))
    return z, mask, rss(ifft2c(z))


def _noise(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
