"""N(μ, LLᵀ): draws have its moments, the prox is the minimiser, the divergence is torch's, files give it back."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize

from bayesmri.checkpoint import load_model, save_model
from bayesmri.errors import ModelError
from bayesmri.io.provenance import sha256
from bayesmri.model import Model
from bayesmri.posterior.block_gaussian import BlockGaussian, check_L, initial_L
from bayesmri.posterior.delta import Delta
from bayesmri.posterior.kl import divergence, entropy, log_det, n_kernels, penalty, trace
from bayesmri.posterior.prox import prox_divergence
from bayesmri.posterior.triangular import dense, diagonal, n_entries, packed, size
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.regularizers.foe import FoE, FoEConfig
from bayesmri.regularizers.tdv import TDV, TDVConfig

L0 = math.sqrt(1e-3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_tdv(Q: int = 1) -> TDV:
    return TDV(TDVConfig(Q=Q, features=2, macroblocks=1, scales=2), seeded(1))


def small_foe(Q: int = 1) -> FoE:
    return FoE(FoEConfig(Q=Q, features=3, kernel_size=5), seeded(1))


def random_L(reg: ParametricRegularizer, seed: int = 3, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Full lower-triangular blocks with a positive diagonal."""
    rng = seeded(seed)
    L = {}
    for name, l in initial_L(reg.weights(), reg.kernels(), 1.0).items():
        noise = 0.3 * torch.randn(l.shape, generator=rng, dtype=dtype)
        L[name] = l.to(dtype) * torch.rand(l.shape, generator=rng, dtype=dtype) + noise.where(l == 0, 0.2)
    return L


def gaussian(reg: ParametricRegularizer) -> BlockGaussian:
    return BlockGaussian({n: w.detach() for n, w in reg.weights().items()}, random_L(reg))


# triangular blocks


@pytest.mark.parametrize("d", [1, 4, 9, 25])
def test_blocks_unfold_to_lower_triangles_and_back(d: int) -> None:
    l = torch.randn(2, 3, n_entries(d), generator=seeded())
    full = dense(l)
    assert full.shape == (2, 3, d, d)
    assert torch.equal(full, full.tril())
    assert torch.equal(packed(full), l)
    assert torch.equal(diagonal(l), full.diagonal(dim1=-2, dim2=-1))
    assert size(l) == d


# draws


@pytest.mark.parametrize("reg", [small_tdv(), small_foe()], ids=["tdv", "foe"])
def test_moments_of_draws(reg: ParametricRegularizer) -> None:
    """20,000 draws have mean μ and covariance LLᵀ within five standard errors."""
    name = reg.kernels()[0]
    posterior = gaussian(reg)
    one = BlockGaussian({name: posterior.mu[name][:1, :2]}, {name: posterior.L[name][:1, :2]})
    rng, N = seeded(7), 20_000
    draws = torch.stack([one.sample(rng)[name].flatten(2)[0] for _ in range(N)]).double()  # (N, 2, o²)
    mu, C = one.mu[name].flatten(2)[0].double(), dense(one.L[name][0].double())
    C = C @ C.mT
    variances = C.diagonal(dim1=-2, dim2=-1)
    assert bool(((draws.mean(0) - mu).abs() < 5 * (variances / N).sqrt()).all())
    centred = draws - mu
    got = torch.einsum("nka,nkb->kab", centred, centred) / N
    error = ((variances[:, :, None] * variances[:, None, :] + C**2) / N).sqrt()
    assert bool(((got - C).abs() < 5 * error).all())
    across = torch.einsum("na,nb->ab", centred[:, 0], centred[:, 1]) / N  # kernels are independent
    assert bool((across.abs() < 5 * (variances[0, :, None] * variances[1] / N).sqrt()).all())


@pytest.mark.parametrize("Q", [1, 3])
def test_only_the_kernels_are_drawn(Q: int) -> None:
    reg = small_tdv(Q)
    posterior = gaussian(reg)
    theta = posterior.sample(seeded())
    reg.bind(theta)  # every name and shape
    changed = {name for name, weight in reg.weights().items() if not torch.equal(theta[name], weight)}
    assert changed == set(reg.kernels())
    assert "K0" not in changed
    assert all("_res" in name for name in changed)
    assert all(torch.equal(posterior.mean()[n], w) for n, w in reg.weights().items())


