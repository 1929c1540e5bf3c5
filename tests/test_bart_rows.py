"""BART as a method of ours, and tables of several masks: the rows `bart-l1` and `bart-tv`, and `--masks`."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

from bayesmri.baselines import bart
from bayesmri.baselines.bart import Bart, read_cfl, write_cfl
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import BayesMRIError, ConfigError, DataError, MissingExtraError, ShapeError
from bayesmri.evaluation.entrants import entrants
from bayesmri.evaluation.request import Study
from bayesmri.evaluation.table import evaluate, evaluate_to, means, sampling_of
from bayesmri.io.formats import read_kspace
from bayesmri.metrics import volume_metrics
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.undersample import draw_mask
from reader_files import Complex, bart_kspace
from reader_files import write_cfl as stored

needs_bart = pytest.mark.skipif(shutil.which("bart") is None, reason="the program `bart` is not installed")
Penalty = Literal["l1", "tv"]
PENALTIES: tuple[Penalty, ...] = ("l1", "tv")


@cache
def scan(coils: int, size: tuple[int, int] = (48, 52), *, slices: int = 1) -> tuple[Tensor, Tensor]:
    """(u, Y) of a head: complex (slices, coils, H, W), (slices, H, W)."""
    X = phantom(PhantomSpec(anatomy="head", shape=size, slices=slices), rng=torch.Generator().manual_seed(3))
    u = acquire(X, Scanner(coils, 40.0), rng=torch.Generator().manual_seed(4))
    return u, rss(ifft2c(u))


def lines(width: int, R: float, central: int) -> Tensor:
    return random_mask(width, R, center_fraction=central / width, rng=torch.Generator().manual_seed(5))


def psnr(x: Tensor, Y: Tensor) -> float:
    return volume_metrics(rss(x), Y).psnr


@needs_bart
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("coils", [1, 4])
@pytest.mark.parametrize("size", [(48, 52), (45, 51)])
def test_everything_measured_reproduces_the_image(penalty: Penalty, coils: int, size: tuple[int, int]) -> None:
    u, Y = scan(coils, size)
    x = Bart(penalty)(u, torch.ones(size[1], dtype=torch.bool))
    assert x.shape == u.shape
    assert x.dtype == u.dtype
    assert psnr(x, Y) > 40


@needs_bart
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("coils", [1, 6])
@pytest.mark.parametrize("size", [(48, 52), (45, 51)])
def test_better_than_zero_filling(penalty: Penalty, coils: int, size: tuple[int, int]) -> None:
    u, Y = scan(coils, size)
    mask = lines(size[1], 3.0, 12)
    assert psnr(Bart(penalty)(u * mask, mask), Y) > psnr(ifft2c(u * mask), Y) + (0.5 if coils == 1 else 2)


@needs_bart
def test_every_slice_by_itself() -> None:
    u, _ = scan(4, slices=2)
    mask = lines(52, 3.0, 12)
    both = Bart()(u * mask, mask)
    each = torch.cat([Bart()(part[None] * mask, mask) for part in u])
    torch.testing.assert_close(both, each)


@needs_bart
def test_only_the_lines_of_the_mask_count() -> None:
    """And their scale, which comes back."""
    u, _ = scan(4)
    mask = lines(52, 3.0, 12)
    x = Bart()(u * mask, mask)
    torch.testing.assert_close(Bart()(u, mask), x)
    again = Bart()(1024 * u * mask, mask) / 1024
    assert float((again - x).abs().max()) < 1e-3 * float(x.abs().max())


def around(central: int, every: int = 4) -> Tensor:
    """Every fourth of 52 lines, and so many around the centre; with none, not the central line itself."""
    mask = torch.zeros(52, dtype=torch.bool)
    mask[1::every] = True
    mask[26] = False
    mask[26 - central // 2 : 26 - central // 2 + central] = True
    return mask


@needs_bart
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("central", [0, 1, 2, 4])
def test_few_central_lines_fall_back_to_the_direct_method(
    penalty: Penalty, central: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ecalib` refuses them, `caldir` does not."""
    ran: list[str] = []
    run = bart._bart

    def listed(folder: Path, *words: str) -> None:
        ran.append(words[0])
        run(folder, *words)

    monkeypatch.setattr(bart, "_bart", listed)
    u, _ = scan(4)
    mask = around(central)
    x = Bart(penalty)(u * mask, mask)
    assert ran == ["caldir", "pics"]
    assert x.shape == u.shape
    assert x.isfinite().all()
    assert float(x.abs().max()) > 0


