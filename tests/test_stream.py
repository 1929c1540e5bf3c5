"""The scanner's stream: any conforming client gets the images that `recon` makes of the same lines."""

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import ismrmrd
import numpy as np
import pytest
from ismrmrd.waveform import WaveformHeader

import bayesmri
from bayesmri.io.formats import read_kspace
from bayesmri.io.mrd.choice import Choice
from bayesmri.io.write_h5 import write_kspace
from bayesmri.recon.request import Options
from bayesmri.stream import layout
from bayesmri.stream.client import stream_file
from bayesmri.stream.parameters import Wish
from reader_files import Complex, header_xml, mrd_line, random_kspace, write_mrd
from stream_runs import FIRST, LAST, LAST_IN_MEASUREMENT, PLAIN, Client, acquisitions, pixels, series, serving, streamed

GENERATOR = shutil.which("ismrmrd_generate_cartesian_shepp_logan")
RECONSTRUCTOR = shutil.which("ismrmrd_recon_cartesian_2d")
NOISE, CALIBRATION, BOTH, REVERSE, NAVIGATION = 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22
FLOATS = '{"parameters": {"pixels": "float32"}}'


def flags(w: int, W: int) -> int:
    return (FIRST if w == 0 else 0) | (LAST if w == W - 1 else 0)


def lines_of(u: Complex, **changes: Any) -> list[Any]:
    """Every line of (slices, Q, X, W), slice after slice, flagged."""
    W = u.shape[-1]
    return [mrd_line(u[s, :, :, w], w, slice=s, flags=flags(w, W), **changes) for s in range(len(u)) for w in range(W)]


def with_averages(xml: str, n: int) -> str:
    return xml.replace(
        "</encodingLimits>", f"<average><minimum>0</minimum><maximum>{n - 1}</maximum></average></encodingLimits>"
    )


# --- the layout


@pytest.mark.parametrize(
    ("mine", "packed"),
    [
        (layout.ACQUISITION_HEAD, ismrmrd.AcquisitionHeader),
        (layout.COUNTERS, ismrmrd.EncodingCounters),
        (layout.IMAGE_HEAD, ismrmrd.ImageHeader),
        (layout.WAVEFORM_HEAD, WaveformHeader),
    ],
)
def test_headers_are_laid_out_as_the_ismrmrd_package_packs_them(mine: np.dtype[Any], packed: Any) -> None:
    assert mine.itemsize == ctypes.sizeof(packed)
    assert mine.names is not None
    assert mine.fields is not None
    for name in mine.names:
        assert mine.fields[name][1] == getattr(packed, name).offset
        assert mine.fields[name][0].itemsize == getattr(packed, name).size
    if mine is not layout.WAVEFORM_HEAD:  # of which two numbers are read
        assert set(mine.names) == {name for name, *_ in packed._fields_}


# --- the same images as of files


def plain_scan(folder: Path) -> Path:
    return write_mrd(folder / "a.h5", header_xml(16, 17), lines_of(random_kspace(1, 3, 16, 17)))


def oversampled(folder: Path) -> Path:
    return write_mrd(folder / "a.h5", header_xml(32, 17, h=16), lines_of(random_kspace(1, 2, 32, 17)))


def averaged(folder: Path) -> Path:
    """Every line three times, average after average; LAST_IN_SLICE ends each of them."""
    u = [random_kspace(1, 2, 16, 15, seed=i) for i in range(3)]
    lines = [line for i in range(3) for line in lines_of(u[i], average=i)]
    return write_mrd(folder / "a.h5", with_averages(header_xml(16, 15), 3), lines)


def averaged_without_flags(folder: Path) -> Path:
    u = [random_kspace(1, 2, 16, 15, seed=i) for i in range(2)]
    lines = [mrd_line(u[i][0, :, :, w], w, average=i) for w in range(15) for i in range(2)]
    return write_mrd(folder / "a.h5", with_averages(header_xml(16, 15), 2), lines)


def noisy(folder: Path) -> Path:
    noise = [mrd_line(random_kspace(3, 64, seed=9 + i) / 50, 0, flags=NOISE) for i in range(4)]
    return write_mrd(folder / "a.h5", header_xml(16, 17), [*noise, *lines_of(random_kspace(1, 3, 16, 17))])


