"""Outputs: free of NaN, readable by the tools they are made for, and placed right in the world."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import torch
from nibabel.affines import apply_affine
from numpy.typing import NDArray
from PIL import Image

from bayesmri.complexes import rss
from bayesmri.errors import DataError, OutputError, ShapeError
from bayesmri.io.formats import read
from bayesmri.io.geometry import center_window, crop_affine, usable_affine, voxel_sizes
from bayesmri.io.provenance import plain, provenance, sha256
from bayesmri.io.write_h5 import write_kspace, write_reconstruction
from bayesmri.io.write_header import fastmri_header
from bayesmri.io.write_nifti import write_nifti
from bayesmri.io.write_png import write_png
from bayesmri.kspace import Header, KSpace
from bayesmri.physics.fourier import ifft2c

# an oblique left-handed affine, rows of unequal length: no symmetry that could hide a swap or a flip
AFFINE = np.array([[0.1, 0.7, -0.4, 11.0], [-0.9, 0.2, 0.5, -23.0], [0.3, 0.1, 3.0, 5.0], [0, 0, 0, 1.0]])
HEADER = Header("test", acquisition="T1 Schädel", patient_id="p7", affine=AFFINE)


def scan(Q: int, shape: tuple[int, int], *, lines: slice = slice(None), header: Header = HEADER) -> KSpace:
    rng = np.random.default_rng(Q)
    z = rng.standard_normal((2, Q, *shape, 2)).astype(np.float32).view(np.complex64)[..., 0]
    mask = np.zeros(shape[1], dtype=bool)
    mask[lines] = True
    return KSpace(z * mask, mask, header)


def image_of(kspace: KSpace, crop: tuple[int, int]) -> NDArray[np.float32]:
    rows, columns = center_window(kspace.z.shape[-2:], crop)
    image: NDArray[np.float32] = rss(ifft2c(torch.from_numpy(kspace.z)))[..., rows, columns].numpy()
    return image


# --- HDF5


@pytest.mark.parametrize(("Q", "shape", "crop"), [(1, (21, 16), (11, 10)), (3, (18, 17), (18, 17))])
def test_fastmri_reads_our_kspace(tmp_path: Path, Q: int, shape: tuple[int, int], crop: tuple[int, int]) -> None:
    data = pytest.importorskip("fastmri.data", reason="fastMRI is not installed")
    transforms = pytest.importorskip("fastmri.data.transforms", reason="fastMRI is not installed")
    subsample = pytest.importorskip("fastmri.data.subsample", reason="fastMRI is not installed")
    challenge = "singlecoil" if Q == 1 else "multicoil"
    kspace = scan(Q, shape)
    truth = image_of(kspace, crop)
    write_kspace(tmp_path / "file.h5", kspace, provenance={}, truth=truth)

    plain_slices = data.SliceDataset(root=tmp_path, challenge=challenge)
    assert len(plain_slices) == 2
    z, mask, target, attributes, name, index = plain_slices[1]
    np.testing.assert_array_equal(z, kspace.z[1, 0] if Q == 1 else kspace.z[1])
    np.testing.assert_array_equal(target, truth[1])
    assert (mask, name, index) == (None, "file.h5", 1)
    assert attributes["encoding_size"] == (*shape, 1)
    assert attributes["recon_size"] == (*crop, 1)
    assert (attributes["padding_left"], attributes["padding_right"]) == (0, shape[1])
    assert attributes["max"] == pytest.approx(truth.max())
    assert attributes["norm"] == pytest.approx(np.linalg.norm(truth))

    same = data.SliceDataset(root=tmp_path, challenge=challenge, transform=transforms.UnetDataTransform(challenge))[0]
    restored = same.image * same.std + same.mean  # nothing undersampled: the zero-filled image is the truth
    torch.testing.assert_close(restored, torch.from_numpy(truth[0]), rtol=1e-4, atol=1e-5)
    masks = subsample.RandomMaskFunc(center_fractions=[0.2], accelerations=[2])
    masked = transforms.UnetDataTransform(challenge, mask_func=masks)
    assert data.SliceDataset(root=tmp_path, challenge=challenge, transform=masked)[1].image.shape == crop


@pytest.mark.parametrize("Q", [1, 2])
def test_fastmri_reads_our_undersampled_kspace(tmp_path: Path, Q: int) -> None:
    data = pytest.importorskip("fastmri.data", reason="fastMRI is not installed")
    transforms = pytest.importorskip("fastmri.data.transforms", reason="fastMRI is not installed")
    kspace = scan(Q, (12, 15), lines=slice(1, None, 2), header=Header("test", recon_shape=(10, 9)))
    write_kspace(tmp_path / "file.h5", kspace, provenance={})
    challenge = "singlecoil" if Q == 1 else "multicoil"
    _, mask, target, attributes, *_ = data.SliceDataset(root=tmp_path, challenge=challenge)[0]
    assert target is None
    assert not {"max", "norm", "affine", "voxel_mm"} & set(attributes)
    np.testing.assert_array_equal(mask, kspace.mask)
    image = data.SliceDataset(root=tmp_path, challenge=challenge, transform=transforms.UnetDataTransform(challenge))[0]
    assert image.image.shape == (10, 9)
    if Q > 1:
        sample = data.SliceDataset(root=tmp_path, challenge=challenge, transform=transforms.VarNetDataTransform())[0]
        np.testing.assert_array_equal(sample.mask.flatten(), kspace.mask)


@pytest.mark.parametrize("voxel", [None, (0.5, 0.75, 3.0)])
def test_the_header_is_valid_ismrmrd(voxel: tuple[float, float, float] | None) -> None:
    xsd = pytest.importorskip("ismrmrd.xsd", reason="ismrmrd is not installed")
    xml = fastmri_header(grid=(640, 368), recon_shape=(320, 321), n_slices=5, n_coils=15, voxel_mm=voxel)
    header = xsd.CreateFromDocument(xml.encode())
    (encoding,) = header.encoding
    space, recon = encoding.encodedSpace, encoding.reconSpace
    assert (space.matrixSize.x, space.matrixSize.y, space.matrixSize.z) == (640, 368, 1)
    assert (recon.matrixSize.x, recon.matrixSize.y) == (320, 321)
    fov = (space.fieldOfView_mm.x, space.fieldOfView_mm.y, space.fieldOfView_mm.z)
    assert fov == ((320.0, 276.0, 3.0) if voxel else (0.0, 0.0, 0.0))
    step = encoding.encodingLimits.kspace_encoding_step_1
    assert (step.minimum, step.maximum, step.center) == (0, 367, 184)
    assert encoding.trajectory.value == "cartesian"
    assert header.acquisitionSystemInformation.receiverChannels == 15


@pytest.mark.parametrize("Q", [1, 2])
@pytest.mark.parametrize("lines", [slice(None), slice(0, None, 2)])
@pytest.mark.parametrize("header", [HEADER, Header("test", voxel_mm=(1.0, 2.0, 3.0)), Header("test")])
def test_our_reader_returns_what_was_written(tmp_path: Path, Q: int, lines: slice, header: Header) -> None:
    kspace = scan(Q, (21, 18), lines=lines, header=header)
    truth = image_of(scan(Q, (21, 18)), (10, 11))  # of all lines: a zero-filled image would be no truth
    write_kspace(tmp_path / "x.h5", kspace, provenance={}, truth=truth)
    back = read(tmp_path / "x.h5")
    assert isinstance(back, KSpace)
    for name, array in {"z": kspace.z, "mask": kspace.mask, "truth": truth}.items():
        np.testing.assert_array_equal(getattr(back, name), array)
    assert back.header.recon_shape == (10, 11)
    assert (back.header.acquisition, back.header.patient_id) == (header.acquisition, header.patient_id)
    if header.affine is None:
        assert back.header.affine is None
        assert back.header.voxel_mm == header.voxel_mm  # a field of view of 0 is read as "unknown", not as a size
    else:
        np.testing.assert_allclose(np.asarray(back.header.affine), header.affine)


def test_a_reconstruction_keeps_its_arrays_and_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "out.h5"
    result: dict[str, NDArray[np.generic]] = {
        "reconstruction": np.arange(24.0).reshape(2, 3, 4),
        "mask": np.array([True, False]),
        "samples": np.ones((2, 2), dtype=np.complex128),
    }
    record = {"command": "recon", "config": {"note": "é" * 100_000}}  # past the 64 kB of a compact attribute
    write_reconstruction(path, result, header=HEADER, provenance=record)
    with h5py.File(path) as file:
        assert set(file) == set(result)
        kinds = {name: file[name].dtype.str for name in file}
        assert kinds == {"reconstruction": "<f4", "mask": "|u1", "samples": "<c8"}
        for name, array in result.items():
            np.testing.assert_array_equal(file[name][()], array)
        assert json.loads(file.attrs["provenance"]) == record
        assert (file.attrs["acquisition"], file.attrs["patient_id"]) == ("T1 Schädel", "p7")
        np.testing.assert_array_equal(file.attrs["affine"], AFFINE)
        np.testing.assert_allclose(file.attrs["voxel_mm"], np.linalg.norm(AFFINE[:3, :3], axis=0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_no_output_holds_a_nan(tmp_path: Path, bad: float) -> None:
    volume = np.ones((2, 8, 8))
    volume[1, 2, 3] = bad
    with pytest.raises(OutputError, match="uncertainty_std holds 1 NaN or Inf"):
        write_reconstruction(
            tmp_path / "a" / "x.h5", {"ok": np.ones(3), "uncertainty_std": volume}, header=HEADER, provenance={}
        )
    with np.errstate(over="ignore"):
        single = volume.astype(np.float32)
    with pytest.raises(OutputError, match="NaN or Inf"):
        write_nifti(tmp_path / "a" / "x.nii", single, HEADER)
    with pytest.raises(OutputError, match="NaN or Inf"):
        write_png(tmp_path / "a" / "x.png", single[1])
    assert list(tmp_path.iterdir()) == []


def test_a_truth_of_other_slices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="2 slices"):
        write_kspace(tmp_path / "x.h5", scan(1, (8, 8)), provenance={}, truth=np.ones((3, 8, 8), np.float32))


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from bayesmri.kspace import Header
from bayesmri.errors import OutputError
from bayesmri.io.write_h5 import write_reconstruction
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
for n in (4_500, 5_000, 9_000, 9_900, 20_000):
    for note in (10, 40_000):
        result = {"a": np.ones(n, np.float32), "b": np.ones(n, np.float32), "mask": np.ones(40, np.bool_)}
        try:
            write_reconstruction(Path(sys.argv[1]), result, header=Header("x"), provenance={"note": "x" * note})
        except OutputError as error:
            print(error)
"""


