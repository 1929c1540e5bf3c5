"""Judgements of slices add up to those of volumes, and averaging is scored over disjoint subsets of samples."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bayesmri.analysis.averaging import Span, over_volumes, spans, subset_sizes
from bayesmri.analysis.intervals import LEAST_PIXELS, MEASURES, check_judged, judge, judge_volume, together
from bayesmri.analysis.quality import foreground, quality
from bayesmri.analysis.reliability import coverage
from bayesmri.errors import DataError, ShapeError

Array = NDArray[np.float64]


def volume(slices: int = 3, shape: tuple[int, int] = (20, 23)) -> tuple[Array, Array, Array]:
    """X̄, σ̂ and a truth with a bright body in a dark background; the last slice is dark altogether."""
    rng = np.random.default_rng(0)
    truth = np.full((slices, *shape), 0.02)
    truth[:-1, 4:16, 3:20] = rng.uniform(0.3, 1.0, size=(slices - 1, 12, 17))
    std = rng.gamma(2.0, 0.01, size=truth.shape)
    return truth + std * rng.normal(size=truth.shape), std, truth


def test_slices_are_judged_one_by_one_and_add_up() -> None:
    mean, std, truth = volume()
    found = judge_volume(mean, std, truth)
    inside = foreground(truth)
    for s in range(3):
        here = quality(std[s] / truth.max(), (mean[s] - truth[s]) / truth.max())
        assert found["everywhere"][s].slices == (here,)
    body = quality(std[0][inside[0]], (mean[0] - truth[0])[inside[0]])
    assert found["foreground"][0].brief()["spearman"] == pytest.approx(body.spearman)
    whole = together(found["everywhere"])
    brief = whole.brief()
    assert brief["pixels"] == truth.size == whole.reliability.count.sum()
    for measure in MEASURES:
        areas = [part.slices[0].ause[measure] for part in found["everywhere"]]
        assert brief["ause"][measure] == pytest.approx(np.mean(areas))
    assert [c["share"] for c in brief["coverage"]] == pytest.approx(coverage(std, mean - truth))


def test_a_slice_without_a_body_has_no_say_in_the_foreground() -> None:
    found = judge_volume(*volume())["foreground"]
    assert [len(part.slices) for part in found] == [1, 1, 0]
    assert found[2].brief() == {"slices": 0, "pixels": 0} == found[2].full()
    assert together(found).brief()["slices"] == 2
    few = np.ones(LEAST_PIXELS - 1)
    assert judge(few, few).slices == ()
    with pytest.raises(DataError, match="larger images"):
        check_judged(judge(few, few))


def test_curves_start_at_one_in_every_slice() -> None:
    mean, std, truth = volume()
    mean[0] = truth[0] + 100 * (mean[0] - truth[0])  # one bad slice must not outweigh the rest
    full = together(judge_volume(mean, std, truth)["everywhere"]).full()
    for measure in MEASURES:
        curves = full["sparsification"][measure]
        assert [curves[name][0] for name in ("std", "oracle", "random")] == pytest.approx([1, 1, 1])
        gap = np.subtract(curves["std"], curves["oracle"])
        area = np.trapezoid(gap, full["sparsification"]["removed"])
        assert full["ause"][measure] == pytest.approx(area)


def test_a_constant_std_has_no_rank_correlation_but_an_area() -> None:
    mean, _, truth = volume()
    brief = together(judge_volume(mean, np.full_like(mean, 0.01), truth)["everywhere"]).brief()
    assert brief["spearman"] is None
    assert brief["ause"] == pytest.approx(brief["ause_random"])
    nothing = together(judge_volume(mean, np.zeros_like(mean), truth)["everywhere"]).full()
    assert nothing["rms_error_over_rms_std"] is None
    assert len(nothing["reliability"]) == 1


@pytest.mark.parametrize(
    ("samples", "sizes"), [(32, (1, 4, 16, 32)), (1, (1,)), (6, (1, 4, 6)), (16, (1, 4, 16)), (64, (1, 4, 16, 32, 64))]
)
def test_sizes_of_subsets(samples: int, sizes: tuple[int, ...]) -> None:
    assert subset_sizes(samples) == sizes


def test_subsets_are_disjoint_runs() -> None:
    samples = np.arange(2 * 10, dtype=float).reshape(2, 10, 1, 1)
    found = spans(samples, lambda X: float(X[0, 0, 0]))
    assert [(s.n, s.scores) for s in found] == [
        (1, tuple(map(float, range(10)))),
        (4, (1.5, 5.5)),  # the last two of ten are left over
        (10, (4.5,)),
    ]
    assert (found[1].low, found[1].mean, found[1].high) == (1.5, 3.5, 5.5)


def test_averaging_more_noise_gains_and_narrows() -> None:
    noise = np.random.default_rng(1).normal(size=(3, 32, 15, 16))
    found = spans(noise, lambda X: -float(np.mean(X**2)))
    means = [s.mean for s in found]
    assert means == sorted(means)
    assert means[-1] == pytest.approx(-1 / 32, rel=0.2)
    widths = [s.high - s.low for s in found]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == 0


def test_volumes_are_averaged_subset_by_subset() -> None:
    parts = [[Span(1, (1.0, 3.0)), Span(2, (4.0,))], [Span(1, (3.0, 9.0)), Span(2, (8.0,))]]
    assert over_volumes(parts) == [Span(1, (2.0, 6.0)), Span(2, (6.0,))]
    with pytest.raises(DataError, match="same N"):
        over_volumes([parts[0], [Span(1, (1.0,))]])
    with pytest.raises(DataError, match="same N"):
        over_volumes([])
    with pytest.raises(ShapeError, match="slices, N"):
        spans(np.ones((3, 4, 5)), np.sum)
    with pytest.raises(DataError, match="at least 1"):
        subset_sizes(0)
