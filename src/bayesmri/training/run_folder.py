"""Training from a configuration file into a run folder: config.toml, metrics.jsonl, samples/, checkpoints/."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bayesmri.checkpoint import Checkpoint, load_checkpoint, load_model, prune, save_checkpoint
from bayesmri.config import as_dict, check_seed, dump_toml, override, parse, read_toml
from bayesmri.data.dataset import Dataset
from bayesmri.errors import ConfigError, DivergedError, ModelError, OutputError
from bayesmri.io.atomic import atomic_path
from bayesmri.io.locks import exclusive
from bayesmri.io.provenance import provenance
from bayesmri.io.write_png import write_png
from bayesmri.machine.devices import check_device
from bayesmri.machine.memory import give_memory_back
from bayesmri.registry import load_installed
from bayesmri.runs import FOLDER, checkpoints, latest
from bayesmri.training import state as states
from bayesmri.training.compilation import accelerator
from bayesmri.training.distributed import join, leave
from bayesmri.training.journal import JOURNAL, TIMED, TIMES, Journal
from bayesmri.training.loop import Hooks, Report, no_hooks, run
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import State, snapshot
from bayesmri.training.validation import Scores

Say = Callable[[str, dict[str, Any]], None]

GO_ON = "once there is room, --resume goes on"


def read_config(path: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """A training configuration with `--section.key value` applied; unknown keys are refused."""

    load_installed()
    config = parse(TrainConfig, override(read_toml(path), overrides))
    check_seed(config.seed)
    return config


def train(config: TrainConfig, out: Path, *, resume: bool = False, say: Say) -> dict[str, Any]:
    """Train into the folder `out`; returns where the run ended.

    resume: go on from the last whole checkpoint. say: called with an event's name and its values (log, val, note).
    """

    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    device = check_device(config.train.device)
    if config.train.recompute:
        give_memory_back()
    world, lock = join(device), ExitStack()
    try:
        if world.writes:
            lock.enter_context(exclusive(out, lambda text: say("note", {"text": text})))
        state, before = _begin(config, out, device, resume=resume, say=say if world.writes else _silent)
        dataset = Dataset(config.data, config.recipe(), seed=config.seed)
        if world.writes:
            for note in dataset.catalog.notes:
                say("note", {"text": note})
        volumes = list(dataset.validation()) if world.writes else []
        hooks = _hooks(config, out, state, dataset, say) if world.writes else no_hooks()
        accelerate = accelerator(config, first=state.step, device=device, say=lambda text: say("note", {"text": text}))
        ended = run(config, state, dataset, volumes, hooks, accelerate=accelerate, world=world)
    except DivergedError as error:
        raise ModelError(f"{error}; {_way_out(out)}") from error
    finally:
        lock.close()
        leave()
    return {"ended": ended, "step": state.step, "T": state.T.item(), "resumed_from": before, "run": str(out)}


def _way_out(out: Path) -> str:
    """What to do after a divergence; a checkpoint is named where there is one without NaN or Inf."""

    lower = "a lower optimizer.lr or optimizer.lr_T, or with optimizer.clip"
    path = latest(out)
    if path is None:
        return f"no checkpoint was written yet: start again with {lower}"
    checkpoint = load_checkpoint(path)
    if not all(bool(t.isfinite().all()) for t in checkpoint.state.values()):
        return f"the last checkpoint, of step {checkpoint.step}, holds NaN or Inf: start again with {lower}"
    return f"--resume goes on from the checkpoint of step {checkpoint.step}, with {lower}; else start again"


def _silent(event: str, values: dict[str, Any]) -> None:
    """Only the first process speaks."""


def _begin(config: TrainConfig, out: Path, device: torch.device, *, resume: bool, say: Say) -> tuple[State, int]:
    """The state to go on from, and its step."""

    if not resume:
        if checkpoints(out):
            raise ConfigError(f"{out} already holds a run: add --resume to go on with it, or give another --out folder")
        return _first(config, device), 0
    path = latest(out)
    if path is None:
        say("note", {"text": f"{out} holds no checkpoint yet: training starts from the beginning"})
        return _first(config, device), 0
    checkpoint = load_checkpoint(path)
    _compare(config, checkpoint, say)
    state = states.resume(config, checkpoint, device=device)
    say("note", {"text": f"resuming from step {state.step}"})
    return state, state.step


def _first(config: TrainConfig, device: torch.device) -> State:
    """The state before the first update, from other runs where the configuration names some."""
    names = (config.train.init_from, config.train.init_L_from)
    origin, of_L = (None if name is None else load_model(name) for name in names)
    return states.start(config, origin, origin_of_L=of_L, device=device)


def _compare(config: TrainConfig, checkpoint: Checkpoint, say: Say) -> None:
    """What differs from the saved run is said, not forbidden: it is the user's experiment."""

    saved, now = checkpoint.facts["config"], as_dict(portable(config))
    changed = [
        f"{s}.{k}"
        for s in now
        if isinstance(now[s], dict) and s in saved  # what is newer than the saved run cannot differ from it
        for k in now[s]
        if saved[s].get(k, now[s][k]) != now[s][k]
    ]
    if changed:
        say("note", {"text": f"the configuration differs from the saved run in {', '.join(changed)}"})
    if checkpoint.facts["threads"] != torch.get_num_threads():
        say(
            "note",
            {
                "text": f"{torch.get_num_threads()} threads now, {checkpoint.facts['threads']} before: "
                "results will agree to rounding, not in bits"
            },
        )


