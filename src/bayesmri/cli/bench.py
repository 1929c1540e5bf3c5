"""bayesmri bench."""

import sys

from bayesmri.cli.options import Whole
from bayesmri.cli.output import print_json


def bench(*, repeats: Whole = 5, threads: Whole | None = None, memory: bool = True, json: bool = False) -> None:
    """Measure speed on this machine, as ratios within one run; takes a few minutes, on an idle machine.

    Parameters
    ----------
    repeats
        The fastest of so many runs counts.
    threads
        As torch chooses unless given.
    memory
        Also measure the memory of a training step (Linux only).
    json
        Print JSON instead of text.
    """
    from bayesmri.pipeline.bench import Effort
    from bayesmri.pipeline.bench import bench as run

    result = run(
        Effort(repeats=repeats, memory=memory),
        threads=threads,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if json:
        print_json(result)
        return
    print(f"∇R reaches {100 * result['grad_share_of_peak']:.0f} % of the convolution peak of this machine")
    print(f"∇R is {result['grad_speedup_vs_eager']:.2f} times as fast as plain eager code")
    print(
        f"a training step is {result['train_speedup_vs_autograd']:.2f} times as fast as by autograd through the energy"
    )
    if result["train_memory_S15_over_S5"] is not None:
        print(f"training at S = 15 takes {result['train_memory_S15_over_S5']:.2f} times the memory of S = 5")