def embedded(folder: Path) -> Path:
    """Every second line, and in the centre all of them, of which some are for calibration alone."""
    u, lines = random_kspace(1, 2, 16, 16), []
    for w in sorted({*range(0, 16, 2), *range(5, 11)}):
        mark = (BOTH if w % 2 == 0 else CALIBRATION) if 5 <= w < 11 else 0
        lines.append(mrd_line(u[0, :, :, w], w, flags=mark | flags(w, 15)))
    return write_mrd(folder / "a.h5", header_xml(16, 16, calibration="embedded"), lines)


def silent_about_calibration(folder: Path) -> Path:
    path = embedded(folder)
    xml, _ = acquisitions(path)
    with h5py.File(path, "r+") as file:
        file["dataset/xml"][0] = xml.replace("<calibrationMode>embedded</calibrationMode>", "")
    return path


def separately_calibrated(folder: Path) -> Path:
    u = random_kspace(1, 4, 16, 16)
    reference = [mrd_line(u[0, :, :, w] * 3, w, flags=CALIBRATION | flags(w - 4, 8)) for w in range(4, 12)]
    image = [mrd_line(u[0, :, :, w], w, flags=flags(w, 15)) for w in range(0, 16, 2)]
    return write_mrd(folder / "a.h5", header_xml(16, 16, calibration="separate"), [*reference, *image])


def asymmetric(folder: Path) -> Path:
    u = random_kspace(1, 2, 16, 15)
    lines = [mrd_line(u[0, :, 4:, w], w, center_sample=4, flags=flags(w, 15)) for w in range(15)]
    return write_mrd(folder / "a.h5", header_xml(16, 15), lines)


def backwards_with_navigators(folder: Path) -> Path:
    u, lines = random_kspace(1, 2, 16, 15), []
    for w in range(15):
        lines.append(mrd_line(u[0, :, :5, w], w, flags=NAVIGATION))
        line = u[0, :, ::-1, w] if w % 2 else u[0, :, :, w]
        lines.append(mrd_line(line, w, center_sample=7 if w % 2 else 8, flags=(REVERSE if w % 2 else 0) | flags(w, 15)))
    return write_mrd(folder / "a.h5", header_xml(16, 15), lines)


def three_d(folder: Path) -> Path:
    u = random_kspace(2, 16, 13, 10)  # (Q, X, W, P)
    steps = [(w, p) for p in range(10) for w in range(13) if (w + p) % 3 or 4 < w < 9]
    lines = [mrd_line(u[:, :, w, p], w, kspace_encode_step_2=p, flags=flags(w, 13)) for w, p in steps]
    return write_mrd(folder / "a.h5", header_xml(16, 13, depth=10), lines)


ONE_IMAGE = (
    plain_scan, oversampled, averaged, averaged_without_flags, noisy, embedded, silent_about_calibration,
    separately_calibrated, asymmetric, backwards_with_navigators,
)  # fmt: skip


@pytest.mark.parametrize("scan", ONE_IMAGE, ids=lambda scan: scan.__name__)
def test_a_streamed_file_gives_the_image_of_recon_bit_for_bit(scan: Any, tmp_path: Path) -> None:
    path = scan(tmp_path)
    expected = bayesmri.reconstruct(read_kspace(path), "tv")
    with serving(Wish(Options(method="tv"))) as running:
        client = streamed(running.address, path, FLOATS)
        whole = streamed(running.address, path, '{"pixels": "float32", "scale": "volume"}')
    assert len(client.images) == len(whole.images) == 1
    np.testing.assert_array_equal(pixels(client.images[0]), expected.mean[0])
    np.testing.assert_array_equal(pixels(whole.images[0]), expected.mean[0])
    assert {f"note: {text}" for text in expected.notes} <= set(client.texts)
    assert {f"warning: {text}" for text in expected.warnings} <= set(client.texts)


def test_separate_calibration_scans_reach_a_model_that_knows_coils(tmp_path: Path) -> None:
    path = separately_calibrated(tmp_path)
    expected = bayesmri.reconstruct(read_kspace(path), "tdv-r4")
    with serving() as running:
        client = streamed(running.address, path, '{"model": "tdv-r4", "pixels": "float32", "samples": 0}')
    assert any("8 separate calibration lines were read" in text for text in client.texts)
    np.testing.assert_array_equal(pixels(series(client)[0]), expected.mean[0])


