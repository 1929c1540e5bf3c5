"""The command line as a contract: names, exit codes, one line for every mistake, nothing left behind."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri.cli import build_app, main
from bayesmri.cli.progress import progress

VERBS = tuple(name for name in build_app() if not name.startswith("-"))


@pytest.fixture(scope="module")
def knee(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("knee") / "knee.h5"
    argv = ["simulate", "--phantom", "knee", "-o", str(path), "--coils", "2", "--snr", "30", "--seed", "1"]
    assert main([*argv, "--size", "48x40", "--slices", "2"]) == 0
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the last line, whole: a line that wraps at 80 columns cannot be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith(f"Example: bayesmri {verb}")


def test_all_verbs_of_the_contract_are_there() -> None:
    assert {"inspect", "simulate", "undersample", "recon", "train", "evaluate", "bench", "demo"} <= set(VERBS)


def test_the_list_of_verbs_imports_none_of_them() -> None:
    """New verbs cost nobody time; each is listed with the first line of its docstring."""
    code = "import sys; from bayesmri.cli import main; main(['--help']); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = shown.splitlines()[-1].split()
    assert not {f"bayesmri.cli.{verb}" for verb in VERBS} & set(loaded)
    assert not {"torch", "numpy", "h5py"} & set(loaded)
    for verb in VERBS:
        first = str(import_module(f"bayesmri.cli.{verb}").__dict__[verb].__doc__).split()[:4]
        assert " ".join([verb, *first]) in " ".join(shown.split()), verb


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip().count(".") == 2


def test_inspect_prints_json(knee: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(knee), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["slices"], found["coils"], found["shape"], found["acceleration"]) == (2, 2, [48, 40], 1.0)
    assert main(["inspect", str(knee)]) == 0
    out = capsys.readouterr().out
    assert "40 of 40 lines, R = 1.00" in out
    values = ("fastMRI HDF5", "48 x 40 (", "phantom knee PD")
    assert len({line.index(value) for line in out.splitlines() for value in values if value in line}) == 1, out


def test_undersample_and_recon(knee: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampled, out = tmp_path / "r4.h5", tmp_path / "out.h5"
    argv = ["undersample", str(knee), "-o", str(sampled), "--acceleration", "4", "--center-fraction", "0.08"]
    assert main([*argv, "--mask", "equispaced", "--seed", "3"]) == 0
    assert "10 of 40 lines (R = 4.00), 2 coils" in capsys.readouterr().out
    assert main(["recon", str(sampled), "-o", str(out), "--method", "tv", "--nifti", "--png", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made["metrics"]) == {"zero-filled", "tv"}
    assert [Path(p).name for p in made["outputs"]] == ["out.h5", "out.nii.gz", "out.png"]
    assert all(Path(p).is_file() for p in made["outputs"])
    with h5py.File(out) as file:
        assert np.isfinite(file["reconstruction"][()]).all()


def test_recon_prints_a_table(knee: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["recon", str(knee), "-o", str(tmp_path / "out.h5"), "--method", "zero-filled", "--acceleration", "4"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "PSNR/dB" in out
    assert "10 of 40 lines (R = 4.00)" in out


def test_seeds_repeat_a_simulation_bit_by_bit(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.h5", "b.h5", "c.h5")]
    for path, seed in zip(files, "112", strict=True):
        argv = ["simulate", "--phantom", "head", "-o", str(path), "--coils", "2", "--snr", "20", "--size", "32"]
        assert main([*argv, "--seed", seed]) == 0
    first, again, other = (h5py.File(path)["kspace"][()] for path in files)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which says at its end whether torch was imported."""
    code = (
        "import sys; from bayesmri.cli import main; code = main(sys.argv[1:]); "
        "print('torch' in sys.modules); sys.exit(code)"
    )
    return subprocess.run([sys.executable, "-c", code, *argv], cwd=cwd, capture_output=True, text=True, check=False)


