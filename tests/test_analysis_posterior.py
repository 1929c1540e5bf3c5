"""Where samples differ most, and how wide the posterior is, layer by layer."""

import itertools

import numpy as np
import pytest
import torch

from bayesmri.analysis.covariance import layer_covariances
from bayesmri.analysis.regions import Region, most_different, most_spread, side
from bayesmri.errors import ConfigError, ModelError, ShapeError
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.posterior.triangular import n_entries
from bayesmri.regularizers.foe import FoE, FoEConfig
from bayesmri.regularizers.tdv import TDV, TDVConfig


@pytest.mark.parametrize("shape", [(20, 31), (25, 24)])
def test_the_first_region_has_the_largest_mean_variance(shape: tuple[int, int]) -> None:
    std = np.random.default_rng(0).gamma(1.0, size=shape)
    size = 5
    found = most_spread(std, size=size, count=3)
    assert len(found) == 3
    places = itertools.product(range(shape[0] - size + 1), range(shape[1] - size + 1))
    best = max(float(np.mean(np.square(Region(r, c, size).of(std)))) for r, c in places)
    values = [float(np.mean(np.square(region.of(std)))) for region in found]
    assert values[0] == pytest.approx(best)
    assert values == sorted(values, reverse=True)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(found, 2))


def test_planted_regions_are_found() -> None:
    std = np.full((40, 50), 0.01)
    for (row, column), height in (((3, 4), 1.0), ((20, 30), 2.0), ((30, 5), 0.5)):
        std[row : row + 8, column : column + 8] = height
    assert most_spread(std, size=8) == [Region(20, 30, 8), Region(3, 4, 8), Region(30, 5, 8)]
    assert len(most_spread(np.ones((9, 9)), size=8, count=5)) == 1  # no room for a second
    assert side((100, 60)) == 12
    assert side((5, 3)) == 3
    with pytest.raises(ShapeError, match="room for one"):
        most_spread(std, size=41)
    with pytest.raises(ConfigError, match="at least 1"):
        most_spread(std, size=8, count=0)


def test_the_most_different_pair_is_that_of_all_pairs() -> None:
    samples = 1e4 + np.random.default_rng(1).normal(size=(7, 6, 5))
    pairs = list(itertools.combinations(range(7), 2))
    assert most_different(samples) == max(pairs, key=lambda p: float(np.linalg.norm(samples[p[0]] - samples[p[1]])))
    assert most_different(np.ones((3, 4, 4))) == (0, 1)
    with pytest.raises(ShapeError, match="at least two"):
        most_different(samples[:1])


def test_mean_covariance_is_that_of_draws() -> None:
    """Entry by entry, the covariance of many draws of all kernels of a layer."""
    rng = torch.Generator().manual_seed(0)
    l = 0.1 * torch.randn(3, 2, n_entries(4), generator=rng)
    mu = torch.zeros(3, 2, 2, 2)
    posterior = BlockGaussian({"K": mu}, {"K": l})
    (layer,) = layer_covariances({"K": l})
    draws = torch.stack([posterior.sample(rng)["K"] for _ in range(20000)]).view(-1, 4).double().numpy()
    np.testing.assert_allclose(layer.matrix, np.cov(draws.T, bias=True), atol=5e-4)
    assert np.abs(layer.matrix - np.diag(np.diag(layer.matrix))).max() > 5e-3  # far above that tolerance
    assert layer.n == 6
    row = layer.row()
    assert row["std"] ** 2 == pytest.approx(np.trace(layer.matrix) / 4)
    assert 0 < row["correlation"] < 1


def test_layers_come_in_the_order_of_the_network() -> None:
    reg = TDV(TDVConfig(Q=1, features=4, macroblocks=2, scales=2), torch.Generator().manual_seed(0))
    L = initial_L(reg.weights(), reg.kernels(), 0.2)
    rows = [layer.row() for layer in layer_covariances(dict(reversed(L.items())))]
    places = [(m, r, k) for m in (1, 2) for r in (1, 2, 3) for k in ("K1", "K2")]
    assert [(row["macroblock"], row["residual"], row["kernel"]) for row in rows] == places
    for row in rows:
        np.testing.assert_allclose(row["matrix"], 0.04 * np.eye(9), rtol=1e-6)
        assert (row["std"], row["correlation"], row["kernels"]) == (pytest.approx(0.2), 0, 16)


def test_networks_without_residual_blocks_have_layers_too() -> None:
    reg = FoE(FoEConfig(Q=1), torch.Generator().manual_seed(0))
    (row,) = (layer.row() for layer in layer_covariances(initial_L(reg.weights(), reg.kernels(), 0.1)))
    assert (row["macroblock"], row["residual"], row["kernel"]) == (None, None, "K")
    with pytest.raises(ModelError, match="no covariance"):
        layer_covariances({})