@pytest.mark.parametrize("own", [False, True])
def test_repetitions_take_their_own_calibration_scans_or_the_first(own: bool, tmp_path: Path) -> None:
    """What `recon` takes of a file, for every repetition; sense shows it."""
    u = [random_kspace(1, 4, 16, 16, seed=i) for i in range(2)]

    def scanned(r: int, gain: float) -> list[Any]:
        return [mrd_line(gain * u[r][0, :, :, w], w, flags=CALIBRATION, repetition=r) for w in range(4, 12)]

    def imaged(r: int) -> list[Any]:
        return [mrd_line(u[r][0, :, :, w], w, flags=flags(w, 15), repetition=r) for w in range(0, 16, 2)]

    lines = [*scanned(0, 3), *imaged(0), *(scanned(1, 5) if own else []), *imaged(1)]
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 16, calibration="separate"), lines)
    with serving() as running:
        images = series(streamed(running.address, path, '{"model": "tdv-r4", "samples": 0, "pixels": "float32"}'))
    assert [image.repetition for image in images] == [0, 1]
    for r, image in enumerate(images):
        chosen = read_kspace(path, choice=Choice(repetition=r))
        assert chosen.reference is not None
        np.testing.assert_array_equal(pixels(image), bayesmri.reconstruct(chosen, "tdv-r4").mean[0])


def test_every_slice_is_that_of_a_file_of_it_alone_and_a_volume_that_of_all(tmp_path: Path) -> None:
    """Slices come in the order in which they are complete; those of a volume in the order of their places."""
    u = random_kspace(3, 2, 16, 14) * np.array([1, 5, 25], np.float32)[:, None, None, None]
    place = {0: 10.0, 1: 0.0, 2: 5.0}
    lines = [
        mrd_line(u[s, :, :, w], w, slice=s, flags=flags(w, 14), position=(0, 0, place[s]), slice_dir=(0, 0, 1))
        for w in range(14)
        for s in (2, 0, 1)
    ]
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 14), lines)
    with serving(Wish(Options(method="tv"))) as running:
        slices = streamed(running.address, path, FLOATS).images
        volume = streamed(running.address, path, '{"pixels": "float32", "scale": "volume"}').images
    assert [image.slice for image in slices] == [2, 0, 1]
    for image in slices:
        own = [line for line in lines if line["head"]["idx"]["slice"] == image.slice]
        alone = read_kspace(write_mrd(tmp_path / f"{image.slice}.h5", header_xml(16, 14), own))
        np.testing.assert_array_equal(pixels(image), bayesmri.reconstruct(alone, "tv").mean[0])
        assert image.position[2] == place[image.slice]
    assert [image.slice for image in volume] == [1, 2, 0]
    together = bayesmri.reconstruct(read_kspace(path), "tv").mean
    np.testing.assert_array_equal(np.stack([pixels(image) for image in volume]), together)


def test_every_contrast_and_repetition_is_an_image(tmp_path: Path) -> None:
    u = {(c, r): random_kspace(1, 2, 16, 12, seed=2 * c + r) for c in range(2) for r in range(2)}
    lines = [
        mrd_line(u[c, r][0, :, :, w], w, contrast=c, repetition=r)
        for r in range(2)
        for w in range(0, 12, 2)
        for c in range(2)
    ]  # without flags, and fewer lines than announced: complete by the next repetition, and by the end
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines)
    with serving() as running:
        client = streamed(running.address, path, FLOATS)
    assert [(i.contrast, i.repetition) for i in client.images] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    for image in client.images:
        chosen = read_kspace(path, choice=Choice(contrast=image.contrast, repetition=image.repetition))
        np.testing.assert_array_equal(pixels(image), bayesmri.reconstruct(chosen, "zero-filled").mean[0])


def test_a_3d_scan_is_one_image_of_three_axes(tmp_path: Path) -> None:
    path = three_d(tmp_path)
    expected = bayesmri.reconstruct(read_kspace(path), "zero-filled").mean  # (readout, W, P)
    with serving() as running:
        (image,) = streamed(running.address, path, FLOATS).images
    assert image.data.shape == (1, 10, 13, 16)
    np.testing.assert_array_equal(image.data[0].transpose(2, 1, 0), expected)


