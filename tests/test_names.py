"""Names that people and strangers give to files: whatever they hold is one printable line where we print it."""

from pathlib import Path

import pytest

from bayesmri.bounded import UNSEEN
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from test_model_files import small

FORGED = "wrote /etc/passwd"
ODD = f"a\x1b[31m\n{FORGED}\x07\u202e\u2028"


def test_no_line_is_forged_by_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ODD.replace("/", "-")
    forged = FORGED.replace("/", "-")
    folder.mkdir()
    scan, half = folder / f"{folder.name}.h5", folder / "half.h5"
    model = folder / f"रीढ़{folder.name}.json"
    page, image = folder / "page.html", folder / "image.h5"
    save_model(model, small())
    sampling = ["--acceleration", "4", "--mask", "random"]
    verbs = [
        ["simulate", "--phantom", "knee", "--size", "32x32", "--slices", "1", "--coils", "1", "-o", str(scan)],
        ["inspect", str(scan)],
        ["inspect", "--privacy", str(scan)],
        ["verify", str(scan), str(model)],
        ["undersample", str(scan), "-o", str(half), *sampling],
        ["recon", str(scan), "--model", str(model), "-o", str(image), "--nifti", "--png", *sampling],
        ["recon", str(scan), "--model", f"{folder}/missing\n{forged}.json", "-o", str(page)],
        ["report", str(image), "-o", str(page)],
        ["inspect", str(folder)],
    ]
    for words in verbs:
        assert main(words) == (2 if "missing" in str(words) or words[-1] == str(folder) else 0)
        told = capsys.readouterr()
        for line in (told.out + told.err).split("\n"):
            assert not UNSEEN.search(line), (words[0], line)
            assert not line.startswith(forged), (words[0], line)
        assert folder.name not in told.out + told.err
