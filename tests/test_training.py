"""The loss and schedules are the paper's, killed runs go on bit for bit, two processes learn what one does."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from bayesmri.checkpoint import load_checkpoint, load_model
from bayesmri.complexes import rss
from bayesmri.config import dump_toml
from bayesmri.data.dataset import Dataset, Recipe, make_element
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.errors import ConfigError, ModelError
from bayesmri.metrics import psnr, ssim
from bayesmri.physics.fidelity import fidelity
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.runs import checkpoints, latest
from bayesmri.solver import unroll
from bayesmri.training.distributed import World
from bayesmri.training.loop import gradients
from bayesmri.training.loss import LossConfig, loss
from bayesmri.training.optimizer import Adam, clip_norm
from bayesmri.training.plan import plan
from bayesmri.training.run_folder import read_config, train
from bayesmri.training.schedule import OptimizerConfig, UnrollConfig, rate, resets, unrolled_steps
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import start, update
from training_runs import tiny

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 600  # seconds; a busy machine imports torch slowly, and an idle one never waits that long

pytestmark = pytest.mark.timeout(3 * PATIENCE)


def silent(event: str, values: dict[str, Any]) -> None:
    """Nobody listens."""


def as_it_is(reg: Any) -> Any:
    return reg


def final_weights(run: Path, step: int = 12) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step-{step:08d}.state.safetensors")


def assert_same_run(a: Path, b: Path) -> None:
    one, two = final_weights(a), final_weights(b)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


# loss


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_loss_is_the_formula(reduction: Any) -> None:
    rng = torch.Generator().manual_seed(0)
    X, Y = torch.rand(3, 20, 17, generator=rng), torch.rand(3, 20, 17, generator=rng)
    got = loss(X, Y, LossConfig(tau=0.7, reduction=reduction))
    for i in range(3):
        distance = sum(abs(float(a) - float(b)) for a, b in zip(X[i].flatten(), Y[i].flatten(), strict=True))
        norm = distance if reduction == "sum" else distance / (20 * 17)
        similarity = ssim(X[i][None] / Y[i].max(), Y[i][None] / Y[i].max())  # range: the maximum, here made 1
        ranged = loss(X / Y[i].max(), Y / Y[i].max(), LossConfig(tau=1.0, reduction=reduction))[i]
        assert float(loss(X, Y, LossConfig(tau=0.0, reduction=reduction))[i]) == pytest.approx(norm, rel=1e-5)
        assert float(ranged) == pytest.approx(norm / float(Y[i].max()) + 1 - similarity, rel=1e-4)
    assert float(loss(Y, Y, LossConfig(tau=0.7))[0]) == pytest.approx(0, abs=1e-5)
    assert got.shape == (3,)


# schedules


def test_schedule_of_the_paper() -> None:
    config = read_config(ROOT / "configs" / "paper-single-r4.toml")
    S = {step: unrolled_steps(config.unroll, step) for step in (0, 7_499, 7_500, 97_499, 97_500, 119_999)}
    assert S == {0: 2, 7_499: 2, 7_500: 3, 97_499: 14, 97_500: 15, 119_999: 15}
    lr = {step: config.optimizer.lr * rate(config.optimizer, step, progress=0) for step in (0, 49_999, 50_000, 100_000)}
    assert lr == {0: 1e-4, 49_999: 1e-4, 50_000: 5e-5, 100_000: 2.5e-5}
    looked = (0, 1, 49_999, 50_000, 50_001, 100_000)
    assert [step for step in looked if resets(config.optimizer, step)] == [50_000, 100_000]


def test_cosine_falls_from_one_to_its_end() -> None:
    config = OptimizerConfig(schedule="cosine", final=0.1, warmup=4)
    values = [rate(config, 100, progress=p / 10) for p in range(11)]
    assert values[0] == 1
    assert values[-1] == pytest.approx(0.1)
    assert values == sorted(values, reverse=True)
    assert [rate(config, k, progress=0) for k in range(4)] == [0.25, 0.5, 0.75, 1]


def test_unroll_never_passes_its_end() -> None:
    config = UnrollConfig(S_start=3, S_every=2, S_max=5)
    assert [unrolled_steps(config, k) for k in range(8)] == [3, 3, 4, 4, 5, 5, 5, 5]


# optimizer


def test_adam_is_torchs_adam_until_it_is_reset() -> None:
    rng = torch.Generator().manual_seed(0)
    ours, theirs = torch.randn(5, generator=rng), torch.nn.Parameter(torch.zeros(5))
    with torch.no_grad():
        theirs.copy_(ours)
    adam = Adam({"p": ours}, betas=(0.5, 0.9), eps=1e-8)
    reference = torch.optim.Adam([theirs], lr=0.1, betas=(0.5, 0.9), eps=1e-8)
    for k in range(12):
        if k == 6:
            adam.reset()
            reference = torch.optim.Adam([theirs], lr=0.05, betas=(0.5, 0.9), eps=1e-8)
        g = torch.randn(5, generator=rng)
        theirs.grad = g.clone()
        reference.step()
        adam.step({"p": g}, {"p": 0.1 if k < 6 else 0.05})
        torch.testing.assert_close(ours, theirs.detach())


def test_moments_reset_and_rate_halves_after_n_updates() -> None:
    config = tiny(optimizer={"lr": 0.1, "halve_every": 3, "reset_every": 3, "ema": 0.0})
    state = start(config)
    name = "mb0_down0"
    sizes = []
    for _ in range(6):
        before = state.reg.weights()[name].detach().clone()
        grads = {n: torch.ones_like(p) for n, p in (state.reg.weights() | {"T": state.T}).items()}
        update(config, state, grads, progress=0)
        sizes.append(float((state.reg.weights()[name].detach() - before).abs().mean()))
    assert sizes == pytest.approx([0.1] * 3 + [0.05] * 3, rel=1e-4)
    assert state.adam.t == 3


def test_T_stays_at_or_above_zero_and_K0_in_its_set() -> None:
    config = tiny(optimizer={"lr_T": 100.0, "lr": 0.5})
    state = start(config)
    grads = {n: torch.ones_like(p) for n, p in (state.reg.weights() | {"T": state.T}).items()}
    update(config, state, grads, progress=0)
    assert state.T.item() == 0
    K0 = state.reg.weights()["K0"].detach()
    assert float(K0.mean(dim=(1, 2, 3)).abs().max()) < 1e-6
    assert float(torch.linalg.vector_norm(K0, dim=(1, 2, 3)).max()) <= 1 + 1e-6


def test_clipping_keeps_the_direction() -> None:
    grads = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}
    clipped = clip_norm(grads, 1.0)
    assert [float(g) for g in clipped.values()] == pytest.approx([0.6, 0.8])
    assert clip_norm(grads, 10.0)["a"] == 3
    assert clip_norm(grads, 0.0) is grads


# learning


@pytest.mark.slow
def test_training_overfits_one_noise_free_slice() -> None:
    """From zero filling up by at least 10 dB."""
    torch.set_num_threads(1)
    X = phantom(PhantomSpec(anatomy="knee", shape=(32, 32)), rng=torch.Generator().manual_seed(3))
    recipe = Recipe(mask=MaskSpec(acceleration=3.0, center_fraction=0.1))
    batch = make_element(X.to(torch.complex64), recipe, patch_rows=None, rng=torch.Generator().manual_seed(1))
    config = tiny(
        model={"features": 16, "init_scale": 8.0},
        unroll={"T0": 4.0, "S_start": 6, "S_max": 6},
        optimizer={"lr": 5e-3, "lr_T": 3e-2, "betas": [0.9, 0.99], "schedule": "cosine", "reset_every": 0, "ema": 0.0},
        loss={"tau": 0.0},
        train={"batch": 1, "recompute": False},
    )
    state, n = start(config), 600
    for k in range(n):
        _, grads, _ = gradients(config, state, [batch], accelerate=as_it_is, world=World(), extra=torch.zeros(1))
        update(config, state, grads, progress=k / n)
    assert isinstance(state.reg, ParametricRegularizer)
    with torch.no_grad():
        X_S = rss(unroll(batch.z, batch.mask, state.reg, T=state.T.item(), S=6))
    gain = psnr(X_S, batch.Y) - psnr(rss(ifft2c(batch.z)), batch.Y)
    assert gain >= 10


def test_gradients_of_shares_add_up_to_those_of_the_batch() -> None:
    config = tiny()
    state = start(config)
    data = Dataset(config.data, config.recipe(), seed=1)
    none = torch.zeros(1)

    def part(indices: range) -> tuple[float, dict[str, torch.Tensor]]:
        J, g, _ = gradients(config, state, data.batches(0, indices), accelerate=as_it_is, world=World(), extra=none)
        return J, g

    (J, g), (J0, g0), (J1, g1) = part(range(2)), part(World(0, 2).share(2)), part(World(1, 2).share(2))
    assert pytest.approx(J0 + J1, rel=1e-5) == J
    for name in g:
        torch.testing.assert_close(g[name], g0[name] + g1[name], rtol=1e-3, atol=1e-5)


# runs


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run in a process of its own."""
    run = tmp_path_factory.mktemp("straight") / "run"
    _train(tiny(), run)
    return run


