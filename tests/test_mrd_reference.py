"""Separate calibration scans of MRD files: a reference that shows the coils, or scans that are skipped and named."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

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
from bayesmri.errors import DataError
from bayesmri.evaluation.tracks import with_array
from bayesmri.io.formats import read_kspace
from bayesmri.io.mrd.choice import Choice
from bayesmri.kspace import KSpace
from bayesmri.model import Coils, Model
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.undersample import single_coil
from bayesmri.regularizers.tdv import TDV, TDVConfig
from reader_files import Complex, header_xml, mrd_line, random_kspace, write_mrd
from reader_files import ifft2c as image_of

CALIBRATION, CALIBRATION_AND_IMAGING, NOISE = 1 << 19, 1 << 20, 1 << 18
SLICES, Q, H, W = 2, 5, 48, 40
CENTRE = range(10, 30)
WITHOUT_CENTRE = range(1, W, 2)
REG = TDV(TDVConfig(features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
MODEL = Model(regularizer=REG, T=1000.0, S=2, coils=Coils("sensitivities", 8), rho=1.0)


@cache
def scans() -> tuple[Complex, Complex, NDArray[np.float32]]:
    """(image, reference, Y): the same head and array twice, the second in other units and with more noise."""
    X = phantom(PhantomSpec(anatomy="head", shape=(H, W), slices=SLICES), rng=torch.Generator().manual_seed(3))
    u, v = (acquire(X, Scanner(Q, snr), rng=torch.Generator().manual_seed(4)) for snr in (40.0, 30.0))
    return u.numpy(), (1e-3 * v).numpy(), rss(ifft2c(u)).numpy()


def acquired(u: Complex, steps: Iterable[int], **changes: Any) -> list[Any]:
    """These lines of (slices, Q, X, W)."""
    return [mrd_line(u[s, :, :, w], w, slice=s, **changes) for w in steps for s in range(len(u))]


def written(path: Path, imaging: list[Any], reference: list[Any], mode: str = "separate", **header: Any) -> KSpace:
    xml = header_xml(header.pop("X", H), W, calibration=mode, **header)
    return read_kspace(write_mrd(path / "scan.h5", xml, reference + imaging), choice=Choice(prewhiten=False))


def only(u: Complex, steps: Iterable[int]) -> Complex:
    kept = np.zeros_like(u)
    for w in steps:
        kept[..., w] = u[..., w]
    return kept


def note_on_reference(kspace: KSpace) -> str:
    said = kspace.header.notes + kspace.header.warnings
    (note,) = [note for note in said if "calibration" in note]
    return note


@pytest.mark.parametrize("mode", ["separate", "other"])
def test_separate_scans_become_the_reference(tmp_path: Path, mode: str) -> None:
    """On the image's grid and slice by slice; the image has none of their lines."""
    u, v, _ = scans()
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(v, CENTRE, flags=CALIBRATION), mode)
    assert found.reference is not None
    np.testing.assert_array_equal(found.reference, only(v, CENTRE))
    np.testing.assert_array_equal(found.z, only(u, WITHOUT_CENTRE))
    assert set(np.flatnonzero(found.mask)) == set(WITHOUT_CENTRE)
    assert found.part(slice(1, 2)).reference is not None
    np.testing.assert_array_equal(found.part(slice(1, 2)).reference, only(v, CENTRE)[1:])


def test_reference_lines_are_sorted_averaged_and_cropped_as_those_of_the_image(tmp_path: Path) -> None:
    """Readouts twice as long, the other way round, two averages, a later repetition that is left out."""
    u, v = random_kspace(1, 2, 32, W, seed=1), random_kspace(1, 2, 32, W, seed=2)
    twice = [acquired(x[:, :, ::-1], CENTRE, flags=CALIBRATION | 1 << 21, average=i) for i, x in enumerate((u, v))]
    later = acquired(7 * u, CENTRE, flags=CALIBRATION, repetition=1)
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), [*later, *twice[1], *twice[0]][::-1], X=32, h=16)
    assert found.reference is not None
    assert found.reference.shape == (1, 2, 16, W)
    wanted = image_of(only((u + v) / 2, CENTRE))[..., 8:24, :]
    np.testing.assert_allclose(image_of(found.reference), wanted, atol=2e-5)


