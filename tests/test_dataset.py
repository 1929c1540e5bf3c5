"""Elements are functions of (seed, step, index); subjects stay on one side; memory and open files do not grow."""

import gc
import sys
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bayesmri.complexes import rss
from bayesmri.data.augment import Augment, cut, turn_and_flip, window
from bayesmri.data.cache import ArrayCache
from bayesmri.data.catalog import SourceConfig, find
from bayesmri.data.dataset import (
    Batch,
    DataConfig,
    Dataset,
    Recipe,
    Simulation,
    generator,
    make_element,
    make_validation,
)
from bayesmri.data.volumes import SliceReader
from bayesmri.errors import ConfigError, DataError
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import MaskSpec
from bayesmri.physics.scaling import Scaling
from bayesmri.training.prefetch import Prefetch
from training_runs import write_images, write_raw

BUSY = Augment(flip=True, turn=True, gamma=(0.7, 1.4), resize=(0.8, 1.2), jitter=0.3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n in range(4):
        write_raw(tmp_path / f"raw_{n}_a.h5", patient=f"patient {n}")
        write_raw(tmp_path / f"raw_{n}_b.h5", patient=f"patient {n}", shape=(25, 31))
    for n in range(3):
        write_images(tmp_path / f"head_{n}.h5", subject=f"head {n}" if n else "")
    return tmp_path


def dataset(
    folder: Path,
    *,
    seed: int = 1,
    Q: int = 1,
    virtual: bool = False,
    cols: int | None = 24,
    val_fraction: float = 0.25,
    cache_mb: int = 64,
) -> Dataset:
    config = DataConfig(
        sources=(SourceConfig(path=str(folder)),),
        patch_rows=16,
        patch_cols=cols,
        val_fraction=val_fraction,
        cache_mb=cache_mb,
    )
    return Dataset(config, Recipe(Q=Q, coils="virtual" if virtual else "raw", augment=BUSY), seed=seed)


def equal(a: Batch, b: Batch) -> bool:
    return torch.equal(a.z, b.z) and torch.equal(a.mask, b.mask) and torch.equal(a.Y, b.Y)


def test_element_depends_on_seed_step_and_index_alone(folder: Path) -> None:
    one, two, other = dataset(folder), dataset(folder), dataset(folder, seed=2)
    keys = [(k, i) for k in range(3) for i in range(3)]
    forth = {key: one.element(*key) for key in keys}
    back = {key: two.element(*key) for key in reversed(keys)}
    assert all(equal(forth[key], back[key]) for key in keys)
    assert len({float(forth[key].z.abs().sum()) for key in keys}) == len(keys)
    assert not any(equal(forth[key], other.element(*key)) for key in keys)


def test_prefetch_gives_the_same_batches_in_order(folder: Path) -> None:
    data = dataset(folder)
    with Prefetch(data, range(1, 4, 2), first=2, last=6) as ahead:
        for step, batches in enumerate(ahead, start=2):
            assert all(equal(a, b) for a, b in zip(batches, data.batches(step, [1, 3]), strict=True))


def test_prefetch_hands_over_errors(folder: Path) -> None:
    data = dataset(folder)
    for path in folder.glob("*.h5"):
        path.unlink()
    with Prefetch(data, range(2), first=0, last=9) as ahead, pytest.raises((DataError, Exception), match="h5"):
        list(ahead)


@pytest.mark.parametrize(("Q", "virtual"), [(1, False), (3, True)])
def test_elements_are_scaled_undersampled_and_of_one_shape(folder: Path, Q: int, virtual: bool) -> None:
    for i in range(6):
        e = dataset(folder, Q=Q, virtual=virtual).element(0, i)
        assert e.z.shape == (1, Q, 16, 24)
        assert e.mask.shape == (1, 1, 1, 24)
        assert e.Y.shape == (1, 16, 24)
        assert int(e.mask.sum()) == 6
        assert torch.equal(e.z * e.mask, e.z)
        assert float(rss(ifft2c(e.z)).max()) <= 1 + 1e-5


def test_elements_of_several_widths_are_grouped(folder: Path) -> None:
    batches = dataset(folder, cols=None).batches(0, range(8))
    assert sum(len(b.z) for b in batches) == 8
    assert len({b.z.shape[-1] for b in batches}) == len(batches) > 1


def test_rows_of_a_window_solve_the_same_problem() -> None:
    """The window of rows commutes with the mask: z of the window is the window of the zero-filled image."""
    y = torch.randn(2, 21, 18, dtype=torch.complex64, generator=generator(0))
    recipe = Recipe(Q=2, mask=MaskSpec(acceleration=3))
    e = make_element(y, recipe, patch_rows=9, rng=generator("a"))
    mask = e.mask.flatten()
    x0 = ifft2c(mask * fft2c(y))
    x0 = x0 / Scaling().factor(mask * fft2c(y))
    windows = [x0[:, first : first + 9] for first in range(21 - 9 + 1)]
    got = ifft2c(e.z[0])
    assert min(float((w - got).abs().max()) for w in windows) < 1e-5


def test_scale_never_looks_at_the_truth() -> None:
    """What the mask hides may change as it likes: z and its scale stay."""
    y = torch.randn(1, 20, 24, dtype=torch.complex64, generator=generator(0))
    recipe = Recipe()
    mask = recipe.mask.draw(24, generator("v"))
    other = ifft2c(fft2c(y) * (1 + 5 * ~mask))
    a = make_validation("a", [y], recipe, rng=generator("v"))
    b = make_validation("b", [other], recipe, rng=generator("v"))
    assert torch.equal(a.mask, mask)
    torch.testing.assert_close(a.z, b.z)
    assert not torch.allclose(a.Y, b.Y)


def test_a_slice_of_training_has_the_scale_of_its_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice a third as bright as the brightest has a third of its size, as in a reconstruction of the volume."""
    y = torch.randn(1, 2, 24, 20, dtype=torch.complex64, generator=generator(0))
    z = fft2c(torch.cat([y, y / 3, 0 * y]))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["kspace"] = z.numpy()
        file.attrs["max"] = float(rss(y).max())
    config = DataConfig(sources=(SourceConfig(path=str(tmp_path)),), patch_rows=None, val_fraction=0.0)

    def peaks() -> set[float]:
        data = Dataset(config, Recipe(Q=2, mask=MaskSpec(acceleration=1)), seed=1)
        return {round(float(data.element(0, i).Y.max()), 4) for i in range(12)}

    assert peaks() == {1.0, 0.3333, 0.0}
    monkeypatch.setattr("bayesmri.data.volumes.WHOLE", 0)  # slice by slice: what the file states
    assert peaks() == {1.0, 0.3333, 0.0}
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file.attrs["max"] = "unknown"
    assert peaks() == {1.0, 0.0}  # each its own scale


def test_the_share_of_a_patch_counts(folder: Path) -> None:
    volume = next(v for v in dataset(folder, val_fraction=0.0).catalog.train if v.coils == 0)
    reader = SliceReader(single=True, cache_bytes=2**20)
    X = reader.magnitude(volume, 0).to(torch.complex64)[None]
    assert reader.share(volume, X / 4) == pytest.approx(float(X.abs().max()) / 4)
    assert reader.share(volume, 0 * X) == 1


def test_all_slices_of_a_validation_volume_are_seen_by_one_array(tmp_path: Path) -> None:
    """Arrays of 2 to 9 coils are drawn; one compression to virtual coils then fits every slice of the volume."""
    for n in range(6):
        write_images(tmp_path / f"head_{n}.h5", shape=(24, 20))
    config = DataConfig(sources=(SourceConfig(path=str(tmp_path)),), val_fraction=0.7, val_slices=40)
    recipe = Recipe(Q=4, coils="virtual", simulation=Simulation(coils=(2, 9)))
    volumes = list(Dataset(config, recipe, seed=1).validation())
    assert len(volumes) > 2
    assert all(v.z.shape == (3, 4, 24, 20) for v in volumes)


def test_measured_data_of_one_coil_trains_a_model_of_virtual_coils(tmp_path: Path) -> None:
    """Seen by a simulated array, Σ_q |s_q|² = 1: all virtual coils carry something, and the magnitude stays."""
    write_raw(tmp_path / "raw.h5", patient="a", shape=(25, 31))
    config = DataConfig(sources=(SourceConfig(path=str(tmp_path)),), patch_rows=None, patch_cols=None, val_fraction=0.0)
    simulation = Simulation(coils=(5, 5))
    array, single = (
        Dataset(
            config,
            Recipe(Q=Q, coils="virtual" if Q > 1 else "raw", mask=MaskSpec("random", 1.0), simulation=simulation),
            seed=1,
        )
        for Q in (5, 1)
    )
    many, one = array.element(0, 0), single.element(0, 0)
    assert many.z.shape == (1, 5, *one.z.shape[-2:])
    assert (many.z.abs().amax(dim=(-2, -1)) > 0).all()
    torch.testing.assert_close(many.Y, one.Y)


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5])
def test_subjects_are_wholly_on_one_side(folder: Path, fraction: float) -> None:
    catalog = find([SourceConfig(path=str(folder))], val_fraction=fraction, val_subjects=["patient 2"])
    train, val = ({v.subject for v in side} for side in (catalog.train, catalog.val))
    assert not train & val
    assert "patient 2" in val
    assert len(catalog.train) + len(catalog.val) == 11
    assert train | val == {"patient 0", "patient 1", "patient 2", "patient 3", "head_0", "head 1", "head 2"}


def test_new_files_do_not_move_validation_subjects_into_training(folder: Path) -> None:
    sources = [SourceConfig(path=str(folder), split="val"), SourceConfig(path=str(folder / "head_0.h5"), split="train")]
    catalog = find(sources, val_fraction=0)
    assert not {v.subject for v in catalog.train} & {v.subject for v in catalog.val}


def phantoms(count: int, fraction: float) -> tuple[set[str], set[str]]:
    """The subjects that train and those that validate."""
    catalog = find([SourceConfig(phantom="head", count=count, size=(24, 24))], val_fraction=fraction)
    return {v.subject for v in catalog.train}, {v.subject for v in catalog.val}


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9])
def test_more_subjects_do_not_move_the_others(fraction: float) -> None:
    """But for a lone one that had to validate, or to train, so that both sides have somebody."""
    train, val = phantoms(12, fraction)
    for count in range(13, 60):
        more_train, more_val = phantoms(count, fraction)
        assert train <= more_train
        assert val <= more_val
        train, val = more_train, more_val
    train, val = phantoms(400, fraction)
    assert len(val) / 400 == pytest.approx(fraction, abs=0.06)


@pytest.mark.parametrize("fraction", [1e-9, 0.3, 1 - 1e-9])
def test_both_sides_have_a_subject_where_there_are_two(fraction: float) -> None:
    for count in range(2, 12):
        train, val = phantoms(count, fraction)
        assert train
        assert val
    assert phantoms(1, fraction) == (set(), {"head phantom 0"})
    assert phantoms(3, 0.0)[1] == set()


def test_a_subject_named_for_validation_is_enough_of_it(folder: Path) -> None:
    for fraction, validate in ((1e-9, 1), (1 - 1e-9, 6)):
        catalog = find([SourceConfig(path=str(folder))], val_fraction=fraction, val_subjects=["patient 2"])
        assert len({v.subject for v in catalog.val}) == validate
        assert "patient 2" in {v.subject for v in catalog.val}


def test_sources_are_mixed_by_weight(folder: Path) -> None:
    sources = (
        SourceConfig(phantom="knee", count=2, size=(24, 24), weight=3),
        SourceConfig(path=str(folder), weight=1),
        SourceConfig(phantom="head", count=2, size=(24, 24), weight=0),
    )
    data = Dataset(DataConfig(sources=sources, val_fraction=0), Recipe(), seed=1)
    draws = torch.rand(4000, generator=generator("share"), dtype=torch.float64)
    counts = torch.bincount(torch.searchsorted(data._shares, draws, right=True), minlength=3)
    assert abs(float(counts[0]) / 4000 - 0.75) < 0.03
    assert counts[2] == 0


def test_files_that_cannot_be_trained_on_are_left_out_with_a_note(folder: Path) -> None:
    (folder / "notes.txt").write_text("not an image")
    catalog = find([SourceConfig(path=str(folder))], val_fraction=0)
    assert len(catalog.train) == 11
    assert "notes.txt" in catalog.notes[0]
    with pytest.raises(DataError, match="does not exist"):
        find([SourceConfig(path=str(folder / "absent"))], val_fraction=0)


def test_wrong_number_of_raw_coils_is_refused_with_the_fix(tmp_path: Path) -> None:
    write_raw(tmp_path / "a.h5", coils=4)
    with pytest.raises(DataError, match=r'coils\.mode = "virtual"'):
        dataset(tmp_path, Q=3, val_fraction=0.0)


def test_several_coils_train_a_single_coil_model(tmp_path: Path) -> None:
    write_raw(tmp_path / "a.h5", coils=4)
    assert dataset(tmp_path, val_fraction=0.0).element(0, 0).z.shape[1] == 1


def test_large_files_are_read_slice_by_slice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dataset(folder)
    expected = [whole.element(0, i) for i in range(6)]
    monkeypatch.setattr("bayesmri.data.volumes.WHOLE", 0)
    parts = dataset(folder)
    for i, e in enumerate(expected):
        got = parts.element(0, i)
        assert torch.equal(got.mask, e.mask)
        assert got.z.shape == e.z.shape


@pytest.mark.parametrize("whole", [2**20, 0])
def test_files_of_one_name_in_several_folders_keep_their_own_data(
    tmp_path: Path, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoded at once or slice by slice: y and the peak of its volume are those of the file in its folder."""
    monkeypatch.setattr("bayesmri.data.volumes.WHOLE", whole)
    y = torch.randn(2, 1, 24, 20, dtype=torch.complex64, generator=generator(0))
    brightness = {"a": 1.0, "b": 5.0}
    for folder, scale in brightness.items():
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / "scan.h5", "w") as file:
            file["kspace"] = (scale * fft2c(y)).numpy()
            file.attrs["max"] = scale * float(rss(y).max())
    volumes = find([SourceConfig(path=str(tmp_path))], val_fraction=0.0).train
    assert [v.name for v in volumes] == ["scan.h5", "scan.h5"]
    reader = SliceReader(single=True, cache_bytes=2**20)
    for volume, scale in zip(volumes, brightness.values(), strict=True):
        for n in range(2):
            torch.testing.assert_close(reader.coil_images(volume, n), scale * y[n], rtol=1e-4, atol=1e-5)
        assert reader.share(volume, y[0]) == pytest.approx(float(rss(y[0]).max() / rss(y).max()) / scale, rel=1e-4)