@pytest.mark.skipif(GENERATOR is None or RECONSTRUCTOR is None, reason="the ISMRMRD tools are not installed")
@pytest.mark.parametrize("coordinates", [(), ("-k",)])
def test_the_image_is_where_ismrmrds_own_reconstruction_has_it(coordinates: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    make = [str(GENERATOR), "-m", "48", "-c", "3", "-n", "0.02", *coordinates, "-o", str(path)]
    subprocess.run(make, check=True, capture_output=True)
    with serving() as running:
        (mine,) = streamed(running.address, path).images
    subprocess.run([str(RECONSTRUCTOR), str(path)], check=True, capture_output=True)
    with h5py.File(path) as file:
        theirs = np.asarray(file["dataset/cpp/data"])[0]
    assert mine.data.shape == theirs.shape == (1, 1, 48, 48)
    assert np.corrcoef(mine.data.ravel(), theirs.ravel())[0, 1] > 0.999


# --- what an image carries


def test_series_scales_and_attributes(models: Path, tmp_path: Path) -> None:
    u = random_kspace(2, 1, 32, 24) * np.array([1, 1.5], np.float32)[:, None, None, None]
    lines = [
        mrd_line(
            u[s, :, :, w], w, slice=s, flags=flags(w, 24), position=(1, 2, 3 + 5 * s), read_dir=(0, 1, 0),
            phase_dir=(1, 0, 0), slice_dir=(0, 0, -1), measurement_uid=77, acquisition_time_stamp=123, user_int=[7] * 8,
        )
        for s in range(2)
        for w in range(24)
    ]  # fmt: skip
    path = write_mrd(tmp_path / "a.h5", header_xml(32, 24), lines)
    wish = Wish(Options(model=str(models / "wide.json"), samples=3))
    with serving(wish) as running:
        ints = streamed(running.address, path)
        floats = streamed(running.address, path, FLOATS)
    assert {(i.image_series_index, i.image_index, i.slice) for i in ints.images} == {
        (n, s + 1, s) for n in (1, 2) for s in range(2)
    }
    for image, values in zip(ints.images, floats.images, strict=True):
        meta = image.meta
        assert image.data.dtype == np.int16
        step = float(meta["BAYESMRI_Scale"])
        np.testing.assert_allclose(image.data * step, values.data, atol=0.5001 * step)
        assert image.slice or 1000 < image.data.max() <= 2047
        assert float(meta["WindowCenter"]) == pytest.approx(float(meta["WindowWidth"]) / 2, abs=1)
        assert meta["ImageProcessingHistory"] == ["BAYESMRI", "0.1.0", "wide"]
        assert meta["Keep_image_geometry"] == "1"
        assert meta["ImageComments"][0] == "RESEARCH USE ONLY"
        assert [float(v) for v in meta["ImageRowDir"]] == [0, 1, 0]
        assert [float(v) for v in meta["ImageColumnDir"]] == [1, 0, 0]
        assert (meta["BAYESMRI_Samples"], meta["BAYESMRI_Seed"]) == ("3", "0")
        assert meta["BAYESMRI_ModelSHA256"] == hashlib.sha256((models / "wide.json").read_bytes()).hexdigest()
        assert list(image.field_of_view) == [64, 24, 5]
        assert list(image.position) == [1, 2, 3 + 5 * image.slice]
        assert (image.measurement_uid, image.acquisition_time_stamp, image.user_int[0]) == (77, 123, 7)
        assert image.image_type == ismrmrd.IMTYPE_MAGNITUDE
    mean, std = (series(ints, n)[0].meta for n in (1, 2))
    assert (mean["SeriesDescriptionAdditional"], std["SeriesDescriptionAdditional"]) == (
        "bayesmri_mean",
        "bayesmri_std",
    )
    assert (mean["DataRole"], std["DataRole"]) == ("Image", ["Image", "Quantitative"])
    ratio = float(std["BAYESMRI_StepsPerMeanStep"])
    assert ratio == pytest.approx(float(mean["BAYESMRI_Scale"]) / float(std["BAYESMRI_Scale"]), rel=1e-6)
    assert np.log2(ratio) == round(np.log2(ratio))
    assert len({image.meta["BAYESMRI_Scale"] for image in series(ints)}) == 1  # of all slices the same


def test_where_slices_get_brighter_the_scale_changes_by_powers_of_two_and_says_so(tmp_path: Path) -> None:
    u = random_kspace(4, 1, 16, 16)[:1] * np.array([1, 1.5, 100, 1], np.float32)[:, None, None, None]
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 16), lines_of(u))
    with serving() as running:
        images = streamed(running.address, path).images
        volume = streamed(running.address, path, "scale = volume").images
    steps = [float(image.meta["BAYESMRI_Scale"]) for image in images]
    assert steps[0] == steps[1]
    assert steps[2] == steps[3] == pytest.approx(64 * steps[0])
    assert [image.data.max() for image in images] == [2047, 3070, 3198, 32]
    told = ["12 bits" in str(image.meta.get("BAYESMRI_Warnings")) for image in images]
    assert told == [False, False, True, False]
    assert {image.meta["BAYESMRI_Scale"] for image in volume} == {volume[0].meta["BAYESMRI_Scale"]}
    assert max(image.data.max() for image in volume) == 2047


