"""Structures, what reconstructions make of them, and ROC areas: against formulas that fit in a line."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import mannwhitneyu

from bayesmri.analysis.hallucination import BUDGETS, Verdict, judge_structure, judge_structures
from bayesmri.analysis.roc import GRID, area, interval, roc, summary
from bayesmri.analysis.structures import CONTRASTS, KINDS, Structure, body, change_of, draw_structures
from bayesmri.complexes import rss
from bayesmri.errors import DataError, ShapeError
from bayesmri.physics.fourier import ifft2c
from bayesmri.studies.plant import plant
from laws import normal


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def picture(h: int = 96, w: int = 101) -> NDArray[np.float64]:
    """A bright disc with detail in it, and air around."""
    y, x = np.mgrid[:h, :w]
    inside = ((y - h / 2) / (0.42 * h)) ** 2 + ((x - w / 2) / (0.42 * w)) ** 2 < 1
    detail = gaussian_filter(rng(5).normal(size=(h, w)), 1.5)
    return np.where(inside, 3.0 + 1.5 * detail / detail.std() * 0.3, 0.01)


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_is_that_of_mann_and_whitney(ties: bool) -> None:
    wrong = rng(1).random(60) < 0.3
    score = rng(2).normal(size=60) + wrong
    score = np.round(score) if ties else score
    u = mannwhitneyu(score[wrong], score[~wrong]).statistic
    found = area(score, wrong)
    assert found == pytest.approx(u / (wrong.sum() * (~wrong).sum()))
    curve = roc(score, wrong)
    assert curve is not None
    assert np.trapezoid(curve.hits, curve.false_alarms) == pytest.approx(found)
    assert area(-score, wrong) == pytest.approx(1 - u / (wrong.sum() * (~wrong).sum()))


def test_weights_count_as_repetitions() -> None:
    score, wrong = rng(3).integers(0, 6, size=30), rng(4).random(30) < 0.5
    weights = rng(5).integers(0, 4, size=30)
    assert area(score, wrong, weights) == pytest.approx(area(np.repeat(score, weights), np.repeat(wrong, weights)))


def test_a_curve_by_hand() -> None:
    curve = roc([4, 3, 2, 1], [True, False, True, False])
    assert curve is not None
    np.testing.assert_allclose(curve.hits, [0, 0.5, 0.5, 1, 1])
    np.testing.assert_allclose(curve.false_alarms, [0, 0, 0.5, 0.5, 1])
    np.testing.assert_allclose(curve.at([0, 0.25, 0.5, 1]), [0.5, 0.5, 1, 1])
    tied = roc([2, 1, 1], [True, True, False])
    assert tied is not None
    np.testing.assert_allclose(tied.at([0, 0.5, 1]), [0.5, 0.75, 1])
    assert area([4, 3, 2, 1], [True, False, True, False]) == 0.75
    assert area(np.ones(4), [True, False, True, False]) == 0.5


def test_nothing_to_tell_apart_has_no_area() -> None:
    assert area([1, 2], [True, True]) is None
    assert roc([1, 2], [False, False]) is None
    assert interval([1, 2], [False, False], rng=rng(), repeats=5) is None
    assert summary([1, 2], [True, True], rng=rng())["area"] is None
    with pytest.raises(ShapeError, match="as many"):
        area([1, 2], [True])
    with pytest.raises(DataError, match="finite"):
        area([1, np.nan], [True, False])


def test_the_interval_is_around_the_area_and_clusters_widen_it() -> None:
    wrong = rng(6).random(200) < 0.4
    score = rng(7).normal(size=200) + 0.8 * wrong
    found = area(score, wrong)
    single = interval(score, wrong, rng=rng(8), repeats=300)
    assert found is not None
    assert single is not None
    assert single[0] < found < single[1]
    copies = np.repeat(score, 9), np.repeat(wrong, 9)
    naive = interval(*copies, rng=rng(8), repeats=300)
    honest = interval(*copies, rng=rng(8), repeats=300, clusters=np.repeat(np.arange(200), 9))
    assert naive is not None
    assert honest is not None
    assert honest == pytest.approx(single, abs=0.02)
    assert naive[1] - naive[0] < 0.5 * (honest[1] - honest[0])
    perfect = np.arange(200.0), np.arange(200) >= 100
    assert interval(*perfect, rng=rng(9), repeats=50) == (1.0, 1.0)
    made = summary(*perfect, rng=rng(9))
    assert (made["n"], made["wrong"], made["area"], len(made["hits"])) == (200, 100, 1.0, len(GRID))


@pytest.mark.parametrize(("Q", "shape"), [(1, (24, 31)), (3, (25, 32))])
def test_a_planted_change_is_in_kspace_exactly(Q: int, shape: tuple[int, int]) -> None:
    """RSS(F⁻¹u') = RSS(F⁻¹u) + a, and every coil keeps its phase."""
    u = normal(Q, *shape, dtype=torch.complex64).numpy()
    x = ifft2c(torch.from_numpy(u).to(torch.complex128))
    X = rss(x).numpy()
    change = np.zeros(shape)
    change[8:14, 9:15] = rng(1).uniform(-0.9, 2.0, size=(6, 6)) * X[8:14, 9:15]
    after = ifft2c(torch.from_numpy(plant(u, change)).to(torch.complex128))
    np.testing.assert_allclose(rss(after).numpy(), X + change, rtol=0, atol=3e-6)
    np.testing.assert_allclose(np.angle(after.numpy() * x.numpy().conj()), 0, atol=1e-3)
    np.testing.assert_array_equal(plant(u, np.zeros(shape)), u)
    half = plant(plant(u, 0.5 * change), 0.5 * change)  # changes add up, since the phase stays
    np.testing.assert_allclose(half, plant(u, change), atol=1e-5)


def test_where_nothing_is_there_is_no_phase_to_keep() -> None:
    empty = np.zeros((1, 8, 9), np.complex64)
    np.testing.assert_array_equal(plant(empty, np.ones((8, 9))), empty)


def test_structures_lie_apart_inside_the_body() -> None:
    Y = picture()
    found = draw_structures(Y, float(Y.max()), rng=rng(2), count=10)
    assert len(found) >= 8
    inside = body(Y, float(Y.max()))
    taken = np.zeros(Y.shape, int)
    for one in found:
        taken[one.rows, one.columns] += 1
        assert inside[round(one.row), round(one.column)]
        assert CONTRASTS[0] / 2 <= abs(one.contrast) <= CONTRASTS[1]
        assert one.of(Y).shape == one.change.shape
    assert taken.max() == 1
    assert {one.kind for one in found} == set(KINDS)
    total = change_of(found, Y.shape)
    assert (Y + total).min() > 0
    for one in found:
        np.testing.assert_array_equal(one.of(total), one.change if one.planted else 0 * one.change)


def test_structures_follow_their_generator() -> None:
    Y = picture()
    a, b, c = (draw_structures(Y, float(Y.max()), rng=rng(seed), count=5) for seed in (1, 1, 2))
    assert [(s.kind, s.row, s.contrast) for s in a] == [(s.kind, s.row, s.contrast) for s in b]
    assert [(s.kind, s.row) for s in a] != [(s.kind, s.row) for s in c]


def test_an_erased_patch_is_smooth() -> None:
    Y = picture()
    drawn = (draw_structures(Y, float(Y.max()), rng=rng(seed), count=5) for seed in range(4))
    erased = [one for part in drawn for one in part if one.kind == "erased"]
    assert erased
    for one in erased:
        r, c = round(one.row), round(one.column)
        core = np.s_[r - 1 : r + 2, c - 1 : c + 2]
        changed = Y + change_of([one], Y.shape)
        assert changed[core].std() < 0.5 * Y[core].std()


def test_air_has_no_room_for_structures() -> None:
    Y = picture()
    assert draw_structures(np.full_like(Y, 0.01), float(Y.max()), rng=rng(), count=5) == []
    with pytest.raises(ShapeError, match="to plant structures into"):
        draw_structures(Y[None], 1.0, rng=rng(), count=1)


def a_lesion(kind: str = "lesion") -> tuple[NDArray[np.float64], Structure]:
    Y = picture()
    for seed in range(20):
        for one in draw_structures(Y, float(Y.max()), rng=rng(seed), count=5):
            if one.kind == kind:
                return Y, one
    raise AssertionError(kind)


def judged(one: Structure, error: NDArray[np.float64], **changes: float) -> Verdict:
    std = np.full(error.shape, changes.get("std", 0.2))
    bound = np.full(error.shape, changes["bound"]) if "bound" in changes else None
    return judge_structure(one, error=error, std=std, bound=bound, typical=changes.get("typical", 0.1), peak=2.0)


def test_what_is_shown_of_a_structure() -> None:
    """All of it without error, nothing where X̄ = Y − a, and brightness does not matter."""
    Y, one = a_lesion()
    a = change_of([one], Y.shape)
    assert judged(one, 0 * a).shown == pytest.approx(1)
    assert judged(one, -a).shown == pytest.approx(0, abs=1e-12)
    assert judged(one, 0 * a + 0.7).shown == pytest.approx(1)
    assert judged(one, -0.3 * a + 5.0).shown == pytest.approx(0.7)
    assert [judged(one, -share * a).wrong for share in (0.49, 0.51)] == [False, True]
    nothing = replace(one, kind="untouched")
    assert judged(nothing, 0 * a).shown == pytest.approx(0)
    assert [judged(nothing, share * a).wrong for share in (0.49, 0.51, -0.51)] == [False, True, True]
    found = judged(one, -a, std=0.2, bound=0.5)
    assert found.std == pytest.approx(0.1)
    assert found.bound == pytest.approx(0.25)
    assert found.error == pytest.approx((one.change**2).sum() / np.abs(one.change).sum() / 2)


def test_the_numbers_of_all_structures_by_hand() -> None:
    """Four places: two missing, two right; σ̂ is larger at one of the missing ones alone."""
    Y, one = a_lesion()
    a = change_of([one], Y.shape)
    b = float(np.abs(one.change).max())
    cases = [(-a, 0.9, 3 * b), (-a, 0.1, 0.01 * b), (0 * a, 0.5, 3 * b), (0 * a, 0.2, 0.01 * b)]
    verdicts = [judged(one, e, std=std, bound=bound, typical=b / 30) for e, std, bound in cases]
    rest = np.linspace(0, 0.48, 1001)  # of σ̂ over the maximum, which is 2
    found = judge_structures(verdicts, rest, rng=rng())
    assert (found["structures"]["n"], found["structures"]["wrong"]) == (4, 2)
    assert found["structures"]["area"] == 0.5
    assert found["kinds"]["lesion"] == {"n": 4, "wrong": 2, "shown": pytest.approx([0, 0.5, 1], abs=1e-9), "area": 0.5}
    assert found["kinds"]["line"]["n"] == 0
    by_budget = {row["rest"]: (row["wrong"], row["right"]) for row in found["alarms"]}
    assert set(by_budget) == set(BUDGETS)
    assert by_budget[0.2] == (0.5, 0.0)  # above 0.384: the σ̂ of 0.45 alone
    assert by_budget[0.5] == (0.5, 0.5)  # above 0.24: that of 0.25 too
    pixels = verdicts[0].std_of.size
    assert found["pixels"]["n"] == 4 * pixels
    assert found["pixels"]["wrong"] == 2 * pixels
    bound = found["bound"]
    assert bound["structures"] == {"hits": 0.5, "false_alarms": 0.5}
    assert bound["pixels"] == {"hits": 0.5, "false_alarms": 0.5}
    assert bound["held_of_wrong"] == 0.5
    assert bound["held"] == 0.75
    assert judge_structures([judged(one, -a), judged(one, 0 * a)], rest, rng=rng())["bound"] is None