def test_draws_repeat_with_their_generator_and_move_with_it() -> None:
    posterior = gaussian(small_tdv())
    rng = seeded()
    a, b, c = posterior.sample(rng), posterior.sample(rng), posterior.to("cpu").sample(seeded())
    name = "mb0_res0_K1"
    assert torch.equal(a[name], c[name])
    assert not torch.equal(a[name], b[name])


def test_delta_draws_nothing() -> None:
    theta = {n: w.detach() for n, w in small_tdv().weights().items()}
    rng = seeded()
    before = rng.get_state()
    drawn = Delta(theta).to("cpu").sample(rng)
    assert torch.equal(rng.get_state(), before)
    assert all(torch.equal(drawn[n], theta[n]) for n in theta)
    assert Delta(theta).n_parameters == sum(w.numel() for w in theta.values())


def test_gradient_through_the_draw_by_finite_differences() -> None:
    """J(μ + Lε) = Σ cos(c θ) with the same ε on both sides; every entry of l and some of μ."""
    reg = small_foe()
    mu = reg.K.detach().double()[:1, :1].requires_grad_()
    l = random_L(reg, dtype=torch.float64)["K"][:1, :1].requires_grad_()
    c = torch.randn(mu.shape, generator=seeded(5), dtype=torch.float64)

    def J(mu: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
        return (c * BlockGaussian({"K": mu}, {"K": l}).sample(seeded(11))["K"]).cos().sum()

    g_mu, g_l = torch.autograd.grad(J(mu, l), (mu, l))
    step = 1e-5
    for p, g in ((mu, g_mu), (l, g_l)):
        for k in range(0, p.numel(), 7):
            e = torch.zeros(p.numel(), dtype=torch.float64)
            e[k] = step
            e = e.view(p.shape)
            ends = [(J(p + s * e, l) if p is mu else J(mu, p + s * e)).item() for s in (1, -1)]
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(g.flatten()[k]), rel=1e-6, abs=1e-9)


# divergence and entropy


def test_divergence_is_torchs() -> None:
    alpha, reg = 10.0, small_foe()
    l = random_L(reg, dtype=torch.float64)["K"]
    mu = reg.K.detach().double().flatten(2)
    d = mu.shape[-1]
    ours = torch.distributions.MultivariateNormal(mu, scale_tril=dense(l))
    prior = torch.distributions.MultivariateNormal(mu, torch.eye(d, dtype=torch.float64) / alpha)
    want = torch.distributions.kl_divergence(ours, prior).sum()
    torch.testing.assert_close(divergence({"K": l}, alpha=alpha), want, rtol=1e-10, atol=0)


def test_penalty_is_the_divergence_but_for_a_constant() -> None:
    """f / 2β − KL = ½ p (1 + log α), whatever L."""
    alpha, beta, reg = 7.0, 0.3, small_tdv()
    p = sum(reg.weights()[name].numel() for name in reg.kernels())
    for seed in (1, 2):
        L = random_L(reg, seed)
        difference = penalty(L, alpha=alpha, beta=beta) / (2 * beta) - divergence(L, alpha=alpha)
        assert float(difference) == pytest.approx(0.5 * p * (1 + math.log(alpha)), rel=1e-9)


def test_trace_and_log_det_are_those_of_the_covariance() -> None:
    L = random_L(small_tdv(), dtype=torch.float64)
    C = [dense(l) @ dense(l).mT for l in L.values()]
    want = sum(float(c.diagonal(dim1=-2, dim2=-1).sum()) for c in C)
    assert float(trace(L)) == pytest.approx(want, rel=1e-12)
    assert float(log_det(L)) == pytest.approx(sum(float(torch.logdet(c).sum()) for c in C), rel=1e-8)


def test_isotropic_is_as_wide_and_knows_no_kernel() -> None:
    reg = small_tdv()
    learned = BlockGaussian(reg.weights(), random_L(reg))
    plain = learned.isotropic()
    assert float(trace(plain.L)) == pytest.approx(float(trace(learned.L)), rel=1e-5)
    blocks = [dense(l).flatten(0, 1) for l in plain.L.values()]
    s = blocks[0][0, 0, 0]
    for block in blocks:
        torch.testing.assert_close(block, (s * torch.eye(9)).expand_as(block))
    assert all(torch.equal(plain.mu[name], weight) for name, weight in learned.mu.items())