def test_short_readouts_lie_in_the_middle(tmp_path: Path) -> None:
    """A reference of lower resolution along the readout fits: the rest of it is zero."""
    u, v, _ = scans()
    short = acquired(v[:, :, 12:36], CENTRE, flags=CALIBRATION)
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), short)
    wanted = only(v, CENTRE)
    wanted[:, :, :12] = wanted[:, :, 36:] = 0
    assert found.reference is not None
    np.testing.assert_array_equal(found.reference, wanted)


def test_the_reference_of_a_slice_is_that_of_its_counter(tmp_path: Path) -> None:
    """Slices of the image are put in order by their places, which not every calibration scan tells."""
    u, v, _ = scans()
    frame: dict[str, Any] = {"read_dir": [1, 0, 0], "phase_dir": [0, 1, 0], "slice_dir": [0, 0, 1]}
    imaging = [
        mrd_line(u[s, :, :, w], w, slice=s, position=[0, 0, -5.0 * s], **frame) for w in WITHOUT_CENTRE for s in (0, 1)
    ]
    placed = [
        mrd_line(v[s, :, :, w], w, slice=s, flags=CALIBRATION, position=[0, 0, -5.0 * s], **frame)
        for w in CENTRE
        for s in (0, 1)
    ]
    for reference in (placed, acquired(v, CENTRE, flags=CALIBRATION)):
        found = written(tmp_path, imaging, reference)
        np.testing.assert_array_equal(found.z, only(u, WITHOUT_CENTRE)[::-1])
        assert found.reference is not None
        np.testing.assert_array_equal(found.reference, only(v, CENTRE)[::-1])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_reference_is_worth_decibels_where_no_central_line_was_acquired(tmp_path: Path, scale: float) -> None:
    """Whatever its units are."""
    u, v, Y = scans()
    kspace = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(scale * v, CENTRE, flags=CALIBRATION))
    with_it, without = reconstruct(kspace, MODEL), reconstruct(replace(kspace, reference=None), MODEL)
    assert with_it.metrics(Y).psnr > without.metrics(Y).psnr + 2
    assert with_it.metrics(Y).psnr > with_it.zero_filled_metrics(Y).psnr + 2
    assert with_it.metrics(Y).psnr > 35
    assert not any("--sensitivities" in text for text in (*with_it.notes, *with_it.warnings))
    assert any("one by one" in text for text in without.warnings)


