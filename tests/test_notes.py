"""What `inspect` finds odd, the commands that use the file say too: on stderr, and inside their JSON."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.io.inspect import inspect_file
from reader_files import random_kspace, write_h5

RNG = np.random.default_rng(3)


def odd_kspace() -> dict[str, np.ndarray]:
    """By the words that a note must hold."""
    z = random_kspace(1, 3, 32, 40)
    lines = np.arange(40)
    dead = z * np.array([1, 0, 1], np.float32)[:, None, None]
    return {
        "undersampled along its rows": z * (np.arange(32) % 2 == 0)[:, None],
        "not centred": np.roll(z, 12, axis=-1),
        "the central line of k-space was not acquired": z * (lines % 4 == 1),
        "coils without signal: 1": dead,
        "were taken as (coil, row, column)": z[0],
        "zero padding": z * ((lines > 2) & (lines < 37)),
    }


@pytest.mark.parametrize("words", odd_kspace())
def test_recon_says_what_inspect_says(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "odd.npy", tmp_path / "out.h5"
    np.save(path, odd_kspace()[words].astype(np.complex64))
    argv = ["recon", str(path), "-o", str(out), "--method", "zero-filled"]
    assert main(argv) == 0
    said = capsys.readouterr()
    found = inspect_file(path)
    lines = [f"note: {text}" for text in found.notes] + [f"warning: {text}" for text in found.warnings]
    assert any(words in line for line in lines)
    assert [line for line in said.err.splitlines() if line.startswith(("note: ", "warning: "))] == lines
    assert "note: " not in said.out
    assert main([*argv, "--json", "--force"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    assert (made["notes"], made["warnings"]) == (list(found.notes), list(found.warnings))
    assert any(words in line for line in said.err.splitlines())


def test_undersample_says_it_too_and_speaks_of_its_own_mask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, mask, out = tmp_path / "odd.npy", tmp_path / "mask.txt", tmp_path / "out.h5"
    np.save(path, random_kspace(3, 32, 40))
    mask.write_text("0100" * 10)
    assert main(["undersample", str(path), "-o", str(out), "--mask", str(mask), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    said = "the 3 axes of 3 x 32 x 40 were taken as (coil, row, column); say it if they are others"
    assert [note.split(":")[0] for note in made["notes"]] == [said]
    assert [text.split(":")[0] for text in made["warnings"]] == ["the central line of k-space was not acquired"]
    argv = ["recon", str(path), "-o", str(out), "--mask", str(mask), "--method", "zero-filled", "--json", "--force"]
    assert main(argv) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["notes"], again["warnings"]) == (made["notes"], made["warnings"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (RNG.random((32, 40, 2, 3), np.float32), "of 3 volumes the first was taken"),
        (RNG.random((32, 40, 2), np.float32).astype(np.complex64), "read as its magnitude"),
        (RNG.random((32, 40, 2), np.float32) * np.array([1, 0], np.float32), "slices without contrast: 1"),
    ],
)
def test_simulate_says_what_it_made_of_the_images(
    values: np.ndarray, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "images.nii"
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    assert main(["simulate", str(path), "-o", str(tmp_path / "out.h5"), "--json"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    (level,) = [level for level in ("notes", "warnings") if any(words in text for text in made[level])]
    assert [line for line in said.err.splitlines() if line.startswith(f"{level[:-1]}: ") and words in line]


def test_plain_files_need_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_h5(tmp_path / "plain.h5", {"kspace": random_kspace(2, 2, 32, 40)}), str(tmp_path / "out.h5")
    for argv in (["recon", str(path), "--method", "zero-filled"], ["undersample", str(path)]):
        assert main([*argv, "-o", out, "--json", "--force"]) == 0
        said = capsys.readouterr()
        made = json.loads(said.out)
        assert made["notes"] == made["warnings"] == []
        assert "note: " not in said.err
        assert "warning: " not in said.err
