"""bayesmri bench."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.cli.options import Whole
from bayesmri.cli.output import count, print_json
from bayesmri.errors import ConfigError
from bayesmri.machine.memory import keep_memory
from bayesmri.recon.request import Trial


def bench(
    *,
    repeats: Whole = 5,
    threads: Whole | None = None,
    memory: bool = True,
    uncertainty: bool = False,
    app: bool = False,
    cluster: Annotated[bool, Parameter(negative=())] = False,
    cost: Annotated[bool, Parameter(negative=())] = False,
    model: str | None = None,
    data: Path | None = None,
    acceleration: float | None = None,
    slices: Whole | None = None,
    reference: Whole | None = None,
    seed: Whole | None = None,
    json: bool = False,
) -> None:
    """Measure speed on this machine, as ratios within one run; takes a few minutes, on an idle machine.

    Parameters
    ----------
    repeats
        The fastest of so many runs counts.
    threads
        As torch chooses unless given.
    memory
        Also measure the memory of a training step (Linux only).
    uncertainty
        Measure instead what a standard-deviation map costs and how wrong it is, by exact samples and by the fast route.
    app
        Measure instead what one waits for in `bayesmri app`, in seconds, in a real browser.
    cluster
        Measure instead many volumes and several workers: efficiency, overhead, memory, and workers that are killed.
    cost
        Measure instead what a volume costs by slices, pixels, coils and samples, and plan past this machine.
    model
        Of --uncertainty: a run folder, a model's .json file or a name; the first with a fast route unless given.
    data
        Of --uncertainty: a folder or file of fully sampled volumes; the demo's head slice unless given.
    acceleration
        Of --uncertainty: what the model was trained for unless given.
    slices
        Of --uncertainty: so many middle slices of every volume, 1 unless given.
    reference
        Of --uncertainty: samples that the reference is made of, 256 unless given.
    seed
        Of --uncertainty: seed of masks and samples, 0 unless given.
    json
        Print JSON instead of text.
    """
    asked = {"model": model, "data": data, "acceleration": acceleration}
    asked |= {"slices": slices, "reference": reference, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if app:
        if uncertainty or given:
            raise ConfigError("got --app with options of another benchmark, expected it alone; leave the others out")
        waits(repeats, json=json)
        return
    if uncertainty:
        trade_off(replace(Trial(), **given), threads=threads, json=json)
        return
    if given:
        names = " and ".join(f"--{name}" for name in given)
        raise ConfigError(f"got {names} without --uncertainty; give that too, or leave out what belongs to it")
    if cluster or cost:
        print_json(many_volumes(cluster=cluster, cost=cost))
        return
    from bayesmri.benchmarks import felt, speed

    result = speed.bench(
        speed.Effort(repeats=repeats, memory=memory),
        threads=threads,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    result |= felt.felt(repeats, say=lambda text: print(text, file=sys.stderr, flush=True))
    if json:
        print_json(result)
        return
    print(f"16 samples take 1/{result['recon16_speedup']:.2f} of what they took before kernels and workers")
    if result["scaling_2_workers"] is not None:
        print(f"two workers are {result['scaling_2_workers']:.2f} times as fast as one")
    print(f"∇R of 16 features reaches {100 * result['grad16_share_of_peak']:.0f} % of the convolution peak")
    print(f"a training step takes 1/{result['train_speedup_vs_previous']:.2f} of what it took", end="")
    print(f", on one core 1/{result['train_speedup_one_core']:.2f}")
    if result["recon_seconds_over_bart_pics"] is not None:
        print(f"a slice takes {result['recon_seconds_over_bart_pics']:.2f} times as long as BART's ecalib and pics")
    print(f"`recon` of a small slice takes {result['startup_seconds']:.1f} s in all")
    print(f"∇R reaches {100 * result['grad_share_of_peak']:.0f} % of the convolution peak of this machine")
    print(f"∇R is {result['grad_speedup_vs_eager']:.2f} times as fast as plain eager code")
    print(
        f"a training step is {result['train_speedup_vs_autograd']:.2f} times as fast as by autograd through the energy"
    )
    if result["train_memory_S15_over_S5"] is not None:
        print(f"training at S = 15 takes {result['train_memory_S15_over_S5']:.2f} times the memory of S = 5")


def waits(repeats: int, *, json: bool) -> None:
    """What one waits for in the application."""
    from bayesmri.benchmarks.app import app_speed

    result = app_speed(repeats, say=lambda text: print(text, file=sys.stderr, flush=True))
    if json:
        print_json(result)
        return
    print(f"the page is there in {result['app_page_load_seconds']:.2f} s")
    print(f"the next slice is painted in {result['app_slice_paint_ms']:.0f} ms")
    print(f"a planted lesion is answered in {result['app_plant_seconds']:.1f} s", end="")
    print(f", the first in {result['app_first_plant_seconds']:.1f} s (256x256, 8 coils)")


def many_volumes(*, cluster: bool, cost: bool) -> dict[str, Any]:
    """What becomes of hundreds of volumes; JSON in any case."""
    from bayesmri.benchmarks.volumes import measured

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    return measured(cluster=cluster, cost=cost, say=say)


def trade_off(trial: Trial, *, threads: int | None, json: bool) -> None:
    """Error against cost, for both routes."""
    import torch

    from bayesmri.benchmarks.uncertainty import bench_uncertainty

    if threads is not None:
        torch.set_num_threads(threads)
    keep_memory()
    result = bench_uncertainty(trial, say=lambda text: print(text, file=sys.stderr, flush=True))
    if json:
        print_json(result)
        return
    print(f"error against {result['reference_samples']} samples, {count(len(result['slices']), 'slice')}; cost in")
    print("deterministic reconstructions")
    for row in result["curve"]:
        print(f"  {row['route']:5} {row['samples']:3} samples: error {row['error']:.3f}, cost {row['cost']:.1f}")