def test_a_disk_that_is_full_between_datasets_is_one_line_and_no_crash(tmp_path: Path) -> None:
    """HDF5 fails while it holds data of several datasets, and goes on to fail when it is closed."""
    pytest.importorskip("resource", reason="limits on file size are POSIX")
    target = tmp_path / "r.h5"
    run = subprocess.run([sys.executable, "-c", FULL_DISK, target], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [f"cannot write {target}: File too large"] * 10
    assert list(tmp_path.iterdir()) == []


# --- NIfTI


def world(path: Path, voxel: Any) -> NDArray[np.float64]:
    """Where nibabel puts the only bright voxel; the array must have it at `voxel`."""
    image = nibabel.load(path)
    where = np.argwhere(image.get_fdata() == 1)
    assert where.tolist() == [list(voxel)]
    mm: NDArray[np.float64] = apply_affine(image.affine, where[0])
    return mm


@pytest.mark.parametrize("full", [(10, 13), (11, 12)])
@pytest.mark.parametrize("crop", [(10, 12), (7, 8), (8, 7)])
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_a_voxel_stays_at_its_place_in_the_world(
    tmp_path: Path, full: tuple[int, int], crop: tuple[int, int], suffix: str
) -> None:
    h, w, s = 4, 5, 1
    volume = np.zeros((3, *full), np.float32)
    volume[s, h, w] = 1
    expected = AFFINE[:3] @ (h, w, s, 1)
    write_nifti(tmp_path / f"full{suffix}", volume, HEADER)
    np.testing.assert_allclose(world(tmp_path / f"full{suffix}", (h, w, s)), expected, atol=1e-4)
    rows, columns = center_window(full, crop)
    write_nifti(tmp_path / f"crop{suffix}", volume[:, rows, columns], HEADER, full_shape=full)
    place = (h - rows.start, w - columns.start, s)
    np.testing.assert_allclose(world(tmp_path / f"crop{suffix}", place), expected, atol=1e-4)


def test_sform_and_qform_agree_for_a_rigid_affine(tmp_path: Path) -> None:
    turn = np.array([[0.6, 0.8, 0, -7], [0.8, -0.6, 0, 8], [0, 0, 1, 9], [0, 0, 0, 1.0]])
    rigid = turn @ np.diag([0.5, 0.7, 3, 1])
    write_nifti(tmp_path / "x.nii", np.ones((3, 8, 9), np.float32), Header("test", affine=rigid))
    header = nibabel.load(tmp_path / "x.nii").header
    assert (int(header["sform_code"]), int(header["qform_code"])) == (1, 1)
    np.testing.assert_allclose(header.get_qform(), rigid, atol=1e-4)
    np.testing.assert_allclose(header.get_sform(), rigid, atol=1e-4)
    assert header.get_xyzt_units()[0] == "mm"


@pytest.mark.parametrize(
    ("header", "zooms", "words"),
    [
        (Header("test", voxel_mm=(0.5, 0.75, 3.0)), (0.5, 0.75, 3.0), "only voxel sizes"),
        (Header("test"), (1, 1, 1), "no geometry in the input"),
        (Header("test", voxel_mm=(0.0, 0.0, 0.0)), (1, 1, 1), "no geometry in the input"),
        (Header("test", affine=np.zeros((4, 4))), (1, 1, 1), "no geometry in the input"),
    ],
)
def test_unknown_geometry_is_said_to_be_unknown(
    tmp_path: Path, header: Header, zooms: tuple[float, ...], words: str
) -> None:
    write_nifti(tmp_path / "x.nii.gz", np.ones((3, 8, 9), np.float32), header)
    image = nibabel.load(tmp_path / "x.nii.gz")
    assert (int(image.header["sform_code"]), int(image.header["qform_code"])) == (0, 0)
    assert image.header.get_zooms() == zooms
    assert image.shape == (8, 9, 3)
    assert words in bytes(image.header["descrip"]).decode()


def test_equal_volumes_give_equal_bytes(tmp_path: Path) -> None:
    volume = np.random.default_rng(0).random((2, 8, 9)).astype(np.float32)
    for name in ("a.nii.gz", "b.nii.gz", "b.nii"):
        write_nifti(tmp_path / name, volume, HEADER)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()
    assert gzip.decompress((tmp_path / "b.nii.gz").read_bytes()) == (tmp_path / "b.nii").read_bytes()


def test_a_nifti_of_another_name_or_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"\.nii"):
        write_nifti(tmp_path / "x.img", np.ones((3, 8, 9), np.float32), HEADER)
    with pytest.raises(ShapeError, match="slices"):
        write_nifti(tmp_path / "x.nii", np.ones((8, 9), np.float32), HEADER)


