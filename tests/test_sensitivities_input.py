"""Sensitivities of the user's own: what shapes they have, what they do to the image, and what is refused."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bayesmri import as_kspace, reconstruct
from bayesmri.checkpoint import save_model
from bayesmri.cli import main
from bayesmri.complexes import rss
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import BayesMRIError, ConfigError, DataError, FormatError, ShapeError
from bayesmri.io.sensitivity_maps import MOST_SETS, read_sensitivities, with_sensitivities
from bayesmri.kspace import KSpace
from bayesmri.metrics import volume_metrics
from bayesmri.model import Coils, Model
from bayesmri.physics.espirit import FEWEST
from bayesmri.physics.fourier import ifft2c
from bayesmri.physics.scene import loop_sensitivities
from bayesmri.physics.sense import sensitivity_sets
from bayesmri.regularizers.tdv import TDV, TDVConfig
from reader_files import Complex, random_kspace, write_cfl

AXES = "slice coil row column"
BART = shutil.which("bart")
Q, H, W = 5, 48, 52
REG = TDV(TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
MODEL = Model(regularizer=REG, T=1000.0, S=2, coils=Coils("sensitivities", 8), rho=1.0)


@dataclass(frozen=True)
class Scan:
    """u: fully sampled, (slices, coils, H, W). Y: its image. s: the array's sensitivities, (coils, H, W)."""

    u: Complex
    Y: NDArray[np.float32]
    s: Complex

    def sampled(self, mask: NDArray[np.bool_]) -> KSpace:
        return as_kspace(self.u * mask, mask)


@cache
def scan(coils: int = Q, size: tuple[int, int] = (H, W), *, slices: int = 1) -> Scan:
    """A head in an array of loops."""
    X = phantom(PhantomSpec(anatomy="head", shape=size, slices=slices), rng=torch.Generator().manual_seed(3))
    u = acquire(X, Scanner(coils, 40.0), rng=torch.Generator().manual_seed(4))
    s = loop_sensitivities(coils, size, rng=torch.Generator().manual_seed(4))  # the first thing that `acquire` draws
    return Scan(u.numpy(), rss(ifft2c(u)).numpy(), s.numpy().astype(np.complex64))


