"""MRD files as scanners write them: noise scans, counters, asymmetric echoes, 3-D; each choice is told."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import bayesmri
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError, FormatError
from bayesmri.io.formats import read_kspace
from bayesmri.io.mrd.choice import Choice
from bayesmri.io.mrd.noise import covariance, whitening
from bayesmri.kspace import KSpace
from reader_files import Complex, fftc, header_xml, ifft2c, mrd_line, random_kspace, write_mrd

GENERATOR = shutil.which("ismrmrd_generate_cartesian_shepp_logan")
NOISE, CALIBRATION, REVERSE, PHASE_CORRECTION = 1 << 18, 1 << 19, 1 << 21, 1 << 23
NAVIGATION, DUMMY = 1 << 22, 1 << 26


def normal(*shape: int, seed: int = 0) -> Complex:
    """Complex noise of variance 1."""
    rng = np.random.default_rng(seed)
    z: Complex = ((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)).astype(np.complex64)
    return z


def mixing(Q: int) -> NDArray[np.complex128]:
    """Coils of strengths 1 to 3 that hear each other."""
    return np.diag(np.linspace(1, 3, Q)) @ (np.eye(Q) + 0.3 * normal(Q, Q, seed=9).astype(np.complex128))


def lines_of(u: Complex, **changes: Any) -> list[Any]:
    """Every line of (slices, Q, X, W)."""
    return [mrd_line(u[s, :, :, w], w, slice=s, **changes) for s in range(len(u)) for w in range(u.shape[-1])]


def said(kspace: KSpace) -> str:
    return " | ".join(kspace.header.notes)


def warned(kspace: KSpace) -> str:
    return " | ".join(kspace.header.warnings)


@pytest.mark.parametrize("Q", [1, 2, 7])
def test_whitened_noise_has_the_covariance_of_independent_equal_coils(Q: int) -> None:
    """W Σ W* = σ² Id exactly, for the Σ it is made of; σ² is the mean power, so that units stay."""
    Sigma = covariance(mixing(Q) @ normal(Q, 4000))
    found = whitening(Sigma)
    assert found is not None
    W = found.matrix.astype(np.complex128)
    np.testing.assert_allclose(W @ Sigma @ W.conj().T / found.sigma**2, np.eye(Q), atol=1e-5)
    np.testing.assert_allclose(found.sigma**2, np.trace(Sigma).real / Q, rtol=1e-6)
    other = covariance(found.apply((mixing(Q) @ normal(Q, 50_000, seed=3)).astype(np.complex64)[None])[0])
    np.testing.assert_allclose(other / found.sigma**2, np.eye(Q), atol=0.1)


def noisy(path: Path, *, M: int = 512, scans: Complex | None = None, xml: str | None = None, **noise: Any) -> Path:
    """An array of four coils whose noise is mixed, with noise scans of M samples."""
    A = mixing(4)
    u = random_kspace(1, 4, 16, 17) * 10
    measured = (A @ normal(4, M, seed=1)).astype(np.complex64) if scans is None else scans
    lines = [mrd_line(measured[:, i : i + 64], 0, flags=NOISE, **noise) for i in range(0, M, 64)]
    return write_mrd(path, xml or header_xml(16, 17), [*lines, *lines_of(u, sample_time_us=5.0)])


def test_noise_scans_prewhiten_image_and_reference_and_say_what_they_measured(tmp_path: Path) -> None:
    path = noisy(tmp_path / "a.h5")
    plain, white = read_kspace(path, choice=Choice(prewhiten=False)), read_kspace(path)
    found = whitening(covariance((mixing(4) @ normal(4, 512, seed=1)).astype(np.complex64)))
    assert found is not None
    np.testing.assert_allclose(white.z[0], np.einsum("ab,bhw->ahw", found.matrix, plain.z[0]), rtol=1e-4, atol=1e-3)
    assert "prewhitened by noise scans (8 lines), 512 samples: correlations up to 0." in said(white)
    assert "left out, as asked" in said(plain)
    assert not white.header.warnings
    assert not plain.header.warnings
    u, v = random_kspace(1, 4, 16, 17), random_kspace(1, 4, 16, 17, seed=5)
    noise = [mrd_line((mixing(4) @ normal(4, 512, seed=1)).astype(np.complex64), 0, flags=NOISE)]
    both = read_kspace(write_mrd(
        tmp_path / "b.h5", header_xml(16, 17, calibration="separate"),
        [*noise, *lines_of(u), *lines_of(v, flags=CALIBRATION)],
    ))  # fmt: skip
    assert both.reference is not None
    np.testing.assert_allclose(both.reference[0], np.einsum("ab,bhw->ahw", found.matrix, v[0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("bandwidth", "ratio"), [(None, 2.0), (0.79, 2.0 / 0.79)])
def test_the_level_of_the_noise_follows_the_bandwidth(tmp_path: Path, bandwidth: float | None, ratio: float) -> None:
    """A sample of half the time takes in twice the noise power; the receiver's filter is made up for."""
    xml = header_xml(16, 17)
    if bandwidth is not None:
        tag = f"<relativeReceiverNoiseBandwidth>{bandwidth}</relativeReceiverNoiseBandwidth>"
        xml = xml.replace("</acquisitionSystemInformation>", f"{tag}</acquisitionSystemInformation>")
    texts = [said(read_kspace(noisy(tmp_path / "a.h5", xml=xml, sample_time_us=t))) for t in (5.0 * 1, 10.0)]
    one, two = (float(text.split("σ = ")[1].split()[0]) for text in texts)
    assert two / one == pytest.approx(np.sqrt(2), rel=0.01)
    silent = said(read_kspace(noisy(tmp_path / "a.h5", xml=xml)))
    assert two / float(silent.split("σ = ")[1].split()[0]) == pytest.approx(np.sqrt(ratio), rel=0.01)