def test_entropy_landmarks() -> None:
    reg = small_tdv()

    def H(scale: float) -> float:
        return float(entropy(initial_L(reg.weights(), reg.kernels(), scale)))

    assert H(L0) == pytest.approx(-30.17, abs=0.005)
    assert H(10**-0.5) == pytest.approx(-9.44, abs=0.005)


@pytest.mark.parametrize(("Q", "n"), [(1, 9_954_496), (15, 9_970_624)])
def test_parameters_of_the_paper(Q: int, n: int) -> None:
    reg = TDV(TDVConfig(Q=Q), seeded())
    L = initial_L(reg.weights(), reg.kernels(), L0)
    assert n_kernels(L) == 172_032
    posterior = BlockGaussian(reg.weights(), L)
    assert posterior.n_parameters == n
    assert Model(reg, T=1.0, S=1, posterior=posterior).n_parameters == n + 1


# prox


@pytest.mark.parametrize("h", [1e-3, 0.5, 20.0])
@pytest.mark.parametrize("beta", [1e-4, 0.2])
def test_prox_is_the_minimiser(h: float, beta: float) -> None:
    """Against a numerical minimiser, all entries at once, for diagonals of both signs."""
    d, alpha = 4, 10.0
    l = torch.randn(n_entries(d), generator=seeded(2), dtype=torch.float64)
    places = [0, 2, 5, 9]
    assert {bool(l[a] > 0) for a in places} == {True, False}
    k = prox_divergence(l, h, alpha=alpha, beta=beta)

    def scaled(entries: torch.Tensor) -> torch.Tensor:
        """h · (‖k − l‖²/2h + f(k)), with the diagonal as exp so that it stays positive."""
        x = entries.clone()
        x[places] = entries[places].exp()
        return 0.5 * (x - l).square().sum() + h * penalty({"K": x[None]}, alpha=alpha, beta=beta)

    def value(entries: object) -> tuple[float, object]:
        x = torch.tensor(entries, dtype=torch.float64, requires_grad=True)
        J = scaled(x)
        return J.item(), torch.autograd.grad(J, x)[0].numpy()

    found = torch.tensor(minimize(value, torch.zeros(n_entries(d)).numpy(), jac=True, tol=1e-14).x)
    found[places] = found[places].exp()
    torch.testing.assert_close(k, found, rtol=1e-4, atol=1e-6)
    assert bool((diagonal(k) > 0).all())


def test_prox_takes_one_step_size_per_block() -> None:
    l, h = torch.randn(3, 2, 45, generator=seeded()), torch.rand(3, 2, 1, generator=seeded(1))
    together = prox_divergence(l, h, alpha=10.0, beta=0.1)
    for i in range(3):
        for j in range(2):
            assert torch.equal(together[i, j], prox_divergence(l[i, j], h[i, j], alpha=10.0, beta=0.1))


@pytest.mark.parametrize("beta", [0.0, 1e-30, 1e-12, 1e-4, 10.0])
def test_prox_keeps_diagonals_positive_in_single_precision(beta: float) -> None:
    l = torch.cat([torch.tensor([v]) for v in (-1e6, -1.0, -1e-20, 0.0, 1e-20, 1.0, 1e6)])[:, None]  # blocks 1 x 1
    k = prox_divergence(l, 1e-3, alpha=10.0, beta=beta)
    assert bool((k > 0).all())
    assert bool(k.isfinite().all())
    exact = prox_divergence(l.double(), 1e-3, alpha=10.0, beta=beta)
    torch.testing.assert_close(k.double(), exact, rtol=1e-5, atol=0)


def test_without_beta_the_prox_leaves_what_is_positive() -> None:
    l = random_L(small_tdv())["mb0_res0_K1"]
    torch.testing.assert_close(prox_divergence(l, 3.0, alpha=10.0, beta=0.0), l)


