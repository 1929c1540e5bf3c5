"""fastMRI HDF5 and NumPy files give back what was written, with mask, truth and header settled."""

from pathlib import Path

import numpy as np
import pytest

from bayesmri.errors import BayesMRIError, DataError, FormatError, MaskError, ShapeError
from bayesmri.io.acquired import sampling_pattern
from bayesmri.io.formats import read, read_images, read_kspace, sniff
from reader_files import header_xml, ifft2c, random_kspace, write_h5


@pytest.mark.parametrize("shape", [(1, 16, 17), (3, 15, 16), (2, 3, 17, 16)])
def test_fastmri_kspace_comes_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    u = random_kspace(*shape)
    path = write_h5(tmp_path / "a.bin", {"kspace": u}, {"acquisition": "CORPD_FBK", "patient_id": "x1", "max": 1.0})
    data = read_kspace(path)
    assert sniff(path) == "fastmri"
    assert data.z.dtype == np.complex64
    np.testing.assert_array_equal(data.z, u[:, None] if len(shape) == 3 else u)
    assert data.fully_sampled
    assert data.truth is None
    assert (data.header.acquisition, data.header.patient_id) == ("CORPD_FBK", "x1")


@pytest.mark.parametrize("fields", [("real", "imag"), ("r", "i")])
def test_pairs_and_doubles_become_complex64(tmp_path: Path, fields: tuple[str, str]) -> None:
    u = random_kspace(1, 2, 16, 16)
    pair = np.empty(u.shape, dtype=[(fields[0], "<f4"), (fields[1], "<f4")])
    pair[fields[0]], pair[fields[1]] = u.real, u.imag
    for i, stored in enumerate((pair, u.astype(np.complex128), u.astype(">c8"))):
        data = read_kspace(write_h5(tmp_path / f"{i}.h5", {"kspace": stored}))
        np.testing.assert_array_equal(data.z, u)
        assert data.z.dtype == np.dtype("=c8")


def test_header_gives_window_voxels_and_facts(tmp_path: Path) -> None:
    u = random_kspace(2, 3, 32, 20)
    header = read_kspace(
        write_h5(tmp_path / "a.h5", {"kspace": u, "ismrmrd_header": header_xml(32, 20, h=16, w=24)})
    ).header
    assert header.recon_shape == (16, 20)  # never larger than the grid
    assert header.voxel_mm == (2.0, 1.0, 5.0)
    assert header.facts["TR"] == "2200 ms"
    assert header.facts["field strength"] == "2.89 T"
    assert header.facts["protocol"] == "AXT2"


def test_truth_is_the_image_of_the_right_combination(tmp_path: Path) -> None:
    one, many = random_kspace(2, 16, 16), random_kspace(2, 3, 16, 16)
    esc = np.abs(ifft2c(one))[:, 4:12, 4:12].astype(np.float32)
    rss = np.sqrt((np.abs(ifft2c(many)) ** 2).sum(axis=1))[:, 4:12, 4:12].astype(np.float32)
    images = {"reconstruction_esc": esc, "reconstruction_rss": rss}
    single = read_kspace(write_h5(tmp_path / "s.h5", {"kspace": one, **images}, {"max": esc.max()}))
    multi = read_kspace(write_h5(tmp_path / "m.h5", {"kspace": many, **images}, {"max": 70.0}))
    assert single.truth is not None
    assert multi.truth is not None
    np.testing.assert_array_equal(single.truth, esc)
    np.testing.assert_array_equal(multi.truth, rss)
    assert single.header.recon_shape == (8, 8)
    assert single.header.notes == ()
    assert any("max = 70" in text for text in multi.header.warnings)


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (np.ones((2, 32, 8)), "does not fit"),
        (np.ones((3, 16, 16)), "does not fit"),
        (np.ones((2, 1, 1)), "does not fit"),
        (np.zeros((2, 16, 16)), "no positive pixel"),
    ],
)
def test_truth_that_no_image_can_be_compared_with_is_left_out_with_a_note(
    tmp_path: Path, truth: np.ndarray, words: str
) -> None:
    path = write_h5(tmp_path / "a.h5", {"kspace": random_kspace(2, 16, 16), "reconstruction_esc": truth})
    data = read_kspace(path)
    assert data.truth is None
    assert data.header.recon_shape is None
    assert any(words in note for note in data.header.notes)


def test_own_affine_and_voxels_come_back(tmp_path: Path) -> None:
    affine = np.array([[0, 2, 0, 5], [-1, 0, 0, 7], [0, 0, 3, -9], [0, 0, 0, 1]], dtype=np.float64)
    u = random_kspace(1, 16, 16)
    header = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": u}, {"affine": affine, "voxel_mm": [9, 9, 9]})).header
    assert header.affine is not None
    np.testing.assert_array_equal(header.affine, affine)
    assert header.voxel_mm == (1.0, 2.0, 3.0)
    header = read_kspace(write_h5(tmp_path / "b.h5", {"kspace": u}, {"voxel_mm": [1.0, 2.0, 4.0]})).header
    assert header.affine is None
    assert header.voxel_mm == (1.0, 2.0, 4.0)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(-1,), (1, 1, -1), (1, -1, 1)])