@pytest.mark.parametrize("kind", ["few", "dead coil", "copy", "NaN", "channels", "damaged"])
def test_noise_scans_that_tell_nothing_are_left_out_with_a_warning(tmp_path: Path, kind: str) -> None:
    noise = (mixing(4) @ normal(4, 64, seed=1)).astype(np.complex64)
    if kind == "dead coil":
        noise[2] = 0
    if kind == "copy":
        noise[2] = noise[1]
    if kind == "NaN":
        noise[0, 0] = np.nan
    scans = {"few": noise[:, :16], "channels": noise[:3]}.get(kind, noise)
    line = mrd_line(scans, 0, flags=NOISE)
    if kind == "damaged":
        line["data"][0] = line["data"][0][:-2]
    u = random_kspace(1, 4, 16, 17)
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 17), [line, *lines_of(u)]))
    np.testing.assert_array_equal(found.z, u)
    assert "not prewhitened" in warned(found)


def test_counters_choose_the_image(tmp_path: Path) -> None:
    """Every counter alone and together; what there is is said, what there is not is refused with its range."""
    images = {(r, c): random_kspace(1, 2, 16, 16, seed=10 * r + c) for r in (0, 1, 2) for c in (0, 2)}
    lines = [line for (r, c), u in images.items() for line in lines_of(u, repetition=r, contrast=c)]
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 16), lines)
    for (r, c), u in images.items():
        np.testing.assert_array_equal(read_kspace(path, choice=Choice(repetition=r, contrast=c)).z, u)
    np.testing.assert_array_equal(bayesmri.read(path, repetition=2).z, images[2, 0])  # type: ignore[union-attr]
    text = said(read_kspace(path))
    assert "of 3 values of `repetition` (0 to 2) 0 was taken; --repetition takes another" in text
    assert "of 2 values of `contrast` (0, 2) 0 was taken" in text
    for choice, expected in ((Choice(repetition=3), "0 to 2"), (Choice(contrast=1), "0, 2"), (Choice(set=1), "0")):
        with pytest.raises(ConfigError, match=f"expected {expected}, which the file holds"):
            read_kspace(path, choice=choice)
    np.save(tmp_path / "a.npy", images[0, 0][0])
    with pytest.raises(ConfigError, match="MRD files only"):
        bayesmri.read(tmp_path / "a.npy", phase=0)


def test_counters_that_exist_and_never_together_are_refused(tmp_path: Path) -> None:
    u = random_kspace(1, 1, 16, 16)
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 16), [*lines_of(u, set=1), *lines_of(u, phase=1)])
    with pytest.raises((ConfigError, DataError), match=r"expected|together"):
        read_kspace(path, choice=Choice(set=1, phase=1))


