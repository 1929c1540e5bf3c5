"""What a user waits for, as ratios within one run: against what stood before, and against BART where it is installed.

Before: ∇R and the proximal map by torch alone, one sample after the other, torch's threads inside.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bayesmri.benchmarks.speed import PEAK_SHAPES, best_times, convolution, gradient_flops, update_gradients
from bayesmri.checkpoint import load_model
from bayesmri.complexes import rss
from bayesmri.data.simulate import Scanner
from bayesmri.io.write_h5 import write_kspace
from bayesmri.machine.devices import check_device
from bayesmri.machine.workers import one_thread
from bayesmri.model import Model
from bayesmri.physics.data_terms import Coupled
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest
from bayesmri.recon.method import learned, make_method
from bayesmri.recon.reconstruct import begin_slice, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.simulated import measured, phantom_images
from bayesmri.recon.undersample import undersample
from bayesmri.regularizers.base import Bound, Weights
from bayesmri.regularizers.tdv import TDV, TDVConfig, TDVCore
from bayesmri.sampler import Sampler, Stream

MODEL, IMAGE, COILS, R = "tdv-r4", (320, 320), 8, 4.0
PATCH, STEPS = (64, 320), 12  # of training, as the shipped models are trained
SMALL = TDVConfig(features=16, macroblocks=1, scales=3, init="identity", init_scale=0.2, tv=0.01)


def felt(
    repeats: int, *, samples: int = 16, image: tuple[int, int] = IMAGE, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """The ratios, with the seconds behind them under `felt`."""
    model, threads = load_model(Path(MODEL)), torch.get_num_threads()
    full = measured(phantom_images(PhantomRequest("head", shape=image), seed=1), Scanner(COILS, 30.0), seed=1)
    scan = undersample(full, Sampling(R))
    say(f"{samples} samples, as `recon` draws them and as before")
    drawn = _sampling(model, scan, samples, max(1, repeats // 3))
    say("∇R of 16 features, and a training step")
    share, trained = _gradient_share(repeats), _training(max(1, repeats // 2))
    say("one slice by the model and by BART, and a whole command")
    bart = _against_bart(model, scan, max(1, repeats // 2))
    return {
        "recon16_speedup": drawn["before_seconds"] / drawn["seconds"],
        "scaling_2_workers": None if threads < 2 else drawn["one_thread_seconds"] / drawn["two_threads_seconds"],
        "grad16_share_of_peak": share,
        "train_speedup_vs_previous": trained["before_seconds"] / trained["seconds"],
        "train_speedup_one_core": trained["one_core_before_seconds"] / trained["one_core_seconds"],
        "recon_seconds_over_bart_pics": None if bart is None else bart["seconds"] / bart["bart_seconds"],
        "startup_seconds": _startup(),
        "felt": {"samples": drawn, "training": trained, "bart": bart},
    }


def plain(reg: Bound) -> Bound:
    """∇R by torch alone."""
    assert isinstance(reg.core, TDVCore)
    return replace(reg, core=replace(reg.core, plain=True))


def _sampling(model: Model, scan: Any, samples: int, repeats: int) -> dict[str, float]:
    """Of one slice whose data term is there already."""
    D, _ = begin_slice(scan, learned(model, MODEL, torch.device("cpu")), 0)
    D.start()
    posterior, reg = model.distribution(), model.regularizer
    assert isinstance(reg, TDV)
    stream, threads = Stream(0, scan.contents()[0], 0), torch.get_num_threads()
    now = Sampler(reg, posterior.sample, model.scheme)

    def ours(n: int) -> None:
        torch.set_num_threads(n)
        for _ in now.samples(D, stream, range(samples)):
            pass
        torch.set_num_threads(threads)

    assert isinstance(D, Coupled)
    by_torch = replace(D, plain=True)
    by_torch.start()

    @torch.no_grad()
    def before() -> None:
        for i in range(samples):
            model.scheme.run(by_torch, plain(reg.bind(posterior.sample(stream.rng(i)))))

    runs: list[Callable[[], object]] = [lambda: ours(threads), before, lambda: ours(1), lambda: ours(2)]
    names = ("seconds", "before_seconds", "one_thread_seconds", "two_threads_seconds")
    return dict(zip(names, best_times(runs, repeats), strict=True))


def _gradient_share(repeats: int) -> float:
    """GFLOP/s of ∇R, m = 16, as `recon` runs it, over those of the fastest convolution of 64 features and more."""
    module = TDV(SMALL, torch.Generator().manual_seed(0))
    reg = module.bind({name: w.detach() for name, w in module.weights().items()})
    x = torch.randn(1, 1, *IMAGE, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))

    def ours() -> None:
        with one_thread():
            for _ in range(4):
                reg.grad(x)

    with torch.no_grad():
        seconds, *peaks = best_times([ours, *(convolution(*s) for s in PEAK_SHAPES)], 2 * repeats)
    peak = max(2 * 9 * m * m * H * W / t for (m, H, W), t in zip(PEAK_SHAPES, peaks, strict=True))
    return 4 * gradient_flops(SMALL, IMAGE) / seconds / peak


def _training(repeats: int) -> dict[str, float]:
    """The gradients of one update, states recomputed: with all threads, and with one."""
    module = TDV(SMALL, torch.Generator().manual_seed(0))
    reg, theta = module.bind(module.weights()), module.weights()
    mask = random_mask(PATCH[1], 4, rng=torch.Generator().manual_seed(0))
    z = mask * torch.randn(1, 1, *PATCH, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    batch: tuple[Tensor, ...] = (z, mask, rss(ifft2c(z)))

    def step(by: Bound, *, by_torch: bool, theta: Weights = theta) -> object:
        return update_gradients(by, theta, batch, S=STEPS, recompute=True, plain=by_torch)

    def alone(by: Bound, *, by_torch: bool) -> None:
        torch.set_num_threads(1)
        step(by, by_torch=by_torch)
        torch.set_num_threads(threads)

    threads = torch.get_num_threads()
    by, names = (reg, plain(reg)), ("seconds", "before_seconds", "one_core_seconds", "one_core_before_seconds")
    runs = [lambda f=f, i=i: f(by[i], by_torch=i == 1) for f in (step, alone) for i in range(2)]
    return dict(zip(names, best_times(runs, repeats), strict=True))


def _against_bart(model: Model, scan: Any, repeats: int) -> dict[str, float] | None:
    """ecalib and `pics` with L1-wavelets, 100 iterations, beside the deterministic reconstruction; the same threads."""
    if shutil.which("bart") is None:
        return None
    ours, theirs = learned(model, MODEL, check_device("cpu")), make_method(Options(method="bart-l1"))
    seconds, bart = best_times([lambda: reconstruct(scan, ours), lambda: reconstruct(scan, theirs)], repeats)
    return {"seconds": seconds, "bart_seconds": bart}


def _startup() -> float:
    """Seconds of `bayesmri recon` on a slice of 64x64: the best of three, since the first fills caches."""
    full = measured(phantom_images(PhantomRequest("head", shape=(64, 64)), seed=1), Scanner(1, 30.0), seed=1)
    with tempfile.TemporaryDirectory() as folder:
        scan, out = Path(folder) / "scan.h5", Path(folder) / "out.h5"
        write_kspace(scan, undersample(full, Sampling(R)), provenance={})
        words = [sys.executable, "-m", "bayesmri", "recon", str(scan), "-o", str(out), "--model", MODEL, "--force"]
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True)
            taken.append(time.perf_counter() - began)
    return min(taken)