def test_mask_of_the_file_zeroes_the_rest(tmp_path: Path, dtype: type, shape: tuple[int, ...]) -> None:
    u, mask = random_kspace(2, 2, 16, 20), np.arange(20) % 2 == 0
    data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": u, "mask": mask.astype(dtype).reshape(shape)}))
    np.testing.assert_array_equal(data.mask, mask)
    np.testing.assert_array_equal(data.z, u * mask)
    assert data.acceleration == 2


def test_empty_columns_are_read_as_what_they_are() -> None:
    W = 40
    full = np.ones(W, dtype=bool)
    padded, partial, holes = full.copy(), full.copy(), full.copy()
    padded[:5], padded[-4:] = False, False
    partial[:12] = False
    holes[[3, 8, 9, 30]] = False
    assert sampling_pattern(full)[0].all()
    mask, notes = sampling_pattern(padded)
    assert mask.all()
    assert "zero padding" in notes[0]
    mask, notes = sampling_pattern(partial)
    np.testing.assert_array_equal(mask, partial)
    assert "partial Fourier" in notes[0]
    np.testing.assert_array_equal(sampling_pattern(holes)[0], holes)
    with pytest.raises(DataError):
        sampling_pattern(np.zeros(W, dtype=bool))


def test_undersampling_without_a_mask_is_found(tmp_path: Path) -> None:
    u, mask = random_kspace(2, 16, 24), np.arange(24) % 3 == 0
    data = read_kspace(write_h5(tmp_path / "a.h5", {"kspace": u * mask}))
    np.testing.assert_array_equal(data.mask, mask)
    assert data.acceleration == 3


@pytest.mark.parametrize(
    ("shape", "full"), [((16, 17), (1, 1, 16, 17)), ((3, 16, 17), (1, 3, 16, 17)), ((2, 3, 16, 17),) * 2]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_come_back(tmp_path: Path, shape: tuple[int, ...], full: tuple[int, ...], order: str) -> None:
    u = np.array(random_kspace(*shape), order=order)  # type: ignore[call-overload]
    mask = np.arange(17) % 2 == 1
    np.save(tmp_path / "a.npy", u)
    np.savez(tmp_path / "b.npz", kspace=u, mask=mask, other=np.arange(3))
    np.savez_compressed(tmp_path / "c.npz", whatever=u.astype(np.complex128))
    assert [sniff(tmp_path / name) for name in ("a.npy", "b.npz", "c.npz")] == ["npy", "npz", "npz"]
    np.testing.assert_array_equal(read_kspace(tmp_path / "a.npy").z, u.reshape(full))
    np.testing.assert_array_equal(read_kspace(tmp_path / "c.npz").z, u.reshape(full))
    masked = read_kspace(tmp_path / "b.npz")
    np.testing.assert_array_equal(masked.z, u.reshape(full) * mask)
    np.testing.assert_array_equal(masked.mask, mask)


@pytest.mark.parametrize(
    ("datasets", "error", "words"),
    [
        ({"kspace": np.ones((1, 16, 16), np.float32)}, FormatError, "float32"),
        ({"kspace": np.ones((1, 16, 16), np.int32)}, FormatError, "int32"),
        ({"kspace": np.ones(256, np.complex64)}, FormatError, "axes"),
        ({"kspace": np.ones((1, 1, 1, 16, 16), np.complex64)}, ShapeError, "5 axes.*--axes"),
        ({"kspace": np.ones((1, 0, 16, 16), np.complex64)}, ShapeError, "coils is empty"),
        ({"kspace": np.ones((0, 2, 16, 16), np.complex64)}, ShapeError, "slices is empty"),
        ({"kspace": np.ones((1, 1, 1), np.complex64)}, ShapeError, "1x1"),
        ({"kspace": np.zeros((1, 16, 16), np.complex64)}, DataError, "no acquired line"),
        ({"kspace": np.full((1, 16, 16), np.nan, np.complex64)}, DataError, "NaN"),
        ({"kspace": np.full((1, 16, 16), 1e300, np.complex128)}, DataError, "Inf"),
        ({"kspace": random_kspace(1, 16, 16) * np.float32(1e-30)}, DataError, "multiply the data"),
        ({"kspace": random_kspace(1, 16, 16) * np.float32(1e25)}, DataError, "multiply the data"),
        ({"kspace": random_kspace(1, 16, 16), "mask": np.ones(15)}, MaskError, "16 columns"),
        ({"kspace": random_kspace(1, 16, 16), "mask": np.full(16, 0.5)}, MaskError, "0 and 1"),
        ({"kspace": random_kspace(1, 16, 16), "mask": np.zeros(16)}, DataError, "no line"),
        ({"something": np.ones(3)}, FormatError, "something"),
        ({"reconstruction": np.ones((1, 16, 16))}, FormatError, "result"),
    ],
)
def test_unusable_hdf5_is_refused_in_words(
    tmp_path: Path, datasets: dict[str, np.ndarray], error: type[BayesMRIError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        read(write_h5(tmp_path / "a.h5", datasets))
    assert "\n" not in str(caught.value)


def test_images_and_kspace_are_not_confused(tmp_path: Path) -> None:
    images = write_h5(tmp_path / "i.h5", {"image": np.ones((2, 16, 16), np.uint16)})
    kspace = write_h5(tmp_path / "k.h5", {"kspace": random_kspace(1, 16, 16)})
    with pytest.raises(FormatError, match=r"magnitude images .*run `bayesmri simulate` first"):
        read_kspace(images)
    with pytest.raises(FormatError, match="holds k-space"):
        read_images(kspace)