def test_places_of_more_lines_are_means_of_their_own(tmp_path: Path) -> None:
    a, b = random_kspace(1, 2, 16, 16, seed=1), random_kspace(1, 2, 16, 16, seed=2)
    again = [mrd_line(b[0, :, :, w], w, average=1) for w in range(6, 10)]
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16), [*lines_of(a), *again]))
    wanted = a.copy()
    wanted[..., 6:10] = (a + b)[..., 6:10] / 2
    np.testing.assert_allclose(found.z, wanted, atol=1e-5)
    assert "1 to 2 lines were acquired at one place" in said(found)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("X", "n", "by"), [(32, 20, "center"), (33, 21, "center"), (32, 20, "discard")])
def test_rows_that_an_asymmetric_echo_lacks_are_known_as_not_acquired(
    tmp_path: Path, X: int, n: int, by: str, side: str
) -> None:
    u = random_kspace(1, 2, X, 16)
    kept = slice(X - n, X) if side == "before" else slice(0, n)
    inside = np.zeros(X, bool)
    inside[kept] = True
    lines = []
    for w in range(0, 16, 2):
        if by == "center":
            lines.append(mrd_line(u[0, :, kept, w], w, center_sample=X // 2 - kept.start))
        else:
            lost = {"before": "discard_pre", "after": "discard_post"}[side]
            lines.append(mrd_line(u[0, :, :, w], w, **{lost: X - n}))
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(X, 16), lines))
    wanted = inside[:, None] & (np.arange(16) % 2 == 0)
    np.testing.assert_array_equal(found.mask, wanted)
    np.testing.assert_array_equal(found.z, u * wanted)
    assert f"{n} of {X} readout samples were acquired (asymmetric echo)" in said(found)


def test_an_asymmetric_echo_is_placed_where_oversampling_is_removed(tmp_path: Path) -> None:
    """Rows that count are those of the complete scan, but for what leaks over the cut; the others are zero."""
    x = np.zeros((1, 1, 64, 16), np.complex64)
    x[..., 20:44, 3:13] = random_kspace(24, 10) / 10
    u = fftc(fftc(x, -1), -2).astype(np.complex64)
    full = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(64, 16, h=32), lines_of(u)))
    lines = [mrd_line(u[0, :, 20:, w], w, center_sample=12) for w in range(16)]
    found = read_kspace(write_mrd(tmp_path / "b.h5", header_xml(64, 16, h=32), lines))
    assert found.mask.shape == (32, 16)
    np.testing.assert_array_equal(found.mask.all(axis=1), found.mask.any(axis=1))
    np.testing.assert_array_equal(np.flatnonzero(found.mask[:, 0]), np.arange(11, 32))
    assert not found.z[..., ~found.mask].any()
    kept = found.mask
    error = np.linalg.norm((found.z - full.z)[..., kept]) / np.linalg.norm(full.z[..., kept])
    assert error < 0.15  # white k-space up to the cut: real ones have little there


def test_short_symmetric_readouts_are_zero_padding_and_few_discarded_samples_no_mask(tmp_path: Path) -> None:
    u = random_kspace(1, 1, 32, 16)
    lines = [mrd_line(u[0, :, 6:26, w], w, center_sample=10) for w in range(16)]
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(32, 16), lines))
    assert found.fully_sampled
    assert "zero padding" in said(found)
    lines = [mrd_line(u[0, :, :, w], w, discard_pre=2) for w in range(16)]
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(32, 16), lines))
    assert found.fully_sampled
    assert "discarded" in said(found)


def test_lines_read_backwards_are_turned_and_ghosts_warned_of(tmp_path: Path) -> None:
    u = random_kspace(1, 2, 17, 16)
    lines = [mrd_line(u[0, :, :: (-1) ** w, w], w, flags=REVERSE * (w % 2)) for w in range(16)]
    other = [mrd_line(u[0, :, :, 8], 8, flags=flags) for flags in (PHASE_CORRECTION, NAVIGATION, DUMMY)]
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(17, 16), [*other, *lines]))
    np.testing.assert_array_equal(found.z, u)
    assert "8 of 16 lines were read out backwards" in warned(found)
    assert "ghosts" in warned(found)
    assert all(
        f"{kind} scans were skipped (1 lines)" in said(found) for kind in ("phase-correction", "navigator", "dummy")
    )