def lines(width: int = W, *, every: int = 3, central: int = 12) -> NDArray[np.bool_]:
    """Every third line, and so many in the centre; with none, not the central line itself."""
    mask: NDArray[np.bool_] = (np.arange(width) - width // 2) % every == 1
    mask[width // 2 - central // 2 : width // 2 - central // 2 + central] = True
    return mask


def close(a: NDArray[np.float32], b: NDArray[np.float32], share: float = 1e-4) -> None:
    assert np.abs(a - b).max() <= share * b.max()


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """scan.npy, undersampled; maps.npy; model.json with its weights."""
    made = scan()
    np.save(tmp_path / "scan.npy", made.u * lines())
    np.save(tmp_path / "maps.npy", made.s)
    save_model(tmp_path / "model.json", MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


RECON = ["recon", "scan.npy", "-o", "out.h5", "--model", "model.json", "--sensitivities", "maps.npy"]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(
    ("slices", "axes", "wanted"),
    [
        (1, (), (1, 1)),
        (3, (), (1, 1)),
        (1, (1,), (1, 1)),
        (1, (2,), (1, 2)),
        (3, (2,), (1, 2)),
        (3, (3,), (3, 1)),
        (3, (1,), (1, 1)),
        (1, (1, MOST_SETS), (1, MOST_SETS)),
        (3, (1, 2), (1, 2)),
        (3, (3, 2), (3, 2)),
    ],
)
def test_three_four_and_five_axes(
    tmp_path: Path, slices: int, axes: tuple[int, ...], wanted: tuple[int, int], dtype: type[np.complexfloating[Any]]
) -> None:
    """(coils, H, W), with sets before them, or slices where the first axis counts those, or both; of unit length."""
    rng = np.random.default_rng(0)
    s = rng.standard_normal((*axes, Q, 8, 9)) + 1j * rng.standard_normal((*axes, Q, 8, 9))
    s = s / np.sqrt((np.abs(s) ** 2).sum(axis=-3, keepdims=True))
    kspace = as_kspace(random_kspace(slices, Q, 8, 9))
    np.save(tmp_path / "s.npy", np.asfortranarray(s.astype(dtype)))
    found = read_sensitivities(tmp_path / "s.npy", kspace)
    assert found.sensitivities is not None
    assert found.sensitivities.dtype == np.complex64
    np.testing.assert_allclose(found.sensitivities, s.reshape(*wanted, Q, 8, 9), atol=1e-6)
    assert found.z is kspace.z
    assert found.mask is kspace.mask
    again = with_sensitivities(kspace, s.astype(dtype)).sensitivities
    np.testing.assert_array_equal(found.sensitivities, again)


def test_the_order_of_barts_axes(tmp_path: Path) -> None:
    """(read, phase, 1, coils, sets) with slices in dimension 13, by either name of the pair or both."""
    rng = np.random.default_rng(0)
    s = (rng.standard_normal((3, 2, Q, 8, 9)) + 1j * rng.standard_normal((3, 2, Q, 8, 9))).astype(np.complex64)
    s /= np.sqrt((np.abs(s) ** 2).sum(axis=2, keepdims=True))
    write_cfl(tmp_path / "s", s.transpose(3, 4, 2, 1, 0).reshape(8, 9, 1, Q, 2, *(1,) * 8, 3))
    kspace = as_kspace(random_kspace(3, Q, 8, 9))
    for name in ("s", "s.cfl", "s.hdr"):
        found = read_sensitivities(tmp_path / name, kspace).sensitivities
        assert found is not None
        np.testing.assert_allclose(found, s, atol=1e-6)


def test_true_sensitivities_are_better_than_estimated_ones() -> None:
    made = scan()
    kspace = made.sampled(lines())
    own, given = reconstruct(kspace, MODEL), reconstruct(kspace, MODEL, sensitivities=made.s)
    assert given.metrics(made.Y).psnr > own.metrics(made.Y).psnr + 3
    assert own.metrics(made.Y).psnr > own.zero_filled_metrics(made.Y).psnr + 3


def test_all_shapes_of_the_same_sensitivities_give_the_same_image() -> None:
    made = scan(slices=3)
    kspace, s = made.sampled(lines()), made.s
    wanted = reconstruct(kspace, MODEL, sensitivities=s).image
    for same in (s[None], np.stack([s] * 3), s[None, None], np.stack([s[None]] * 3), s.tolist()):
        close(reconstruct(kspace, MODEL, sensitivities=same).image, wanted, 1e-6)


def test_every_slice_has_its_own_sensitivities() -> None:
    """Two slices of the same data: the one with another array's sensitivities is another image, and a worse one."""
    made = scan()
    u = np.concatenate([made.u, made.u])
    kspace, s = as_kspace(u * lines(), lines()), made.s
    right = reconstruct(kspace, MODEL, sensitivities=s).image
    mixed = reconstruct(kspace, MODEL, sensitivities=np.stack([s[None], s[None, ::-1]])).image
    close(mixed[:1], right[:1])
    assert volume_metrics(mixed[1:], made.Y).psnr < volume_metrics(right[1:], made.Y).psnr - 10


def test_a_second_set_that_is_zero_changes_nothing() -> None:
    """But for conjugate gradients, which end early and choose their steps for both sets together."""
    made = scan()
    kspace = made.sampled(lines())
    both = np.stack([made.s, 0 * made.s])
    wanted = reconstruct(kspace, MODEL, sensitivities=made.s).image
    close(reconstruct(kspace, MODEL, sensitivities=both).image, wanted, 1e-2)


def test_what_is_estimated_may_as_well_be_given() -> None:
    made, mask = scan(), lines()
    kspace = made.sampled(mask)
    s = sensitivity_sets(torch.from_numpy(kspace.z), torch.from_numpy(mask))
    assert s is not None
    given = reconstruct(kspace, MODEL, sensitivities=s.numpy()).image
    close(given, reconstruct(kspace, MODEL).image, 2e-2)


def test_more_coils_than_the_model_takes_are_compressed_alike() -> None:
    """Twelve coils to a model of at most eight: data and sensitivities by the same matrix."""
    made = scan(12)
    kspace = made.sampled(lines())
    own, given = reconstruct(kspace, MODEL), reconstruct(kspace, MODEL, sensitivities=made.s)
    assert given.metrics(made.Y).psnr > own.metrics(made.Y).psnr


@pytest.mark.skipif(BART is None, reason="the program `bart` is not installed")
@pytest.mark.parametrize("size", [(48, 52), (45, 51)])
def test_what_bart_estimates_gives_nearly_the_same_image(
    tmp_path: Path, size: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the head: outside of it `ecalib` sets its two maps to zero."""
    made, mask = scan(size=size), lines(size[1])
    np.save(tmp_path / "scan.npy", made.u * mask)
    save_model(tmp_path / "model.json", MODEL)
    write_cfl(tmp_path / "z", (made.u * mask)[0].transpose(1, 2, 0)[:, :, None])
    subprocess.run([str(BART), "ecalib", "-m2", "z", "maps"], cwd=tmp_path, check=True, capture_output=True)
    argv = ["recon", str(tmp_path / "scan.npy"), "--model", str(tmp_path / "model.json"), "--axes", AXES]
    assert main([*argv, "-o", str(tmp_path / "own.h5")]) == 0
    assert main([*argv, "-o", str(tmp_path / "bart.h5"), "--sensitivities", str(tmp_path / "maps.cfl")]) == 0
    own, theirs = (h5py.File(tmp_path / name)["reconstruction"][()] for name in ("own.h5", "bart.h5"))
    assert volume_metrics(theirs, own).psnr > 30
    assert volume_metrics(theirs, made.Y).psnr > volume_metrics(own, made.Y).psnr - 1
    assert "warning: " not in capsys.readouterr().err


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("factor", [7.0, 1e3, 1 / 7, 1e-3])
def test_a_scale_of_the_sensitivities_does_not_matter(factor: float, soft: bool) -> None:
    """It belongs to the image m, of which only the coil images s m are shown; soft: less than 1 long towards an edge.

    So are the maps of `ecalib -S`.
    """
    made = scan()
    kspace, s = made.sampled(lines()), made.s
    if soft:
        s = s * np.linspace(0.3, 1, W, dtype=np.float32)
    wanted = reconstruct(kspace, MODEL, sensitivities=s).image
    close(reconstruct(kspace, MODEL, sensitivities=factor * s).image, wanted)


@pytest.mark.parametrize("factor", [1e-30, 1e25, 1e60, 1e300])
def test_absurd_scales_give_the_image_or_are_refused(factor: float) -> None:
    made = scan()
    kspace = made.sampled(lines())
    wanted = reconstruct(kspace, MODEL, sensitivities=made.s).image
    found = None
    with suppress(DataError):
        found = reconstruct(kspace, MODEL, sensitivities=factor * made.s.astype(np.complex128)).image
    if found is not None:
        close(found, wanted)


def with_one(s: Complex, value: complex) -> Complex:
    changed = s.copy()
    changed[1, 3, 4] = value
    return changed


WRONG: dict[str, tuple[Callable[[Complex], NDArray[Any]], type[BayesMRIError], str]] = {
    "coils": (lambda s: s[:-1], ShapeError, "5 coils"),
    "grid": (lambda s: s[..., :-1], ShapeError, "48x52"),
    "transposed": (lambda s: s.transpose(0, 2, 1), ShapeError, "48x52"),
    "one map": (lambda s: s[0], ShapeError, "expected"),
    "six axes": (lambda s: s[None, None, None], ShapeError, "expected"),
    "no sets": (lambda s: s[None][:0], ShapeError, "expected"),
    "too many sets": (lambda s: np.stack([s] * (MOST_SETS + 1)), ShapeError, "expected"),
    "slices": (lambda s: np.stack([s[None]] * 2), ShapeError, "1 slices"),
    "magnitudes": (lambda s: np.abs(s), DataError, "expected complex"),
    "integers": (lambda s: np.ones(s.shape, np.int64), DataError, "expected complex"),
    "NaN": (lambda s: with_one(s, np.nan), DataError, "1 NaN or Inf"),
    "Inf": (lambda s: with_one(s, 1j * np.inf), DataError, "1 NaN or Inf"),
    "zero": (lambda s: 0 * s, DataError, "zero everywhere"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_sensitivities_are_one_line_and_nothing_is_written(
    here: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line, and the same words to a script."""
    change, error, words = WRONG[kind]
    made = scan()
    wrong = change(made.s)
    with pytest.raises(error, match=words) as caught:
        reconstruct(made.sampled(lines()), MODEL, sensitivities=wrong)
    assert "\n" not in str(caught.value)
    np.save(here / "maps.npy", wrong)
    before = contents(here)
    assert main([*RECON, "--png", "--nifti"]) == 2
    assert capsys.readouterr().err == f"bayesmri: {caught.value}\n"
    assert contents(here) == before


@pytest.mark.parametrize(
    "kind", ["missing", "empty", "truncated", "text", "folder", "objects", "hdf5", "half a pair", "short pair", "3-D"]
)
def test_files_that_hold_no_sensitivities_are_refused(
    here: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, whole = f"{kind.replace(' ', '-')}.npy", (here / "maps.npy").read_bytes()
    if kind == "empty":
        (here / name).write_bytes(b"")
    elif kind == "truncated":
        (here / name).write_bytes(whole[:-100])
    elif kind == "text":
        (here / name).write_text("sensitivities")
    elif kind == "folder":
        (here / name).mkdir()
    elif kind == "objects":
        np.save(here / name, np.array([{}], dtype=object), allow_pickle=True)
    elif kind == "hdf5":
        name = "maps.h5"
        with h5py.File(here / name, "w") as file:
            file["maps"] = np.load(here / "maps.npy")
    elif kind in ("half a pair", "short pair", "3-D"):
        name = "maps"
        depth = 2 if kind == "3-D" else 1
        write_cfl(here / name, np.ones((H, W, depth, Q), np.complex64))
        if kind == "half a pair":
            (here / "maps.cfl").unlink()
        if kind == "short pair":
            (here / "maps.cfl").write_bytes(b"\0" * 64)
    kspace = scan().sampled(lines())
    with pytest.raises(ShapeError if kind == "3-D" else FormatError):
        read_sensitivities(here / name, kspace)
    assert main([*RECON[:-1], name]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bayesmri: ")
    assert said.count("\n") == 1
    assert not (here / "out.h5").exists()


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--method tv",
        "--method zero-filled",
        "--method sense",
        "--model tdv-channels-r4",
        "--model model.json --single-coil",
    ],
)
def test_sensitivities_that_nobody_would_use_are_refused(
    here: Path, options: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A method that knows no coils, a model whose coils are channels, coils that are combined to one before."""
    before = contents(here)
    assert main(["recon", "scan.npy", "-o", "out.h5", "--sensitivities", "maps.npy", *options.split()]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "sensitivities" in said[-1]
    assert [line for line in said if not line.startswith("note: ")] == said[-1:]
    assert contents(here) == before


@pytest.mark.parametrize("name", ["tv", "l1-wavelet", "tdv-channels-r4"])
def test_a_script_is_told_so_too(name: str) -> None:
    made = scan()
    with pytest.raises(ConfigError, match=f"got sensitivities with {name}, which has no use for them"):
        reconstruct(made.sampled(lines()), name, sensitivities=made.s)


@pytest.mark.parametrize("name", ["maps.npy", "pair", "pair.cfl", "pair.hdr"])
def test_the_result_names_the_sensitivities_it_was_made_with(here: Path, name: str) -> None:
    write_cfl(here / "pair", scan().s.transpose(1, 2, 0)[:, :, None])
    assert main([*RECON[:-1], name]) == 0
    with h5py.File(here / "out.h5") as file:
        inputs = json.loads(file.attrs["provenance"])["inputs"]
    files = ["maps.npy"] if name == "maps.npy" else ["pair.hdr", "pair.cfl"]
    recorded = {item["name"]: item["sha256"] for item in inputs}
    assert set(recorded) == {"scan.npy", "model.json", *files}
    assert all(recorded[file] == contents(here)[file] for file in files)


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ("maps.npy", "maps.npy"),
        ("maps.npy", "link.h5"),
        ("pair", "pair.cfl"),
        ("pair", "pair.hdr"),
        ("pair.cfl", "pair.hdr"),
        ("pair.hdr", "pair.cfl"),
    ],
)
def test_sensitivities_are_never_overwritten(
    here: Path, given: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cfl(here / "pair", scan().s.transpose(1, 2, 0)[:, :, None])
    (here / "link.h5").symlink_to(here / "maps.npy")
    before = contents(here)
    argv = ["recon", "scan.npy", "--model", "model.json", "--sensitivities", given, "-o", out]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "another name" in said
    assert contents(here) == before


@pytest.mark.parametrize(
    ("central", "words"),
    [
        (0, "no central line was acquired, so nothing is known of the coils: they were reconstructed one by one"),
        (4, "only 4 central lines were acquired: sensitivities were refined together with the image"),
        (FEWEST - 2, "only 6 central lines were acquired: sensitivities were refined together with the image"),
        (FEWEST, None),
        (16, None),
    ],
)
def test_warnings_say_where_too_little_is_known_of_the_coils(
    here: Path, central: int, words: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """And are silent where sensitivities are given, for one coil, and for methods that want none."""
    made, mask = scan(), lines(every=4, central=central)
    kspace = made.sampled(mask)

    def of_coils(warnings: Sequence[str]) -> list[str]:
        return [text for text in warnings if "--sensitivities" in text]

    warnings = of_coils(reconstruct(kspace, MODEL).warnings)
    assert len(warnings) == (words is not None)
    assert all(text.startswith(str(words)) for text in warnings)
    assert not of_coils(reconstruct(kspace, MODEL, sensitivities=made.s).warnings)
    assert not of_coils(reconstruct(kspace, MODEL, single_coil=True).warnings)
    assert not of_coils(reconstruct(kspace, "tv").warnings)

    np.save(here / "scan.npy", kspace.z)
    argv = ["recon", "scan.npy", "-o", "out.h5", "--json", "--model", "model.json"]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert of_coils(json.loads(said.out)["warnings"]) == warnings
    assert all(f"warning: {text}" in said.err.splitlines() for text in warnings)
    with h5py.File(here / "out.h5") as file:
        assert of_coils(file["reconstruction"].attrs.get("warnings", "").split("\n")) == warnings
    assert main([*argv, "--sensitivities", "maps.npy", "--force"]) == 0
    assert not of_coils(json.loads(capsys.readouterr().out)["warnings"])
