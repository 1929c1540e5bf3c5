"""Templates, the share of their energy on measured lines, and maps of what would survive: laws, formats, refusals."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
import torch

import bayesmri
from bayesmri.analysis.sight import Sight, noise_of_coils
from bayesmri.analysis.templates import DIRECTIONS, template, templates
from bayesmri.analysis.visibility import Facts, Weights, share, shipped_weights, smallest_contrast, survey
from bayesmri.cli import main
from bayesmri.errors import BayesMRIError, ConfigError, ModelError
from bayesmri.io.formats import read_kspace
from bayesmri.io.results import open_result
from bayesmri.kspace import KSpace
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.recon.files import PhantomRequest, simulate_file

SHAPES = [(40, 48), (45, 51)]
TEXTS = ("lesion:2:0.3", "line:4:0.3:30", "stripes:4:-0.5:90")


def scene(shape: tuple[int, int], Q: int, mask: np.ndarray, *, seed: int = 0) -> Sight:
    """A smooth object of a smooth phase, a little noise, and its zero-filled image as the reconstruction."""
    rng = np.random.default_rng(seed)
    v, u = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    X = 1.0 * (v**2 + u**2 < 0.7) + 0.4 * (np.abs(v - 0.2) + np.abs(u) < 0.3)
    s = np.stack([np.exp(1j * (0.5 * q * u + 0.3 * v)) * (1 + 0.3 * np.cos(q + u)) for q in range(Q)])
    x = torch.from_numpy(s * X * np.exp(1j * (u + v)))
    noise = rng.normal(size=(2, *x.shape)) * 0.01
    z = (fft2c(x) + torch.from_numpy(noise[0] + 1j * noise[1])).numpy() * mask
    return Sight(ifft2c(torch.from_numpy(z)).numpy(), z, mask)


def lines(W: int) -> np.ndarray:
    mask: np.ndarray = np.arange(W) % 4 == 1
    mask[W // 2 - 3 : W // 2 + 4] = True
    return mask


def points(shape: tuple[int, int]) -> np.ndarray:
    found: np.ndarray = lines(shape[1])[None] & (np.random.default_rng(1).random(shape) < 0.8) | np.outer(
        *map(_middle, shape)
    )
    return found


def _middle(n: int) -> np.ndarray:
    return np.abs(np.arange(n) - n // 2) <= 4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("Q", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_the_kept_share_is_a_share_and_1_of_all_lines(shape: tuple[int, int], Q: int, text: str) -> None:
    (view,) = template(text).views
    eta = scene(shape, Q, lines(shape[1])).kept(view)
    assert ((eta >= 0) & (eta <= 1)).all()
    assert eta.max() < 0.99
    full = scene(shape, Q, np.ones(shape[1], bool)).kept(view)
    np.testing.assert_allclose(full, 1, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["lines", "points"])
def test_the_kept_share_is_the_energy_on_measured_lines(shape: tuple[int, int], kind: str) -> None:
    """Against ‖M F(â e^{iφ})‖²/‖â‖² itself, at a place, by a phase that is linear there."""
    mask = lines(shape[1]) if kind == "lines" else points(shape)
    v, u = np.meshgrid(*(np.arange(n) - n // 2 for n in shape), indexing="ij")
    phase = np.exp(2j * np.pi * (2 * u / shape[1] - v / shape[0]))
    sight = Sight(phase[None], fft2c(torch.from_numpy(phase[None])).numpy(), mask)
    (view,) = template("line:4:0.3:30").views
    a, (row, column) = view.centred, (shape[0] // 2 + 1, shape[1] // 2 - 2)
    placed = np.zeros(shape)
    r = a.shape[0] // 2
    placed[row - r : row + r + 1, column - r : column + r + 1] = a
    U = fft2c(torch.from_numpy(placed * phase)).numpy()
    exact = (np.abs(U * mask) ** 2).sum() / (np.abs(U) ** 2).sum()
    assert sight.kept(view)[row, column] == pytest.approx(exact, abs=0.005)


def test_more_lines_keep_more() -> None:
    shape = SHAPES[0]
    few, more = lines(shape[1]), lines(shape[1]) | (np.arange(shape[1]) % 4 == 3)
    (view,) = template("lesion:2:0.3").views
    assert (scene(shape, 1, more).kept(view) >= scene(shape, 1, few).kept(view) - 1e-9).all()


def test_upright_lines_lose_what_level_ones_keep() -> None:
    """Columns are what is missing, and an upright line lies along them."""
    sight = scene(SHAPES[0], 1, lines(SHAPES[0][1]))
    upright, level = (sight.kept(template(f"line:6:0.3:{degrees}").views[0]).mean() for degrees in (0, 90))
    assert upright < 0.6 < level


@pytest.mark.parametrize("Q", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_more_contrast_is_never_less_visible(Q: int, text: str) -> None:
    sight, weights = scene(SHAPES[1], Q, lines(SHAPES[1][1])), shipped_weights()
    one = template(text)
    facts = Facts.of(sight, one.views[0], kind=one.kind, support=one.support)
    shares = np.stack([share(facts, c, weights) for c in (0.05, 0.1, 0.3, 0.3001, 1.0, 4.0)])
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (np.diff(shares, axis=0) > 0).all()
    smallest = smallest_contrast(facts, weights)
    inside = (smallest > 0.011) & (smallest < 4.9)
    np.testing.assert_allclose(share(facts, smallest, weights)[inside], 0.5, atol=0.01)
    assert (share(facts, 4.8, weights)[smallest >= 4.9] <= 0.5).all()


def test_neither_units_nor_the_sign_of_the_contrast_count() -> None:
    sight = scene(SHAPES[0], 2, lines(SHAPES[0][1]))
    large = Sight(1e4 * sight.x, 1e4 * sight.z, sight.mask)
    for text in ("lesion:2:0.3", "line:4:0.3"):
        one = template(text)
        found, other = survey(sight, one), survey(large, one)
        np.testing.assert_allclose(other.mean, found.mean, rtol=1e-6)
        np.testing.assert_allclose(other.visible_from, found.visible_from, rtol=1e-6)
        np.testing.assert_array_equal(survey(sight, replace(one, contrast=-one.contrast)).mean, found.mean)


def test_more_lines_make_more_visible() -> None:
    """Of the same object, in the mean over its body."""
    few, full = (scene(SHAPES[0], 1, mask) for mask in (lines(SHAPES[0][1]), np.ones(SHAPES[0][1], bool)))
    body = full.X > 0.5
    for text in TEXTS:
        assert survey(full, template(text)).mean[body].mean() > survey(few, template(text)).mean[body].mean() + 5


def test_the_worst_direction_is_the_least_of_all() -> None:
    sight, one = scene(SHAPES[0], 1, lines(SHAPES[0][1])), template("line:4:0.3")
    assert len(one.views) == DIRECTIONS
    found = survey(sight, one)
    alone = np.stack([survey(sight, replace(one, views=(view,))).mean for view in one.views])
    assert found.worst is not None
    np.testing.assert_allclose(found.worst, alone.min(axis=0))
    np.testing.assert_allclose(found.mean, alone.mean(axis=0))


def test_noise_is_found_in_the_outer_lines() -> None:
    rng = np.random.default_rng(3)
    sigma = np.array([0.5, 2.0])
    z = (rng.normal(size=(2, 64, 60)) + 1j * rng.normal(size=(2, 64, 60))) * sigma[:, None, None] / np.sqrt(2)
    z[:, 28:36, 26:34] += 100
    mask = lines(60)
    np.testing.assert_allclose(noise_of_coils(z * mask, mask), sigma, rtol=0.15)
    np.testing.assert_array_equal(noise_of_coils(np.zeros_like(z), mask), 0)


def test_a_patch_of_ones_own_is_a_template(tmp_path: Path) -> None:
    drawn = template("lesion:2:0.3")
    np.save(tmp_path / "mine.npy", 7 * drawn.views[0].a)
    own = template(f"patch:{tmp_path / 'mine.npy'}:0.3")
    assert own.text == "patch:mine.npy:0.3"  # folders may tell more than they should
    np.testing.assert_allclose(own.views[0].a, drawn.views[0].a)
    sight = scene(SHAPES[0], 1, lines(SHAPES[0][1]))
    np.testing.assert_allclose(sight.kept(own.views[0]), sight.kept(drawn.views[0]))
    np.save(tmp_path / "even.npy", np.eye(6, 8))
    assert template(f"patch:{tmp_path / 'even.npy'}:1").views[0].a.shape == (7, 9)


BAD = (
    "lesion", "lesion:3", "lesion:x:0.3", "lesion:3:0", "lesion:3:nan", "lesion:0.5:0.3", "lesion:3:0.3:45",
    "blob:3:0.3", "line:7:0.3:x", "line:7:9", "stripes:1:0.3", "patch:0.3", "patch:no.npy:0.3", "",
)  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_templates_are_refused_in_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError):
        template(text)
    assert main(["recon", str(tmp_path / "none.h5"), "-o", str(tmp_path / "o.h5"), "--visibility", text]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert "expected" in said


def test_what_is_no_patch_is_refused(tmp_path: Path) -> None:
    bad = {"flat": np.ones((5, 5)), "nan": np.full((5, 5), np.nan), "thin": np.eye(2), "deep": np.zeros((3, 5, 5))}
    bad |= {"complex": np.eye(5) * 1j, "large": np.eye(200)}
    for name, array in bad.items():
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(ConfigError, match="patch"):
            template(f"patch:{tmp_path / name}.npy:0.3")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(ConfigError, match="cannot be read"):
        template(f"patch:{tmp_path / 'text.npy'}:0.3")


def test_templates_come_once_and_in_a_list() -> None:
    with pytest.raises(ConfigError, match="twice"):
        templates(["lesion:3:0.3", "lesion:3:0.3"])
    with pytest.raises(ConfigError, match="list"):
        templates("lesion:3:0.3")
    with pytest.raises(ConfigError, match="at most"):
        templates([f"lesion:3:{c / 100}" for c in range(10, 40)])


def test_weights_that_fall_with_the_contrast_are_refused() -> None:
    record = shipped_weights().as_json()
    assert Weights.of(json.loads(json.dumps(record))).gain == shipped_weights().gain
    record["gain"] = {**record["gain"], "contrast": -0.1}
    with pytest.raises(ModelError, match="contrast"):
        Weights.of(record)
    with pytest.raises(ModelError, match="clutter"):
        Weights.of({key: value for key, value in record.items() if key != "clutter"})


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan") / "head.h5"
    simulate_file(PhantomRequest("head", "PD", (48, 56), slices=2), path, coils=3, snr_db=30, seed=1)
    return path


def test_recon_writes_maps_that_can_be_read(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.h5"
    words = ["recon", str(scan), "-o", str(out), "--method", "zero-filled", "--acceleration", "2", "--nifti", "--png"]
    asked = ["--visibility", "lesion:2:0.3", "--visibility", "line:4:-0.5"]
    assert main([*words, *asked, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["visibility"]) == {"lesion:2:0.3", "line:4:-0.5"}
    assert 0 < record["visibility"]["lesion:2:0.3"]["median"] < 100
    kspace = bayesmri.undersample(read_kspace(scan), 2)
    result = bayesmri.reconstruct(kspace, "zero-filled", visibility=["lesion:2:0.3", "line:4:-0.5"])
    with h5py.File(out) as file:
        assert set(file["visibility"]) == {"lesion:2:0.3", "line:4:-0.5", "line:4:-0.5:worst"}
        stored = file["visibility/lesion:2:0.3"]
        assert stored.dtype == np.float32
        assert stored.shape == file["reconstruction"].shape
        assert {"meaning", "template", "model", "weights", "visible_from"} <= set(stored.attrs)
        np.testing.assert_allclose(stored[()], result.visibility["lesion:2:0.3"].mean, rtol=1e-5)
        assert "lesion:2:0.3" in json.loads(file.attrs["provenance"])["config"]["visibility"]
    with open_result(out) as read:
        assert list(read.visibility) == ["lesion:2:0.3", "line:4:-0.5", "line:4:-0.5:worst"]
        assert read.visible_from["lesion:2:0.3"] > 0
    written = {Path(path).name for path in record["outputs"]}
    assert {"out_visibility_lesion-2-0.3.nii.gz", "out_visibility_line-4--0.5-worst.nii.gz"} <= written
    volume = nibabel.load(tmp_path / "out_visibility_lesion-2-0.3.nii.gz").get_fdata()
    assert sorted(volume.shape) == sorted(result.mean.shape)
    assert main(["report", str(out), "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Visibility, lesion:2:0.3" in page
    assert '"unit":"%"' in page


@pytest.fixture(scope="module")
def half(scan: Path) -> KSpace:
    return bayesmri.undersample(read_kspace(scan), 2)


def test_directions_are_those_of_the_file_where_rows_were_undersampled(half: KSpace) -> None:
    upright = bayesmri.reconstruct(half, "zero-filled", visibility=["line:4:0.3:90", "lesion:2:0.3"])
    rows = replace(half, header=replace(half.header, turned=True))  # as if rows had come in the place of columns
    turned = bayesmri.reconstruct(rows, "zero-filled", visibility=["line:4:0.3:0", "lesion:2:0.3"])
    for text, other in (("line:4:0.3:0", "line:4:0.3:90"), ("lesion:2:0.3", "lesion:2:0.3")):
        found, expected = turned.visibility[text], upright.visibility[other]
        np.testing.assert_allclose(found.mean, expected.mean.swapaxes(1, 2), rtol=1e-3)
        np.testing.assert_allclose(found.visible_from, expected.visible_from.swapaxes(1, 2), rtol=1e-2)
    assert np.abs(turned.visibility["line:4:0.3:0"].mean - turned.visibility["lesion:2:0.3"].mean).max() > 1


def test_a_padded_grid_has_smaller_pixels_and_the_same_structures(half: KSpace) -> None:
    """What is 2 pixels wide as encoded is 4 pixels wide on twice the grid, and as visible."""
    plain = bayesmri.reconstruct(half, "zero-filled", visibility=["lesion:2:0.3"])
    wide = bayesmri.reconstruct(twice(half), "zero-filled", visibility=["lesion:4:0.3"])
    expected, found = plain.visibility["lesion:2:0.3"].mean, wide.visibility["lesion:4:0.3"].mean
    assert found.shape == wide.mean.shape
    there = plain.mean > 0.3 * plain.mean.max()
    apart = found[:, ::2, ::2][there] - expected[there]
    assert np.std(apart) < 0.15 * np.std(expected)
    assert abs(np.mean(apart)) < 5  # the margin of a template is two pixels of whatever size, so its mean is another


def twice(kspace: KSpace) -> KSpace:
    """Zero-padded to twice the grid."""
    _, _, H, W = kspace.z.shape
    top, left = H - H // 2, W - W // 2
    z = np.pad(kspace.z, [(0, 0), (0, 0), (top, H - top), (left, W - left)])
    mask = np.pad(kspace.mask, (left, W - left))
    return replace(
        kspace, z=z, mask=mask, truth=None, header=replace(kspace.header, encoded=(top, top + H, left, left + W))
    )


def test_a_map_is_not_written_over_an_input(scan: Path, tmp_path: Path) -> None:
    taken = tmp_path / "out_visibility_lesion-2-0.3.nii.gz"
    taken.write_bytes(scan.read_bytes())
    words = ["recon", str(taken), "-o", str(tmp_path / "out.h5"), "--nifti", "--visibility", "lesion:2:0.3"]
    assert main(words) == 2
    assert taken.read_bytes() == scan.read_bytes()


def test_a_template_larger_than_the_image_is_refused(scan: Path) -> None:
    with pytest.raises(BayesMRIError, match="smaller"):
        bayesmri.reconstruct(read_kspace(scan), "zero-filled", visibility=["lesion:30:0.3"])
    with pytest.raises(ConfigError, match="list"):
        bayesmri.reconstruct(read_kspace(scan), "zero-filled", visibility="lesion:3:0.3")


@pytest.mark.parametrize("group", ["dataset", "shape", "nan"])
def test_maps_that_do_not_fit_are_refused_on_reading(group: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as file:
        file["reconstruction"] = np.ones((1, 8, 8), np.float32)
        if group == "dataset":
            file["visibility"] = np.ones((1, 8, 8), np.float32)
        else:
            file["visibility/lesion:3:0.3"] = np.full((1, 8, 9 if group == "shape" else 8), np.nan, np.float32)
    with pytest.raises(BayesMRIError), open_result(path):
        pass