def test_affines_that_cannot_be_are_known() -> None:
    assert usable_affine(AFFINE)
    assert usable_affine(np.diag([1e-4, 1e-4, 1e-4, 1]))  # a small unit is no fault
    flat = AFFINE.copy()
    flat[:, 1] = flat[:, 0]
    assert not any(usable_affine(a) for a in (None, flat, np.eye(3), np.full((4, 4), np.nan), np.ones((4, 4))))
    np.testing.assert_array_equal(crop_affine(AFFINE, (8, 9), (8, 9)), AFFINE)
    assert voxel_sizes(np.diag([2.0, -3.0, 4.0, 1.0])) == (2.0, 3.0, 4.0)


# --- PNG


def test_a_png_shows_vmax_white_and_zero_black(tmp_path: Path) -> None:
    image = np.array([[0, 1, 2], [4, 8, -1]], dtype=np.float32)
    write_png(tmp_path / "own.png", image)
    write_png(tmp_path / "set.png", image, vmax=4)
    write_png(tmp_path / "dark.png", 0 * image)
    shown = {p.stem: np.asarray(Image.open(p)).tolist() for p in tmp_path.iterdir()}
    assert shown["own"] == [[0, 32, 64], [128, 255, 0]]
    assert shown["set"] == [[0, 64, 128], [255, 255, 0]]
    assert shown["dark"] == [[0, 0, 0], [0, 0, 0]]


