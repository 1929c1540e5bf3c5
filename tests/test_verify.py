"""What we write carries its checksums: damage, edits and mixtures of two runs are seen before anything is shown."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, DataError, FormatError
from bayesmri.evaluation.verify import verify
from bayesmri.io.formats import read_kspace
from bayesmri.io.integrity.seal import SEAL
from bayesmri.io.provenance import seen_since, stamps
from bayesmri.io.results import open_result, read_provenance
from bayesmri.io.write_h5 import name_files, write_kspace, write_reconstruction
from bayesmri.kspace import Header, KSpace
from bayesmri.messages import Messages

SHAPE = (2, 6, 7)


def result(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    images = {
        name: rng.random(SHAPE, dtype=np.float32) for name in ("reconstruction", "uncertainty_std", "error_bound")
    }
    images["visibility/lesion:3:0.3"] = rng.random(SHAPE, dtype=np.float32)
    images["samples"] = rng.random((2, 3, 6, 7), dtype=np.float32)
    write_reconstruction(
        path,
        images,
        header=Header("x", acquisition="knee", voxel_mm=(1.0, 1.0, 3.0)),
        provenance={"command": "recon", "config": {"model": "tdv-r4"}, "seed": seed},
        about={"error_bound": {"level": 0.9, "guarantee": "holds"}},
        said=Messages(("a note",), ("a warning",)),
    )
    return path


def shown(path: Path) -> str:
    """All that a reader gets of a result, as text that equals itself."""
    with open_result(path) as found:
        images = [found.mean, *found.others.values(), *found.visibility.values(), *(found.sample(s, 1) for s in (0, 1))]
        facts = (
            found.level,
            found.promise,
            found.header,
            found.provenance,
            found.said,
            found.contents,
            found.n_samples,
        )
        return repr(facts) + "".join(image.tobytes().hex() for image in images)


def scan(path: Path) -> Path:
    rng = np.random.default_rng(1)
    z = (rng.normal(size=(2, 1, 16, 18)) + 1j * rng.normal(size=(2, 1, 16, 18))).astype(np.complex64)
    write_kspace(path, KSpace(z, np.ones(18, bool), Header("x")), provenance={}, truth=np.abs(z[:, 0]))
    return path


@pytest.mark.parametrize(("make", "look"), [(result, shown), (scan, lambda path: read_kspace(path).z.tobytes())])
def test_no_flipped_bit_of_ours_goes_unnoticed(
    tmp_path: Path, make: Callable[[Path], Path], look: Callable[[Path], Any]
) -> None:
    """Refused, or in a place that nothing is read from."""
    path, rng = make(tmp_path / "r.h5"), np.random.default_rng(7)
    content, was, refused = path.read_bytes(), look(path), 0
    for place in rng.integers(0, 8 * len(content), 150):
        broken = bytearray(content)
        broken[place // 8] ^= 1 << int(place % 8)
        path.write_bytes(bytes(broken))
        told = ""
        try:
            assert look(path) == was
        except BayesMRIError as error:
            refused, told = refused + 1, str(error)
        assert "\n" not in told
    assert refused > 30
    path.write_bytes(content)
    assert look(path) == was


def test_every_dataset_and_attribute_has_its_own_checksum(tmp_path: Path) -> None:
    path = result(tmp_path / "r.h5")
    places = {"reconstruction": (0, 0, 0), "visibility/lesion:3:0.3": (1, 5, 6), "samples": (1, 2, 0, 0)}
    for name, index in places.items():
        with h5py.File(path, "r+") as file:
            was = file[name][index]
            file[name][index] = was + 1
        with pytest.raises(FormatError, match=f"`{name}`.*is not what was written"), open_result(path):
            pytest.fail("a changed value was read")
        with h5py.File(path, "r+") as file:
            file[name][index] = was
    assert verify(path).whole
    with h5py.File(path, "r+") as file:
        file["error_bound"].attrs["level"] = 0.99
    with pytest.raises(FormatError, match="`error_bound@level`"):
        read_provenance(path)
    with h5py.File(path, "r+") as file:
        del file.attrs[SEAL]  # whoever changes a file on purpose says so
    with open_result(path) as found:
        assert found.level == 0.99
    assert verify(path).whole is None


def test_a_mixture_of_two_runs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture, other = tmp_path / "r.h5", tmp_path / "r.png", tmp_path / "notes.txt"
    for file in (picture, other):
        file.write_bytes(b"of the first run")
    result(path)
    name_files(path, {"r.png": picture})
    assert main(["verify", str(path), str(picture), str(other)]) == 0
    assert [line.split(": ")[1].split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "whole",
        "whole",
        "unknown",
    ]
    picture.write_bytes(b"of the second run")
    for given in (path, picture):
        assert main(["verify", str(given), "--json"]) == 2
        (told,) = json.loads(capsys.readouterr().out)
        assert told["faults"] == ["r.png is damaged, or of another run"]
    picture.unlink()
    assert verify(path).faults == ("r.png is missing, which was written with it",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": 3}', '{"of": {}, "sha256": ""}', "[" * 3000])
def test_damaged_checksums_are_damage(tmp_path: Path, text: str) -> None:
    path = result(tmp_path / "r.h5")
    with h5py.File(path, "r+") as file:
        file.attrs[SEAL] = text
    with pytest.raises(FormatError, match=r"checksums of r\.h5 are damaged"), open_result(path):
        pytest.fail("damage was read")


def test_files_of_others_and_no_files_are_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("[")
    (tmp_path / "y.json").write_text("{}")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["kspace"] = np.ones((2, 8, 8), np.complex64)
    names = [tmp_path / name for name in ("x.json", "y.json", "z.h5", "absent\x1b[31m.h5", "")]
    assert [verify(path).whole for path in names] == [False, None, None, False, False]
    assert main(["verify", *map(str, names)]) == 2
    assert capsys.readouterr().out.replace("\n", "").isprintable()
    assert main(["verify"]) == 2


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = scan(tmp_path / "scan.h5")
    before = stamps([path])
    ((one,),) = seen_since(before, [path])
    assert one.name == "scan.h5"
    (tmp_path / "other.h5").write_bytes(path.read_bytes())
    (tmp_path / "other.h5").replace(path)
    with pytest.raises(DataError, match="was changed while it was read"):
        seen_since(before, [path])
    with pytest.raises(DataError):
        seen_since({}, [path])


def test_verifying_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from bayesmri.cli import main; code = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code, "verify", str(result(tmp_path / "r.h5"))], check=True)