def test_validation_volumes_of_one_name_have_masks_of_their_own(tmp_path: Path) -> None:
    """A name that one file has alone decides, wherever the file lies; else the path from the source on does."""
    for name in ("a/scan.h5", "b/scan.h5", "b/other.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_images(tmp_path / name, shape=(24, 64))

    def masks(folder: Path) -> dict[str, torch.Tensor]:
        config = DataConfig(
            sources=(SourceConfig(path=str(folder), split="val"), SourceConfig(phantom="knee", count=1))
        )
        return {v.name: v.mask for v in Dataset(replace(config, val_fraction=0.0), Recipe(), seed=1).validation()}

    found = masks(tmp_path)
    assert set(found) == {"a/scan.h5", "b/scan.h5", "other.h5"}
    assert not torch.equal(found["a/scan.h5"], found["b/scan.h5"])
    assert torch.equal(found["other.h5"], masks(tmp_path / "b")["other.h5"])


def test_cache_keeps_its_budget_and_the_recent() -> None:
    cache = ArrayCache(100)
    array = np.zeros(5)  # 40 bytes
    loads: list[str] = []

    def load(key: str) -> NDArray[np.float64]:
        loads.append(key)
        return array

    for key in "abacab":
        cache.get(key, partial(load, key))
        assert cache.nbytes <= 100
    assert "".join(loads) == "abcb"
    assert cache.get("big", lambda: torch.zeros(50).numpy()).nbytes == 200
    assert cache.nbytes <= 100


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_epochs_leave_no_memory_and_no_open_files(folder: Path) -> None:
    data = dataset(folder, cache_mb=0)
    data.batches(0, range(20))
    gc.collect()
    files = open_files()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for step in range(1, 6):
            data.batches(step, range(20))
            assert open_files() <= files
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000


def test_window_and_cut_cover_the_axis() -> None:
    y = torch.arange(1.0, 8).expand(3, 7)
    firsts = {window(7, 4, generator(i))[0] for i in range(60)}
    assert firsts == {0, 1, 2, 3}
    assert torch.equal(cut(y, -1, 2, 4), y[:, 2:6])
    first, size = window(7, 10, generator(0))
    padded = cut(y, -1, first, size)
    assert padded.shape == (3, 10)
    assert torch.equal(padded[:, -first : -first + 7], y)
    assert window(7, None, generator(0)) == (0, 7)


def test_turns_and_flips_are_the_symmetries_of_the_square() -> None:
    y = torch.arange(6.0).reshape(2, 3)
    seen = {tuple(turn_and_flip(y, BUSY, generator(i)).flatten().tolist()) for i in range(80)}
    assert len(seen) == 8
    assert all(torch.equal(turn_and_flip(y, Augment(), generator(i)), y) for i in range(5))


@pytest.mark.parametrize("quantile", [0.0, 1.1])
def test_scaling_wants_a_high_quantile(quantile: float) -> None:
    with pytest.raises(ConfigError):
        Scaling(quantile)


def test_scaling_quantiles_are_ordered() -> None:
    z = fft2c(torch.randn(2, 3, 16, 17, dtype=torch.complex64, generator=generator(0)))
    assert 0 < Scaling(0.9).factor(z) < Scaling(1.0).factor(z)
    assert Scaling().factor(z) == pytest.approx(float(rss(ifft2c(z)).max()))
    assert Scaling().factor(torch.zeros_like(z)) == 1.0
