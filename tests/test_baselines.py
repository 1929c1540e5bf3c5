"""The networks we compare with: fastMRI's numbers, invertible layers, scale, coils, sizes and data consistency."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bayesmri.baselines.irim import IRIM, IRIMConfig
from bayesmri.baselines.network import BoundNetwork, Network, standardise
from bayesmri.baselines.sigmanet import SigmaNet, SigmaNetConfig, _prox
from bayesmri.baselines.unet import Hourglass, UNet, UNetConfig
from bayesmri.baselines.varnet import VarNet, VarNetConfig
from bayesmri.complexes import rss
from bayesmri.errors import ConfigError, ModelError, ShapeError
from bayesmri.physics.centre import central_lines, n_central_lines, sensitivities
from bayesmri.physics.conjugate_gradients import conjugate_gradients
from bayesmri.physics.fidelity import fidelity
from bayesmri.physics.fourier import fft2c
from bayesmri.physics.mask import random_mask
from bayesmri.physics.sense import combine
from laws import normal
from small_networks import KINDS, measured, small_network


def run(network: Network, z: Tensor, mask: Tensor) -> Tensor:
    with torch.no_grad():
        return network.bind(network.weights())(z, mask)


@torch.no_grad()
def copy(source: list[Tensor], target: list[Tensor]) -> None:
    for a, b in zip(source, target, strict=True):
        assert a.shape == b.shape
        b.copy_(a)


@pytest.mark.parametrize("shape", [(32, 48), (37, 51)])
@pytest.mark.parametrize("pools", [1, 3, 4])
def test_the_unet_is_fastmris(pools: int, shape: tuple[int, int]) -> None:
    models = pytest.importorskip("fastmri.models", reason="fastmri 0.3.0 is not installed: nothing to compare with")
    theirs = models.Unet(3, 2, chans=4, num_pool_layers=pools)
    ours = Hourglass(3, 2, features=4, pools=pools)
    copy(list(theirs.parameters()), list(ours.parameters()))
    v = normal(2, 3, *shape, dtype=torch.float32)
    torch.testing.assert_close(ours(v), theirs(v), rtol=0, atol=0)


@pytest.mark.parametrize(("Q", "shape"), [(1, (32, 48)), (3, (45, 51)), (4, (33, 64))])
def test_the_varnet_is_fastmris(Q: int, shape: tuple[int, int]) -> None:
    models = pytest.importorskip("fastmri.models", reason="fastmri 0.3.0 is not installed: nothing to compare with")
    theirs = models.VarNet(num_cascades=3, sens_chans=3, sens_pools=3, chans=4, pools=2)
    ours = VarNet(VarNetConfig(Q=Q, cascades=3, features=4, pools=2, sens_features=3, sens_pools=3))
    assert ours.sens is not None
    steps = [[eta, *step.parameters()] for eta, step in zip(ours.eta, ours.steps, strict=True)]
    copy(list(theirs.parameters()), [*ours.sens.parameters(), *(p for step in steps for p in step)])
    for eta in theirs.cascades:
        eta.dc_weight.data.fill_(0.7)
    with torch.no_grad():
        for value in ours.eta:
            value.fill_(0.7)
    z, mask = measured(Q, *shape)
    ours, theirs, z = ours.double(), theirs.double(), z.to(torch.complex128)
    expected = theirs(torch.view_as_real(z), mask[..., None])
    torch.testing.assert_close(rss(ours(z, mask)), expected, rtol=1e-9, atol=1e-9)


def test_published_sizes() -> None:
    with torch.device("meta"):
        sizes = {
            network.__class__.__name__: sum(p.numel() for p in network.parameters()) / 1e6
            for network in (UNet(UNetConfig()), VarNet(VarNetConfig()), IRIM(IRIMConfig()))
        }
        multi = sum(p.numel() for p in IRIM(IRIMConfig(Q=15, channels=96)).parameters()) / 1e6
    assert round(sizes["VarNet"], 2) == 29.94
    assert round(sizes["UNet"], 2) == 7.76
    assert abs(sizes["IRIM"] / 275.25 - 1) < 1e-3
    assert abs(multi / 329.67 - 1) < 1e-3


@pytest.mark.parametrize("Q", [1, 3])
@torch.no_grad()
def test_irim_steps_are_invertible(Q: int) -> None:
    network = small_network("irim", Q).double()
    assert isinstance(network, IRIM)
    z, mask = measured(Q, 21, 26)
    z = z.to(torch.complex128)
    v = before = normal(2, network.config.channels, 21, 26, dtype=torch.float64)
    for t in range(network.config.steps):
        v = network.step(v, t, z, mask)
    assert float((v - before).abs().max()) > 0.1
    for t in reversed(range(network.config.steps)):
        v = network.step_back(v, t, z, mask)
    torch.testing.assert_close(v, before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("Q", "shape"), [(1, (24, 32)), (3, (25, 31)), (5, (16, 19))])
def test_any_size_and_any_number_of_coils(kind: str, Q: int, shape: tuple[int, int]) -> None:
    z, mask = measured(Q, *shape)
    x = run(small_network(kind, Q), z, mask)
    assert x.is_complex()
    assert x.shape == (2, 1 if kind == "unet" else Q, *shape)
    assert x.isfinite().all()


@pytest.mark.parametrize("kind", ["unet", "varnet"])
def test_weights_know_nothing_of_the_number_of_coils(kind: str) -> None:
    network = small_network(kind, 2)
    z, mask = measured(5, 20, 24)
    assert run(network, z, mask).shape[-2:] == (20, 24)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns(kind: str) -> None:
    """Only η of the first cascade of VarNet cannot: k = z there, and the data agree with themselves."""
    network = small_network(kind, 3)
    z, mask = measured(3, 24, 26)
    names, weights = zip(*network.weights().items(), strict=True)
    grads = torch.autograd.grad(rss(network.bind(network.weights())(z, mask)).square().sum(), weights)
    assert all(g.isfinite().all() for g in grads)
    dead = {name for name, g in zip(names, grads, strict=True) if not g.abs().sum() > 0}
    assert dead == ({"eta.0"} if kind == "varnet" else set())


@pytest.mark.parametrize("kind", KINDS)
def test_empty_coils_and_empty_slices_do_no_harm(kind: str) -> None:
    """Virtual coils beyond the real ones are zero; their gradients must be numbers, too."""
    network = small_network(kind, 4)
    z, mask = measured(4, 24, 26)
    z[:, 2:] = 0
    z[1] = 0
    weights = network.weights()
    x = network.bind(weights)(z, mask)
    assert x.isfinite().all()
    grads = torch.autograd.grad(rss(x).sum(), list(weights.values()))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_the_scanner_do_not_matter(kind: str) -> None:
    network = small_network(kind, 2)
    z, mask = measured(2, 24, 26)
    x = run(network, z, mask)
    torch.testing.assert_close(run(network, 1024 * z, mask) / 1024, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_a_batch_do_not_meet(kind: str) -> None:
    network = small_network(kind, 2)
    z, mask = measured(2, 24, 26, B=3)
    both = run(network, z, mask)
    for i in range(3):
        torch.testing.assert_close(run(network, z[i : i + 1], mask[i, 0, 0]), both[i : i + 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("member", ["pcn", "pm"])
def test_a_large_weight_of_the_data_reproduces_them(member: str) -> None:
    """prox_{λD} → the projection onto A x = z as λ → ∞: exact for coil images, and where one coil is all there is."""
    Q = 3 if member == "pcn" else 1
    network = SigmaNet(SigmaNetConfig(Q=Q, members=(member,), iterations=2, features=3, blocks=1))  # type: ignore[arg-type]
    network.draw_(torch.Generator().manual_seed(0))
    network.log_weight[member].data.fill_(20.0)
    z, mask = measured(Q, 18, 21)
    torch.testing.assert_close(mask * fft2c(run(network, z, mask)), z, rtol=1e-4, atol=1e-4)


def test_the_proximal_map_with_sensitivities_is_a_minimum() -> None:
    z, mask = measured(3, 18, 21)
    z, weight = z.to(torch.complex128), torch.tensor(2.0, dtype=torch.float64)
    s = sensitivities(z, mask)
    v = normal(2, 1, 18, 21, seed=1)

    def objective(m: Tensor) -> Tensor:
        return 0.5 * (m - v).abs().square().sum() + weight * fidelity(s * m, z, mask)

    best = _prox(v, z, mask, s, weight)
    assert objective(best) < objective(v)
    for seed in range(5):
        assert objective(best) < objective(best + 0.05 * normal(2, 1, 18, 21, seed=seed + 2))


def test_conjugate_gradients_solve_every_system_of_a_batch() -> None:
    root = normal(2, 12, 12, seed=1)
    H = root @ root.mH + torch.eye(12)

    def apply(x: Tensor) -> Tensor:
        return (H @ x.reshape(2, 12, 1)).reshape(x.shape)

    b = normal(2, 1, 3, 4, seed=2)
    b[1] = 0  # nothing to do: no division by zero
    x = conjugate_gradients(apply, b, torch.zeros_like(b), steps=30)
    torch.testing.assert_close(apply(x), b, rtol=1e-9, atol=1e-9)


def test_sensitivities_combine_to_one_and_follow_the_coils() -> None:
    y, x = torch.meshgrid(torch.linspace(-1, 1, 48), torch.linspace(-1, 1, 50), indexing="ij")
    s = torch.stack([1 + x, 1 - x, 1 + 1j * y, 1 - 1j * y]).to(torch.complex64)
    s = (s / rss(s))[None]
    image = (x**2 + y**2 < 0.8).to(torch.complex64)
    mask = torch.zeros(1, 1, 1, 50, dtype=torch.bool)
    mask[..., 17:33] = True
    found = sensitivities(mask * fft2c(s * image), mask)
    torch.testing.assert_close(rss(found), torch.ones(1, 48, 50), rtol=1e-5, atol=1e-5)
    inside = image.real > 0
    likeness = (found.conj() * s).sum(dim=1).abs()[0][inside]  # 1 where both are the same up to a phase
    assert float(likeness.min()) > 0.97
    assert torch.equal(sensitivities(found[:, :1], mask), torch.ones(1, 1, 48, 50, dtype=torch.complex64))


def test_central_lines_are_counted_on_both_sides() -> None:
    mask = torch.zeros(3, 1, 1, 12, dtype=torch.bool)
    mask[0, ..., 4:9] = True  # 4 5 | 6 7 8: two on the left
    mask[1, ..., [0, 6, 11]] = True
    mask[2] = True
    assert n_central_lines(mask).tolist() == [4, 1, 12]
    assert central_lines(mask)[0].flatten().nonzero().flatten().tolist() == [4, 5, 6, 7]
    assert bool(central_lines(mask)[2].all())


@pytest.mark.parametrize("W", [50, 51, 8, 9])
def test_central_lines_were_acquired(W: int) -> None:
    """They are a run of n acquired columns that holds the centre, W // 2, whatever lies beside them."""
    for left in range(W // 2 + 1):
        for right in range(1, W - W // 2 + 1):
            mask = torch.zeros(1, 1, 1, W, dtype=torch.bool)
            mask[..., W // 2 - left : W // 2 + right] = True
            found = central_lines(mask)
            assert bool((found <= mask).all())
            assert bool(found[..., W // 2].all())
            assert int(found.sum()) == int(n_central_lines(mask)) == max(1, 2 * min(left, right))


def test_standardised_numbers_have_mean_0_and_deviation_1() -> None:
    v = 3 + 2 * normal(2, 1, 15, 16, dtype=torch.float64)
    w, mean, std = standardise(v, (-2, -1))
    torch.testing.assert_close(w * std + mean, v)
    assert float(w.mean().abs()) < 1e-12
    torch.testing.assert_close(w.std(dim=(-2, -1)), torch.ones(2, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    "make",
    [
        lambda: UNetConfig(features=0),
        lambda: VarNetConfig(cascades=0),
        lambda: VarNetConfig(Q=4, sens_features=0),
        lambda: IRIMConfig(channels=2),
        lambda: IRIMConfig(hidden=(4, 4), strides=(1,)),
        lambda: SigmaNetConfig(members=()),
        lambda: SigmaNetConfig(iterations=2500),
        lambda: SigmaNetConfig(members=("gd", "gd")),
    ],
)
def test_impossible_networks_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_what_a_network_cannot_take_is_refused_in_one_line() -> None:
    network = small_network("unet")
    bound = network.bind(network.weights())
    assert isinstance(bound, BoundNetwork)
    z, mask = measured(1, 6, 24)
    with pytest.raises(ShapeError, match="at least 8 rows"):
        bound(z, mask)
    with pytest.raises(ShapeError, match="expected complex"):
        bound(z[0], mask)
    with pytest.raises(ModelError, match="lack"):
        network.bind({})
    for kind in ("irim", "sigmanet"):
        with pytest.raises(ShapeError, match="compress the coils"):
            run(small_network(kind, 2), *measured(3, 24, 24))


def test_sensitivity_networks_combine_as_the_adjoint() -> None:
    s, x, m = normal(1, 3, 7, 8), normal(1, 3, 7, 8, seed=1), normal(1, 1, 7, 8, seed=2)
    left, right = torch.vdot((s * m).flatten(), x.flatten()), torch.vdot(m.flatten(), combine(s, x).flatten())
    torch.testing.assert_close(left, right)


def test_a_sigma_net_takes_the_maps_it_names() -> None:
    """ESPIRiT's where there are central lines to learn them from, else the others."""
    rng, centre = torch.Generator().manual_seed(0), small_network("sigmanet", 2)
    assert isinstance(centre.config, SigmaNetConfig)
    other = SigmaNet(replace(centre.config, maps="espirit"))
    other.load_state_dict(centre.state_dict())
    for fraction, same in ((0.4, False), (0.1, True)):
        mask = random_mask(32, 2, center_fraction=fraction, rng=rng)[None, None, None]
        z = mask * fft2c(normal(1, 2, 24, 32, dtype=torch.complex64))
        assert torch.equal(run(centre, z, mask), run(other, z, mask)) is same