def test_the_command_line_uses_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    u, v, _ = scans()
    written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(v, CENTRE, flags=CALIBRATION))
    save_model(tmp_path / "model.json", MODEL)
    argv = ["recon", str(tmp_path / "scan.h5"), "-o", str(tmp_path / "out.h5"), "--json", "--model"]
    assert main([*argv, str(tmp_path / "model.json")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert "40 separate calibration lines were read for the sensitivities" in made["notes"]
    assert not [text for text in made["warnings"] if "--sensitivities" in text]


def test_sensitivities_of_the_user_go_before_the_reference(tmp_path: Path) -> None:
    u, v, _ = scans()
    other = acquired(v[:, ::-1], CENTRE, flags=CALIBRATION)  # of coils in another order
    kspace = written(tmp_path, acquired(u, WITHOUT_CENTRE), other)
    s = np.ones((Q, H, W), np.complex64)
    given = reconstruct(kspace, MODEL, sensitivities=s).image
    np.testing.assert_array_equal(given, reconstruct(replace(kspace, reference=None), MODEL, sensitivities=s).image)


def test_methods_that_know_no_coils_do_not_look_at_it(tmp_path: Path) -> None:
    u, v, _ = scans()
    kspace = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(v, CENTRE, flags=CALIBRATION))
    for method in ("zero-filled", "sense"):
        without = reconstruct(replace(kspace, reference=None), method).image
        np.testing.assert_array_equal(reconstruct(kspace, method).image, without)


@pytest.mark.parametrize(
    "kind",
    ["coils", "slices", "one slice", "long readouts", "uneven readouts", "encode step", "3-D", "damaged", "no samples"],
)
def test_scans_that_do_not_fit_are_skipped_with_a_note(tmp_path: Path, kind: str) -> None:
    """The image is read as if they were not there."""
    u, v, _ = scans()
    fits = acquired(v, CENTRE, flags=CALIBRATION)
    reference = {
        "coils": lambda: acquired(v[:, :3], CENTRE, flags=CALIBRATION),
        "slices": lambda: acquired(v[[0, 1, 1]], CENTRE, flags=CALIBRATION),
        "one slice": lambda: acquired(v[:1], CENTRE, flags=CALIBRATION),
        "long readouts": lambda: acquired(np.concatenate([v, v], axis=2), CENTRE, flags=CALIBRATION),
        "uneven readouts": lambda: [*fits, *acquired(v[:, :, 12:36], [9], flags=CALIBRATION)],
        "encode step": lambda: [*fits, mrd_line(v[0, :, :, 0], W, flags=CALIBRATION)],
        "3-D": lambda: acquired(v, CENTRE, flags=CALIBRATION, kspace_encode_step_2=1),
        "damaged": lambda: [*fits, mrd_line(v[0, :, :-1, 9], 9, flags=CALIBRATION, number_of_samples=H)],
        "no samples": lambda: acquired(v[:, :, :0], CENTRE, flags=CALIBRATION),
    }[kind]()
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), reference)
    assert found.reference is None
    np.testing.assert_array_equal(found.z, only(u, WITHOUT_CENTRE))
    assert note_on_reference(found) == (
        f"separate calibration scans do not fit the image's grid and were skipped ({len(reference)} lines)"
    )


def test_scans_of_another_encoding_are_not_on_the_images_grid(tmp_path: Path) -> None:
    """Their steps count from a centre of their own, and their field of view may be another."""
    u, v, _ = scans()
    reference = [
        mrd_line(v[s, :, :, w], w - CENTRE[0], slice=s, flags=CALIBRATION, encoding_space_ref=1)
        for w in CENTRE
        for s in range(SLICES)
    ]
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), reference)
    assert found.reference is None
    assert "skipped" in note_on_reference(found)


@pytest.mark.parametrize("kind", ["NaN", "Inf", "huge"])
def test_what_is_no_measurement_is_no_reference(tmp_path: Path, kind: str) -> None:
    """Skipped or refused by the reader, as NaN in the image is; never left for a model to diverge on."""
    u, v, _ = scans()
    wrong = 1e22 * v if kind == "huge" else v.copy()
    if kind != "huge":
        wrong[0, 0, 3, W // 2] = np.nan if kind == "NaN" else np.inf
    found = None
    with suppress(DataError):
        found = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(wrong, CENTRE, flags=CALIBRATION))
    if found is not None:
        assert found.reference is None
        assert "skipped" in note_on_reference(found)