def header_3d(X: int, W: int, P: int, *, center_2: int | None = None, **changes: Any) -> str:
    limits = f"""<kspace_encoding_step_2><minimum>0</minimum><maximum>{P - 1}</maximum>
        <center>{P // 2 if center_2 is None else center_2}</center></kspace_encoding_step_2></encodingLimits>"""
    return header_xml(X, W, depth=P, **changes).replace("</encodingLimits>", limits)


def volume(path: Path, k: Complex, mask: NDArray[np.bool_], xml: str, *, shift: int = 0, **changes: Any) -> KSpace:
    """Of k (Q, X, W, P) the lines of the mask (W, P)."""
    lines = [mrd_line(k[:, :, w, p], w, kspace_encode_step_2=p - shift, **changes) for w, p in np.argwhere(mask)]
    return read_kspace(write_mrd(path, xml, lines))


@pytest.mark.parametrize(("X", "W", "P"), [(16, 12, 10), (15, 11, 9)])
def test_3d_lines_become_slices_along_the_readout(tmp_path: Path, X: int, W: int, P: int) -> None:
    k = random_kspace(2, X, W, P)
    frame: dict[str, Any] = {
        "read_dir": (1, 0, 0),
        "phase_dir": (0, 1, 0),
        "slice_dir": (0, 0, 1),
        "position": (5, 6, 7),
    }
    found = volume(tmp_path / "a.h5", k, np.ones((W, P), bool), header_3d(X, W, P), **frame)
    image = np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(k, axes=1), axis=1, norm="ortho"), axes=1)
    np.testing.assert_allclose(found.z, image.swapaxes(0, 1), atol=1e-4)
    assert found.fully_sampled
    assert "3-D" in said(found)
    assert found.header.voxel_mm == pytest.approx((1.0, 5 / P, 2.0))
    assert found.header.affine is not None
    at = found.header.affine @ [W // 2, P // 2, X // 2, 1]
    np.testing.assert_allclose(at[:3], (-5, -6, 7), atol=1e-5)


def ellipse(W: int, P: int) -> NDArray[np.bool_]:
    y, x = ((np.arange(n) - n // 2) / (n / 2) for n in (W, P))
    inside: NDArray[np.bool_] = y[:, None] ** 2 + x**2 <= 1
    return inside


def test_3d_masks_are_those_of_the_lines(tmp_path: Path) -> None:
    """Elliptical scanning, random points, partial Fourier along the second encoding: all placed, none guessed."""
    W, P = 14, 16
    k = random_kspace(2, 16, W, P)
    rng = np.random.default_rng(0)
    points = (rng.random((W, P)) < 0.4) & ellipse(W, P)
    points[5:9, 6:10] = True
    for name, mask in {"ellipse": ellipse(W, P), "points": points}.items():
        found = volume(tmp_path / f"{name}.h5", k, mask, header_3d(16, W, P))
        np.testing.assert_array_equal(found.mask, mask)
        assert not found.z[..., ~mask].any()
        assert ("elliptical" in said(found)) == (name == "ellipse")
    late = np.zeros((W, P), bool)
    late[:, 5:] = True
    found = volume(tmp_path / "late.h5", k, late, header_3d(16, W, P, center_2=3), shift=5)
    np.testing.assert_array_equal(np.broadcast_to(found.mask, (W, P)), late)


def test_3d_undersampled_along_one_encoding_has_lines(tmp_path: Path) -> None:
    """Along the second: columns. Along the first: the same after a turn, which the images do not show."""
    k = random_kspace(2, 16, 12, 14)
    every = np.ones((12, 14), bool)
    columns, rows = every & (np.arange(14) % 3 != 0), every & (np.arange(12) % 3 != 1)[:, None]
    found = volume(tmp_path / "a.h5", k, columns, header_3d(16, 12, 14))
    np.testing.assert_array_equal(found.mask, columns[0])
    assert not found.header.turned
    found, full = (volume(tmp_path / "b.h5", k, mask, header_3d(16, 12, 14)) for mask in (rows, every))
    np.testing.assert_array_equal(found.mask, rows[:, 0])
    np.testing.assert_array_equal(found.z, (full.z * rows).swapaxes(-1, -2))
    assert found.header.turned
    assert "turned back" in said(found)


def test_3d_with_oversampling_averages_and_calibration(tmp_path: Path) -> None:
    k, again = random_kspace(2, 32, 12, 10), random_kspace(2, 32, 12, 10, seed=1)
    coils = random_kspace(2, 32, 12, 10, seed=2)
    lines = [
        mrd_line(x[:, :, w, p], w, kspace_encode_step_2=p, average=i, flags=flags)
        for i, (x, flags) in enumerate(((k, 0), (again, 0), (coils, CALIBRATION)))
        for w in range(12)
        for p in range(10)
    ]
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_3d(32, 12, 10, h=16, calibration="separate"), lines))

    def slices(x: Complex) -> NDArray[Any]:
        return np.fft.fftshift(np.fft.ifft(np.fft.ifftshift(x, axes=1), axis=1, norm="ortho"), axes=1)[:, 8:24]

    np.testing.assert_allclose(found.z, slices((k + again) / 2).swapaxes(0, 1), atol=1e-4)
    assert found.reference is not None
    np.testing.assert_allclose(found.reference, slices(coils).swapaxes(0, 1), atol=1e-4)


def test_partitions_in_the_header_alone_make_no_3d_scan(tmp_path: Path) -> None:
    u = random_kspace(2, 1, 16, 16)
    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16, depth=4), lines_of(u)))
    np.testing.assert_array_equal(found.z, u)
    assert "4 partitions" in warned(found)


