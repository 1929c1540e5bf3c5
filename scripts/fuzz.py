"""Coverage-guided fuzzing of every parser of ours: `python scripts/fuzz.py READER --seconds 600` (needs atheris).

Bytes that atheris makes of small honest files are read as a user's file would be. Anything but an image or a
BayesMRIError on one printable line is a finding: the bytes are kept in --crashes, and the script ends with 1.
`--all` takes one reader after another and prints a table.
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
    "packed",
    "mrd",
    "cfl",
    "npy",
    "npz",
    "nifti",
    "nifti_gz",
    "dicom",
    "result",
    "model",
    "toml",
    "xml",
)


def seed(name: str, folder: Path) -> tuple[Path, Callable[[Path], Any]]:
    """A small honest file of that kind, and what reads it."""
    sys.path.insert(0, str(TESTS))
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


def fuzz(name: str, seconds: int, crashes: Path) -> None:
    """Never returns: atheris ends the process."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["bayesmri"]):
        import bayesmri.io.formats  # noqa: F401
        from bayesmri.errors import BayesMRIError
    folder = Path(tempfile.mkdtemp(prefix="bayesmri-fuzz-"))
    path, read = seed(name, folder)
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "honest").write_bytes(path.read_bytes())
    os.environ["BAYESMRI_MAX_BYTES"] = str(2**26)

    def one(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        except BayesMRIError as error:
            if not str(error).isprintable():
                raise AssertionError(f"a message of more than one printable line: {str(error)!r}") from error

    crashes.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/{name}-", "-rss_limit_mb=4096", "-timeout=60"]
    atheris.Setup([sys.argv[0], *options, "-max_len=65536", "-verbosity=0", "-print_final_stats=1", str(corpus)], one)
    atheris.Fuzz()


def campaign(seconds: int, crashes: Path) -> int:
    """All readers, one after another."""
    failed = 0
    print("| reader | inputs | findings |\n|---|---|---|", flush=True)
    for name in READERS:
        command = [sys.executable, __file__, name, "--seconds", str(seconds), "--crashes", str(crashes)]
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
    asked = parser.parse_args()
    if asked.all or asked.reader is None:
        return campaign(asked.seconds, asked.crashes)
    fuzz(asked.reader, asked.seconds, asked.crashes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