def inspect_into(stdout: int | None, knee: Path) -> tuple[int, bytes]:
    """Exit code and stderr of `bayesmri inspect` that prints to a descriptor; None closes it."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    argv = [sys.executable, "-m", "bayesmri", "inspect", str(knee)]
    if stdout is None:
        argv = ["sh", "-c", 'exec "$@" >&-', "sh", *argv]
    done = subprocess.run(argv, env=env, stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr


def test_a_reader_that_goes_away_is_no_traceback(knee: Path) -> None:
    """As in `bayesmri inspect scan.h5 | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    assert inspect_into(writer, knee) == (1, b"")
    os.close(writer)


def test_closed_output_is_no_failure(knee: Path) -> None:
    assert inspect_into(None, knee) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_is_full_is_one_line(knee: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        code, error = inspect_into(full.fileno(), knee)
    assert code == 1
    assert error.startswith(b"bayesmri: the system refused")
    assert error.count(b"\n") == 1


def test_names_that_the_terminal_cannot_show_are_escaped(knee: Path, tmp_path: Path) -> None:
    for name in ("µ-knee.h5", os.fsdecode(b"\xff.h5")):
        (tmp_path / name).write_bytes(knee.read_bytes())
        env = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
        argv = [sys.executable, "-m", "bayesmri", "inspect", name]
        done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(name.encode("ascii", "backslashreplace"))


@pytest.mark.parametrize(("error", "words"), [(MemoryError(), "out of memory"), (KeyboardInterrupt(), "interrupted")])
def test_what_ends_a_command_early_is_one_line(
    error: BaseException, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Path, **options: object) -> None:
        raise error

    monkeypatch.setattr(sys.modules["bayesmri.cli.inspect"], "inspect_file", fail)
    assert main(["inspect", "scan.h5"]) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert capsys.readouterr().err.startswith(f"bayesmri: {words}")


def test_torch_without_memory_is_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask_for_a_petabyte(_: Path, **options: object) -> None:
        torch.empty(10**15)

    monkeypatch.setattr(sys.modules["bayesmri.cli.inspect"], "inspect_file", ask_for_a_petabyte)
    assert main(["inspect", "scan.h5"]) == 2
    assert capsys.readouterr().err.startswith("bayesmri: out of memory")


def bad_files(folder: Path, good: Path) -> list[Path]:
    """Truncated, empty, not a number, no coils, one pixel, wrong type, a link elsewhere, a lie about size, no file."""
    whole = good.read_bytes()
    for percent in (1, 50, 99):
        (folder / f"cut{percent}.h5").write_bytes(whole[: len(whole) * percent // 100])
    (folder / "empty.h5").write_bytes(b"")
    (folder / "noise.h5").write_bytes(bytes(range(256)) * 4)
    arrays = {
        "nan": np.full((1, 16, 16), np.nan, np.complex64),
        "inf": np.full((1, 2, 16, 16), np.inf, np.complex64),
        "nocoils": np.ones((1, 0, 16, 16), np.complex64),
        "pixel": np.ones((1, 1, 1), np.complex64),
        "integers": np.ones((1, 16, 16), np.int64),
        "silent": np.zeros((1, 16, 16), np.complex64),
    }
    for name, array in arrays.items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["kspace"] = array
    with h5py.File(folder / "link.h5", "w") as file:
        file["kspace"] = h5py.ExternalLink(str(good), "kspace")
    with h5py.File(folder / "claim.h5", "w") as file:
        file.create_dataset("kspace", (100, 100, 25000, 25500), np.complex64, chunks=(1, 1, 64, 64))
    return [*sorted(folder.glob("*.h5")), folder / "missing.h5"]


def test_bad_files_get_one_line_and_leave_nothing(knee: Path, tmp_path: Path) -> None:
    """Without torch ever being imported: that alone would take longer than a refusal may."""
    work = tmp_path / "work"
    work.mkdir()
    source = tmp_path / "source"
    source.mkdir()
    for path in bad_files(source, knee):
        for argv in (["inspect", str(path)], ["recon", str(path), "-o", "out.h5", "--acceleration", "4"]):
            done = run(*argv, cwd=work)
            assert done.returncode == 2, (argv, done)
            assert done.stdout == "False\n", argv
            assert done.stderr.startswith("bayesmri: "), argv
            assert done.stderr.count("\n") == 1, argv
            assert list(work.iterdir()) == [], argv


@pytest.mark.parametrize(
    "argv",
    [
        ["banana"],
        ["recon"],
        ["recon", "{knee}", "--banana"],
        ["recon", "{knee}", "--method", "magic"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "0.5"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "nan"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--center-fraction", "0.9"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--mask", "radial"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--seed", "-1"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--seed", "1.5"],
        ["recon", "{knee}", "-o", "out.h5", "--tv-weight", "-1"],
        ["recon", "{knee}", "-o", "out.h5", "--coils", "0"],
        ["recon", "{knee}", "-o", "out.h5", "--device", "cuda:77"],
        ["recon", "{knee}", "-o", "."],
        ["recon", "{knee}", "-o", "{knee}"],
        ["recon", "{knee}", "-o", "out.nii.gz"],
        ["recon", "{knee}", "-o", "out.PNG"],
        ["undersample", "{knee}", "-o", "out.npy"],
        ["simulate", "--phantom", "knee", "-o", "out.dcm", "--size", "32"],
        ["undersample", "{knee}", "-o", "out.h5", "--mask", "equispaced", "--offset", "99999999999999999999"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--mask", "equispaced", "--offset", "400"],
        ["recon", "{knee}", "-o", "out.h5", "--acceleration", "4", "--mask", "equispaced", "--offset=-1"],
        ["undersample", "{knee}"],
        ["simulate", "-o", "out.h5"],
        ["simulate", "{knee}", "-o", "out.h5"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "2x2"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "large"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--coils", "0"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--slices", "0"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--snr", "nan"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--snr=-4000"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "100000"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "8x100000"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--slices", "1000000000"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "32", "--coils", "100000"],
        ["simulate", "--phantom", "knee", "-o", "out.h5", "--size", "320", "--coils", "9999999"],
        ["simulate", "{knee}", "-o", "out.h5", "--slices", "3"],
    ],
)
def test_misuse_is_one_line_and_exit_code_2(
    argv: list[str], knee: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = knee.read_bytes()
    assert main([word.format(knee=knee) for word in argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bayesmri: ")
    assert error.count("\n") == 1
    assert "internal" not in error
    assert list(tmp_path.iterdir()) == []
    assert knee.read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "advice"),
    [
        (["recon", "--acceleration", "4"], "leave the acceleration out to reconstruct it as it is"),
        (["recon", "--mask", "mask.txt"], "correct the mask or leave it out"),
        (["undersample"], "expected fully sampled data; reconstruct this as it is"),
        (["undersample", "--mask", "mask.txt"], "expected fully sampled data; reconstruct this as it is"),
        (["recon", "--center-fraction", "0.08"], "undersampled data has its own lines, leave that out"),
    ],
)
def test_advice_for_undersampled_data_can_be_followed(
    argv: list[str], advice: str, knee: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sampled, mask = tmp_path / "r4.h5", tmp_path / "mask.txt"
    assert main(["undersample", str(knee), "-o", str(sampled)]) == 0
    mask.write_text("10" * 20)
    words = [str(mask) if word == "mask.txt" else word for word in argv]
    capsys.readouterr()
    assert main([*words, str(sampled), "-o", str(tmp_path / "out.h5")]) == 2
    error = capsys.readouterr().err
    assert error.rstrip().endswith(advice)
    assert error.count("\n") == 1


def test_a_folder_is_blamed_and_not_the_output_in_it(
    knee: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = tmp_path / "x.h5"
    inside.write_bytes(knee.read_bytes())
    assert main(["undersample", str(tmp_path), "-o", str(inside)]) == 2
    told = f"bayesmri: {tmp_path} is a folder without DICOM files, expected a file"
    assert capsys.readouterr().err.startswith(told)
    for output in (inside, tmp_path / "new.h5"):  # results of a folder go into a folder
        assert main(["recon", str(tmp_path), "-o", str(output)]) == 2
        assert "expected a folder for the results of many" in capsys.readouterr().err
        assert not output.is_dir()
    assert inside.read_bytes() == knee.read_bytes()


def test_the_axes_that_are_wanted_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(tmp_path / "flat.h5", "w") as file:
        file["kspace"] = np.ones((2, 1, 1, 16, 16), np.complex64)
    assert main(["recon", str(tmp_path / "flat.h5"), "-o", str(tmp_path / "out.h5")]) == 2
    wanted = (
        "expected (row, column) or (slice, row, column) or (slice, coil, row, column); say what each of them is: --axes"
    )
    assert capsys.readouterr().err.rstrip().endswith(wanted)


@pytest.mark.parametrize("name", ["out.h5", "out.hdf5", "out", "out.v2", "nii.h5"])
def test_hdf5_may_have_any_name_of_its_own(knee: Path, tmp_path: Path, name: str) -> None:
    assert main(["recon", str(knee), "-o", str(tmp_path / name), "--method", "zero-filled"]) == 0
    with h5py.File(tmp_path / name) as file:
        assert "reconstruction" in file


def test_the_time_left_does_not_count_what_is_done_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred seconds before the first piece, six for each: after two of ten, eight times six are left."""
    now = 0.0
    monkeypatch.setattr("bayesmri.cli.progress.time.monotonic", lambda: now)
    with progress(10, title="recon") as advance:
        now = 100.0
        advance()
        now = 106.0
        advance()
    assert capsys.readouterr().err.splitlines() == ["recon: 1/10 slices", "recon: 2/10 slices, about 48 s left"]
