"""Remove and look again: what the data carried stays away, what the model made comes back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.errors import BayesMRIError, ConfigError
from bayesmri.io.formats import read_kspace
from bayesmri.kspace import KSpace
from bayesmri.physics.data_terms import Channels, DataTerm
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.intervention import Intervention, intervention
from bayesmri.recon.method import Method
from bayesmri.recon.whatif import change_of, coil_phase, measured, whatif

SHAPE = (48, 54)
PLACE = (27.0, 24.0, 3.0)  # x, y, r
REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "val" / "raw" / "jiawang_8ch.h5"


@pytest.fixture(scope="module", params=[1, 3])
def full(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KSpace:
    path = tmp_path_factory.mktemp("scan") / "head.h5"
    simulate_file(PhantomRequest("head", "PD", SHAPE, slices=3), path, coils=request.param, snr_db=40, seed=1)
    return read_kspace(path)


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "head.h5"
    simulate_file(PhantomRequest("head", "PD", SHAPE, slices=2), path, coils=2, snr_db=40, seed=2)
    return path


@pytest.mark.parametrize("change", [{"plant": (*PLACE, 0.4)}, {"plant": (*PLACE, -0.4)}, {"erase": PLACE}])
def test_all_lines_carry_everything(full: KSpace, change: dict[str, Any]) -> None:
    """Zero filling of a full scan is the scan's own image: it follows any change, wherever its phase is kept."""
    found = bayesmri.whatif(full, "zero-filled", slice=1, **change)
    assert found.carried == pytest.approx(1, abs=1e-3)
    assert found.kept == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(found.after, found.before + found.change, atol=1e-4 * found.before.max())
    assert "carried it" in found.verdict or "would be seen" in found.verdict


def test_what_zero_filling_follows_is_what_was_measured(full: KSpace) -> None:
    """Of one coil the share that comes through is the share of the energy on measured lines, for a small change."""
    half = bayesmri.undersample(full, 2, seed=1)
    found = bayesmri.whatif(half, "zero-filled", slice=1, plant=(*PLACE, 0.05))
    assert 0.2 < found.kept < 0.98
    if full.z.shape[1] == 1:
        assert found.carried == pytest.approx(found.kept, abs=0.15)


def test_planting_and_taking_out_again_gives_the_data(full: KSpace) -> None:
    z, mask = torch.from_numpy(full.z[1:2]), torch.from_numpy(full.mask)
    D = Channels(z, mask)
    x = D.start()[0][0]
    X = rss(x).double().numpy()
    a, place = change_of(X, Intervention(*PLACE, 0.4), row=PLACE[1], column=PLACE[0])
    phase = coil_phase(D, x)
    there = z + measured(D, phase, a)
    assert float((there - z).abs().max()) > 0
    torch.testing.assert_close(there + measured(D, phase, -a), z, atol=1e-6 * float(z.abs().max()), rtol=0)
    outside = np.ones(SHAPE, bool)
    outside[place] = False
    assert (a[outside] == 0).all()
    assert (X + a >= 0).all()


def test_erasing_what_was_planted_gives_the_image_around() -> None:
    X = np.full(SHAPE, 2.0)
    planted, _ = change_of(X, Intervention(*PLACE, 0.5), row=PLACE[1], column=PLACE[0])
    erased, _ = change_of(X + planted, Intervention(PLACE[0], PLACE[1], 6.0), row=PLACE[1], column=PLACE[0])
    assert planted.max() == pytest.approx(1.0)
    assert np.abs(X + planted + erased - X).max() < 0.05


def test_a_model_that_ignores_the_data_is_found_out(full: KSpace) -> None:
    """One that always draws the same lesion, and one that only listens."""
    lesion = torch.zeros(1, full.z.shape[1], *SHAPE, dtype=torch.complex64)
    lesion[..., 22:27, 25:30] = 1.0

    def dreams(D: DataTerm) -> torch.Tensor:
        return 0.2 * torch.ones_like(lesion) + lesion

    found = whatif(full, Intervention(*PLACE, slice=0), Method("dreamer", dreams))
    assert found.carried == pytest.approx(0)
    assert found.came_back == pytest.approx(1)
    assert "comes back by itself" in found.verdict
    heard = whatif(full, Intervention(*PLACE, slice=0), Method("listener", lambda D: D.start()[0]))
    assert heard.carried == pytest.approx(1, abs=1e-3)