def _train(config: TrainConfig, run: Path, *more: str, processes: int = 0) -> None:
    """A whole training in a process of its own."""
    with _spawned(config, run, *more, processes=processes) as process:
        assert process.wait(PATIENCE) == 0, _log(run)


@contextmanager
def _spawned(config: TrainConfig, run: Path, *more: str, processes: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    """`bayesmri train` in a process of its own, which ends with the block; what it says goes to `run`.log."""
    run.parent.mkdir(parents=True, exist_ok=True)
    path = run.with_suffix(".toml")
    path.write_text(dump_toml(config), encoding="utf-8")
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    head = [sys.executable]
    if processes:  # by the loopback alone: the name of a machine need not lead to it
        env |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
        head += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
        head += ["--nproc-per-node", str(processes)]
    command = [*head, "-m", "bayesmri", "train", str(path), "--out", str(run), *more]
    with (
        run.with_suffix(".log").open("ab") as log,
        subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _log(run: Path) -> str:
    return run.with_suffix(".log").read_text(errors="replace")[-2000:]


def _slow(config: TrainConfig) -> TrainConfig:
    """More steps, so that there is something to interrupt."""
    return replace(config, train=replace(config.train, iterations=10_000))


def _wait_for_step(process: "subprocess.Popen[bytes]", run: Path, step: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any(int(p.stem[5:]) >= step for p in checkpoints(run)):
        assert process.poll() in (None, 0), _log(run)
        assert time.monotonic() < deadline, f"no checkpoint in {PATIENCE} s: {_log(run)}"
        time.sleep(0.02)


def test_a_run_leaves_what_it_promises(straight: Path) -> None:
    lines = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [2, 4, 6, 8, 10, 12]
    assert [line["step"] for line in lines if line["kind"] == "val"] == [4, 8, 12]
    assert all(math.isfinite(line["loss"]) for line in lines if line["kind"] == "train")
    assert len(list((straight / "samples").glob("*.png"))) == 3
    assert len(checkpoints(straight)) <= 4
    assert read_config(straight / "config.toml") == tiny()
    model = load_model(straight)
    assert model.acceleration == 4.0
    assert model.card["name"] == "tiny"


def test_resuming_after_a_kill_is_bit_identical(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with _spawned(tiny(), run) as process:
        _wait_for_step(process, run, 4)
        process.kill()
    with (run / "metrics.jsonl").open("a") as journal:
        journal.write('{"kind": "train", "step": 99, "lo')  # a line torn by the kill
    _train(tiny(), run, "--resume")
    assert_same_run(straight, run)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


@pytest.mark.slow
@pytest.mark.timeout(6 * PATIENCE)
def test_twenty_kills_at_random_moments(straight: Path, tmp_path: Path) -> None:
    """Twenty runs, each killed once at a random moment (before, between or during checkpoints) and resumed."""
    rng = random.Random(0)
    for n in range(20):
        run = tmp_path / f"run{n}"
        with _spawned(tiny(), run) as process:
            time.sleep(rng.uniform(2.0, 8.0))
            process.kill()
        _train(tiny(), run, "--resume")
        assert_same_run(straight, run)


def test_small_steps_of_a_trained_model_never_increase_the_energy(straight: Path) -> None:
    """D + R falls along x_{s+1} = prox_{hD}(x_s − h∇R(x_s)) for small h, on held-out data in the model's own scale."""
    reg = load_model(straight).regularizer.double()
    assert isinstance(reg, ParametricRegularizer)
    volume = next(iter(Dataset(tiny().data, tiny().recipe(), seed=1).validation()))
    z, mask = volume.z[:1].to(torch.complex128), volume.mask
    energies: list[float] = []

    def record(_: int, x: Tensor) -> None:
        energies.append(float(fidelity(x, z, mask) + reg.energy(x).sum()))

    with torch.no_grad():
        record(0, ifft2c(z))
        unroll(z, mask, reg, T=0.05, S=20, callback=record)
    assert all(after < before for before, after in pairwise(energies))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_with_a_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    with _spawned(_slow(tiny()), run) as process:
        _wait_for_step(process, run, 2)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0, _log(run)
    path = latest(run)
    assert path is not None
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert load_checkpoint(path).step == last["step"]


def test_two_processes_follow_the_curve_of_one(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _train(tiny(), run, processes=2)

    def curve(path: Path) -> list[float]:
        lines = (json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if line["kind"] == "train"]

    assert curve(run) == pytest.approx(curve(straight), rel=1e-3)


def test_a_used_folder_is_refused_without_resume(straight: Path) -> None:
    with pytest.raises(ConfigError, match="--resume"):
        train(tiny(), straight, say=silent)


def test_resume_without_a_checkpoint_starts_at_the_beginning(tmp_path: Path) -> None:
    config = tiny(train={"iterations": 2})
    result = train(config, tmp_path / "run", resume=True, say=silent)
    assert (result["step"], result["resumed_from"]) == (2, 0)


def test_divergence_stops_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    config = tiny(optimizer={"lr": 1e30, "lr_T": 1e30, "clip": 0.0}, train={"checkpoint_every": 1})
    with pytest.raises(ModelError, match="training diverged") as error:
        train(config, tmp_path / "run", say=silent)
    assert "\n" not in str(error.value)


def test_time_limit_ends_the_run(tmp_path: Path) -> None:
    config = tiny(train={"iterations": 100_000, "max_minutes": 0.02})
    result = train(config, tmp_path / "run", say=silent)
    assert result["ended"] == "time"
    path = latest(tmp_path / "run")
    assert path is not None
    checkpoint = load_checkpoint(path)
    assert checkpoint.step == result["step"]
    assert checkpoint.metrics is not None  # judged, so that it can be the best of the run


def test_a_finished_run_resumes_to_nothing(straight: Path) -> None:
    before = final_weights(straight)
    result = train(tiny(), straight, resume=True, say=silent)
    assert (result["ended"], result["step"]) == ("finished", 12)
    assert all(torch.equal(final_weights(straight)[name], before[name]) for name in before)


def test_the_loss_does_not_depend_on_the_gain() -> None:
    """Without a regularizer step (T = 0) the gain cancels."""
    losses = []
    for gain in (1.0, 20.0):
        config = tiny(scaling={"gain": gain}, unroll={"T0": 0.0})
        batches = Dataset(config.data, config.recipe(), seed=1).batches(0, range(2))
        J, _, _ = gradients(config, start(config), batches, accelerate=as_it_is, world=World(), extra=torch.zeros(1))
        losses.append(J)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_training_continues_from_another_model(straight: Path, tmp_path: Path) -> None:
    config = tiny(train={"init_from": str(straight), "iterations": 1}, optimizer={"lr": 0.0, "lr_T": 0.0, "ema": 0.0})
    train(config, tmp_path / "run", say=silent)
    start, end = load_model(straight), load_model(tmp_path / "run")
    assert end.T == start.T
    for name, weight in start.regularizer.weights().items():
        torch.testing.assert_close(end.regularizer.weights()[name], weight, rtol=1e-5, atol=1e-7)


def test_a_run_with_more_steps_keeps_the_step_of_its_model(straight: Path, tmp_path: Path) -> None:
    unroll = {"keep": "h", "S_start": 7, "S_max": 9}
    still = {"lr": 0.0, "lr_T": 0.0, "ema": 0.0}
    config = tiny(train={"init_from": str(straight), "iterations": 1}, unroll=unroll, optimizer=still)
    train(config, tmp_path / "run", say=silent)
    start, end = load_model(straight), load_model(tmp_path / "run")
    assert end.S == 7
    h = end.T / end.S
    assert h == pytest.approx(start.T / start.S)


def test_dry_run_tells_parameters_data_schedule_and_cost() -> None:
    facts = plan(tiny())
    assert facts["parameters"] == 4 * 18 + 4 * 4 * 9 * 8 + 4 + 1
    assert facts["data"]["train"]["slices"] + facts["data"]["validation"]["slices"] == 4
    assert [row["S"] for row in facts["schedule"]][:2] == [1, 2]
    assert facts["expected"]["memory_bytes"] > 0
    assert facts["expected"]["seconds"] > 0
    json.dumps(facts)


def test_dry_run_of_the_paper_counts_its_parameters() -> None:
    facts = plan(read_config(ROOT / "configs" / "paper-single-r4.toml"))
    assert facts["parameters"] == 2_213_056 + 1
    assert "does not exist" in facts["data"]["missing"]
