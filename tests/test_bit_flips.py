"""One flipped bit in a file: an image, one line, or a crash of the child that was caught; the command never dies."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostile_writers import Writer, cfl, fastmri, images, mrd, npy, npz, packed

# One process runs the command again and again, as `python -m bayesmri` would; each time a child reads the file. Exit
# codes: 0 an image, 2 one line. What ends this process instead is missing in its output.
SERVER = """
import contextlib, io, json, random, sys
from pathlib import Path
from bayesmri.cli import main

count, then, *files = int(sys.argv[1]), sys.argv[2], *sys.argv[3:]
for path in map(Path, files):
    whole, out = path.read_bytes(), path.with_name("out.h5")
    for seed in range(count):
        rng = random.Random(f"{path.parent.name} {seed}")
        damaged = bytearray(whole)
        # half of the flips fall into the first kilobyte, where most headers are
        bit = rng.randrange(8 * (len(whole) if seed % 2 else min(len(whole), 1024)))
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        said, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            code = main(["inspect", str(path)])
            if code == 0 and then == "recon":
                out.unlink(missing_ok=True)
                code = main(["recon", str(path), "-o", str(out), "--method", "zero-filled"])
        errors = [line for line in told.getvalue().splitlines() if line.startswith("bayesmri:")]
        print(json.dumps({"file": str(path), "bit": bit, "code": code, "errors": errors}), flush=True)
"""


def hdr(folder: Path) -> Path:
    return cfl(folder).with_suffix(".hdr")


FORMATS: dict[str, Writer] = {
    "fastMRI HDF5": fastmri,
    "fastMRI HDF5, packed": packed,
    "MRD": mrd,
    "npy": npy,
    "npz": npz,
    "cfl": cfl,
    "hdr": hdr,
    "HDF5 images": images,
}


def flips(folder: Path, names: list[str], count: int, then: str) -> dict[str, Counter[str]]:
    """How many flips ended in an image, a line, or a caught crash, by format."""
    paths = {}
    for name in names:
        (folder / name).mkdir()
        paths[name] = str(FORMATS[name](folder / name))
    command = [sys.executable, "-c", SERVER, str(count), then, *paths.values()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000, check=False)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, f"the command died after {len(found)} flips: {ended.stderr[-2000:]}"
    assert len(found) == count * len(names)
    counted = {name: Counter[str]() for name in names}
    for flip in found:
        assert flip["code"] in (0, 2), flip
        assert len(flip["errors"]) == (flip["code"] == 2), flip
        name = next(name for name, path in paths.items() if path == flip["file"])
        kind = "images" if flip["code"] == 0 else "crashes" if "crash" in flip["errors"][0] else "lines"
        counted[name][kind] += 1
    return counted


@pytest.mark.skipif(sys.platform != "linux", reason="child processes are forked on Linux alone")
def test_the_command_survives_flipped_bits(tmp_path: Path) -> None:
    for name, found in flips(tmp_path, list(FORMATS), 25, "inspect").items():
        assert found["lines"] > 0, name
        assert found.total() == 25


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.platform != "linux", reason="child processes are forked on Linux alone")
@pytest.mark.parametrize("name", FORMATS)
def test_the_command_survives_five_hundred_flipped_bits(tmp_path: Path, name: str) -> None:
    """And reconstructs whatever passes."""
    (found,) = flips(tmp_path, [name], 500, "inspect" if name == "HDF5 images" else "recon").values()
    print(f"\n{name}: {dict(found)}")
    assert found["lines"] > 0
    assert found["images"] > 0