@pytest.mark.parametrize("kind", ["off the centre", "empty"])
def test_a_reference_without_a_centre_tells_nothing_and_says_so(tmp_path: Path, kind: str) -> None:
    """Then coils are reconstructed one by one, and the reader of the image is told."""
    u, v, _ = scans()
    steps, data = (range(W // 2 + 2, W - 2), v) if kind == "off the centre" else (CENTRE, 0 * v)
    kspace = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(data, steps, flags=CALIBRATION))
    result, without = reconstruct(kspace, MODEL), reconstruct(replace(kspace, reference=None), MODEL)
    np.testing.assert_array_equal(result.image, without.image)
    assert result.warnings == without.warnings != ()
    assert any("one by one" in text for text in result.warnings)


@pytest.mark.parametrize("lines", [2, 6])
def test_a_poor_reference_does_not_take_the_place_of_good_lines(tmp_path: Path, lines: int) -> None:
    """A dozen central lines of the image know more of the coils than a few of a reference."""
    u, v, Y = scans()
    imaging = acquired(u, sorted({*range(0, W, 3), *range(W // 2 - 6, W // 2 + 6)}))
    few = acquired(v, range(W // 2 - lines // 2, W // 2 + lines // 2), flags=CALIBRATION)
    kspace = written(tmp_path, imaging, few)
    own = reconstruct(replace(kspace, reference=None), MODEL).metrics(Y).psnr
    assert reconstruct(kspace, MODEL).metrics(Y).psnr > own - 1


@pytest.mark.parametrize("mode", ["embedded", "interleaved"])
def test_lines_of_the_same_kspace_stay_imaging_lines(tmp_path: Path, mode: str) -> None:
    u, _, _ = scans()
    more = [w for w in CENTRE if w not in WITHOUT_CENTRE]
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), acquired(u, more, flags=CALIBRATION), mode)
    assert found.reference is None
    np.testing.assert_array_equal(found.z, only(u, {*WITHOUT_CENTRE, *CENTRE}))
    assert note_on_reference(found) == f"{mode} calibration lines were used as imaging lines"


def test_lines_that_are_both_belong_to_the_image(tmp_path: Path) -> None:
    u, _, _ = scans()
    both = acquired(u, [W // 2], flags=CALIBRATION | CALIBRATION_AND_IMAGING)
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), both)
    assert found.reference is None
    np.testing.assert_array_equal(found.z, only(u, {*WITHOUT_CENTRE, W // 2}))


@pytest.mark.parametrize("bit", [19, 23, 27, 30])
@pytest.mark.parametrize("mode", ["separate", "embedded"])
def test_noise_and_other_scans_never_become_a_reference(tmp_path: Path, mode: str, bit: int) -> None:
    """Not by themselves and not where they are flagged as calibration too; beside a reference they are left out."""
    u, v, _ = scans()
    imaging, skipped = acquired(u, WITHOUT_CENTRE), 1 << (bit - 1)
    for flags in (skipped, skipped | CALIBRATION):
        found = written(tmp_path, imaging, acquired(100 * v, CENTRE, flags=flags), mode)
        assert found.reference is None
        np.testing.assert_array_equal(found.z, only(u, WITHOUT_CENTRE))
        if mode == "separate":
            lines = [*acquired(100 * v, CENTRE, flags=flags), *acquired(v, CENTRE, flags=CALIBRATION)]
            mixed = written(tmp_path, imaging, lines)
            assert mixed.reference is not None
            np.testing.assert_array_equal(mixed.reference, only(v, CENTRE))


def test_noise_of_another_length_does_no_harm_to_the_reference(tmp_path: Path) -> None:
    u, v, _ = scans()
    noise = mrd_line(random_kspace(Q, 3 * H), 0, flags=NOISE)
    found = written(tmp_path, acquired(u, WITHOUT_CENTRE), [noise, *acquired(v, CENTRE, flags=CALIBRATION)])
    assert found.reference is not None
    np.testing.assert_array_equal(found.reference, only(v, CENTRE))


def test_files_without_calibration_have_no_reference(tmp_path: Path) -> None:
    u, _, _ = scans()
    found = written(tmp_path, acquired(u, range(W)), [])
    assert found.reference is None
    assert found.header.notes == ()


def test_other_coils_have_no_reference() -> None:
    """One emulated coil of many, and a simulated array of one: the scan shows neither of them."""
    u, v, _ = scans()
    many = replace(as_kspace(u), reference=v)
    assert single_coil(many).reference is None
    one = replace(as_kspace(u[:, :1]), reference=v[:, :1])
    assert with_array(one, coils=4, seed=0).reference is None


def test_a_single_coil_needs_none(tmp_path: Path) -> None:
    u, v, _ = scans()
    imaging, reference = (acquired(x[:, :1], steps, flags=f) for x, steps, f in
                          ((u, WITHOUT_CENTRE, 0), (v, CENTRE, CALIBRATION)))  # fmt: skip
    kspace = written(tmp_path, imaging, reference)
    without = reconstruct(replace(kspace, reference=None), MODEL)
    np.testing.assert_array_equal(reconstruct(kspace, MODEL).image, without.image)
