"""Reconstructing with a posterior: means and standard deviations of samples, in values, files and commands."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import h5py
import nibabel
import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.checkpoint import Checkpoint, save_checkpoint, save_model
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace, slice_digest
from bayesmri.model import Coils, Model
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.recon import outputs
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file, undersample_file
from bayesmri.recon.method import make_method
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.samples import column_std
from bayesmri.recon.undersample import single_coil, undersample
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.report.panel import Tile, window
from bayesmri.runs import FOLDER
from bayesmri.sampler import Stream

H, W, N = 32, 36, 5
T = TypeVar("T")


def known(value: T | None) -> T:
    assert value is not None
    return value


def network(Q: int) -> TDV:
    return TDV(TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive"), torch.Generator().manual_seed(0))


def bayesian(Q: int = 1, *, width: float = 0.02, posterior: bool = True) -> Model:
    reg = network(Q)
    mu = {name: w.detach() for name, w in reg.weights().items()}
    gaussian = BlockGaussian(mu, initial_L(mu, reg.kernels(), width)) if posterior else None
    coils = Coils("raw" if Q == 1 else "virtual", Q)
    return Model(reg, T=2.0, S=3, coils=coils, scaling=Scaling(gain=20.0), card={"name": "tiny"}, posterior=gaussian)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_model(folder / "one.json", bayesian(1))
    save_model(folder / "two.json", bayesian(2))
    save_model(folder / "delta.json", bayesian(1, posterior=False))
    return folder


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scans")
    for name, coils in (("one", 1), ("three", 3)):
        request = PhantomRequest("head", "PD", (H, W), slices=2)
        simulate_file(request, folder / f"{name}.h5", coils=coils, snr_db=30, seed=coils)
    return folder


def sampled(scans: Path, name: str = "one", R: float = 4) -> KSpace:
    return undersample(read_kspace(scans / f"{name}.h5"), Sampling(R, seed=2))


def drawn(kspace: KSpace, model: Model, *, seed: int, n: int = N) -> torch.Tensor:
    """x_S of every slice and sample by hand, one at a time in odd order: (slices, n, Q, H, W)."""
    assert model.posterior is not None
    z, mask = torch.from_numpy(kspace.z), torch.from_numpy(kspace.mask)
    found = {}
    for i in reversed(range(n)):
        for s in reversed(range(len(z))):
            rng = Stream(seed, slice_digest(kspace.z[s], kspace.mask), s).rng(i)
            reg = model.regularizer.bind(model.posterior.sample(rng))
            found[s, i] = model.reconstruct(z, mask, reg=reg)[s]
    return torch.stack([torch.stack([found[s, i] for i in range(n)]) for s in range(len(z))])


@pytest.mark.parametrize(("name", "Q"), [("one", 1), ("three", 2)])
def test_mean_and_std_are_those_of_the_samples(scans: Path, name: str, Q: int) -> None:
    kspace, model = sampled(scans, name), bayesian(Q)
    result = bayesmri.reconstruct(kspace, model, samples=N, seed=7, keep_samples=True)
    x = drawn(kspace, model, seed=7)
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5 * float(result.mean.max())}
    np.testing.assert_allclose(known(result.samples), rss(x).numpy(), **close)
    np.testing.assert_allclose(result.mean, rss(x).mean(dim=1).numpy(), **close)
    np.testing.assert_allclose(known(result.std), rss(x).std(dim=1, unbiased=False).numpy(), **close)
    assert known(result.std).max() > 1e-3 * result.mean.max()  # far above those tolerances
    np.testing.assert_allclose(known(result.kspace_mean), fft2c(x).mean(dim=1).numpy(), **close)
    np.testing.assert_allclose(known(result.kspace_std), fft2c(x).std(dim=1, unbiased=False).numpy(), **close)
    np.testing.assert_allclose(known(result.coil_std), x.std(dim=1, unbiased=False).numpy(), **close)
    assert result.image is result.mean
    assert (result.n_samples, result.seed) == (N, 7)


def test_the_output_is_the_mean_of_magnitudes(scans: Path) -> None:
    """X̄ ≥ RSS of x̄ by the triangle inequality, and not equal."""
    result = bayesmri.reconstruct(sampled(scans), bayesian(), samples=N)
    of_mean = rss(ifft2c(torch.from_numpy(known(result.kspace_mean)))).numpy()
    assert (result.mean >= of_mean - 1e-5 * of_mean.max()).all()
    assert np.abs(result.mean - of_mean).max() > 1e-4 * of_mean.max()


def same(a: Reconstruction, b: Reconstruction) -> bool:
    return np.array_equal(known(a.samples), known(b.samples))


def test_samples_follow_seed_data_and_slice_alone(scans: Path) -> None:
    kspace, model = sampled(scans), bayesian()
    first = bayesmri.reconstruct(kspace, model, samples=3, seed=1, keep_samples=True)
    assert same(first, bayesmri.reconstruct(kspace, model, samples=3, seed=1, keep_samples=True))
    more = bayesmri.reconstruct(kspace, model, samples=N, seed=1, keep_samples=True)
    assert np.array_equal(known(more.samples)[:, :3], known(first.samples))
    assert not same(first, bayesmri.reconstruct(kspace, model, samples=3, seed=2, keep_samples=True))
    twins = KSpace(np.stack([kspace.z[0]] * 2), kspace.mask, kspace.header)
    pair = known(bayesmri.reconstruct(twins, model, samples=1, keep_samples=True).samples)
    assert not np.array_equal(pair[0], pair[1])


def test_keeping_samples_changes_nothing_else(scans: Path) -> None:
    kspace, model = sampled(scans), bayesian()
    lean = bayesmri.reconstruct(kspace, model, samples=3)
    full = bayesmri.reconstruct(kspace, model, samples=3, keep_samples=True)
    assert lean.samples is None
    assert known(full.samples).shape == (2, 3, H, W)
    assert np.array_equal(lean.mean, full.mean)
    assert np.array_equal(known(lean.std), known(full.std))


def test_without_samples_the_mean_of_theta_reconstructs(scans: Path) -> None:
    kspace, model = sampled(scans), bayesian()
    plain = bayesmri.reconstruct(kspace, model)
    assert plain.std is plain.deterministic is plain.samples is plain.kspace_std is None
    assert np.array_equal(plain.image, bayesmri.reconstruct(kspace, bayesian(posterior=False)).image)
    with_samples = bayesmri.reconstruct(kspace, model, samples=2)
    assert np.array_equal(known(with_samples.deterministic), plain.image)
    assert with_samples.deterministic_metrics() == plain.metrics() == plain.deterministic_metrics()


def test_a_narrow_posterior_is_sure(scans: Path) -> None:
    """σ̂ shrinks in proportion to L, and the mean tends to the reconstruction at μ."""
    kspace = sampled(scans)
    spreads = []
    for width in (1e-2, 1e-3):
        result = bayesmri.reconstruct(kspace, bayesian(width=width), samples=3)
        spreads.append(float(known(result.std).mean()))
    assert spreads[0] / spreads[1] == pytest.approx(10, rel=0.2)
    np.testing.assert_allclose(result.mean, known(result.deterministic), atol=5e-3 * float(result.mean.max()))


def test_scale_passes_through_to_the_standard_deviation(scans: Path) -> None:
    """One factor for the mean and σ̂; the draws follow the data's digest, so they are compared one by one."""
    kspace = sampled(scans)
    large = KSpace(kspace.z * np.float32(1024), kspace.mask, kspace.header)
    options = Options(model=bayesian(), samples=3)
    a, b = (reconstruct(k, options) for k in (kspace, replace(large, measured=kspace.z)))
    for name in ("mean", "std", "kspace_mean", "kspace_std", "coil_std"):
        small = getattr(a, name)
        np.testing.assert_allclose(getattr(b, name), 1024 * small, rtol=1e-3, atol=1e-2 * np.abs(small).max())


