"""Notes and warnings stay with the image wherever it goes; --strict, --force and errors as JSON."""

import json
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
from PIL import Image

import bayesmri
from bayesmri.checkpoint import save_model
from bayesmri.cli import build_app, main
from bayesmri.errors import StrictError
from bayesmri.io.formats import read_kspace
from bayesmri.io.results import open_result
from bayesmri.messages import NOTHING, Messages, noted, warned
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.page import report_file
from bayesmri.report.panel import MOST_LINES, caption_lines
from study_runs import tiny

CENTRE = "the central line of k-space was not acquired"
THREE = "the 3 axes of"


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """Two coils, every second line but none in the centre: one note (axes), one warning (the central line)."""
    rng = np.random.default_rng(3)
    X = np.zeros((24, 28))
    X[6:18, 7:21] = 1 + rng.random((12, 14))
    z = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(X), norm="ortho"))
    mask = np.arange(28) % 2 == 1
    np.save(tmp_path / "scan.npy", (np.stack([z, 0.5j * z]) * mask).astype(np.complex64))
    return tmp_path / "scan.npy"


def test_levels_add_up_without_repeating_themselves() -> None:
    found = noted("a", "b\n c") + warned("x") + Messages(("b c", "d"), ("x", "y"))
    assert found == Messages(("a", "b c", "d"), ("x", "y"))
    assert found + NOTHING == found
    NOTHING.check(strict=True)
    found.check(strict=False)
    with pytest.raises(StrictError, match="2 warnings") as caught:
        found.check(strict=True)
    assert caught.value.warnings == ("x", "y")