@pytest.mark.parametrize("name", ["radial", "spiral", "epi", "goldenangle", "other"])
def test_other_trajectories_are_refused_by_name(tmp_path: Path, name: str) -> None:
    u = random_kspace(1, 1, 16, 16)
    with pytest.raises(FormatError, match=f"'{name}', expected Cartesian"):
        read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16, trajectory=name), lines_of(u)))


def test_coordinates_that_contradict_the_header_are_refused(tmp_path: Path) -> None:
    """Straight lines in equal steps pass; spokes and ramps that the header calls Cartesian do not."""
    u = random_kspace(1, 1, 16, 16)
    even = np.linspace(-0.5, 0.5, 16, endpoint=False)

    def with_coordinates(kx: NDArray[np.float64], ky: NDArray[np.float64]) -> list[Any]:
        lines = lines_of(u, trajectory_dimensions=2)
        for line in lines:
            line["traj"][0] = np.stack([kx, ky], axis=1).astype(np.float32).reshape(-1)
        return lines

    found = read_kspace(write_mrd(tmp_path / "a.h5", header_xml(16, 16), with_coordinates(even, 0 * even + 0.25)))
    np.testing.assert_array_equal(found.z, u)
    for kx, ky in ((even, 0.5 * even), (np.sin(3 * even) / 3, 0 * even)):
        with pytest.raises(FormatError, match="Cartesian, but"):
            read_kspace(write_mrd(tmp_path / "b.h5", header_xml(16, 16), with_coordinates(kx, ky)))


def generate(path: Path, *options: str) -> Complex:
    """The coil images that the generator started from, (Q, X, W)."""
    subprocess.run([str(GENERATOR), "-o", str(path), *options], check=True, capture_output=True)
    with h5py.File(path) as file:
        stored = file["dataset/coil_images"][0]
    images: Complex = (stored["real"] + 1j * stored["imag"]).transpose(0, 2, 1)
    return images


