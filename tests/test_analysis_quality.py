"""Does σ̂ tell where the error is: laws of rank correlation, sparsification, reliability and coverage."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from bayesmri.analysis.quality import FRACTIONS, foreground, quality, sparsification, spearman
from bayesmri.analysis.reliability import EDGES, coverage, normal_coverage, reliability
from bayesmri.errors import DataError, ShapeError

SIZES = [(7, 9), (8, 16), (31, 1)]
Array = NDArray[np.float64]


def drawn(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array]:
    """σ̂ with ties and zeros, and an error of both signs that σ̂ says something about."""
    rng = np.random.default_rng(seed)
    std = np.round(rng.gamma(1.0, size=shape), 1)
    return std, (std + 0.3) * rng.normal(size=shape)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_rank_correlation_is_scipys(shape: tuple[int, ...], seed: int) -> None:
    std, error = drawn(shape, seed)
    found = spearman(std, error)
    assert found == pytest.approx(spearmanr(std.ravel(), np.abs(error).ravel()).statistic, abs=1e-12)


def test_rank_correlation_knows_only_order_and_magnitude() -> None:
    std, error = drawn((20, 21))
    assert spearman(np.exp(std), error) == pytest.approx(spearman(std, -error))
    assert spearman(np.abs(error), error) == pytest.approx(1)
    assert spearman(1 / (1 + np.abs(error)), error) == pytest.approx(-1)


def test_a_constant_has_no_rank_correlation() -> None:
    _, error = drawn((6, 7))
    assert spearman(np.full((6, 7), 0.1), error) is None
    assert spearman(np.zeros((6, 7)), error) is None
    assert spearman(np.abs(error), np.ones((6, 7))) is None


def by_hand(order: Array, error: Array, f: float) -> Array:
    """|e| of what remains after the ⌊f n⌋ largest are gone; only for orders without ties."""
    kept = order.size - math.floor(round(f * order.size, 6))
    return np.abs(error).ravel()[np.argsort(order.ravel())][:kept]


@pytest.mark.parametrize("shape", [(10, 10), (7, 9)])
def test_curves_are_what_remains(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    std, error = rng.random(shape), rng.normal(size=shape)
    mae, rmse = sparsification(std, error), sparsification(std, error, measure="rmse")
    for i in (0, 1, 29, 57, 99):
        left, best = by_hand(std, error, FRACTIONS[i]), by_hand(np.abs(error), error, FRACTIONS[i])
        assert mae.std[i] == pytest.approx(left.mean())
        assert mae.oracle[i] == pytest.approx(best.mean())
        assert rmse.std[i] == pytest.approx(np.sqrt(np.mean(left**2)))
        assert rmse.oracle[i] == pytest.approx(np.sqrt(np.mean(best**2)))


@pytest.mark.parametrize("measure", ["mae", "rmse"])
@pytest.mark.parametrize("shape", SIZES)
def test_the_oracle_is_below_every_order(shape: tuple[int, ...], measure: str) -> None:
    std, error = drawn(shape)
    curves = sparsification(std, error, measure=measure)  # type: ignore[arg-type]
    assert (curves.oracle <= curves.std + 1e-12).all()
    assert (curves.oracle <= curves.random + 1e-12).all()
    assert (np.diff(curves.oracle) <= 1e-12).all()
    assert curves.std[0] == pytest.approx(curves.oracle[0]) == pytest.approx(curves.random[0])


def test_area_tells_oracle_random_and_wrong_apart() -> None:
    rng = np.random.default_rng(2)
    error = rng.normal(size=(200, 200))
    perfect, chance, wrong = (
        quality(std, error) for std in (3 * np.abs(error), rng.random(error.shape), 1 / (0.1 + np.abs(error)))
    )
    for measure in ("mae", "rmse"):
        assert perfect.ause[measure] == pytest.approx(0, abs=1e-12)
        assert chance.ause[measure] == pytest.approx(chance.random[measure], rel=0.05)
        assert wrong.ause[measure] > 1.5 * wrong.random[measure]
    # the area above the oracle's curve of |N(0, 1)|, from an independent draw
    half = np.sort(np.abs(rng.normal(size=10**6)))
    means = np.cumsum(half)[::-1] / np.arange(half.size, 0, -1)
    expected = np.mean(1 - means[: int(0.99 * half.size)] / means[0]) * 0.99
    assert chance.random["mae"] == pytest.approx(expected, rel=0.02)


def test_areas_do_not_depend_on_units() -> None:
    std, error = drawn((15, 16))
    assert quality(1e-6 * std, 1e3 * error).ause == pytest.approx(quality(std, error).ause)


@pytest.mark.parametrize("value", [0.0, 0.7])
def test_a_constant_std_is_exactly_chance(value: float) -> None:
    _, error = drawn((9, 10))
    found = quality(np.full((9, 10), value), error)
    assert found.spearman is None
    assert found.ause == pytest.approx(found.random)


def test_ties_are_removed_in_random_order_on_average() -> None:
    std, error = np.repeat([1.0, 2.0, 3.0], 40), np.abs(np.random.default_rng(3).normal(size=120))
    curve = sparsification(std, error).std
    rng = np.random.default_rng(4)
    orders = [sparsification(std + 1e-3 * rng.random(120), error).std for _ in range(2000)]
    np.testing.assert_allclose(curve, np.mean(orders, axis=0), atol=0.03)


def test_no_error_leaves_no_area() -> None:
    found = quality(np.ones((4, 5)), np.zeros((4, 5)))
    assert found.ause == found.random == {"mae": 0.0, "rmse": 0.0}
    assert found.spearman is None


def test_reliability_counts_every_pixel_once_and_adds_up() -> None:
    std, error = drawn((21, 22))
    whole = reliability(std, error)
    assert whole.count.sum() == std.size
    assert whole.power.sum() == pytest.approx(np.sum(error**2))
    assert whole.variance.sum() == pytest.approx(np.sum(std**2))
    assert whole.count[0] == np.count_nonzero(std < EDGES[0]) > 0  # zeros are below all edges
    parts = reliability(std[:10], error[:10]) + reliability(std[10:], error[10:])
    np.testing.assert_array_equal(parts.count, whole.count)
    np.testing.assert_allclose(parts.power, whole.power)


def test_an_honest_std_lies_on_the_diagonal() -> None:
    rng = np.random.default_rng(5)
    std = 10 ** rng.uniform(-3, -1, size=200_000)
    error = std * rng.normal(size=std.size)
    found = reliability(std, error)
    rows = found.rows(least=1000)
    assert len(rows) > 10
    for row in rows:
        assert row["rms_error"] == pytest.approx(row["std"], rel=0.1)
    assert found.ratio == pytest.approx(1, rel=0.02)
    assert reliability(std, 3 * error).ratio == pytest.approx(3, rel=0.02)
    assert coverage(std, error) == pytest.approx([normal_coverage(k) for k in (1, 2, 3)], abs=0.01)
    assert normal_coverage(1) == pytest.approx(0.6827, abs=1e-4)


def test_nothing_covers_only_what_has_no_error() -> None:
    error = np.array([0.0, 1.0, 2.0, 0.0])
    assert coverage(np.zeros(4), error, widths=(1, 5)) == (0.5, 0.5)
    assert reliability(np.zeros(4), error).ratio is None
    assert reliability(np.zeros(4), error).rows() == [{"std": 0.0, "rms_error": math.sqrt(5 / 4), "pixels": 4}]


def test_foreground_is_above_a_share_of_the_maximum() -> None:
    truth = np.array([[0.0, 0.05, 0.1], [0.11, 0.5, 1.0]])
    np.testing.assert_array_equal(foreground(truth), [[False, False, False], [True, True, True]])
    np.testing.assert_array_equal(foreground(7 * truth), foreground(truth))
    assert foreground(truth, share=0).sum() == 5


def test_what_cannot_be_judged_is_refused() -> None:
    ones = np.ones((3, 4))
    for bad in (np.full((3, 4), np.nan), np.full((3, 4), np.inf)):
        for std, error in ((bad, ones), (ones, bad)):
            with pytest.raises(DataError, match="NaN or Inf"):
                quality(std, error)
            with pytest.raises(DataError, match="NaN or Inf"):
                coverage(std, error)
    with pytest.raises(DataError, match="below 0"):
        spearman(-ones, ones)
    with pytest.raises(ShapeError, match="expected equal"):
        sparsification(ones, np.ones((4, 3)))
    with pytest.raises(ShapeError, match="not empty"):
        reliability(np.ones(0), np.ones(0))
    with pytest.raises(DataError, match="no positive pixel"):
        foreground(np.zeros((3, 3)))
    with pytest.raises(DataError, match="out of order"):
        sparsification(ones, ones, fractions=np.array([0.0, 1.0]))
