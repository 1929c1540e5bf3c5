"""The built wheel holds the package's weights and works in an environment that never saw the repository."""

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "src" / "bayesmri" / "weights"


def call(*argv: str | Path, folder: Path) -> str:
    done = subprocess.run([str(a) for a in argv], cwd=folder, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheel_works_without_the_repository(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    held = {Path(name).name for name in names if "/weights/" in name}
    kernels = {"machine/vectors.h", "physics/columns.c", "regularizers/winograd.c"}
    kernels |= {"regularizers/kernels.c", "regularizers/kernels.h"}
    assert {f"bayesmri/{name}" for name in kernels} <= set(names)
    assert held == {path.name for path in WEIGHTS.iterdir()}

    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip())
    call(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel, folder=tmp_path)
    # dependencies come from here, so that nothing is downloaded; site reads .pth files of `site` alone, which leaves
    # out the editable installation of the repository
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    home = call(python, "-c", "import bayesmri; print(bayesmri.__file__)", folder=tmp_path).strip()
    assert Path(home).is_relative_to(site)

    bayesmri = (python, "-m", "bayesmri")
    models = json.loads(call(*bayesmri, "models", "--json", folder=tmp_path))
    assert {row["name"] for row in models} == {path.stem for path in WEIGHTS.glob("*.json")}
    for coils in (1, 8):
        call(
            *bayesmri,
            "simulate",
            "--phantom",
            "knee",
            "--size",
            "64x64",
            "--coils",
            str(coils),
            "-o",
            f"knee{coils}.h5",
            folder=tmp_path,
        )
        fits = [row for row in models if row["family"] == "tdv" and (row["coils"] == "1") == (coils == 1)]
        how = ["--model", "auto", "--samples", "2"] if fits else ["--method", "tv"]
        made = json.loads(
            call(
                *bayesmri,
                "recon",
                f"knee{coils}.h5",
                "-o",
                f"out{coils}.h5",
                "--acceleration",
                "4",
                *how,
                "--json",
                folder=tmp_path,
            )
        )
        assert made["method"] in ({row["name"] for row in fits} or {"tv"})
        assert (tmp_path / f"out{coils}.h5").is_file()