def portable(config: TrainConfig) -> TrainConfig:
    """The configuration with no path from the root, which would tell whose machine it was: as seen from the working
    folder, where `distill`, `publish` and `posterior` find the data again."""

    def seen_from_here(path: str | None) -> str | None:
        return os.path.relpath(path) if path is not None and Path(path).is_absolute() else path

    sources = tuple(replace(source, path=seen_from_here(source.path)) for source in config.data.sources)
    origin, of_L = map(seen_from_here, (config.train.init_from, config.train.init_L_from))
    run = replace(config.train, init_from=origin, init_L_from=of_L)
    return replace(config, data=replace(config.data, sources=sources), train=run)


def _hooks(config: TrainConfig, out: Path, state: State, dataset: Any, say: Say) -> Hooks:
    """Journal, pictures and checkpoints of the writing process."""

    recorded = portable(config)
    with atomic_path(out / "config.toml") as temporary:
        temporary.write_text(dump_toml(recorded), encoding="utf-8")
    over = state.step >= config.train.iterations
    journal, times = (Journal(out / name, until=state.step, over=over) for name in (JOURNAL, TIMES))
    facts = {"config": as_dict(recorded), "threads": torch.get_num_threads()}
    record = provenance(
        command="train", config=as_dict(recorded), seed=config.seed, inputs=[], threads=torch.get_num_threads()
    )
    card = {"name": config.name, "data": data_facts(dataset), "provenance": record}

    def log(report: Report) -> None:
        values = {k: v for k, v in asdict(report).items() if k not in ("step", "posterior")} | report.posterior
        due = report.step % config.train.log_every == 0
        with _writing(journal.path):
            journal.write("train", report.step, {k: v for k, v in values.items() if k not in TIMED}, due=due)
        with _writing(times.path):
            times.write("time", report.step, {k: values[k] for k in TIMED})
        say("log", {"step": report.step, "iterations": config.train.iterations, **values})

    def validated(step: int, scores: Scores) -> None:
        with _writing(journal.path):
            journal.write("val", step, scores.plain(), due=step % config.train.val_every == 0)
        say("val", {"step": step, **scores.plain()})

    def sample(step: int, scores: Scores) -> None:
        _picture(out / "samples" / f"step-{step:08d}.png", scores)

    def save(state: State, scores: Scores | None) -> None:
        metrics = None if scores is None else scores.plain()
        path = out / FOLDER / f"step-{state.step:08d}.json"
        try:
            with _writing(path):
                save_checkpoint(out / FOLDER, snapshot(config, state, metrics=metrics, facts=facts, card=card))
        except OutputError:
            _drop_half(path)
            raise
        prune(out, keep=config.train.keep)

    return Hooks(log=log, validated=validated, sample=sample, save=save)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the system refuses names the file and what to do."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; {GO_ON}") from error
    except OutputError as error:
        raise OutputError(f"{error}; {GO_ON}") from error


def _drop_half(path: Path) -> None:
    """Files of a checkpoint whose JSON was not written; one that was there before is left alone."""
    if not path.exists():
        for suffix in (".safetensors", ".state.safetensors"):
            with suppress(OSError):
                path.with_suffix(suffix).unlink(missing_ok=True)


def _picture(path: Path, scores: Scores) -> None:
    """zero-filled | reconstruction | truth | error x 4 in one row."""

    X0, X, Y = (image.numpy() for image in scores.pictures)
    write_png(path, np.concatenate((X0, X, Y, 4 * np.abs(X - Y)), axis=1), vmax=float(Y.max()))


def data_facts(dataset: Any) -> dict[str, Any]:
    """What was found, in numbers."""
    catalog = dataset.catalog
    sides = {"train": catalog.train, "validation": catalog.val}
    return {
        side: {
            "volumes": len(volumes),
            "subjects": len({v.subject for v in volumes}),
            "slices": sum(v.slices for v in volumes),
            "sources": sorted({v.name for v in volumes if v.path is not None}),
        }
        for side, volumes in sides.items()
    } | {"left_out": list(catalog.notes)}