def test_acquired_lines_are_surer(scans: Path) -> None:
    result = bayesmri.reconstruct(sampled(scans), bayesian(), samples=N)
    acquired, missing = column_std(known(result.kspace_std), result.mask)
    assert missing is not None
    assert missing > acquired > 0
    full = np.ones_like(result.mask)
    everywhere, none = column_std(known(result.kspace_std), full)
    assert none is None
    share = result.mask.mean()
    assert everywhere**2 == pytest.approx(share * acquired**2 + (1 - share) * missing**2)


# --- files and commands


def test_the_file_holds_everything(scans: Path, models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    options = Options(model=str(models / "two.json"), samples=3, seed=5, keep_samples=True)
    made = reconstruct_file(scans / "three.h5", out, options, Sampling(4, seed=5), nifti=True, png=True)
    names = ["out.h5", "out.nii.gz", "out_std.nii.gz", "out.png"]
    assert [Path(p).name for p in made["outputs"]] == names
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    with h5py.File(out) as file:
        shapes = {name: (item.shape, item.dtype.name) for name, item in file.items() if name != "messages"}
        assert set(file["messages"]) == {"notes", "warnings"}
        record = json.loads(file.attrs["provenance"])
        std, samples = file["uncertainty_std"][()], file["samples"][()]
        mean = file["reconstruction"][()]
    image, grid = ((2, H, W), "float32"), (2, 2, H, W)
    assert shapes == {
        "reconstruction": image,
        "uncertainty_std": image,
        "deterministic": image,
        "zero_filled": image,
        "target": image,
        "mask": ((W,), "uint8"),
        "kspace_mean": (grid, "complex64"),
        "kspace_std": (grid, "float32"),
        "coil_std": (grid, "float32"),
        "samples": ((2, 3, H, W), "float32"),
    }
    np.testing.assert_allclose(mean, samples.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(std, samples.std(axis=1), rtol=1e-3, atol=1e-5 * mean.max())
    assert (record["seed"], record["config"]["samples"], record["config"]["model"]) == (5, 3, "two")
    assert len(record["inputs"]) == 2
    assert np.array_equal(nibabel.load(tmp_path / "out_std.nii.gz").get_fdata(), np.moveaxis(std, 0, -1))
    assert set(made["metrics"]) == {"zero-filled", "deterministic", "mean"}
    assert made["uncertainty"]["mean_std"] == pytest.approx(std.mean(), rel=1e-5)
    assert made["uncertainty"]["max_std"] == pytest.approx(std.max())
    json.dumps(made, allow_nan=False)


@pytest.mark.parametrize("with_truth", [True, False])
def test_the_panel_is_the_papers(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_truth: bool
) -> None:
    """Truth | zero filling | deterministic | mean | standard deviation with a colour bar | error."""
    kspace = sampled(scans)
    kspace = kspace if with_truth else KSpace(kspace.z, kspace.mask, kspace.header)
    result = bayesmri.reconstruct(kspace, bayesian(), samples=3)
    drawn_tiles: list[Tile] = []
    monkeypatch.setattr(outputs, "panel", lambda path, tiles, pixel_aspect, warnings: drawn_tiles.extend(tiles))
    outputs.write_panel(tmp_path / "p.png", result)
    heads = [title.split("\n")[0].split(" ×")[0] for title, _, _ in drawn_tiles]
    middle = ["zero-filled", "deterministic", "mean", "Std"]
    assert heads == (["Truth", *middle, "Error"] if with_truth else middle)
    title, shown, style = drawn_tiles[heads.index("Std")]
    assert np.array_equal(shown, known(result.std)[1])
    assert title.endswith("of 3 samples")
    assert style.label == "std, % of white"
    white = window(drawn_tiles[0][1])
    assert np.quantile(shown, 0.99) * style.scale <= white < 3 * style.scale * shown.max()


def test_the_model_is_recorded_by_its_checksum(scans: Path, models: Path, tmp_path: Path) -> None:
    def inputs(model: Path) -> list[dict[str, str]]:
        reconstruct_file(scans / "one.h5", tmp_path / "o.h5", Options(model=str(model)), Sampling(4), force=True)
        with h5py.File(tmp_path / "o.h5") as file:
            found: list[dict[str, str]] = json.loads(file.attrs["provenance"])["inputs"]
            return found

    scan, model = inputs(models / "one.json")
    assert (scan["name"], model["name"]) == ("one.h5", "one.json")
    assert inputs(models / "one.safetensors") == [scan, model]
    assert inputs(models / "delta.json")[1]["sha256"] != model["sha256"]
    alone = tmp_path / "alone"
    save_model(alone / "m.json", bayesian())
    assert inputs(alone)[1]["name"] == "m.json"
    run = tmp_path / "run"
    for step, psnr in ((1, 20.0), (2, 30.0), (3, 25.0)):
        save_checkpoint(run / FOLDER, Checkpoint(bayesian(), step, metrics={"psnr": psnr}))
    assert inputs(run)[1] == inputs(run / FOLDER)[1]
    assert inputs(run)[1]["name"] == "step-00000002.json"


def test_before_and_on_the_fly_and_from_python_are_the_same(scans: Path, models: Path, tmp_path: Path) -> None:
    options = Options(model=str(models / "one.json"), samples=3, seed=4, keep_samples=True)
    undersample_file(scans / "one.h5", tmp_path / "renamed.h5", Sampling(4, seed=4))
    reconstruct_file(tmp_path / "renamed.h5", tmp_path / "a.h5", options)
    reconstruct_file(scans / "one.h5", tmp_path / "b.h5", options, Sampling(4, seed=4))
    read = bayesmri.read(tmp_path / "renamed.h5")
    assert isinstance(read, KSpace)
    model = bayesmri.load_model(models / "one.json")
    result = bayesmri.reconstruct(read, model, samples=3, seed=4, keep_samples=True)
    assert result.method == "tiny"
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert np.array_equal(a["samples"][()], b["samples"][()])
        assert np.array_equal(a["samples"][()], known(result.samples))


def test_an_emulated_coil_draws_by_the_measured_ones(scans: Path, models: Path, tmp_path: Path) -> None:
    """Its fit may round differently elsewhere; what was measured does not."""
    options = Options(model=str(models / "one.json"), samples=2, single_coil=True, keep_samples=True)
    reconstruct_file(scans / "three.h5", tmp_path / "o.h5", options, Sampling(4, seed=2))
    full = read_kspace(scans / "three.h5")
    combined = undersample(single_coil(full), Sampling(4, seed=2))
    assert combined.contents() == [slice_digest(z, combined.mask) for z in full.z]
    by_hand = reconstruct(combined, options)
    with h5py.File(tmp_path / "o.h5") as file:
        assert np.array_equal(file["samples"][()], known(by_hand.samples))
    assert not same(by_hand, reconstruct(replace(combined, measured=None), options))


def test_the_command(scans: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["recon", str(scans / "one.h5"), "-o", str(tmp_path / "o.h5"), "--model", str(models / "one.json")]
    argv += ["--samples", "3", "--acceleration", "4"]
    assert main([*argv, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["samples"], made["seed"], made["method"]) == (3, 0, "one")
    with h5py.File(tmp_path / "o.h5") as file:
        assert "samples" not in file
    assert main([*argv, "--seed", "1", "--keep-samples", "--force"]) == 0
    shown = capsys.readouterr().out
    for words in ("zero-filled", "deterministic", "mean ", "3 samples per slice", "% of the mean image"):
        assert words in shown
    with h5py.File(tmp_path / "o.h5") as file:
        assert file["samples"].shape == (2, 3, H, W)


def test_progress_counts_samples(scans: Path, models: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    @contextmanager
    def progress(total: int) -> Iterator[Callable[[], None]]:
        seen.append(total)
        yield lambda: seen.append(1)

    for options, total in ((Options(model=str(models / "one.json"), samples=3), 6), (Options(method="tv"), 2)):
        seen.clear()
        reconstruct_file(scans / "one.h5", tmp_path / f"{total}.h5", options, Sampling(4), progress=progress)
        assert seen == [total, *[1] * total]


def test_a_cropped_image_crops_its_deviation(scans: Path) -> None:
    kspace = sampled(scans)
    header = type(kspace.header)(source="test", recon_shape=(20, 36))
    cropped = bayesmri.reconstruct(KSpace(kspace.z, kspace.mask, header), bayesian(), samples=2, keep_samples=True)
    whole = bayesmri.reconstruct(kspace, bayesian(), samples=2, keep_samples=True)
    for name in ("mean", "std", "deterministic", "samples"):
        assert np.array_equal(getattr(cropped, name), getattr(whole, name)[..., 6:26, :])
    assert known(cropped.kspace_std).shape == (2, 1, H, W)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--model", "{models}/delta.json", "--samples", "32"], "delta were asked for, which has no posterior"),
        (["--method", "tv", "--samples", "32"], "tv, which has no posterior"),
        (["--model", "{models}/one.json", "--samples", "-1"], "from 0 to 4096"),
        (["--model", "{models}/one.json", "--keep-samples"], "none drawn"),
        (["--model", "{models}/one.json", "--samples", "2", "--seed", "-4"], "seed -4"),
    ],
)
def test_what_cannot_be_sampled_gets_one_line(
    argv: list[str], words: str, scans: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(models=models) for word in argv]
    assert main(["recon", str(scans / "one.h5"), "-o", str(tmp_path / "o.h5"), *filled]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_python_refuses_alike(scans: Path) -> None:
    with pytest.raises(ModelError, match="no posterior: train one"):
        bayesmri.reconstruct(sampled(scans), bayesian(posterior=False), samples=4)
    with pytest.raises(ConfigError, match="no posterior"):
        bayesmri.reconstruct(sampled(scans), "tv", samples=4)
    with pytest.raises(ModelError, match="does not exist"):
        bayesmri.reconstruct(sampled(scans), "banana")


def test_a_loaded_model_stays_as_it_was(scans: Path) -> None:
    model = bayesian()
    before = {name: w.clone() for name, w in model.regularizer.weights().items()}
    bayesmri.reconstruct(sampled(scans), model, samples=2)
    assert all(torch.equal(w, before[name]) for name, w in model.regularizer.weights().items())
    assert make_method(Options(model=model)).parameters == model.n_parameters
