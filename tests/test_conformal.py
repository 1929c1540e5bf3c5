"""Error bounds: the factor by its definition, the promise on new subjects, and where a bound does not hold."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bayesmri.bounds.bound import Calibration, Setting, extra_lines, percent, unit_width
from bayesmri.bounds.conformal import (
    chosen_cap,
    conformal_factor,
    highest_level,
    least_subjects,
    leave_one_out,
    missed,
    overshoot,
    scores,
)
from bayesmri.errors import BayesMRIError, ConfigError, DataError, ShapeError
from bayesmri.physics.mask import MaskKind, MaskSpec
from bayesmri.physics.pattern import centre_run, kind_of, n_center_lines

Scores = NDArray[np.float64]
LEVEL = 0.9


def subjects(n: int, pixels: int, *, spread: float, rng: np.random.Generator) -> list[Scores]:
    """Exchangeable: each has a size of its errors of its own, which all its pixels share."""
    size = np.exp(spread * rng.normal(size=(n, 1)))
    return list(np.sort(size * np.abs(rng.normal(size=(n, pixels))), axis=1))


def alike(n: int, *, rng: np.random.Generator) -> list[Scores]:
    """Subjects whose pixels nearly all have the same score: 40 pixels say little more than one."""
    return list(np.sort(rng.gamma(2, size=(n, 1)) * rng.uniform(0.9, 1.1, size=(n, 40)), axis=1))


def by_definition(given: list[Scores], level: float, cap: float) -> float:
    """The smallest of 0 and all scores that keeps the sum within its budget."""
    for factor in np.unique(np.concatenate([np.zeros(1), *given])):
        lost = sum(min(float(np.mean(s > factor)), cap) for s in given)
        if (lost + cap) / (len(given) + 1) <= 1 - level + 1e-9:
            return float(factor)
    return math.inf


def new_coverage(factors: list[float], *, spread: float, rng: np.random.Generator) -> float:
    """Of many further subjects, the mean over factors."""
    found = [np.mean([1 - missed(s, f) for s in subjects(50, 40, spread=spread, rng=rng)]) for f in factors]
    return float(np.mean(found))


@pytest.mark.parametrize("cap", [1.0, 0.4])
@pytest.mark.parametrize("level", [0.6, 0.75, 0.9])
def test_the_factor_is_the_least_that_keeps_the_sum(level: float, cap: float) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 9, 10, 24):
        given = [np.sort(np.round(rng.gamma(2, size=rng.integers(1, 30)), 1)) for _ in range(n)]  # with ties
        if cap < 1 - level:
            continue
        found = conformal_factor(given, level=level, cap=cap)
        assert found == by_definition(given, level, cap)
        assert math.isfinite(found) == (n >= least_subjects(level, cap))


def test_without_any_error_the_factor_is_zero() -> None:
    assert conformal_factor([np.zeros(5)] * 20, level=LEVEL) == 0


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_one_pixel_per_subject_is_crepes(level: float) -> None:
    """The same quantile as ordinary split conformal regression with difficulty estimates σ̂ + floor."""
    crepes = pytest.importorskip("crepes", reason="crepes (dev extra) is not installed")
    rng = np.random.default_rng(1)
    for n in (37, 256, 1003):
        error, width = rng.normal(size=n), rng.gamma(2, size=n) + 0.1
        ours = conformal_factor([s[None] for s in np.abs(error) / width], level=level)
        assert ours == np.sort(np.abs(error) / width)[math.ceil((n + 1) * level - 1e-9) - 1]
        regressor = crepes.ConformalRegressor().fit(error, sigmas=width)
        interval = regressor.predict_int(np.zeros(3), sigmas=np.array([1.0, 2.0, 5.0]), confidence=level)
        np.testing.assert_allclose(interval[:, 1], ours * np.array([1.0, 2.0, 5.0]))


def test_a_single_factor_of_pooled_pixels_is_crepes() -> None:
    """All pixels as subjects of their own, as images come: (σ̂, error) of a volume, single precision."""
    crepes = pytest.importorskip("crepes", reason="crepes (dev extra) is not installed")
    rng = np.random.default_rng(2)
    std = rng.gamma(2, size=(3, 16, 17)).astype(np.float32)
    error = (std * rng.standard_t(4, size=std.shape)).astype(np.float32)
    width = unit_width(np.full_like(std, 8.0), std, floor=0.01)
    ascending = scores(error, width)
    ours = conformal_factor([s[None] for s in ascending], level=LEVEL)
    regressor = crepes.ConformalRegressor().fit(error.ravel(), sigmas=width.ravel())
    high = regressor.predict_int(np.zeros(width.size), sigmas=width.ravel(), confidence=LEVEL)[:, 1]
    np.testing.assert_allclose(ours * width.ravel(), high, rtol=1e-6)
    assert missed(ascending, ours) == pytest.approx(0.1, abs=2 / width.size)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_new_subjects_are_covered_as_promised_and_not_with_a_tenth_less(spread: float) -> None:
    """level ≤ E[coverage] ≤ level + 2/(n + 1): the promise and how little it costs with many subjects."""
    rng = np.random.default_rng(3)
    n = 99
    factors = [conformal_factor(subjects(n, 40, spread=spread, rng=rng), level=LEVEL) for _ in range(100)]
    noise = 0.002
    assert LEVEL - noise < new_coverage(factors, spread=spread, rng=rng) < LEVEL + 2 / (n + 1) + noise
    assert new_coverage([0.9 * f for f in factors], spread=spread, rng=rng) < LEVEL - 0.01


def test_few_subjects_keep_the_promise_that_pooled_pixels_break() -> None:
    """Every pixel as a subject of its own, as if they were exchangeable: a quantile of too many numbers."""
    rng = np.random.default_rng(4)
    n, coverage = 12, []
    for _ in range(200):
        given, new = alike(n, rng=rng), alike(50, rng=rng)
        factors = (
            conformal_factor(given, level=LEVEL),
            conformal_factor([s[None] for part in given for s in part], level=LEVEL),
        )
        coverage.append([np.mean([1 - missed(s, factor) for s in new]) for factor in factors])
    by_subject, pooled = np.mean(coverage, axis=0)
    assert by_subject > LEVEL
    assert pooled < LEVEL - 0.04


@pytest.mark.parametrize("n", [3, 6, 12])
def test_with_a_cap_the_capped_share_is_what_is_promised(n: int) -> None:
    rng = np.random.default_rng(5)
    cap, lost, coverage = 0.3, [], []
    for _ in range(200):
        factor = conformal_factor(subjects(n, 40, spread=0.4, rng=rng), level=LEVEL, cap=cap)
        new = [missed(s, factor) for s in subjects(20, 40, spread=0.4, rng=rng)]
        lost.append(np.mean(np.minimum(new, cap)))
        coverage.append(1 - np.mean(new))
    assert np.mean(lost) < 0.1 + 3 * np.std(lost) / 200**0.5
    assert np.mean(coverage) < LEVEL + overshoot(n, LEVEL, cap) + 0.005


def test_coverage_of_held_out_subjects_is_within_two_points() -> None:
    """With the cap that is chosen by the number of subjects, on average over data sets."""
    rng = np.random.default_rng(6)
    for n, rounds in ((12, 100), (60, 10)):
        cap = chosen_cap(n, LEVEL)
        found = [
            left.coverage
            for _ in range(rounds)
            for left in leave_one_out(subjects(n, 40, spread=0.25, rng=rng), level=LEVEL, cap=cap)
        ]
        assert abs(np.mean(found) - LEVEL) < 0.02


def test_leave_one_out_never_sees_the_subject() -> None:
    rng = np.random.default_rng(7)
    given = subjects(12, 30, spread=0.3, rng=rng)
    found = leave_one_out(given, level=0.8)
    for i, left in enumerate(found):
        others = given[:i] + given[i + 1 :]
        assert left.factor == conformal_factor(others, level=0.8)
        assert left.coverage == pytest.approx(np.mean(given[i] <= left.factor))
    assert leave_one_out(given[:4], level=0.8) == []  # three others do, four are wanted
    assert least_subjects(0.8) == 4


def test_how_many_subjects_a_level_needs() -> None:
    assert [least_subjects(level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    assert least_subjects(0.9, 0.3) == 2
    assert [chosen_cap(n, 0.9) for n in (45, 44)] == pytest.approx([1.0, 0.2])
    assert chosen_cap(3, 0.5) == 1.0
    assert chosen_cap(3, 0.4) == 1.0  # never more than all pixels


def test_a_level_needs_a_pixel_to_miss() -> None:
    """Above the highest level nothing but the largest score of every subject counts; at it, others do, too."""
    assert highest_level(4, 1000) == pytest.approx(0.999)
    assert highest_level(4, 1000, 1.0) == pytest.approx(0.8)
    assert highest_level(9, 5, 1.0) == pytest.approx(0.8)
    given = [np.arange(1.0, 1001.0) + 0.1 * i for i in range(4)]
    for level, empty in ((0.999, False), (0.9999, True)):
        cap = chosen_cap(4, level)
        found, of_largest = (conformal_factor(s, level=level, cap=cap) for s in (given, [s[-1:] for s in given]))
        assert (found == of_largest) is empty


@pytest.mark.parametrize("level", [0.9, 0.99, 0.999])
def test_more_subjects_never_need_more_subjects(level: float) -> None:
    """Whatever cap is chosen for n subjects, they are enough for it."""
    assert all(n >= least_subjects(level, chosen_cap(n, level)) for n in range(1, 1200))


def test_a_share_below_all_never_reads_as_all() -> None:
    assert [percent(x) for x in (0.9, 0.95, 1.0, 0.0, 0.999999, 0.5)] == ["90", "95", "100", "0", "99.9999", "50"]
    assert [percent(x, ".1f") for x in (0.9, 1.0, 0.99999, 0.912)] == ["90.0", "100.0", "99.999", "91.2"]
    assert [percent(x, ".0f") for x in (0.18, 2e-6)] == ["18", "0.0002"]


def test_scores_need_a_floor_and_equal_shapes() -> None:
    np.testing.assert_allclose(scores([[-3.0, 1.0]], [[2.0, 4.0]]), [0.25, 1.5])
    width = unit_width(np.array([[2.0, 10.0]]), np.zeros((1, 2)), floor=0.01)
    np.testing.assert_allclose(width, 0.1)
    with pytest.raises(DataError, match="floor"):
        scores([1.0], [0.0])
    with pytest.raises(ShapeError):
        scores([1.0, 2.0], [1.0])
    with pytest.raises(DataError, match="without pixels"):
        conformal_factor([np.empty(0)], level=LEVEL)
    for level, cap in ((0.0, 1.0), (1.0, 1.0), (0.9, 0.05), (0.9, 1.5)):
        with pytest.raises(ConfigError):
            conformal_factor([np.ones(3)], level=level, cap=cap)


@pytest.mark.parametrize("kind", ["random", "equispaced"])
@pytest.mark.parametrize("R", [4.0, 8.0])
def test_a_mask_shows_its_kind(kind: MaskKind, R: float) -> None:
    for W in (127, 128, 320, 368):
        for seed in range(20):
            mask = MaskSpec(kind, R).draw(W, torch.Generator().manual_seed(seed)).numpy()
            assert kind_of(mask) == kind
            assert centre_run(mask) >= n_center_lines(W, R, None)
    assert kind_of(np.ones(12, dtype=bool)) is None


def drawn(kind: MaskKind = "random", R: float = 4.0, W: int = 126, fraction: float | None = None) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = MaskSpec(kind, R, fraction).draw(W, torch.Generator().manual_seed(1)).numpy()
    return mask


def test_a_setting_holds_for_its_own_kind_of_data_alone() -> None:
    setting = Setting(4.0, coil_mode="virtual", Q=8, arrays=(4, 12), samples=16)
    fits: dict[str, Any] = {"coils": 8, "samples": 16, "fast": False}
    for seed in range(50):
        for W in (36, 117, 126, 128, 196, 368):
            mask = MaskSpec().draw(W, torch.Generator().manual_seed(seed)).numpy()
            assert W == 36 or setting.misfit(mask, **fits) is None
    for change, words in (
        ({"samples": 8}, "it is for 16 samples, not 8"),
        ({"fast": True}, "fast"),
        ({"coils": 3}, "4 to 12 coils, the data has 3"),
        ({"coils": 13}, "the data has 13"),
    ):
        assert words in str(setting.misfit(drawn(), **{**fits, **change}))
    for mask, words in (
        (drawn(R=8.0), "R = 4, the data has R = 7.88"),
        (np.ones(126, dtype=bool), "has R = 1"),
        (drawn("equispaced"), "random masks, the data's is equispaced"),
        (drawn(fraction=0.22), "10 of 126 lines in the centre, the data has 2"),
        (drawn(fraction=0.02), "lines in the centre"),
    ):
        assert words in str(setting.misfit(mask, **fits))


@pytest.mark.parametrize("kind", ["random", "equispaced"])
def test_a_setting_holds_for_its_own_masks_but_for_1_in_1000(kind: MaskKind) -> None:
    refused, n = 0, 500
    sizes = [(R, W) for R in (2.0, 3.0, 4.0, 8.0) for W in (90, 128, 196, 368)]
    for R, W in sizes:
        for seed in range(n):
            mask = MaskSpec(kind, R).draw(W, torch.Generator().manual_seed(seed)).numpy()
            refused += Setting(R, kind).misfit(mask, coils=1, samples=32, fast=False) is not None
    assert refused <= (2 * 1e-3 * n * len(sizes) if kind == "random" else 0)


@pytest.mark.parametrize("W", [90, 128, 368])
@pytest.mark.parametrize("kind", ["random", "equispaced"])
def test_a_bound_of_8_percent_in_the_centre_is_not_for_twice_as_many(kind: MaskKind, W: int) -> None:
    for fraction in (0.15, 0.19):
        for seed in range(100):
            mask = MaskSpec(kind, 4.0, fraction).draw(W, torch.Generator().manual_seed(seed)).numpy()
            assert Setting(4.0, kind).misfit(mask, coils=1, samples=32, fast=False) is not None


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8])
def test_extra_lines_are_the_fewest_that_are_rarely_exceeded(p: float) -> None:
    extra = extra_lines(p, "random")
    rng = np.random.default_rng(0)
    both = rng.geometric(1 - p, size=(2, 400_000)).sum(axis=0) - 2  # acquired lines before the first missing one
    assert np.mean(both > extra) < 1.3e-3
    assert np.mean(both > extra - 1) > 0.7e-3
    assert (extra_lines(0.0, "random"), extra_lines(0.0, "equispaced")) == (0, 0)


def calibration(**changes: Any) -> Calibration:
    made = Calibration(LEVEL, 2.5, 0.01, "everywhere", Setting(4.0), 0.3, 12, 15, 0.92, 0.84, provenance={"seed": 1})
    return replace(made, **changes)


def test_the_bound_is_positive_even_without_spread() -> None:
    mean = np.array([[[1.0, 4.0], [2.0, 0.0]]], dtype=np.float32)
    std = np.array([[[0.0, 1.0], [0.2, 0.0]]], dtype=np.float32)
    bound = calibration().bound(mean, std)
    assert bound.dtype == np.float32
    np.testing.assert_allclose(bound, 2.5 * (std + 0.04))


def test_what_is_promised_is_said() -> None:
    said = calibration().guarantee
    assert "12 calibrated" in said
    assert "at most 10 %, no subject counting with more than 30 %" in said
    assert "of the foreground" in calibration(region="foreground").guarantee
    assert "of the foreground in the middle slice whose" in calibration(region="foreground", slices=1).guarantee
    assert "pixels in the middle slices whose" in calibration(slices=3).guarantee
    assert "middle" not in calibration(slices=None).guarantee
    assert calibration(cap=1.0).guarantee.endswith("at most 10 %")
    json.dumps(vars(calibration().setting))
    for wrong in ({"level": 1.0}, {"factor": math.inf}, {"floor": 0.0}):
        with pytest.raises(BayesMRIError):
            calibration(**wrong)