def test_the_bound_comes_with_what_it_promises(tmp_path: Path) -> None:
    scan = bayesmri.undersample(bayesmri.simulate("knee", shape=(96, 96), snr_db=30, seed=1), 4)
    sent = tmp_path / "knee.h5"
    write_kspace(sent, scan, provenance={})
    expected = bayesmri.reconstruct(scan, "auto")
    assert expected.error_bound is not None
    assert expected.error_std is not None
    assert expected.calibration is not None
    with serving(Wish(Options(model="auto"))) as running:
        address = "{}:{}".format(*running.address)
        made = stream_file(sent, address, tmp_path / "out.h5", parameters={"pixels": "float32"})
    assert made["series"] == {"1": 1, "3": 1, "4": 1}
    with ismrmrd.Dataset(str(tmp_path / "out.h5"), "dataset", mode="r") as file:
        found = {n: file.read_image(f"image_{n}", 0) for n in made["series"]}
    np.testing.assert_array_equal(pixels(found["1"]), expected.mean[0])
    np.testing.assert_array_equal(pixels(found["3"]), expected.error_bound[0])
    np.testing.assert_array_equal(pixels(found["4"]), expected.error_std[0])
    assert found["3"].meta["BAYESMRI_Guarantee"] == expected.calibration.guarantee
    assert found["3"].meta["BAYESMRI_Level"] == "0.9"


def test_the_expected_error_comes_where_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_kspace(path, bayesmri.undersample(bayesmri.simulate("knee", shape=(48, 48), snr_db=30), 2), provenance={})
    expected = bayesmri.check(read_kspace(path), "tv")
    with serving() as running:
        address = "{}:{}".format(*running.address)
        stream_file(path, address, tmp_path / "out.h5", parameters={"method": "tv", "check": True})
    with ismrmrd.Dataset(str(tmp_path / "out.h5"), "dataset", mode="r") as file:
        meta = file.read_image("image_1", 0).meta
    assert float(meta["BAYESMRI_ExpectedPSNR"]) == pytest.approx(expected.psnr, abs=0.01)


# --- while others still arrive


def test_a_slice_comes_back_before_the_next_is_sent(tmp_path: Path) -> None:
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines_of(random_kspace(3, 2, 16, 12)))
    xml, lines = acquisitions(path)
    with serving() as running, Client.to(running.address) as client:
        client.name("simplefft")
        client.header(xml)
        for s in range(3):
            for line in lines[12 * s : 12 * (s + 1)]:
                client.line(line)
            assert client.next_image().slice == s
        client.close()
        client.hear_out()
    assert len(client.images) == 3


def test_lines_without_flags_are_complete_by_the_limits_of_the_header(tmp_path: Path) -> None:
    u = random_kspace(1, 2, 16, 12)
    xml, lines = acquisitions(
        write_mrd(tmp_path / "a.h5", header_xml(16, 12), [mrd_line(u[0, :, :, w], w) for w in range(12)])
    )
    with serving() as running, Client.to(running.address) as client:
        client.name("default")
        client.header(xml)
        for line in lines:
            client.line(line)
        assert client.next_image().data.shape == (1, 1, 12, 16)


