"""Where the scale is given, a slice alone and the same slice in its volume are the same image, bit by bit."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import bayesmri
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace
from bayesmri.machine.crew import at_work
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import PhantomRequest, ScanFile, simulate_file
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.undersample import undersample
from bayesmri.recon.work import sampled_volume
from study_runs import tiny

SLICES = 3


def volume(folder: Path, coils: int, *, slices: int = SLICES) -> Path:
    """The middle slices are the brightest."""
    path = folder / f"{coils}.h5"
    if not path.exists():
        simulate_file(PhantomRequest("head", "PD", (31, 36), slices=slices), path, coils=coils, snr_db=30, seed=coils)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


def sampled(folder: Path, coils: int) -> KSpace:
    return undersample(read_kspace(volume(folder, coils)), Sampling(4.0, seed=2))


METHODS: dict[str, tuple[int, dict[str, Any]]] = {
    "tv": (1, {"method": "tv"}),
    "tv of three coils": (3, {"method": "tv"}),
    "l1-wavelet of two virtual coils": (3, {"method": "l1-wavelet", "coils": 2}),
    "a model of one coil": (1, {"model": tiny()}),
    "a model of two virtual coils": (3, {"model": tiny(2)}),
    "a model of sensitivities, ten coils": (10, {"model": "tdv-r4"}),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_slice_alone_is_what_it_is_in_its_volume(folder: Path, name: str) -> None:
    coils, options = METHODS[name]
    scan = sampled(folder, coils)
    free = reconstruct(scan, Options(**options))
    assert free.scale is not None
    whole = reconstruct(scan, Options(**options, scale=free.scale))
    assert whole.scale == free.scale
    if coils == 1:  # nothing but the scale is the volume's
        np.testing.assert_array_equal(whole.mean, free.mean)
    differ = []
    for s in range(SLICES):
        part = scan.part(slice(s, s + 1))
        alone = reconstruct(part, Options(**options, scale=free.scale))
        np.testing.assert_array_equal(alone.mean[0], whole.mean[s])
        differ.append(not np.array_equal(reconstruct(part, Options(**options)).mean[0], whole.mean[s]))
    assert any(differ)  # without it the slice is another image


def test_samples_of_the_first_slice_and_left_out_lines_are_the_same_too(folder: Path) -> None:
    """The i-th sample is of the seed, the data, the place of the slice and i: only the first keeps its place alone."""
    scan, model = sampled(folder, 1), tiny()
    whole = reconstruct(scan, Options(model=model, samples=3, seed=5, keep_samples=True))
    asked = Options(model=model, samples=3, seed=5, keep_samples=True, scale=whole.scale)
    first, second = (reconstruct(scan.part(slice(s, s + 1)), asked) for s in (0, 1))
    assert whole.samples is not None
    assert first.samples is not None
    assert second.samples is not None
    assert whole.std is not None
    assert first.std is not None
    assert second.deterministic is not None
    assert whole.deterministic is not None
    np.testing.assert_array_equal(first.samples[0], whole.samples[0])
    np.testing.assert_array_equal(first.std[0], whole.std[0])
    np.testing.assert_array_equal(second.deterministic[0], whole.deterministic[1])
    assert not np.array_equal(second.samples[0], whole.samples[1])


def test_left_out_lines_and_tuning_take_the_scale(folder: Path) -> None:
    scan, model = sampled(folder, 1), tiny(width=None)
    own = reconstruct(scan, Options(model=model, check=True)).scale
    assert own is not None
    one, other = (reconstruct(scan, Options(model=model, check=True, scale=s)).expected for s in (own, 3 * own))
    assert one == reconstruct(scan, Options(model=model, check=True)).expected
    assert one != other
    tuned = [reconstruct(scan, Options(model=model, tune=True, scale=s)) for s in (own, 3 * own)]
    assert tuned[0].tuned != tuned[1].tuned
    np.testing.assert_array_equal(tuned[0].mean, reconstruct(scan, Options(model=model, tune=True)).mean)


def test_other_processes_take_it_too(folder: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    from test_cluster import Mail, same

    asked = Options(model=tiny(2), samples=3, seed=1, check=True, scale=0.7)
    scan = sampled(folder, 3)
    origin = partial(sampled_volume, ScanFile(volume(folder, 3)).read, single=False, sampling=Sampling(4.0, seed=2))
    with at_work(Mail(3)):
        same(reconstruct(scan, asked), reconstruct(scan, asked, origin=origin))
    np.testing.assert_array_equal(reconstruct(scan, asked).mean, reconstruct(scan, asked, origin=origin).mean)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), -float("inf")])
def test_a_scale_that_is_none_is_one_line(folder: Path, scale: float, capsys: pytest.CaptureFixture[str]) -> None:
    for use in (bayesmri.reconstruct, bayesmri.check):
        with pytest.raises(BayesMRIError, match=r"got the scale .*, expected a positive number") as caught:
            use(sampled(folder, 1), "tv", scale=scale)
        assert "\n" not in str(caught.value)
    scan, words = str(volume(folder, 1)), [f"--scale={scale}", "--acceleration", "4"]
    for command in (["recon", scan, *words], ["recon", scan, scan, "-o", "x", *words]):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["whatif", scan, "--erase", "18,16,2", "--method", "tv", *words]) == 2
    assert "got the scale" in capsys.readouterr().err


def test_a_scale_of_other_data_is_told_and_one_without_sense_refused(folder: Path) -> None:
    scan = sampled(folder, 1)
    own = bayesmri.reconstruct(scan, "tv").scale
    assert own is not None
    for factor, warned in ((1.0, False), (1.9, False), (0.51, False), (0.4, True), (2000.0, True)):
        warnings = bayesmri.reconstruct(scan, "tv", scale=factor * own).warnings
        assert any("far from that of this data" in text for text in warnings) == warned
    for scale in (1e-300, 1e300):
        with pytest.raises(BayesMRIError, match="expected one of the same volume"):
            bayesmri.reconstruct(scan, "tv", scale=scale)


def test_the_command_records_it_and_skips_by_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(tmp_path / "m.json", tiny(width=None))
    scan, words = str(volume(folder, 1)), ["--model", "m.json"]
    assert main(["undersample", scan, "-o", "r4.h5", "--acceleration", "4"]) == 0
    capsys.readouterr()
    assert main(["recon", "r4.h5", "-o", "whole.h5", *words, "--json"]) == 0
    scale = json.loads(capsys.readouterr().out)["scale"]
    with h5py.File("whole.h5") as file:
        assert file["reconstruction"].attrs["scale"] == scale
        assert json.loads(file.attrs["provenance"])["config"]["scale"] is None
        image = file["reconstruction"][1]
    np.save("one.npy", read_kspace(Path("r4.h5")).z[1:2])
    assert main(["recon", "one.npy", "-o", "one.h5", *words, "--scale", repr(scale)]) == 0
    with h5py.File("one.h5") as file:
        np.testing.assert_array_equal(file["reconstruction"][0], image)
        assert json.loads(file.attrs["provenance"])["config"]["scale"] == scale
    capsys.readouterr()
    batch = ["recon", "r4.h5", "one.npy", "-o", "many", *words, "--json"]
    counts = []
    for given in ([], [], ["--scale", repr(scale), "--force"], ["--scale", repr(scale)], ["--scale", "1"]):
        main([*batch, *given])
        made = json.loads(capsys.readouterr().out)
        counts.append((made["done"], made["finished_before"], made["failed"]))
    assert counts == [(2, 0, 0), (0, 2, 0), (2, 0, 0), (0, 2, 0), (0, 0, 2)]
    with h5py.File("many/one.npy.recon.h5") as file:
        np.testing.assert_array_equal(file["reconstruction"][0], image)


def test_a_change_is_asked_of_the_slice_alone_as_in_its_volume(folder: Path) -> None:
    scan, model = sampled(folder, 1), tiny(width=None)
    whole = bayesmri.whatif(scan, model, plant=(18, 15, 3, 0.3), slice=2)
    alone = bayesmri.whatif(scan.part(slice(2, 3)), model, plant=(18, 15, 3, 0.3), slice=0, scale=whole.scale)
    np.testing.assert_array_equal(alone.after, whole.after)
    assert alone.carried == whole.carried