def test_both_levels_reach_every_output(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = scan.with_name("out.h5")
    assert main(["recon", str(scan), "-o", str(out), "--method", "zero-filled", "--png", "--nifti", "--json"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    (warning,) = [text for text in made["warnings"] if text.startswith(CENTRE)]
    assert any(text.startswith(THREE) for text in made["notes"])
    assert f"warning: {warning}" in said.err.splitlines()
    assert [f"note: {text}" for text in made["notes"]] == [x for x in said.err.splitlines() if x.startswith("note: ")]
    with h5py.File(out) as file:
        for level in ("notes", "warnings"):
            stored = [text.decode() for text in file["messages"][level][()]]
            assert stored == made[level]
            assert file.attrs[level].split("\n") == file["reconstruction"].attrs[level].split("\n") == made[level]
    with open_result(out) as result:
        assert result.said == Messages(tuple(made["notes"]), tuple(made["warnings"]))
        assert "messages" not in [name for name, _, _ in result.contents]
    told = bytes(nibabel.load(out.with_name("out.nii.gz")).header["descrip"]).decode()
    assert told.startswith("warnings: see out.h5")
    assert reds(out.with_suffix(".png")) > 100


def reds(png: Path) -> int:
    """Pixels in the red of captions, which no colour map has."""
    r, g, b = np.moveaxis(np.asarray(Image.open(png).convert("RGB"), dtype=int), -1, 0)
    return int(((abs(r - 176) < 6) & (g < 12) & (abs(b - 32) < 12)).sum())


def test_the_page_warns_above_the_images_and_notes_below(scan: Path) -> None:
    out, page = scan.with_name("out.h5"), scan.with_name("page.html")
    assert main(["recon", str(scan), "-o", str(out), "--method", "zero-filled"]) == 0
    facts = report_file(out, page)
    text = page.read_text(encoding="utf-8")
    box = text.index('class="warnings"')
    assert box < text.index(CENTRE) < text.index('id="images"')
    assert text.index('id="tiles"') < text.index(THREE) < text.index('id="kspace"')
    assert any(found.startswith(CENTRE) for found in facts["warnings"])


def test_without_warnings_there_is_no_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, out = tmp_path / "full.h5", tmp_path / "out.h5"
    assert main(["simulate", "--phantom", "head", "--size", "48x48", "-o", str(full)]) == 0
    command = ["recon", str(full), "-o", str(out), "--method", "zero-filled", "--acceleration", "4", "--png"]
    assert main([*command, "--nifti", "--strict", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("fully sampled\n")[1])["warnings"] == []
    report_file(out, tmp_path / "page.html")
    assert 'class="warnings"' not in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "warnings" not in bytes(nibabel.load(tmp_path / "out.nii.gz").header["descrip"]).decode()
    assert reds(tmp_path / "out.png") == 0
    with h5py.File(out) as file:
        assert file["messages"]["warnings"].shape == (0,)
        assert "warnings" not in file.attrs


def test_a_hostile_message_stays_text_on_the_page(scan: Path) -> None:
    out, page = scan.with_name("out.h5"), scan.with_name("page.html")
    assert main(["recon", str(scan), "-o", str(out), "--method", "zero-filled"]) == 0
    with h5py.File(out, "r+") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        del file["messages/warnings"]
        file["messages"].create_dataset("warnings", data=np.array([b"<script>alert(1)</script>\xff"], dtype="S40"))
    report_file(out, page)
    text = page.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("stored", [np.zeros(3), np.array(["a"] * 2, dtype=object), np.array([[b"a"]])])
def test_messages_that_are_none_of_ours_are_passed_over(scan: Path, stored: np.ndarray) -> None:
    out = scan.with_name("out.h5")
    assert main(["recon", str(scan), "-o", str(out), "--method", "zero-filled"]) == 0
    with h5py.File(out, "r+") as file:
        file.attrs.pop("checksums", None)  # changed on purpose
        del file["messages"]
        kind = h5py.string_dtype() if stored.dtype == object else stored.dtype
        file.create_dataset("messages/warnings", data=stored, dtype=kind)
        file["messages"]["notes"] = h5py.SoftLink("/mask")
    with open_result(out) as result:
        assert result.said == NOTHING


def test_undersampled_files_keep_what_was_said(scan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    z = np.load(scan)
    z[:, :, ::2] = z[:, :, 1::2]
    np.save(scan, z)
    out = scan.with_name("r2.h5")
    assert main(["undersample", str(scan), "-o", str(out), "--acceleration", "2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made["notes"]) <= set(bayesmri.read(out).header.notes)
    assert set(made["warnings"]) <= set(bayesmri.read(out).header.warnings)
    assert any(text.startswith(THREE) for text in bayesmri.reconstruct(read_kspace(out), "zero-filled").notes)


@pytest.mark.parametrize("verb", ["recon", "inspect", "undersample"])
def test_strict_lists_the_warnings_and_writes_nothing(
    verb: str, scan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(scan.parent.iterdir())
    mask = scan.with_name("mask.txt")
    if verb == "undersample":  # a full scan, and a mask without its central line
        z = np.load(scan)
        z[:, :, ::2] = z[:, :, 1::2]
        np.save(scan, z)
        mask.write_text("\n".join(str(i % 2) for i in range(28)))
        before.add(mask)
    out = str(scan.with_name("out.h5"))
    words = {"recon": ["-o", out, "--method", "tv"], "inspect": [], "undersample": ["-o", out, "--mask", str(mask)]}
    command = [verb, str(scan), *words[verb]]
    assert main([*command, "--strict"]) == 2
    assert CENTRE in capsys.readouterr().err
    assert main([*command, "--strict", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "StrictError"
    assert any(text.startswith(CENTRE) for text in error["warnings"])
    assert set(scan.parent.iterdir()) == before
    assert main(command) == 0


def test_in_python_warnings_are_an_attribute_or_an_error(scan: Path) -> None:
    kspace = read_kspace(scan)
    result = bayesmri.reconstruct(kspace, "zero-filled")
    assert any(text.startswith(CENTRE) for text in result.warnings)
    assert any(text.startswith(THREE) for text in result.notes)
    with pytest.raises(StrictError, match="central line"):
        bayesmri.reconstruct(kspace, "zero-filled", strict=True)
    full = bayesmri.as_kspace(np.fft.fftshift(np.fft.fft2(np.random.default_rng(0).random((16, 16)))))
    holes = np.arange(16) % 2 == 1
    with pytest.raises(StrictError, match="central line"):
        bayesmri.undersample(full, mask=holes, strict=True)
    assert not bayesmri.undersample(full, mask=holes).fully_sampled


def test_a_caption_counts_what_it_cannot_hold() -> None:
    lines = caption_lines([f"{i} " + "word " * 20 for i in range(40)], 60)
    assert len(lines) <= MOST_LINES + 1
    assert all(len(line) <= 60 for line in lines)
    shown = sum(line.startswith("Warning: ") for line in lines) - 1
    assert lines[-1] == f"Warning: {40 - shown} more, in the HDF5 file"


# --- errors as JSON

JSON_VERBS = sorted(
    verb
    for verb in build_app()
    if not verb.startswith("-") and verb != "train"  # whose report is a folder
)


@pytest.mark.parametrize("verb", JSON_VERBS)
def test_a_command_line_that_cannot_be_parsed_is_json_too(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--no-such-flag", "--json"]) == 2
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert error["kind"] == "UsageError"
    assert said.err.strip() == f"bayesmri: {error['message']}"
    assert main([verb, "--no-such-flag"]) == 2
    assert capsys.readouterr().out == ""


def test_errors_say_their_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.h5").write_bytes(b"nothing")
    kinds = {
        "FormatError": ["inspect", str(tmp_path / "bad.h5")],
        "ModelError": ["models", "no-such-model"],
        "ConfigError": ["recon", "x.h5", "--method", "tv", "--model", "auto"],
    }
    for kind, words in kinds.items():
        assert main([*words, "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["kind"] == kind
    assert main([*kinds["ModelError"], "--json", "--no-json"]) == 2
    assert capsys.readouterr().out == ""


# --- what is there is not overwritten


def writers(folder: Path) -> dict[str, tuple[list[str], str]]:
    """Commands that write, and a file of theirs; inputs that matter only later need not exist."""
    data, nowhere = str(folder / "data"), str(folder / "nowhere.h5")
    return {
        "recon": (["recon", nowhere, "-o", "out.h5", "--nifti"], "out.nii.gz"),
        "report": (["report", nowhere, "-o", "page.html"], "page.html"),
        "export": (["export", nowhere, "--anonymise", "-o", "clean.h5"], "clean.h5"),
        "undersample": (["undersample", nowhere, "-o", "r4.h5"], "r4.h5"),
        "simulate": (["simulate", "--phantom", "knee", "-o", "knee.h5"], "knee.h5"),
        "evaluate": (["evaluate", "--data", data, "-o", "results.json"], "results.md"),
        "study": (["study", "covariance", "--model", "tdv-r4", "-o", "."], "covariance.png"),
        "curves": (["curves", nowhere, "-o", "curves.png"], "curves.json"),
        "distill": (["distill", nowhere, "-o", "model.json"], "model.safetensors"),
        "calibrate": (["calibrate", "tdv-r4", "--data", data, "-o", "model.json"], "model.json"),
        "whatif": (["whatif", nowhere, "--erase", "1,1,1", "-o", "out.h5"], "out.h5"),
        "familiarise": (["familiarise", nowhere, "--data", data, "-o", "model.json"], "model.json"),
        "posterior": (
            ["posterior", "tdv-r4", "--beta", "1e-8", "--config", "c.toml", "-o", "model.json"],
            "model.json",
        ),
        "publish": (["publish", nowhere, "mine", "-o", "."], "mine.json"),
        "demo": (["demo", "-o", "."], "recon_std.nii.gz"),
        "stream": (["stream", nowhere, "localhost:9002", "-o", "images.h5"], "images.h5"),
    }


@pytest.mark.parametrize("verb", sorted(writers(Path())))
def test_existing_outputs_are_refused_before_any_work(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "a.npy", np.ones((16, 16), dtype=np.complex64))
    (tmp_path / "c.toml").touch()
    words, name = writers(tmp_path)[verb]
    (tmp_path / name).write_text("precious")
    assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert name in said
    assert "--force" in said
    assert (tmp_path / name).read_text() == "precious"
    assert {p.name for p in tmp_path.iterdir() if p.is_file()} == {name, "c.toml"}


def test_every_command_that_names_an_output_is_among_them() -> None:
    app = build_app()
    naming = {
        verb
        for verb in app
        if not verb.startswith("-")
        and any("--output" in argument.names for argument in app[verb].assemble_argument_collection())
    }
    assert naming == {*writers(Path()), "train"}  # which resumes a folder, or refuses it


def test_force_overwrites(tmp_path: Path) -> None:
    command = ["simulate", "--phantom", "head", "--size", "32x32", "-o", str(tmp_path / "a.h5")]
    assert main(command) == 0
    assert main(command) == 2
    assert main([*command, "--force"]) == 0


def test_force_leaves_no_map_of_an_earlier_image(tmp_path: Path) -> None:
    simulate_file(PhantomRequest("head", "PD", (32, 40)), tmp_path / "a.h5", seed=1)
    save_model(tmp_path / "m.json", tiny())
    command = ["recon", str(tmp_path / "a.h5"), "--acceleration", "3", "--nifti", "-o", str(tmp_path / "out.h5")]
    command += ["--model", str(tmp_path / "m.json")]
    assert main([*command, "--samples", "2"]) == 0
    assert (tmp_path / "out_std.nii.gz").exists()
    assert main([*command, "--force"]) == 0
    assert (tmp_path / "out.nii.gz").exists()
    assert not (tmp_path / "out_std.nii.gz").exists()
