"""bayesmri train CONFIG.toml --out RUN."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.bounded import printable
from bayesmri.cli.output import behind, print_json

Overrides = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
Run = Annotated[Path, Parameter(name=["--output", "--out", "-o"])]


def train(config: Path, /, *overrides: Overrides, out: Run, resume: bool = False, dry_run: bool = False) -> None:
    """Train a model as CONFIG.toml says; any value can be changed with --section.key value.

    SIGINT and SIGTERM finish the step, write a checkpoint and end the run; --resume goes on from there.

    Parameters
    ----------
    config
        TOML file; configs/ holds the paper's and small ones.
    overrides
        --section.key value, such as --optimizer.lr 3e-4 or --train.iterations 1000.
    out
        Folder of the run: checkpoints, metrics.jsonl, samples.
    resume
        Go on from the last checkpoint of the run, bit-identically at the same number of threads.
    dry_run
        Print as JSON what would be trained: parameters, data, schedule, memory and time; train nothing.
    """
    from bayesmri.training import plan, run_folder

    settings = run_folder.read_config(config, overrides)
    if dry_run:
        print_json(plan.plan(settings))
        return
    with _display() as say:
        ended = run_folder.train(settings, out, resume=resume, say=say)
        say("note", {"text": _farewell(ended)})


@contextmanager
def _display() -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A bar with the latest line on a terminal, plain lines elsewhere; always on stderr."""
    if not sys.stderr.isatty():
        yield _print
        return
    from rich import console, progress

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TextColumn("{task.description}"))
    with progress.Progress(*columns, console=console.Console(file=behind(sys.stderr))) as bar:
        task = bar.add_task("preparing", total=None)

        def say(event: str, values: dict[str, Any]) -> None:
            if event == "log":
                text = _line(event, values).partition(": ")[2]
                bar.update(task, total=values["iterations"], completed=values["step"], description=text)
            else:
                bar.console.print(printable(_line(event, values)), highlight=False, markup=False)

        yield say


def _print(event: str, values: dict[str, Any]) -> None:
    print(_line(event, values), file=sys.stderr, flush=True)


def _farewell(ended: dict[str, Any]) -> str:
    how = {"finished": "finished", "time": "time is up", "signal": "stopped by a signal"}[ended["ended"]]
    more = "" if ended["ended"] == "finished" else "; --resume goes on"
    return f"{how} after step {ended['step']}: {ended['run']}{more}"


def _line(event: str, v: dict[str, Any]) -> str:
    if event == "note":
        return str(v["text"])
    if event == "val":
        return (
            f"  validation {v['step']}: PSNR {v['psnr']:.2f} dB (zero-filled {v['psnr_zero_filled']:.2f}), "
            f"SSIM {v['ssim']:.4f} (zero-filled {v['ssim_zero_filled']:.4f})"
            + (f"; one draw {v['psnr_sample']:.2f} dB" if "psnr_sample" in v else "")
        )
    spread = (
        f"H {v['entropy']:.2f}, KL {v['kl']:.4g}, tr {v['trace']:.4g}, log det {v['log_det']:.4g}, "
        if "entropy" in v
        else ""
    )
    times = f"S {v['S']}, T {v['T']:.3f}, " if v["T"] is not None else ""
    times += f"ρ {v['rho']:.3f}, " if v["rho"] is not None else ""
    times += f"γ {v['momentum']:.3f}, " if v["momentum"] is not None else ""
    return (
        f"step {v['step']}/{v['iterations']}: loss {v['loss']:.5g}, {times}lr {v['lr']:.2g}, "
        f"{spread}{1 / max(v['seconds_per_step'], 1e-9):.2f} it/s, {_duration(v['seconds_left'])} left"
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{seconds:.0f} s"
        if minutes < 2
        else f"{minutes} min"
        if minutes < 120
        else f"{minutes // 60} h {minutes % 60} min"
    )