@pytest.mark.skipif(GENERATOR is None, reason="ismrmrd_generate_cartesian_shepp_logan is not installed")
@pytest.mark.parametrize("matrix", ["48", "64"])
@pytest.mark.parametrize("options", [["-O", "1"], ["-O", "3"], ["-k"], ["-C"], ["-r", "3", "-C", "-k"]])
def test_the_generators_phantom_comes_back(tmp_path: Path, matrix: str, options: list[str]) -> None:
    """RSS of what is read, prewhitened where there is noise to measure, is that of the generator's coil images."""
    m = int(matrix)
    images = generate(tmp_path / "a.h5", "-m", matrix, "-c", "4", "-n", "0.002", *options)
    found = read_kspace(tmp_path / "a.h5")
    X = images.shape[1]
    H = X // 2  # its headers show half of the readout, whatever the oversampling was
    wanted = images[:, X // 2 - H // 2 :][:, :H]
    assert found.z.shape == (1, 4, H, m)
    assert found.fully_sampled
    assert ("cut away" in warned(found)) == (m == X)
    rss = np.linalg.norm(wanted, axis=0)
    got = np.linalg.norm(ifft2c(found.z[0]), axis=0)
    if "-C" in options:  # the coils are mixed: magnitudes follow where the noise was equal and independent
        assert "prewhitened" in said(found)
        assert np.linalg.norm(got - rss) < 0.2 * np.linalg.norm(rss)
        plain = read_kspace(tmp_path / "a.h5", choice=Choice(prewhiten=False))
        got = np.linalg.norm(ifft2c(plain.z[0]), axis=0)
    assert np.linalg.norm(got - rss) < 0.02 * np.linalg.norm(rss)


@pytest.mark.skipif(GENERATOR is None, reason="ismrmrd_generate_cartesian_shepp_logan is not installed")
def test_the_generators_repetitions_interleave(tmp_path: Path) -> None:
    """At R = 2 its repetitions take the even and the odd lines in turn, each with the centre."""
    images = generate(tmp_path / "a.h5", "-m", "64", "-c", "2", "-a", "2", "-w", "12", "-r", "2", "-n", "0")
    full = fftc(fftc(images[:, 32:96], -1), -2)
    masks = []
    for repetition in range(4):
        found = read_kspace(tmp_path / "a.h5", choice=Choice(repetition=repetition))
        np.testing.assert_allclose(found.z[0], full * found.mask, atol=1e-3)
        masks.append(found.mask)
    assert (masks[0] | masks[1]).all()
    assert (masks[0] == masks[2]).all()
    assert (masks[0] != masks[1]).sum() == 52
    with pytest.raises(ConfigError, match="0 to 3"):
        read_kspace(tmp_path / "a.h5", choice=Choice(repetition=4))


@pytest.mark.skipif(GENERATOR is None, reason="ismrmrd_generate_cartesian_shepp_logan is not installed")
def test_the_command_reconstructs_the_generators_phantom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counters, prewhitening and refusals as flags; the image is that of the phantom's numbers."""
    path, out = tmp_path / "a.h5", tmp_path / "out.h5"
    images = generate(path, "-m", "64", "-c", "4", "-n", "0.002", "-r", "2", "-C")
    wanted = np.linalg.norm(images[:, 32:96], axis=0)
    argv = ["recon", str(path), "-o", str(out), "--method", "zero-filled", "--json", "--force", "--no-prewhiten"]
    assert main([*argv, "--repetition", "1"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("(0 to 1) 1 was taken" in note for note in notes)
    assert any("not prewhitened" in note for note in notes)
    with h5py.File(out) as file:
        got = file["reconstruction"][0]
    assert np.linalg.norm(got - wanted) < 0.02 * np.linalg.norm(wanted)
    assert main(["inspect", str(path), "--repetition", "2"]) == 2
    assert "expected 0 to 1" in capsys.readouterr().err


def test_the_command_reconstructs_a_3d_scan_with_elliptical_scanning(tmp_path: Path) -> None:
    """Slices along the readout, masks of points: the image of every slice that the lines tell."""
    x = np.zeros((1, 16, 24, 20), np.complex64)
    x[:, 4:12, 6:18, 5:15] = random_kspace(8, 12, 10)
    k = fftc(fftc(fftc(x, 1), 2), 3).astype(np.complex64)
    mask = ellipse(24, 20)
    volume(tmp_path / "a.h5", k, mask, header_3d(16, 24, 20))
    assert main(["recon", str(tmp_path / "a.h5"), "-o", str(tmp_path / "o.h5"), "--method", "zero-filled"]) == 0
    with h5py.File(tmp_path / "o.h5") as file:
        got, stored = file["reconstruction"][()], file["mask"][()]
    np.testing.assert_array_equal(stored.astype(bool), mask)
    shown = np.abs(ifft2c(fftc(fftc(x[0], 1), 2) * mask))
    np.testing.assert_allclose(got, shown, atol=1e-4)