def test_units_do_not_count_and_noise_does(full: KSpace) -> None:
    half = bayesmri.undersample(full, 2, seed=1)
    change = (*PLACE, 0.4)
    found = bayesmri.whatif(half, "zero-filled", plant=change)
    other = KSpace(1e3 * half.z, half.mask, half.header)
    again = bayesmri.whatif(other, "zero-filled", plant=change)
    assert again.carried == pytest.approx(found.carried, rel=1e-4)
    assert again.noise_units == pytest.approx(found.noise_units, rel=1e-4)
    np.testing.assert_allclose(again.change, 1e3 * found.change, rtol=1e-3, atol=1e-3 * np.abs(again.change).max())
    twice = bayesmri.whatif(half, "zero-filled", plant=(*PLACE, 0.8))
    assert found.noise_units is not None
    assert twice.noise_units == pytest.approx(2 * found.noise_units, rel=1e-3)
    assert found.slice == 1
    assert found.kspace.shape == half.z.shape[1:]
    assert (found.kspace[..., ~half.mask] == 0).all()


def test_the_command_writes_what_it_found(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.h5"
    words = ["whatif", str(scan), "--plant", "27,24,3,0.4", "--slice", "0", "--method", "tv", "--acceleration", "2"]
    assert main([*words, "-o", str(out), "--png", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {"carried", "kept", "noise_units", "verdict", "seconds"} <= set(record)
    assert record["slice"] == 0
    with h5py.File(out) as file:
        before, after, change = (file[name][()] for name in ("before", "after", "change"))
        assert before.shape == after.shape == change.shape == (1, *SHAPE)
        assert file["after"].attrs["verdict"] == record["verdict"]
        assert json.loads(file.attrs["provenance"])["command"] == "whatif"
    a = change[0, 17:32, 20:35].astype(np.float64)
    d = (after - before)[0, 17:32, 20:35]
    assert (d * (a - a.mean())).sum() / (a * (a - a.mean())).sum() == pytest.approx(record["carried"], abs=0.02)
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*words, "-o", str(out)]) == 2  # it is there already
    assert main([*words, "-o", str(out), "--force"]) == 0
    assert record["verdict"] in capsys.readouterr().out


BAD = (
    ("--erase", "27,24"), ("--erase", "27,24,3,0.3"), ("--erase", "a,b,c"), ("--erase", "500,24,3"),
    ("--erase", "27,24,0.1"), ("--erase", "27,24,30"), ("--plant", "27,24,3"), ("--plant", "27,24,3,0"),
    ("--plant", "27,24,3,nan"), ("--plant", "nan,24,3,0.3"), ("--plant", "27,24,3,0.3", "--slice", "7"),
    ("--plant", "27,24,3,0.3", "--erase", "27,24,3"), (),
)  # fmt: skip


@pytest.mark.parametrize("words", BAD)
def test_what_cannot_be_asked_is_refused_in_one_line(
    words: tuple[str, ...], scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.h5"
    assert main(["whatif", str(scan), *words, "--method", "zero-filled", "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert "expected" in said
    assert not out.exists()


def test_nothing_is_erased_where_nothing_is(full: KSpace) -> None:
    flat = Method("flat", lambda D: torch.ones(1, 1, *SHAPE, dtype=torch.complex64))
    with pytest.raises(BayesMRIError, match="around it"):
        whatif(full, Intervention(*PLACE), flat)
    bad: tuple[dict[str, Any], ...] = (
        {},
        {"erase": PLACE, "plant": (*PLACE, 0.3)},
        {"erase": "abc"},
        {"plant": PLACE},
    )
    for change in bad:
        with pytest.raises(ConfigError):
            bayesmri.whatif(full, "zero-filled", **change)
    with pytest.raises(ConfigError):
        intervention(None, None)


@pytest.mark.skipif(not REAL.exists(), reason="the measured data is not here (../shared/data)")
def test_measured_heads_carry_large_structures_and_lose_faint_ones() -> None:
    """Eight measured coils at R = 4 by a shipped model."""
    sampled = bayesmri.undersample(read_kspace(REAL), 4)
    large = bayesmri.whatif(sampled, "tdv-r4", plant=(130, 140, 5, 0.6))
    assert large.carried > 0.75
    assert large.noise_units is not None
    assert large.noise_units > 10
    faint = bayesmri.whatif(sampled, "tdv-r4", plant=(130, 140, 1, 0.02))
    assert faint.carried < large.carried
    assert faint.noise_units is not None
    assert faint.noise_units < 3
    assert "nothing is certain" in faint.verdict


def test_what_is_said_of_the_data_stays_in_the_file(scan: Path, tmp_path: Path) -> None:
    """Here that the axes of an array were assumed."""
    np.save(tmp_path / "scan.npy", read_kspace(scan).z)
    words = [
        "whatif",
        str(tmp_path / "scan.npy"),
        "--erase",
        "27,24,3",
        "--method",
        "zero-filled",
        "--acceleration",
        "4",
    ]
    assert main([*words, "-o", str(tmp_path / "out.h5")]) == 0
    with h5py.File(tmp_path / "out.h5") as file:
        assert any(b"axes" in text for text in file["messages/notes"][()])
        assert "axes" in file.attrs["notes"]


def test_it_warns_as_recon_does(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Here of an R that the model was not trained for, and of data unlike its own."""
    words = [str(scan), "--model", "tdv-r4", "--acceleration", "8", "--json"]
    assert main(["recon", *words, "-o", str(tmp_path / "image.h5")]) == 0
    expected = json.loads(capsys.readouterr().out)["warnings"]
    assert any("trained for R = 4" in text for text in expected)
    assert any("unlike what tdv-r4 was trained on" in text for text in expected)
    assert main(["whatif", *words, "--erase", "27,24,3", "-o", str(tmp_path / "out.h5")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["warnings"] == expected
    with h5py.File(tmp_path / "out.h5") as file:
        assert [text.decode() for text in file["messages/warnings"][()]] == expected
    found = bayesmri.whatif(bayesmri.undersample(read_kspace(scan), 8), "tdv-r4", erase=PLACE)
    assert set(found.warnings) <= set(expected)
    assert found.warnings


def test_rows_and_columns_exchanged_are_exchanged_back(full: KSpace) -> None:
    half = bayesmri.undersample(full, 2, seed=1)
    found = bayesmri.whatif(half, "zero-filled", plant=(30, 20, 3, 0.4))
    rows = replace(half, header=replace(half.header, turned=True))
    turned = bayesmri.whatif(rows, "zero-filled", plant=(20, 30, 3, 0.4))
    assert turned.carried == pytest.approx(found.carried, rel=1e-6)
    for name in ("before", "after", "change", "kspace"):
        np.testing.assert_allclose(getattr(turned, name), getattr(found, name).swapaxes(-1, -2))
    with pytest.raises(ConfigError, match=f"{SHAPE[0]} columns and {SHAPE[1]} rows"):
        bayesmri.whatif(rows, "zero-filled", plant=(50, 30, 3, 0.4))


def test_on_a_padded_grid_the_same_structure_is_carried_alike(full: KSpace) -> None:
    half = bayesmri.undersample(full, 2, seed=1)
    found = bayesmri.whatif(half, "zero-filled", plant=(30, 20, 3, 0.2))
    H, W = SHAPE
    z = np.pad(half.z, [(0, 0), (0, 0), (H // 2, H - H // 2), (W // 2, W - W // 2)])
    inside = (H // 2, H // 2 + H, W // 2, W // 2 + W)
    wide = replace(half, z=z, mask=np.pad(half.mask, (W // 2, W - W // 2)), truth=None)
    wide = replace(wide, header=replace(half.header, encoded=inside))
    padded = bayesmri.whatif(wide, "zero-filled", plant=(60, 40, 6, 0.2))
    assert padded.before.shape == (2 * H, 2 * W)
    assert padded.kspace.shape == wide.z.shape[1:]
    assert padded.carried == pytest.approx(found.carried, abs=0.05)
    assert (padded.kspace[..., : W // 2] == 0).all()
