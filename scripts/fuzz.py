"""Coverage-guided fuzzing of every parser of ours: `python scripts/fuzz.py READER --seconds 600` (needs atheris).

Bytes that atheris makes of small honest files are read as a user's file would be. Anything but an image or a
BayesMRIError on one printable line is a finding: the bytes are kept in --crashes, and the script ends with 1.
`--all` takes one reader after another and prints a table.

Of HDF5 two kinds: for `fastmri`, `mrd` and `result` the bytes decide on datasets, attributes, links and lines of a file
that is whole for the library (tests/fuzzed_h5.py), so that what is above it is tested, and not the library; for those
in `_bytes` the file's own bytes are changed, and read in a limited child process as the commands do, unguided.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
READERS = (
    "fastmri",
    "mrd",
    "result",
    "fastmri_bytes",
    "packed_bytes",
    "mrd_bytes",
    "result_bytes",
    "cfl",
    "npy",
    "npz",
    "nifti",
    "nifti_gz",
    "dicom",
    "model",
    "toml",
    "xml",
)


def seed(name: str, folder: Path) -> tuple[Path, Callable[[Path], Any]]:
    """A small honest file of that kind, and what reads it."""
    if name == "result":
        from bayesmri.io.results import open_result
        from test_verify import result

        def look(path: Path) -> Any:
            with open_result(path) as found:
                return found.mean

        return result(folder / "r.h5"), look
    if name == "model":
        from bayesmri.checkpoint import save_model
        from bayesmri.runs import read_record
        from bayesmri.stored_model import model_from
        from test_model_files import small

        save_model(folder / "m.json", small())
        weights = (folder / "m.safetensors").read_bytes()

        def load(path: Path) -> Any:
            from bayesmri.bounded import json_of
            from bayesmri.errors import ModelError

            try:
                record = json_of(path.read_bytes())
            except ValueError as error:
                raise ModelError(f"no JSON: {error}") from error
            if not isinstance(record, dict):
                return read_record(path)
            return model_from(record, weights, path)

        return folder / "m.json", load
    if name == "toml":
        from bayesmri.training.run_folder import read_config

        path = folder / "c.toml"
        path.write_bytes((TESTS.parent / "configs" / "quick.toml").read_bytes())
        return path, read_config
    if name == "xml":
        from bayesmri.io.ismrmrd_xml import parse_header
        from reader_files import header_xml

        (folder / "h.xml").write_text(header_xml(16, 18))
        return folder / "h.xml", lambda path: parse_header(path.read_text("utf-8", "replace"), name="h.xml")
    import hostile_writers
    from bayesmri.io.formats import read

    return getattr(hostile_writers, name)(folder), read


def fuzz(name: str, seconds: int, crashes: Path, kept: Path | None) -> None:
    """Never returns: atheris ends the process. kept: a folder of inputs to begin with, and for new ones."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    folder = Path(tempfile.mkdtemp(prefix="bayesmri-fuzz-"))
    with atheris.instrument_imports(include=["bayesmri"]):
        from bayesmri.errors import BayesMRIError

        path, look = seed(name.removesuffix("_bytes"), folder)
        look(path)  # imports the rest
    import fuzzed_h5
    from bayesmri.io.apart.child import apart
    from bayesmri.io.apart.limits import Limits

    corpus, build = (kept or folder) / name, fuzzed_h5.KINDS.get(name)
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "honest").write_bytes(b"" if build else path.read_bytes())
    os.environ["BAYESMRI_MAX_BYTES"] = str(2**26)

    def read(path: Path) -> Any:
        if not name.endswith("_bytes"):
            return look(path)
        return apart(lambda: bool(look(path) is None), name="the file", limits=Limits(5, 20.0, 2**30))

    def one(data: bytes) -> None:
        if build:
            build(fuzzed_h5.Dice(data), path)
        else:
            path.write_bytes(data)
        try:
            read(path)
        except BayesMRIError as error:
            if not str(error).isprintable():
                raise AssertionError(f"a message of more than one printable line: {str(error)!r}") from error

    crashes.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={512 if build else 65536}",
        f"-artifact_prefix={crashes}/{name}-",
        "-rss_limit_mb=4096",
        "-timeout=60",
    ]
    atheris.Setup([sys.argv[0], *options, "-verbosity=0", "-print_final_stats=1", str(corpus)], one)
    atheris.Fuzz()


def campaign(seconds: int, crashes: Path, kept: Path | None) -> int:
    """All readers, one after another."""
    failed = 0
    print("| reader | inputs | findings |\n|---|---|---|", flush=True)
    for name in READERS:
        command = [sys.executable, __file__, name, "--seconds", str(seconds), "--crashes", str(crashes)]
        command += [] if kept is None else ["--corpus", str(kept)]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace")
        executed = [line.split()[-1] for line in run.stderr.splitlines() if "number_of_executed_units" in line]
        found = sorted(crashes.glob(f"{name}-*")) if crashes.exists() else []
        failed += bool(found) or run.returncode != 0
        why = (
            ""
            if run.returncode == 0
            else f" ({run.stderr.strip().splitlines()[-1][:100] if run.stderr else 'no word'})"
        )
        print(f"| {name} | {executed[-1] if executed else '?'} | {len(found)}{why} |", flush=True)
        if run.returncode != 0:
            (crashes / f"{name}.log").write_text(run.stderr[-20_000:])
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", nargs="?", choices=READERS)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--crashes", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--corpus", type=Path, help="a folder that keeps inputs for the next time")
    asked = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    if asked.all or asked.reader is None:
        return campaign(asked.seconds, asked.crashes, asked.corpus)
    fuzz(asked.reader, asked.seconds, asked.crashes, asked.corpus)
    return 0


if __name__ == "__main__":
    sys.exit(main())
