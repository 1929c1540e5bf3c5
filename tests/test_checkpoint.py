"""Checkpoints come back bit for bit, and what is damaged, foreign or half there is refused in one line."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import bayesmri
from bayesmri.checkpoint import load_checkpoint, load_model, prune, save_checkpoint, save_model
from bayesmri.errors import ModelError
from bayesmri.io.provenance import Seen, provenance
from bayesmri.model import Coils, Model
from bayesmri.physics.mask import random_mask
from bayesmri.regularizers.foe import FoE, FoEConfig
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.runs import best, checkpoints, latest
from bayesmri.training.settings import TrainConfig
from bayesmri.training.state import State, resume, snapshot, start, update
from study_runs import tiny as small
from training_runs import tiny


def trained(steps: int = 3) -> tuple[TrainConfig, State]:
    config = tiny()
    state = start(config)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        params = state.reg.weights() | {"T": state.T}
        grads = {n: torch.randn(p.shape, generator=rng) for n, p in params.items()}
        update(config, state, grads, progress=0)
    return config, state


def saved(folder: Path, psnr: float | None = None, steps: int = 3) -> Path:
    config, state = trained(steps)
    metrics = None if psnr is None else {"psnr": psnr}
    facts = {"config": {}, "threads": 1}
    checkpoint = snapshot(config, state, metrics=metrics, facts=facts, card={"name": "t"})
    return save_checkpoint(folder / "checkpoints", checkpoint)


def test_checkpoint_round_trip_is_exact(tmp_path: Path) -> None:
    config, state = trained()
    path = saved(tmp_path)
    again = resume(config, load_checkpoint(path))
    assert again.step == state.step == 3
    for name, weight in state.reg.weights().items():
        assert torch.equal(again.reg.weights()[name], weight)
        assert torch.equal(again.adam.m[name], state.adam.m[name])
        assert torch.equal(again.adam.v[name], state.adam.v[name])
        assert again.average is not None
        assert state.average is not None
        assert torch.equal(again.average[name], state.average[name])
    assert torch.equal(again.T, state.T)
    assert again.adam.t == state.adam.t
    model = load_model(tmp_path)
    assert state.T.item() == model.T
    assert state.average is not None
    assert all(torch.equal(w, state.average[n]) for n, w in model.regularizer.weights().items())


@pytest.mark.parametrize(
    "reg",
    [
        TDV(TDVConfig(Q=2, features=4, macroblocks=2, scales=2, blur=True), torch.Generator().manual_seed(1)),
        FoE(FoEConfig(Q=2, features=4, kernel_size=5), torch.Generator().manual_seed(1)),
    ],
    ids=["tdv", "foe"],
)
def test_models_reconstruct_the_same_after_loading(reg: TDV | FoE, tmp_path: Path) -> None:
    model = Model(reg, T=1.5, S=3, coils=Coils("virtual", 2), acceleration=4.0, card={"name": "x"})
    save_model(tmp_path / "x.json", model)
    again = load_model(tmp_path / "x.json")
    assert (again.T, again.S, again.coils, again.scaling) == (model.T, model.S, model.coils, model.scaling)
    assert (again.acceleration, again.card, again.n_parameters) == (4.0, {"name": "x"}, model.n_parameters)
    rng = torch.Generator().manual_seed(0)
    mask = random_mask(17, 3, rng=rng)
    z = mask * torch.randn(2, 5, 16, 17, dtype=torch.complex64, generator=rng)
    assert torch.equal(again.reconstruct(z, mask), model.reconstruct(z, mask))
    assert load_model(tmp_path).T == load_model(tmp_path / "x.safetensors").T == 1.5


def test_reconstruction_scales_with_its_input(tmp_path: Path) -> None:
    saved(tmp_path)
    model = load_model(tmp_path)
    rng = torch.Generator().manual_seed(0)
    mask = random_mask(20, 3, rng=rng)
    z = mask * torch.randn(1, 1, 16, 20, dtype=torch.complex64, generator=rng)
    torch.testing.assert_close(model.reconstruct(1024 * z, mask), 1024 * model.reconstruct(z, mask))
    with pytest.raises(ModelError, match="got data of 2 coils for a model of 1 raw"):
        model.reconstruct(z.expand(1, 2, 16, 20), mask)


@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".state.safetensors"])
@pytest.mark.parametrize("where", [0.01, 0.3, 0.9])
def test_a_flipped_bit_is_found(tmp_path: Path, suffix: str, where: float) -> None:
    path = saved(tmp_path)
    file = path.with_suffix(suffix)
    data = bytearray(file.read_bytes())
    data[int(where * len(data))] ^= 2
    file.write_bytes(bytes(data))
    with pytest.raises(ModelError) as error:
        load_checkpoint(path)
    assert "\n" not in str(error.value)
    assert latest(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 1, "sha256": ""}', "\x89PNG"])
def test_foreign_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(ModelError):
        load_model(tmp_path / "m.json")
    with pytest.raises(ModelError):
        load_model(tmp_path / "absent")
    with pytest.raises(ModelError):
        load_model(tmp_path)


def test_weights_are_never_taken_from_another_folder(tmp_path: Path) -> None:
    path = saved(tmp_path)
    record = json.loads(path.read_text())
    record["files"]["weights"]["name"] = "/etc/passwd"
    path.write_text(json.dumps(record))
    with pytest.raises(ModelError):
        load_model(path)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.with_suffix(".safetensors").unlink()
    with pytest.raises(ModelError, match="is missing beside"):
        load_model(path)


def test_last_whole_checkpoint_is_taken_and_the_best_survives_pruning(tmp_path: Path) -> None:
    for step, psnr in ((1, 20.0), (2, 30.0), (3, None), (4, 25.0), (5, 24.0)):
        saved(tmp_path, psnr, steps=step)
    assert best(tmp_path) == tmp_path / "checkpoints" / "step-00000002.json"
    prune(tmp_path, keep=2)
    assert [p.stem for p in checkpoints(tmp_path)] == ["step-00000002", "step-00000004", "step-00000005"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 9
    last = tmp_path / "checkpoints" / "step-00000005.state.safetensors"
    last.write_bytes(last.read_bytes()[:-9])
    found = latest(tmp_path)
    assert found is not None
    assert found.stem == "step-00000004"


def test_a_checkpoint_of_another_network_does_not_resume(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(ModelError, match="does not fit"):
        resume(tiny(model={"features": 6}), load_checkpoint(path))


def test_a_model_is_recorded_as_it_was_loaded(tmp_path: Path) -> None:
    """Whatever lies under its name by the time the result is written."""
    save_model(tmp_path / "a.json", small())
    before = hashlib.sha256((tmp_path / "a.json").read_bytes()).hexdigest()
    model = load_model(tmp_path / "a.json")
    save_model(tmp_path / "a.json", replace(small(), T=9.0))
    scan = bayesmri.undersample(bayesmri.simulate("head", shape=(24, 40)), 4)
    assert bayesmri.reconstruct(scan, model).model_file == Seen("a.json", before)
    record = provenance(command="x", config={}, seed=None, inputs=[Seen("a.json", before), tmp_path / "a.json"])
    first, second = record["inputs"]
    assert first == {"name": "a.json", "sha256": before}
    assert second["sha256"] != before