@needs_bart
@pytest.mark.parametrize("every", [2, 3, 4])
def test_more_central_lines_are_not_worse(every: int) -> None:
    """Six lines are enough for `ecalib` not to refuse, and too few for what it makes of them."""
    u, Y = scan(4)
    found = [psnr(Bart()(u * mask, mask), Y) for mask in (around(4, every), around(6, every), around(12, every))]
    assert found[0] - 1 < found[1] < found[2] + 1


@needs_bart
@pytest.mark.parametrize("dead", [0, 2])
def test_a_coil_without_signal_does_no_harm(dead: int) -> None:
    """Whichever it is: scanners leave such coils in their files."""
    u = scan(4)[0].clone()
    u[:, dead] = 0
    x = Bart()(u, torch.ones(52, dtype=torch.bool))
    assert x.isfinite().all()
    assert psnr(x, rss(ifft2c(u))) > 40


@needs_bart
def test_an_empty_slice_stays_empty() -> None:
    for coils in (1, 4):
        u, _ = scan(coils)
        assert torch.equal(Bart()(0 * u, torch.ones(52, dtype=torch.bool)), 0 * u)


@needs_bart
@pytest.mark.parametrize("size", [(8, 8), (16, 10), (10, 40)])
def test_small_images(size: tuple[int, int]) -> None:
    u, Y = scan(4, size)
    assert psnr(Bart()(u, torch.ones(size[1], dtype=torch.bool)), Y) > 40


@needs_bart
def test_what_bart_complains_of_is_one_printable_line(tmp_path: Path) -> None:
    """Its colours are for terminals, and the reason is more than them."""
    for words in (("ecalib", "-m1", "missing", "s"), ("pics", "z"), ("nonsense",)):
        with pytest.raises(DataError, match=rf"bart {words[0]} failed \(.*\w.*\): take another method") as caught:
            bart._bart(tmp_path, *words)
        assert str(caught.value).isprintable()


@needs_bart
def test_what_bart_does_not_end_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bart, "TIMEOUT", 1e-4)
    u, _ = scan(1)
    with pytest.raises(BayesMRIError, match=r"bart pics"):
        Bart()(u, torch.ones(52, dtype=torch.bool))


def test_pairs_are_those_of_bart(tmp_path: Path) -> None:
    """Ours and those that the tests of the reader write: byte by byte."""
    z: Complex = bart_kspace(16, 17, 3)
    write_cfl(tmp_path / "a", z)
    stored(tmp_path / "b", z)
    assert (tmp_path / "a.cfl").read_bytes() == (tmp_path / "b.cfl").read_bytes()
    np.testing.assert_array_equal(read_cfl(tmp_path / "a"), z[:, :, 0])
    np.testing.assert_array_equal(read_kspace(tmp_path / "a").z[0], z[:, :, 0].transpose(2, 0, 1))