def test_two_clients_at_once_get_each_their_own(tmp_path: Path) -> None:
    """The first stops in the middle of a line, and goes on when the second has all its images."""
    paths = [
        write_mrd(tmp_path / f"{i}.h5", header_xml(16, 12), lines_of(random_kspace(2, 2, 16, 12, seed=i)))
        for i in range(2)
    ]
    xml, lines = acquisitions(paths[0])
    with serving() as running, Client.to(running.address) as slow:
        slow.text(2, FLOATS)
        slow.header(xml)
        for line in lines[:20]:
            slow.line(line)
        cut = lines[20].to_bytes()
        slow.raw(b"\xf0\x03", cut[:400])
        quick = streamed(running.address, paths[1], FLOATS)
        assert len(quick.images) == 2
        slow.raw(cut[400:])
        for line in lines[21:]:
            slow.line(line)
        slow.close()
        slow.hear_out()
    for client, path in ((slow, paths[0]), (quick, paths[1])):
        for image in client.images:
            own = read_kspace(path).part(slice(image.slice, image.slice + 1))
            np.testing.assert_array_equal(pixels(image), bayesmri.reconstruct(own, "zero-filled").mean[0])


# --- how sessions end


def test_the_end_of_the_measurement_completes_what_is_left(tmp_path: Path) -> None:
    u = random_kspace(1, 2, 16, 12)
    marks = {10: LAST_IN_MEASUREMENT}
    lines = [mrd_line(u[0, :, :, w], w, flags=marks.get(w, 0)) for w in range(0, 12, 2)]
    xml, sent = acquisitions(write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines))
    with serving() as running, Client.to(running.address) as client:
        client.name("default")
        client.header(xml)
        for line in sent:
            client.line(line)
        client.next_image()


def test_a_slice_cut_short_is_reconstructed_with_a_warning_only_if_the_client_closes(tmp_path: Path) -> None:
    xml, lines = acquisitions(plain_scan(tmp_path))
    with serving() as running:
        for closes in (True, False):
            with Client.to(running.address) as client:
                client.name("default")
                client.header(xml)
                for line in lines[:12]:
                    client.line(line)
                if closes:
                    client.close()
                else:
                    client.sock.shutdown(1)
                client.hear_out()
            assert len(client.images) == int(closes)
            told = "LAST_IN_SLICE) never came" if closes else "without a close message"
            assert any(told in text for text in client.texts)


def test_lines_after_a_slice_was_complete_are_an_image_of_their_own_with_a_warning(tmp_path: Path) -> None:
    """Averages that the header does not announce, another slice between them."""
    u = [random_kspace(2, 2, 16, 12, seed=i) for i in range(2)]
    lines = [line for i in range(2) for line in lines_of(u[i], average=i)]
    with serving() as running:
        client = streamed(running.address, write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines))
    assert [image.slice for image in client.images] == [0, 1, 0, 1]
    told = ["came later alone" in str(image.meta.get("BAYESMRI_Warnings")) for image in client.images]
    assert told == [False, False, True, True]


@pytest.mark.parametrize("flagged", ["first echo", "every echo"])
def test_a_train_of_echoes_that_ends_a_slice_is_in_it_whole(flagged: str, tmp_path: Path) -> None:
    """Scanners differ in which echoes of the last train they flag; averages without announcement are alike."""
    u = random_kspace(2, 2, 16, 12)
    lines = []
    for s in range(2):
        for w in range(12):
            last = w == 9 if flagged == "first echo" else w >= 9
            lines.append(mrd_line(u[s, :, :, w], w, slice=s, flags=(FIRST if w == 0 else 0) | (LAST if last else 0)))
    path = write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines)
    with serving() as running:
        client = streamed(running.address, path, FLOATS)
    assert [image.slice for image in client.images] == [0, 1]
    for image in client.images:
        own = read_kspace(path).part(slice(image.slice, image.slice + 1))
        np.testing.assert_array_equal(pixels(image), bayesmri.reconstruct(own, "zero-filled").mean[0])
        assert "BAYESMRI_Warnings" not in image.meta


def test_no_data_at_all_is_no_error(tmp_path: Path) -> None:
    xml, _ = acquisitions(plain_scan(tmp_path))
    with serving() as running:
        for header in (None, xml):
            with Client.to(running.address) as client:
                client.name("default.xml")
                if header:
                    client.header(header)
                client.close()
                assert client.hear_out().texts == []


def test_a_slice_that_cannot_be_reconstructed_spares_the_others(tmp_path: Path) -> None:
    u = random_kspace(2, 2, 16, 12)
    u[0, 0, 3, 4] = np.nan
    with serving(PLAIN) as running:
        client = streamed(running.address, write_mrd(tmp_path / "a.h5", header_xml(16, 12), lines_of(u)))
    assert [image.slice for image in client.images] == [1]
    assert any(text.startswith("error: slice 0: k-space holds") for text in client.texts)
