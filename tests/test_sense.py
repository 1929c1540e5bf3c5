"""ESPIRiT and SENSE: the laws of the sensitivities, SigPy's maps, and the scheme that starts from them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from bayesmri.checkpoint import load_model, save_model
from bayesmri.complexes import rss
from bayesmri.data.dataset import Dataset
from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.errors import ConfigError, ShapeError
from bayesmri.metrics import volume_metrics
from bayesmri.model import Coils, Model
from bayesmri.physics.centre import n_central_lines
from bayesmri.physics.espirit import FEWEST, KERNEL, MOST, espirit, espirit_sets, kernels
from bayesmri.physics.fourier import fft2c, ifft2c
from bayesmri.physics.mask import random_mask
from bayesmri.physics.scene import loop_sensitivities
from bayesmri.physics.sense import combine, sense
from bayesmri.recon.method import learned
from bayesmri.regularizers.base import Bound
from bayesmri.regularizers.tdv import TDV, TDVConfig
from bayesmri.sampler import Sampler, Stream
from bayesmri.solver import Start, unroll
from bayesmri.training.loss import loss
from bayesmri.training.objective import objective
from bayesmri.training.state import as_model
from bayesmri.training.state import start as start_training
from laws import normal
from training_runs import tiny

H, W, Q = 96, 104, 6


def head() -> Tensor:
    """Magnitude (1, H, W)."""
    spec = PhantomSpec(anatomy="head", shape=(H, W))
    return phantom(spec, rng=torch.Generator().manual_seed(3))


def scan(R: float = 4, *, lines: int = 16, snr_db: float | None = 30.0) -> tuple[Tensor, Tensor, Tensor]:
    """(z, mask, Y) of the head in an array of Q loops: (1, Q, H, W), (W,), (1, H, W)."""
    rng = torch.Generator().manual_seed(4)
    u = acquire(head(), Scanner(Q, snr_db), rng=rng)
    mask = random_mask(W, R, center_fraction=lines / W, rng=rng)
    return mask * u, mask, rss(ifft2c(u))


def as_lines(mask: Tensor) -> Tensor:
    return mask[None, None, None]


def test_patches_of_coil_images_stay_as_they_are() -> None:
    """Σ_{q,d} w_pq(d) y_q(κ + d) = y_p(κ) in the centre, where the patches were learned."""
    y = fft2c(loop_sensitivities(3, (24, 24), rng=torch.Generator().manual_seed(0)).to(torch.complex128))
    w = kernels(y)
    k = KERNEL
    padded = torch.nn.functional.unfold(y.real[None], 2 * k - 1), torch.nn.functional.unfold(y.imag[None], 2 * k - 1)
    around = torch.complex(*padded).reshape(3, 2 * k - 1, 2 * k - 1, -1)
    again = torch.einsum("yxpq,qyxn->pn", w, around)
    inner = y[:, k - 1 : 1 - k, k - 1 : 1 - k].reshape(3, -1)
    assert float((again - inner).norm() / inner.norm()) < 0.05


def test_the_kernel_is_hermitian_with_eigenvalues_up_to_one() -> None:
    w = kernels(normal(3, 12, 12))
    torch.testing.assert_close(w, w.flip(0, 1).transpose(-2, -1).conj())
    d = torch.arange(1 - KERNEL, KERNEL, dtype=torch.float64)
    for r, s in ((0.0, 0.0), (0.3, -0.2), (0.5, 0.11)):
        wave = torch.exp(-2j * torch.pi * (r * d[:, None] + s * d))
        G = torch.einsum("yxpq,yx->pq", w, wave)
        values = torch.linalg.eigvalsh(G)
        assert -1e-9 < float(values[0]) <= float(values[-1]) < 1 + 1e-9


@pytest.mark.parametrize("snr_db", [None, 25.0])
def test_sensitivities_of_a_known_array(snr_db: float | None) -> None:
    """|⟨s, ŝ⟩| is near 1 in the head: the same up to a phase, which belongs to the image."""
    z, mask, Y = scan(lines=20, snr_db=snr_db)
    s = loop_sensitivities(Q, (H, W), rng=torch.Generator().manual_seed(4))  # the first thing that `acquire` draws
    found = espirit(z, as_lines(mask))[0]
    torch.testing.assert_close(found.abs().square().sum(0), torch.ones(H, W))
    inside = Y[0] > 0.1 * Y.max()
    agreement = (s.conj() * found).sum(0).abs()[inside]
    assert float(agreement.mean()) > 0.99
    assert float(agreement.quantile(0.01)) > 0.95


def test_sigpys_maps() -> None:
    app = pytest.importorskip("sigpy.mri.app", reason="SigPy is not installed")
    z, mask, Y = scan(lines=20)
    maps = app.EspiritCalib(z[0].numpy(), calib_width=20, kernel_width=KERNEL, thresh=0.03, crop=0, show_pbar=False)
    theirs = torch.from_numpy(maps.run())
    ours = espirit(z, as_lines(mask))[0]
    agreement = (theirs.conj() * ours).sum(0).abs()[Y[0] > 0.1 * Y.max()]
    assert float(agreement.quantile(0.01)) > 0.99


def test_a_single_coil_and_few_lines_give_the_zero_filled_image() -> None:
    z, mask, _ = scan()
    assert torch.equal(sense(z[:, :1], mask), ifft2c(z[:, :1]))
    z, mask, _ = scan(lines=FEWEST - 2, R=6)
    assert torch.equal(sense(z, mask), ifft2c(z))


def test_every_element_by_itself() -> None:
    """A batch with masks of its own, one of them with too few central lines."""
    one, two = scan(lines=16), scan(lines=4, R=8)
    z, mask = torch.cat([one[0], two[0]]), torch.stack([one[1], two[1]])[:, None, None]
    both = sense(z, mask)
    torch.testing.assert_close(both[:1], sense(*one[:2]))
    assert torch.equal(both[1:], ifft2c(two[0]))


def test_linear_in_scale_and_empty_stays_empty() -> None:
    z, mask, _ = scan()
    torch.testing.assert_close(sense(1024 * z, mask), 1024 * sense(z, mask))
    assert torch.equal(sense(0 * z, mask), 0 * z)
    with_empty = torch.cat([z, 0 * z[:, :2]], dim=1)
    torch.testing.assert_close(sense(with_empty, mask)[:, :Q], sense(z, mask), rtol=1e-3, atol=1e-3)


def test_all_lines_reproduce_the_image() -> None:
    """Up to the damping λ and what the sensitivities do not explain, which is noise."""
    z, mask, Y = scan(R=1, snr_db=None)
    assert mask.all()
    assert volume_metrics(rss(sense(z, mask)), Y).psnr > 38


@pytest.mark.parametrize("size", [(31, 47), (64, 51)])
def test_odd_sizes(size: tuple[int, int]) -> None:
    mask = random_mask(size[1], 3, center_fraction=0.3, rng=torch.Generator().manual_seed(0))
    x = sense(mask * fft2c(normal(2, 3, *size, dtype=torch.complex64)), mask)
    assert x.shape == (2, 3, *size)
    assert x.isfinite().all()


@pytest.mark.parametrize("size", [(96, 104), (31, 51), (23, 46), (10, 57)])
@pytest.mark.parametrize("lines", [FEWEST, 14, MOST + 6])
def test_only_acquired_lines_are_learned_from(
    size: tuple[int, int], lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The centre holds the sample of zero frequency, and no column that is empty."""
    seen: list[Tensor] = []

    def learned_from(centre: Tensor) -> Tensor:
        seen.append(centre)
        return kernels(centre)

    monkeypatch.setattr("bayesmri.physics.espirit.kernels", learned_from)
    first = size[1] // 2 - lines // 2
    mask = torch.zeros(size[1], dtype=torch.bool)
    mask[first : first + lines] = True
    z = mask * normal(1, 2, *size, dtype=torch.complex64)
    z[..., size[0] // 2, size[1] // 2] = 1e4
    espirit(z, as_lines(mask))
    (centre,) = seen
    assert centre.shape == (2, min(MOST, size[0]), min(MOST, lines))
    assert bool((centre != 0).all())
    assert bool((centre == 1e4).any())


def test_better_than_zero_filling() -> None:
    z, mask, Y = scan(R=2)
    assert volume_metrics(rss(sense(z, mask)), Y).psnr > volume_metrics(rss(ifft2c(z)), Y).psnr + 4


@pytest.mark.parametrize("R", [2, 3])
def test_as_good_as_sigpy_with_the_true_sensitivities(R: float) -> None:
    app = pytest.importorskip("sigpy.mri.app", reason="SigPy is not installed")
    z, mask, Y = scan(R)
    s = loop_sensitivities(Q, (H, W), rng=torch.Generator().manual_seed(4))
    lines = mask.float().expand(1, 1, W).numpy()
    m = app.SenseRecon(z[0].numpy(), s.numpy(), lamda=0.005, weights=lines, max_iter=60, show_pbar=False).run()
    theirs = volume_metrics(rss(s * torch.from_numpy(m))[None], Y).psnr
    assert volume_metrics(rss(sense(z, mask)), Y).psnr > theirs - 0.5


def folded(x: Tensor, W: int) -> Tensor:
    """The object on a field of view of W columns: what is outside folds over."""
    first = (x.shape[-1] - W) // 2
    made = x[..., first : first + W].clone()
    made[..., W - first :] += x[..., :first]
    rest = x[..., first + W :]
    made[..., : rest.shape[-1]] += rest
    return made


@pytest.mark.parametrize("narrow", [W, 64])
def test_a_second_set_counts_where_the_object_folds_over(narrow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sensitivity per pixel is enough for the whole head, and far from enough for the folded one."""
    rng = torch.Generator().manual_seed(4)
    y = folded(ifft2c(acquire(head(), Scanner(Q, 40.0), rng=rng)), narrow)
    mask = random_mask(narrow, 2, center_fraction=16 / narrow, rng=rng)
    z, Y = mask * fft2c(y), rss(y)
    second = espirit_sets(z, as_lines(mask))[0, 1].abs().square().sum(0).sqrt()
    share = float((second[Y[0] > 0.1 * Y.max()] > 0.5).float().mean())
    two = volume_metrics(rss(sense(z, mask)), Y).psnr
    monkeypatch.setattr("bayesmri.physics.espirit.RAMP", (2, 3))  # never
    one = volume_metrics(rss(sense(z, mask)), Y).psnr
    assert two > volume_metrics(rss(ifft2c(z)), Y).psnr + 2
    if narrow < W:
        assert share > 0.05
        assert two > one + 2
    else:
        assert share < 0.01
        assert two == pytest.approx(one, abs=0.1)


def test_the_combined_image_is_the_least_squares_one() -> None:
    s = normal(1, Q, 5, 7)
    s = s / s.abs().square().sum(1, keepdim=True).sqrt()
    m = normal(1, 1, 5, 7, seed=1)
    torch.testing.assert_close(combine(s, s * m), m)


REG = TDV(TDVConfig(Q=Q, features=4, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
THETA = {name: w.detach() for name, w in REG.weights().items()}
MODEL = Model(REG, T=1.5, S=2, coils=Coils("virtual", Q), start="sense")


def test_the_scheme_starts_there(tmp_path: Path) -> None:
    """The model, the same one saved and loaded, and the method that the commands use."""
    z, mask, _ = scan()
    virtual = MODEL.coils.prepare(z)
    factor = MODEL.scaling.factor(virtual)
    scaled = virtual / factor
    with torch.no_grad():
        expected = unroll(scaled, mask, REG.bind(THETA), T=1.5, S=2, x0=sense(scaled, mask))
    torch.testing.assert_close(MODEL.reconstruct(z, mask), factor * expected)
    assert not torch.allclose(MODEL.reconstruct(z, mask), replace(MODEL, start="zero-filled").reconstruct(z, mask))
    save_model(tmp_path / "m.json", MODEL)
    again = load_model(tmp_path / "m.json")
    assert again.start == "sense"
    method = learned(again, "m", torch.device("cpu"))
    torch.testing.assert_close(method.solve(method.begin(scaled, mask, None)), expected)


def test_samples_start_there_too() -> None:
    sampler = Sampler(REG, lambda rng: THETA, MODEL.scheme)
    z, mask, _ = scan()
    D = MODEL.scheme.data_term(z, mask)
    with torch.no_grad():
        expected = unroll(z, mask, REG.bind(THETA), T=1.5, S=2, x0=sense(z, mask))
    torch.testing.assert_close(next(sampler.samples(D, Stream(0, "a", 0), [0])), expected)
    torch.testing.assert_close(sampler.sample(D, torch.Generator()), expected)


def test_a_mask_of_other_columns_is_refused() -> None:
    z, mask, _ = scan()
    with pytest.raises(ShapeError, match="does not cover"):
        sense(z, mask[:-1])


def test_other_starts_are_refused() -> None:
    with pytest.raises(ConfigError, match="starts from 'grappa', expected zero-filled or sense"):
        replace(MODEL, start="grappa")  # type: ignore[arg-type]


def test_training_starts_there() -> None:
    """The loss, the validation and the saved model: all from the start that the configuration names."""
    unroll_from = {"T0": 2.0, "S_start": 1, "S_max": 1}
    wide = {"patch_rows": 32, "patch_cols": 48, "sources": [{"phantom": "knee", "count": 3, "size": [48, 48]}]}
    sections: dict[str, Any] = {
        "model": {"Q": 3},
        "coils": {"mode": "virtual"},
        "data": wide,
        "mask": {"center_fraction": 0.2},
    }
    configs = [tiny(**sections, unroll={**unroll_from, "start": start}) for start in get_args(Start)]
    batch = Dataset(configs[0].data, configs[0].recipe(), seed=1).element(0, 0)
    assert int(n_central_lines(batch.mask)) >= FEWEST
    losses, models = [], []
    for config in configs:
        state = start_training(config)
        reg = state.reg.bind(state.reg.weights())
        assert isinstance(reg, Bound)
        x0 = sense(batch.z, batch.mask) if config.unroll.start == "sense" else None
        x = unroll(batch.z, batch.mask, reg, T=2.0, S=1, x0=x0)
        expected = loss(rss(x), batch.Y, config.loss)
        losses.append(objective(config, reg, batch, scheme=state.scheme(config, 1)))
        torch.testing.assert_close(losses[-1], expected)
        models.append(as_model(config, state, {}))
    assert [model.start for model in models] == list(get_args(Start))
    assert not torch.equal(*losses)