@needs_bart
def test_a_mask_of_other_columns_is_refused() -> None:
    u, _ = scan(1)
    with pytest.raises(ShapeError):
        Bart()(u, torch.ones(51, dtype=torch.bool))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One volume of one coil and one of four, fully sampled."""
    data = tmp_path / "data"
    for name, coils in (("one", 1), ("four", 4)):
        simulate_file(PhantomRequest("head", "PD", (40, 36)), data / f"{name}.h5", coils=coils, snr_db=30, seed=coils)
    return data


@needs_bart
@pytest.mark.parametrize("method", ["bart-l1", "bart-tv"])
def test_recon_by_bart(folder: Path, tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.h5"
    argv = ["recon", str(folder / "four.h5"), "-o", str(out), "--method", method, "--acceleration", "3"]
    assert main([*argv, "--center-fraction", "0.28", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["method"] == method
    assert made["metrics"][method]["psnr"] > made["metrics"]["zero-filled"]["psnr"]
    with h5py.File(out) as file:
        assert np.isfinite(file["reconstruction"][()]).all()


@needs_bart
def test_evaluate_has_a_row_of_bart(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(folder), "--methods", "zero-filled,bart-l1", "--acceleration", "3"]
    assert main([*argv, "--center-fraction", "0.28", "-o", str(out)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
        "method",
        "zero-filled",
        "bart-l1",
    ]
    result = json.loads(out.read_text())
    rows = {(row["method"], row["file"]): row for row in result["rows"]}
    assert set(rows) == {(m, f) for m in ("zero-filled", "bart-l1") for f in ("one.h5", "four.h5")}
    assert rows["bart-l1", "four.h5"]["parameters"] == 0
    assert rows["bart-l1", "four.h5"]["psnr"] > rows["zero-filled", "four.h5"]["psnr"]
    assert "| bart-l1 | 0 |" in out.with_suffix(".md").read_text()


@pytest.mark.parametrize("penalty", PENALTIES)
def test_without_the_program_it_is_a_missing_extra(
    folder: Path, tmp_path: Path, penalty: Penalty, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match=f"bart-{penalty} needs the program bart") as caught:
        Bart(penalty)
    assert "\n" not in str(caught.value)
    scan_file, out = str(folder / "one.h5"), tmp_path / "out.json"
    for argv in (
        ["recon", scan_file, "--acceleration", "3", "--method", f"bart-{penalty}", "-o", str(out.with_suffix(".h5"))],
        ["evaluate", "--data", scan_file, "--methods", f"zero-filled,bart-{penalty}", "-o", str(out)],
    ):
        assert main(argv) == 2
        assert capsys.readouterr().err == f"bayesmri: {caught.value}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_all_methods_do_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for all of them is told who stays away."""
    monkeypatch.setenv("PATH", "")
    given, absent = entrants(("all",), samples=0, device="cpu")
    assert not [entrant.name for entrant in given if entrant.name.startswith("bart")]
    assert [line.split(":")[0] for line in absent if line.startswith("bart")] == ["bart-l1", "bart-tv"]


def by_mask(result: dict[str, Any]) -> dict[tuple[str, float, str, int], float]:
    return {(r["method"], r["acceleration"], r["file"], r["draw"]): r["psnr"] for r in result["rows"]}


@pytest.mark.parametrize("mask", ["random", "equispaced"])
def test_every_mask_has_a_row_of_its_own(folder: Path, mask: str) -> None:
    """Three of every volume, method and R; the first is the one of a study with one mask."""
    study = Study(folder, ("zero-filled", "sense"), (3.0, 4.0), masks=3, mask=mask)
    result, single = evaluate(study), evaluate(Study(folder, ("zero-filled", "sense"), (3.0, 4.0), mask=mask))
    found, alone = by_mask(result), by_mask(single)
    assert len(result["rows"]) == len(found) == 3 * len(alone) == 3 * 2 * 2 * 2
    assert {key[3] for key in found} == {0, 1, 2}
    assert {key[3] for key in alone} == {0}
    assert {key: value for key, value in found.items() if key[3] == 0} == alone
    assert "--masks 3" in result["command"]
    assert "--masks" not in single["command"]


def test_masks_differ_and_repeat(folder: Path) -> None:
    """By their number, the file's name and the seed, and nothing else: adding a mask changes none before it."""
    path = folder / "one.h5"
    study = Study(folder, masks=3)

    def drawn(study: Study, draw: int, path: Path = path) -> tuple[bool, ...]:
        return tuple(draw_mask(36, sampling_of(path, 4.0, study, draw)).tolist())

    masks = [drawn(study, draw) for draw in range(3)]
    assert len(set(masks)) == 3
    assert {sum(mask) for mask in masks} == {9}
    assert masks == [drawn(Study(folder, masks=5), draw) for draw in range(3)]
    assert masks[0] == tuple(draw_mask(36, sampling_of(path, 4.0, Study(folder))).tolist())
    assert not set(masks) & {drawn(Study(folder, seed=1), draw) for draw in range(3)}
    assert not set(masks) & {drawn(study, draw, folder / "four.h5") for draw in range(3)}
    found = by_mask(evaluate(Study(folder, ("zero-filled",), masks=3)))
    assert len({value for key, value in found.items() if key[2] == "one.h5"}) == 3