# --- provenance


def test_provenance_is_json_and_names_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "jane_doe" / "scan.h5"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    config = {"T": np.float32(0.5), "shape": (1, 2), "weights": tmp_path / "w.bin", "bound": float("inf"), "on": True}
    record = provenance(command="recon", config=config, seed=3, inputs=[file], threads=2)
    text = json.dumps(record, allow_nan=False)
    assert "jane_doe" not in text
    assert str(tmp_path) not in text
    assert record["inputs"] == [
        {"name": "scan.h5", "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    ]
    assert record["config"] == {"T": 0.5, "shape": [1, 2], "weights": "w.bin", "bound": "inf", "on": True}
    assert (record["seed"], record["threads"], record["command"]) == (3, 2, "recon")
    assert record["versions"]["torch"] == torch.__version__
    assert record["time"].endswith("+00:00")


def test_a_folders_checksum_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.dcm").write_bytes(b"1")
    (tmp_path / "b.dcm").write_bytes(b"2")
    before = sha256(tmp_path)
    (tmp_path / "b.dcm").rename(tmp_path / "c.dcm")
    renamed = sha256(tmp_path)
    (tmp_path / "c.dcm").write_bytes(b"3")
    assert len({before, renamed, sha256(tmp_path)}) == 3


def test_what_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read absent"):
        sha256(tmp_path / "absent")
    with pytest.raises(TypeError, match="object"):
        plain({"x": object()})
