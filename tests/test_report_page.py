"""A page holds what the file holds, says what it left out, and stays a page whatever the file says."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.metrics import slice_metrics, volume_metrics
from bayesmri.recon.page import report_file
from bayesmri.report.pack import LEVELS, change, decades, image
from report_files import PROVENANCE, SLICES, H, Markup, N, Q, W, arrays, unpacked, volume, write_recon

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'--><!--{{data}}&lt;\u202e\ud800"


def page_of(tmp_path: Path, file: Path, **options: Any) -> Markup:
    report_file(file, tmp_path / "page.html", force=True, **options)
    return Markup(tmp_path / "page.html")


# --- packing


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (16, 21)])
@pytest.mark.parametrize(
    ("scale", "offset"), [(1.0, 0.0), (1e-12, 0.0), (1e12, 0.0), (1.0, -3.0), (0.0, 5.0), (0.0, 0.0)]
)
def test_images_survive_packing_to_half_a_step(shape: tuple[int, int], scale: float, offset: float) -> None:
    X = scale * np.random.default_rng(1).random(shape) + offset
    packed = image(X).as_json()
    assert packed["step"] == pytest.approx((X.max() - min(0, X.min())) / LEVELS)
    np.testing.assert_allclose(unpacked(packed, shape), X, rtol=0, atol=0.5001 * float(packed["step"]) + 1e-300)


def test_changes_are_symmetric_and_logarithms_reach_from_bottom_to_top() -> None:
    D = np.array([[-2.0, 0.0], [1.0, 2.0]])
    q = np.frombuffer(zlib.decompress(base64.b64decode(change(D).text)), np.int8)
    np.testing.assert_allclose(change(D).step * q, D.ravel(), atol=1 / 127)
    assert change(0 * D).step == 0
    packed = decades(np.array([[0.0, 1e-9, 1e-3, 5.0]]), 5.0, below=6.0)
    q = np.frombuffer(zlib.decompress(base64.b64decode(packed.text)), np.uint8)
    np.testing.assert_allclose(packed.low + packed.step * q, [-6, -6, np.log10(1e-3 / 5), 0], atol=0.5 * packed.step)


# --- what a page shows


def test_a_page_carries_every_layer_to_half_a_step(tmp_path: Path) -> None:
    found = page_of(tmp_path, write_recon(tmp_path / "a.h5", bound=(volume(5), 0.9))).data
    stored = arrays()
    names = {
        "mean": "reconstruction",
        "std": "uncertainty_std",
        "truth": "target",
        "zero_filled": "zero_filled",
        "deterministic": "deterministic",
    }
    assert set(found["layers"]) == {*names, "bound"}
    assert found["slices"] == [0, 1, 2]
    assert found["pixel_aspect"] == 2
    for name, key in names.items():
        for s in range(SLICES):
            packed = found["layers"][name]["data"][s]
            np.testing.assert_allclose(unpacked(packed, (H, W)), stored[key][s], atol=0.51 * packed["step"])
    assert [len(samples) for samples in found["samples"]["data"]] == [N] * SLICES
    assert set(found["kspace"]["panels"]) == {"mean", "std"}
    assert found["kspace"]["mask"] == "10" * (W // 2)


def test_a_page_says_what_the_metrics_say(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5"))
    stored = arrays()
    for name in ("reconstruction", "zero_filled", "deterministic"):
        row = volume_metrics(stored[name], stored["target"])
        assert {f"{row.psnr:.2f}", f"{row.ssim:.4f}", f"{row.nmse:.4f}"} <= set(page.inside("td"))
    for row in slice_metrics(stored["reconstruction"], stored["target"]):
        assert {f"{row.psnr:.2f}", f"{row.ssim:.4f}", f"{row.nmse:.4f}"} <= set(page.inside("td"))
    assert "Research use only." in page.inside("strong")
    assert "T1 Schädel" in page.inside("li")
    assert f"{W // 2} of {W} lines, R = 2.00" in page.inside("li")
    assert {"tdv-single-r4", "ab" * 32} <= set(page.inside("td"))


def test_a_page_does_not_carry_the_patients_identifier(tmp_path: Path) -> None:
    page_of(tmp_path, write_recon(tmp_path / "a.h5"))
    assert "Jane Doe" not in (tmp_path / "page.html").read_text()


def test_bounds_come_with_their_level_and_with_how_often_they_hold(tmp_path: Path) -> None:
    stored = arrays()
    error = np.abs(stored["reconstruction"] - stored["target"])
    bound = np.where(np.arange(H)[:, None] < 15, error + 0.01, 0).astype(np.float32)
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", bound=(bound, 0.9)))
    assert "Calibrated at 90 %" in page.prose
    assert "That is less than the level" in page.prose
    assert f"the bound holds for {100 * 15 / H:.1f} % of the pixels" in page.prose
    assert page.data["layers"]["bound"]["title"] == "Error bound, 90 %"
    assert page.inside("td").count(f"{100 * 15 / H:.1f} %") == SLICES


def test_a_bound_of_the_foreground_is_judged_there(tmp_path: Path) -> None:
    """In the words of the file, which are escaped as all of its texts are."""
    stored = arrays()
    inside = stored["target"] > 0.1 * stored["target"].max()
    bound = np.where(inside, 9, 0).astype(np.float32)
    file = write_recon(tmp_path / "a.h5", bound=(bound, 0.95))
    with h5py.File(file, "a") as handle:
        handle.attrs.pop("checksums", None)  # changed on purpose
        attributes = {"region": "foreground", "guarantee": "at most 5 % <of> the foreground", "factor": 3.14159265}
        handle["error_bound"].attrs.update(attributes)
    page = page_of(tmp_path, file)
    assert "Calibrated at 95 %: at most 5 % <of> the foreground." in page.prose
    assert "the bound holds for 100.0 % of the pixels of the foreground" in page.prose
    assert "less than the level" not in page.prose
    assert "3.142" in page.inside("td")


def test_a_page_says_why_a_bound_was_not_applied(tmp_path: Path) -> None:
    file = write_recon(tmp_path / "a.h5")
    with h5py.File(file, "a") as handle:
        handle.attrs.pop("checksums", None)  # changed on purpose
        handle["uncertainty_std"].attrs["bound_note"] = "no error bound of m holds here: the data has R < 9"
    page = page_of(tmp_path, file)
    assert "Not applied: no error bound of m holds here: the data has R < 9." in page.prose
    assert "Not calibrated" not in page.prose


def test_a_page_without_bounds_says_so(tmp_path: Path) -> None:
    assert "Not calibrated" in page_of(tmp_path, write_recon(tmp_path / "a.h5")).prose


def test_an_image_alone_makes_a_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", {"reconstruction": volume(0)}, provenance={}))
    assert set(page.data["layers"]) == {"mean"}
    assert page.data["samples"] is page.data["error"] is page.data["kspace"]["mask"] is None
    assert page.data["layers"]["mean"]["title"] == "Reconstruction"
    for sentence in ("No fully sampled image is known", "holds no k-space", "no uncertainty", "does not record where"):
        assert sentence in page.prose


def test_a_standard_deviation_without_samples_is_the_networks_own(tmp_path: Path) -> None:
    config = {"model": "unet", "samples": 0}
    datasets = {name: arrays()[name] for name in ("reconstruction", "uncertainty_std")}
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", datasets, provenance={"config": config}))
    assert page.data["layers"]["mean"]["title"] == "Reconstruction"
    assert page.data["layers"]["std"]["about"] == "predicted by the network"


@pytest.mark.parametrize(("shape", "window"), [((11, 20), [5, 16, 0, 16]), ((30, 10), [0, 21, 3, 13])])
def test_a_truth_of_another_size_lies_in_the_centre(tmp_path: Path, shape: tuple[int, int], window: list[int]) -> None:
    truth = volume(1, (SLICES, *shape))
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", arrays(target=truth)))
    assert page.data["truth_window"] == window
    packed = page.data["layers"]["truth"]["data"][0]
    shown = unpacked(packed, (H, W))
    inside = np.zeros((H, W), bool)
    inside[window[0] : window[1], window[2] : window[3]] = True
    assert np.abs(shown[~inside]).max() <= packed["step"]
    top, left = (shape[0] - inside.any(1).sum()) // 2, (shape[1] - inside.any(0).sum()) // 2
    expected = truth[0, top : top + inside.any(1).sum(), left : left + inside.any(0).sum()]
    np.testing.assert_allclose(shown[inside].reshape(expected.shape), expected, atol=0.51 * packed["step"])


def test_metrics_that_do_not_exist_are_no_reason_to_have_no_page(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", arrays(target=0 * volume(1))))
    assert "no positive pixel" in page.prose


# --- size


def test_what_does_not_fit_is_cut_and_named(tmp_path: Path) -> None:
    """The deterministic image goes first, then samples, k-space, and outer slices; one slice always stays."""
    rng, image = np.random.default_rng(1), (10, 64, 64)
    shapes = {"reconstruction": image, "target": image, "deterministic": image, "samples": (10, 20, 64, 64)}
    big = {name: rng.random(shape, dtype=np.float32) for name, shape in shapes.items()}
    file = write_recon(tmp_path / "a.h5", big)
    everything = page_of(tmp_path, file)
    assert everything.data["samples"]["count"] == 16
    assert "shows 16 of the 20 samples kept" in everything.prose
    fewer = page_of(tmp_path, file, megabytes=0.5)
    assert 2 <= fewer.data["samples"]["count"] < 16
    assert [len(samples) for samples in fewer.data["samples"]["data"]] == 10 * [fewer.data["samples"]["count"]]
    middle = page_of(tmp_path, file, megabytes=0.3).data["samples"]
    assert [s for s, samples in enumerate(middle["data"]) if samples is not None] == [5]
    assert len(middle["data"][5]) == middle["count"] == 6
    none = page_of(tmp_path, file, megabytes=0.2)
    assert none.data["samples"] is None
    assert "deterministic" not in none.data["layers"]
    for sentence in ("the samples in the file are left out", "deterministic image is left out"):
        assert sentence in none.prose
    small = page_of(tmp_path, file, megabytes=0.1)
    assert 1 <= len(small.data["slices"]) < 10
    assert "of 10, around the middle" in small.prose
    assert "k-space is left out" in small.prose
    assert small.data["kspace"]["panels"] == {}
    assert (tmp_path / "page.html").stat().st_size < 0.1e6 + 60_000


# --- hostile files


def hostile(tmp_path: Path) -> Path:
    evil = EVIL.encode("utf-8", "replace").decode()
    provenance = {evil: evil, "config": {"model": evil, "samples": 4}, "deep": json.loads("[" * 60 + "]" * 60)}
    file = write_recon(tmp_path / "a.h5", provenance=provenance)
    with h5py.File(file, "a") as handle:
        handle.attrs.pop("checksums", None)  # changed on purpose
        handle.attrs["acquisition"] = evil
        handle.attrs["provenance"] = json.dumps({**provenance, "lone": "\ud800"})
        handle[evil.replace("/", "|")] = np.zeros(2)
    return file.rename(tmp_path / "<b onclick=alert(3)>&.h5")


def test_no_text_of_a_file_becomes_markup(tmp_path: Path) -> None:
    plain = page_of(tmp_path, write_recon(tmp_path / "plain.h5"))
    page = page_of(tmp_path, hostile(tmp_path))
    assert {name for name, _ in page.elements} == {name for name, _ in plain.elements}
    assert [name for name, _ in page.elements].count("script") == 2
    allowed = {key for _, attributes in plain.elements for key in attributes}
    assert {key for _, attributes in page.elements for key in attributes} == allowed
    assert not any(key.startswith("on") for key in allowed)
    assert any("onerror=alert(2)" in text for text in page.inside("td")), "the text itself is shown"
    assert page.inside("h1")[0] == "<b onclick=alert(3)>&.h5"


def test_a_page_asks_for_nothing_and_runs_only_its_own_script(tmp_path: Path) -> None:
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5"))
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|WebSocket|innerHTML|\beval\b|document\.write", text)
    assert all("src" not in attributes for _, attributes in page.elements)
    assert [a["href"] for name, a in page.elements if name == "link"] == ["data:,"]
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        code = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(code) == 1
        checksum = base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{checksum}'" in policy


# --- bad input


def broken(tmp_path: Path) -> dict[str, Path]:
    def one(name: str, **changes: Any) -> Path:
        return write_recon(tmp_path / f"{name}.h5", arrays(**changes))

    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    truncated = one("truncated")
    truncated.write_bytes(truncated.read_bytes()[:3000])
    nan = one("nan")
    with h5py.File(nan, "a") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        file["samples"][2, 1, 0, 0] = np.nan
    kspace = tmp_path / "kspace.h5"
    with h5py.File(kspace, "w") as file:
        file["kspace"] = np.ones((1, 8, 8), np.complex64)
    link = tmp_path / "link.h5"
    with h5py.File(link, "w") as file:
        file["reconstruction"] = h5py.ExternalLink("/etc/passwd", "/x")
    return {
        "is not an HDF5 file": text,
        "damaged or truncated": truncated,
        "holds NaN or Inf": nan,
        "holds no `reconstruction`": kspace,
        "is a ExternalLink": link,
        "`uncertainty_std` in std.h5 has shape": one("std", uncertainty_std=np.ones((SLICES, H, W + 1))),
        "`target` in target.h5 has shape": one("target", target=np.ones((SLICES - 1, H, W))),
        "`samples` in samples.h5 has shape": one("samples", samples=np.ones((SLICES, N, W, H))),
        "`kspace_mean` in kspace_mean.h5": one("kspace_mean", kspace_mean=np.ones((1, Q, H, W), np.complex64)),
        "expected 3 axes": one("flat", reconstruction=np.ones((H, W))),
        "does not exist": tmp_path / "absent.h5",
    }


def test_bad_input_is_one_line_and_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for reason, path in broken(tmp_path).items():
        out = tmp_path / "out" / "page.html"
        assert main(["report", str(path), "-o", str(out)]) == 2, reason
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert reason in lines[0]
        assert not out.parent.exists(), "nothing is left behind"


def test_a_page_that_is_there_stays_whole(tmp_path: Path) -> None:
    file = write_recon(tmp_path / "a.h5")
    assert main(["report", str(file), "-o", str(tmp_path / "page.html")]) == 0
    before = (tmp_path / "page.html").read_bytes()
    with h5py.File(file, "a") as handle:
        handle.attrs.pop("checksums", None)  # changed on purpose
        handle["samples"][0, 0, 0, 0] = np.inf
    assert main(["report", str(file), "-o", str(tmp_path / "page.html")]) == 2
    assert (tmp_path / "page.html").read_bytes() == before
    assert main(["report", str(file), "-o", str(file)]) == 2


@pytest.mark.parametrize("size", ["0", "-1", "nan", "1e9"])
def test_sizes_that_make_no_sense_are_refused(tmp_path: Path, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_recon(tmp_path / "a.h5")
    assert main(["report", str(file), "--megabytes", size, "-o", str(tmp_path / "page.html")]) == 2
    assert "expected 0.1 to 500" in capsys.readouterr().err


def test_bad_files_are_refused_before_torch_loads(tmp_path: Path) -> None:
    path = write_recon(tmp_path / "a.h5", arrays(target=np.ones((1, H, W))))
    code = "import sys; from bayesmri.cli import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "report", str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]


def test_the_command_writes_beside_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recon(tmp_path / "a.recon.h5")
    monkeypatch.chdir(tmp_path)
    assert main(["report", "a.recon.h5", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["output"] == "a.recon.html"
    assert made["bytes"] == (tmp_path / "a.recon.html").stat().st_size
    assert (made["slices"], made["slices_shown"], made["samples_shown"], made["notes"]) == (SLICES, SLICES, N, [])
    assert main(["report", "a.recon.h5", "--force"]) == 0
    assert f"{SLICES} slices, {N} samples of each" in capsys.readouterr().out


def test_what_recon_records_is_what_the_page_shows(tmp_path: Path) -> None:
    """The method of a model's run is the model; what was not set has no row."""
    page = page_of(tmp_path, write_recon(tmp_path / "a.h5", provenance={**PROVENANCE, "threads": None}))
    assert "config.model" in page.inside("th")
    assert not {"config.method", "threads"} & set(page.inside("th"))