def test_methods_see_the_same_masks(folder: Path) -> None:
    """sense of one coil is zero filling: equal for every mask by itself."""
    found = by_mask(evaluate(Study(folder / "one.h5", ("zero-filled", "sense"), masks=3)))
    for draw in range(3):
        assert found["zero-filled", 4.0, "one.h5", draw] == pytest.approx(found["sense", 4.0, "one.h5", draw])


def test_means_are_over_all_masks_and_volumes_are_counted_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    argv = ["evaluate", "--data", str(folder), "--methods", "zero-filled,sense", "--masks", "3", "-o", str(out)]
    assert main(argv) == 0
    said = capsys.readouterr().out
    result = json.loads(out.read_text())
    assert len(result["rows"]) == 3 * 2 * 2
    assert "means over 2 volumes" in said
    assert said.rstrip().endswith("12 rows")
    for row in means(result["rows"]):
        group = [r for r in result["rows"] if r["method"] == row["method"]]
        assert len(group) == 6
        assert row["volumes"] == 2
        for key in ("psnr", "nmse", "ssim", "seconds"):
            assert row[key] == pytest.approx(np.mean([r[key] for r in group]))
    page = out.with_suffix(".md").read_text()
    assert "Means over 2 volumes of 2 slices" in page
    assert "3 masks of every volume." in page
    assert page.count("| one.h5 |") == 1
    mean = np.mean([r["psnr"] for r in result["rows"] if (r["method"], r["file"]) == ("sense", "one.h5")])
    (line,) = [line for line in page.splitlines() if "| one.h5 |" in line]
    assert line.rstrip("| ").split("| ")[-1] == f"{mean:.2f}"
    assert main([*argv[:-4], "-o", str(out), "--force"]) == 0
    assert "masks of every volume" not in out.with_suffix(".md").read_text()


def altered(results: Path, psnr: float) -> None:
    """Rows that only reuse could bring back."""
    record = json.loads(results.read_text())
    for row in record["rows"]:
        row["psnr"] = psnr + row["draw"]
    results.write_text(json.dumps(record))


def test_results_of_fewer_or_more_masks_are_reused(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    few, many = Study(folder, ("zero-filled",)), Study(folder, ("zero-filled",), masks=3)
    fresh = by_mask(evaluate(many))
    evaluate_to(few, part)
    altered(part, 90.0)
    found = by_mask(evaluate(many, reuse=[part]))
    assert found == {key: 90.0 if key[3] == 0 else value for key, value in fresh.items()}
    evaluate_to(many, part, force=True)
    altered(part, 90.0)
    assert by_mask(evaluate(few, reuse=[part])) == {key: 90.0 for key in fresh if key[3] == 0}
    more = by_mask(evaluate(Study(folder, ("zero-filled", "sense"), masks=4), reuse=[part]))
    assert {key: value for key, value in more.items() if key[0] == "zero-filled" and key[3] < 3} == {
        key: 90.0 + key[3] for key in fresh
    }
    assert all(value < 90 for key, value in more.items() if key[0] == "sense" or key[3] == 3)


def test_results_from_before_masks_were_counted_are_those_of_the_first(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    evaluate_to(Study(folder, ("zero-filled",)), part)
    altered(part, 90.0)
    record = json.loads(part.read_text())
    del record["study"]["masks"]
    for row in record["rows"]:
        del row["draw"]
    part.write_text(json.dumps(record))
    rows = evaluate(Study(folder, ("zero-filled",), masks=2), reuse=[part])["rows"]
    assert [row["psnr"] == 90 for row in rows] == [True, False] * 2
    assert [row["draw"] for row in rows] == [0, 1] * 2


@pytest.mark.parametrize("masks", [0, -1])
def test_no_masks_are_refused(folder: Path, tmp_path: Path, masks: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=f"got {masks} masks"):
        Study(folder, masks=masks)
    out = tmp_path / "out.json"
    assert main(["evaluate", "--data", str(folder), "--masks", str(masks), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said == f"bayesmri: got {masks} masks for every volume, expected at least 1\n"
    assert not out.exists()