def test_the_prox_alone_leads_to_the_prior() -> None:
    """k ← prox_{hf}(k): the divergence falls at every step, and L → α^(−1/2) Id."""
    alpha, beta, reg = 10.0, 0.1, small_tdv()
    L = random_L(reg, dtype=torch.float64)
    values = [float(divergence(L, alpha=alpha))]
    for _ in range(20):  # then rounding sets in
        L = {name: prox_divergence(l, 0.5, alpha=alpha, beta=beta) for name, l in L.items()}
        values.append(float(divergence(L, alpha=alpha)))
    assert all(b < a for a, b in pairwise(values))
    assert values[-1] == pytest.approx(0, abs=1e-6)
    for l in L.values():
        prior = torch.eye(9, dtype=torch.float64).expand(*l.shape[:2], 9, 9) * alpha**-0.5
        torch.testing.assert_close(dense(l), prior, rtol=1e-6, atol=1e-6)


# files


@pytest.mark.parametrize("reg", [small_tdv(2), small_foe()], ids=["tdv", "foe"])
def test_models_come_back_with_their_L(reg: TDV | FoE, tmp_path: Path) -> None:
    model = Model(reg, T=1.5, S=3, posterior=gaussian(reg))
    save_model(tmp_path / "m.json", model)
    again = load_model(tmp_path / "m.json")
    assert isinstance(again.posterior, BlockGaussian)
    assert again.n_parameters == model.n_parameters
    a, b = model.distribution().sample(seeded(4)), again.distribution().sample(seeded(4))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert all(torch.equal(w, again.posterior.mu[n]) for n, w in again.regularizer.weights().items())


def test_models_without_L_are_deterministic(tmp_path: Path) -> None:
    """Also those whose record says nothing of a posterior, as before there was one."""
    reg = small_tdv()
    save_model(tmp_path / "m.json", Model(reg, T=1.0, S=1))
    _resign(tmp_path / "m.json", forget="posterior")
    model = load_model(tmp_path / "m.json")
    assert model.posterior is None
    assert isinstance(model.distribution(), Delta)
    assert all(torch.equal(model.distribution().mean()[n], w) for n, w in reg.weights().items())


def _resign(path: Path, *, forget: str = "") -> None:
    """Makes the signatures of a changed model right again."""
    from bayesmri.runs import digest_of

    record = json.loads(path.read_text())
    record = {k: v for k, v in record.items() if k not in ("sha256", forget)}
    record["files"]["weights"]["sha256"] = sha256(path.with_suffix(".safetensors"))
    path.write_text(json.dumps(record | {"sha256": digest_of(record)}))


DAMAGE: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]] = {
    "missing": lambda L: {},
    "one missing": lambda L: dict(list(L.items())[1:]),
    "unknown": lambda L: L | {"L.K0": next(iter(L.values()))},
    "shape": lambda L: {k: l[..., :-1] for k, l in L.items()},
    "dtype": lambda L: {k: l.double() for k, l in L.items()},
    "nan": lambda L: {k: l * math.nan for k, l in L.items()},
    "negative diagonal": lambda L: {k: -l for k, l in L.items()},
}


@pytest.mark.parametrize("how", list(DAMAGE))
def test_a_wrong_L_is_refused(how: str, tmp_path: Path) -> None:
    reg = small_tdv()
    save_model(tmp_path / "m.json", Model(reg, T=1.0, S=1, posterior=gaussian(reg)))
    file = tmp_path / "m.safetensors"
    tensors = load_file(file)
    L = {k: t for k, t in tensors.items() if k.startswith("L.")}
    rest = {k: t for k, t in tensors.items() if k not in L}
    save_file({k: t.clone() for k, t in (rest | DAMAGE[how](L)).items()}, file)
    with pytest.raises(ModelError, match="sha256"):
        load_model(tmp_path / "m.json")
    _resign(tmp_path / "m.json")
    with pytest.raises(ModelError) as error:
        load_model(tmp_path / "m.json")
    assert "\n" not in str(error.value)


def test_start_values_pass_the_check() -> None:
    reg = small_foe(2)
    L = initial_L(reg.weights(), reg.kernels(), L0)
    check_L(L, reg.weights(), reg.kernels())
    assert torch.equal(dense(L["K"])[0, 0], L0 * torch.eye(25))
