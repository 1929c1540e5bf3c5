"""MRD files: lines land where the header says, whatever else is in the file; the standard's own programs agree."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bayesmri.errors import BayesMRIError, DataError, FormatError
from bayesmri.io.formats import read_kspace, sniff
from bayesmri.io.mrd.choice import Choice
from bayesmri.io.mrd.grid import crop_readout
from reader_files import Complex, fftc, header_xml, ifft2c, mrd_line, random_kspace, write_mrd

GENERATOR = shutil.which("ismrmrd_generate_cartesian_shepp_logan")


def all_lines(u: Complex, **changes: Any) -> list[Any]:
    """Every line of (slices, Q, X, W)."""
    return [mrd_line(u[s, :, :, w], w, slice=s, **changes) for s in range(len(u)) for w in range(u.shape[-1])]


@pytest.mark.parametrize("shape", [(1, 1, 16, 16), (3, 2, 15, 17)])
def test_lines_come_back(tmp_path: Path, shape: tuple[int, int, int, int]) -> None:
    u = random_kspace(*shape)
    path = write_mrd(tmp_path / "a.bin", header_xml(*shape[2:]), all_lines(u)[::-1], group="other name")
    data = read_kspace(path)
    assert sniff(path) == "mrd"
    np.testing.assert_array_equal(data.z, u)
    assert data.fully_sampled
    assert data.header.acquisition == "AXT2"
    assert data.header.voxel_mm == (2.0, 1.0, 5.0)
    assert data.header.notes == ()


def test_averages_are_averaged_and_other_scans_skipped(tmp_path: Path) -> None:
    a, b = random_kspace(1, 2, 16, 17, seed=1), random_kspace(1, 2, 16, 17, seed=2)
    noise = mrd_line(random_kspace(2, 40), 0, flags=1 << 18)
    others = [mrd_line(random_kspace(2, 16), 3, flags=1 << (bit - 1)) for bit in (23, 24, 27)]
    later = all_lines(b, repetition=1) + all_lines(b, contrast=2)
    lines = [noise, *others, *all_lines(a), *later, *all_lines(b, average=1)]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 17), lines), choice=Choice(prewhiten=False))
    np.testing.assert_allclose(data.z, (a + b) / 2, atol=1e-5)
    text = " ".join(data.header.notes)
    assert all(word in text for word in ("noise", "navigator", "phase-correction", "dummy", "repetition", "contrast"))
    assert "2 averages" in text


@pytest.mark.parametrize(("mode", "kept"), [("separate", 8), ("other", 8), ("embedded", 10), ("interleaved", 10)])
def test_calibration_lines_count_only_where_they_share_the_kspace(tmp_path: Path, mode: str, kept: int) -> None:
    u = random_kspace(1, 2, 16, 16)
    lines = [mrd_line(u[0, :, :, w], w, flags=(1 << 20 | 1 << 19) if w == 8 else 0) for w in range(0, 16, 2)]
    lines += [mrd_line(u[0, :, :, w], w, flags=1 << 19) for w in (7, 9)]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16, calibration=mode), lines))
    assert data.mask.sum() == kept
    np.testing.assert_array_equal(data.z, u * data.mask)


@pytest.mark.parametrize(("X", "H"), [(32, 16), (33, 16), (32, 15), (33, 11)])
def test_cropping_the_readout_keeps_the_pixels(X: int, H: int) -> None:
    u = random_kspace(2, 12, X)
    first = X // 2 - H // 2
    np.testing.assert_allclose(ifft2c(crop_readout(u, H)), ifft2c(u)[..., first : first + H], atol=2e-5)


def test_oversampling_is_removed_and_the_phase_window_kept(tmp_path: Path) -> None:
    u = random_kspace(1, 2, 32, 20)
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(32, 20, h=16, w=18), all_lines(u)))
    assert data.z.shape == (1, 2, 16, 20)
    np.testing.assert_allclose(ifft2c(data.z), ifft2c(u)[..., 8:24, :], atol=2e-5)
    assert data.header.recon_shape == (16, 18)
    assert data.header.voxel_mm == (2.0, 1.0, 5.0)


@pytest.mark.parametrize(("X", "n"), [(32, 20), (33, 21)])
def test_asymmetric_echo_is_placed_by_its_centre(tmp_path: Path, X: int, n: int) -> None:
    u = random_kspace(1, 1, X, 16)
    u[..., : X - n, :] = 0
    lines = [mrd_line(u[0, :, X - n :, w], w, center_sample=X // 2 - (X - n)) for w in range(16)]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(X, 16), lines))
    np.testing.assert_array_equal(data.z, u)
    assert any("asymmetric" in note for note in data.header.notes)


def test_reversed_and_discarded_samples(tmp_path: Path) -> None:
    u = random_kspace(1, 2, 17, 16)
    lines = [mrd_line(u[0, :, :, w], w) for w in range(0, 16, 2)]
    lines += [mrd_line(u[0, :, ::-1, w], w, flags=1 << 21) for w in range(1, 16, 2)]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(17, 16), lines))
    np.testing.assert_array_equal(data.z, u)
    lines = [mrd_line(u[0, :, :, w], w, discard_pre=2, discard_post=3) for w in range(16)]
    u[..., :2, :], u[..., -3:, :] = 0, 0
    np.testing.assert_array_equal(read_kspace(write_mrd(tmp_path / "b.h5", header_xml(17, 16), lines)).z, u)


def test_centre_of_the_limits_lands_on_the_centre(tmp_path: Path) -> None:
    """Ten of sixteen lines, counted from zero, around step 2: partial Fourier."""
    u = random_kspace(1, 1, 16, 16)
    lines = [mrd_line(u[0, :, :, w], w - 6) for w in range(6, 16)]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16, center=2, last=9), lines))
    np.testing.assert_array_equal(data.mask, np.arange(16) >= 6)
    np.testing.assert_array_equal(data.z, u * data.mask)


def test_lines_missing_in_one_slice_are_left_out_in_all(tmp_path: Path) -> None:
    u = random_kspace(2, 1, 16, 16)
    lines = all_lines(u)
    del lines[16 + 4]
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16), lines))
    np.testing.assert_array_equal(data.mask, np.arange(16) != 4)
    np.testing.assert_array_equal(data.z, u * data.mask)


def test_affine_maps_the_centre_to_the_position(tmp_path: Path) -> None:
    """Slices counted in time lie interleaved in space; LPS becomes RAS."""
    u = random_kspace(3, 1, 16, 17)
    read, phase, normal = np.array([0, 1.0, 0]), np.array([0, 0, -1.0]), np.array([-1.0, 0, 0])
    middle = np.array([10.0, 20.0, 30.0])
    offsets = (8.0, 0.0, 4.0)  # along the normal, by slice counter
    lines = [
        mrd_line(u[s, :, :, w], w, slice=s, position=middle + normal * offsets[s],
                 read_dir=read, phase_dir=phase, slice_dir=normal)
        for s in range(3) for w in range(17)
    ]  # fmt: skip
    data = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 17), lines))
    np.testing.assert_array_equal(data.z, u[[1, 2, 0]])
    affine = data.header.affine
    assert affine is not None
    lps_to_ras = np.array([-1, -1, 1])
    for index, lps in (
        ((8, 8, 0), middle),
        ((9, 8, 0), middle + 2 * read),
        ((8, 9, 0), middle + phase),
        ((8, 8, 2), middle + 8 * normal),
    ):
        np.testing.assert_allclose((affine @ [*index, 1])[:3], lps_to_ras * lps, atol=1e-5)
    assert data.header.voxel_mm == pytest.approx((2, 1, 4))


def broken(u: Complex, kind: str) -> tuple[str, list[Any]]:
    xml, lines = header_xml(16, 16), all_lines(u)
    first = u[0, :, :, 0]
    extra = {
        "channels": mrd_line(np.concatenate([first, first]), 0),
        "samples": mrd_line(first[:, :12], 0),
        "length": mrd_line(first, 0, number_of_samples=16),
        "step": mrd_line(first, 16),
        "second phase encoding": mrd_line(first, 0, kspace_encode_step_2=1),  # of one partition in the header
    }
    if kind == "length":
        extra[kind]["data"][0] = extra[kind]["data"][0][:-2]
    if kind in extra:
        return xml, [*lines, extra[kind]]
    headers = {
        "radial": header_xml(16, 16, trajectory="radial"),
        "not XML": xml[: len(xml) // 2],
        "no encoding": "<ismrmrdHeader/>",
        "matrix": header_xml(16, 16).replace("<x>16</x>", "<x>-3</x>"),
        "huge": header_xml(60000, 60000),
        "entities": '<!DOCTYPE a [<!ENTITY b "bbbb">]>' + xml.split("?>")[1],
    }
    return headers.get(kind, xml), [] if kind == "no lines" else lines


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("channels", "channels"),
        ("samples", "samples"),
        ("length", "its header says"),
        ("step", "do not fit"),
        ("second phase encoding", "partitions: the header"),
        ("radial", "'radial', expected Cartesian"),
        ("not XML", "not valid XML"),
        ("no encoding", "no <encoding>"),
        ("matrix", "expected an integer"),
        ("huge", "60000|do not fit"),
        ("entities", "DOCTYPE"),
        ("no lines", "no imaging line"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, kind: str, words: str) -> None:
    with pytest.raises(BayesMRIError, match=words) as caught:
        read_kspace(write_mrd(tmp_path / "a.h5", *broken(random_kspace(1, 2, 16, 16), kind)))
    assert isinstance(caught.value, FormatError | DataError)
    assert "\n" not in str(caught.value)


def generate(path: Path, *options: str) -> tuple[Any, Complex]:
    """(what we read, the coil images the generator started from) of a 64x64 phantom with twofold oversampling."""
    subprocess.run([str(GENERATOR), "-m", "64", "-o", str(path), *options], check=True, capture_output=True)
    with h5py.File(path) as file:
        stored = file["dataset/coil_images"][0]
    coil_images = (stored["real"] + 1j * stored["imag"]).transpose(0, 2, 1)
    return read_kspace(path, choice=Choice(prewhiten=False)), coil_images[:, 32:96]


@pytest.mark.skipif(GENERATOR is None, reason="ismrmrd_generate_cartesian_shepp_logan is not installed")
@pytest.mark.parametrize("options", [["-c", "1"], ["-c", "4"], ["-c", "3", "-C", "-r", "2"]])
def test_generated_phantom_is_reconstructed(tmp_path: Path, options: list[str]) -> None:
    data, wanted = generate(tmp_path / "a.h5", "-n", "0.0001", *options)
    assert data.fully_sampled
    assert data.z.shape[2:] == (64, 64)
    np.testing.assert_allclose(ifft2c(data.z[0]), wanted, atol=2e-3)


@pytest.mark.skipif(GENERATOR is None, reason="ismrmrd_generate_cartesian_shepp_logan is not installed")
def test_generated_acceleration_is_found(tmp_path: Path) -> None:
    data, wanted = generate(tmp_path / "a.h5", "-c", "4", "-n", "0.0001", "-a", "2", "-w", "16", "-C")
    assert data.mask.sum() == 40  # every second of 64, and the middle 16
    assert any("noise" in note for note in data.header.notes)
    full = fftc(fftc(wanted, -1), -2) * data.mask
    assert np.linalg.norm(data.z[0] - full) < 1e-2 * np.linalg.norm(full)


def test_a_file_of_the_ismrmrd_package_is_read(tmp_path: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    u = random_kspace(2, 3, 16, 17)
    with ismrmrd.Dataset(str(tmp_path / "a.h5")) as file:
        file.write_xml_header(header_xml(16, 17).encode())
        for s in range(2):
            for w in range(17):
                line = ismrmrd.Acquisition.from_array(np.ascontiguousarray(u[s, :, :, w]))
                line.center_sample = 8
                line.idx.kspace_encode_step_1, line.idx.slice = w, s
                file.append_acquisition(line)
    np.testing.assert_array_equal(read_kspace(tmp_path / "a.h5").z, u)
