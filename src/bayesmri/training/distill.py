"""Distillation: a predictor of σ̂ learns from fresh draws on data of the kind that the model is for.

Maps of many samples are not needed: of draws that the predictor has not seen, the variance v is σ² on average, and

    ½ (ln s + v/s)

is least where s is the mean of v given what the predictor sees. So two draws besides its own make a target, and six
patches take the time of one map of 40.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesmri.data.dataset import generator
from bayesmri.errors import ConfigError, DataError
from bayesmri.model import Model
from bayesmri.posterior.predictor import Few, Predictor, PredictorConfig, features, fit_kappa
from bayesmri.training.drawn import Drawn

TARGET = 2  # draws at least that the predictor does not see: fewer have no variance
ROWS = 64  # of a slice that an update sees: missing lines fold along rows, what lies far above says little
PIXELS = 1000  # of every slice, for the regression
ROUNDS = 12  # of Newton's method
RIDGE = 1e-3


@dataclass(frozen=True)
class DistillConfig:
    """How a predictor is made.

    elements: slices with draws. samples: N of each. few: K runs from 2 to this.
    iterations, batch, lr: of Adam, its rate following a cosine to zero. features: of the network.
    """

    elements: int = 480
    samples: int = 6
    few: int = 4
    iterations: int = 2000
    batch: int = 4
    lr: float = 3e-3
    features: int = 16
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("elements", "iterations", "batch", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"distill: got {name} = {getattr(self, name)}, expected at least 1")
        if self.few < 2 or self.samples < self.few + TARGET or not self.lr > 0:
            raise ConfigError(
                f"distill: got K up to {self.few} of {self.samples} samples at a rate of {self.lr:g}, expected K of at "
                f"least 2, at least {TARGET} samples more, and a rate above 0"
            )


def distill(
    elements: Iterable[Drawn],
    config: DistillConfig,
    on_step: Callable[[float], None],
    *,
    device: torch.device | str = "cpu",
) -> Predictor:
    """A predictor with the least ½(ln s + v/s), s = σ̂² from K of the draws, v the variance of the others.

    Pixels count with the smoothed variance that the predictor starts from, as they do in ‖σ̂ − σ‖₂.

    on_step: called with the loss after each update.
    device: computes; what is drawn, the elements and the predictor in the end are on the CPU.
    """
    known = list(elements)
    settings = PredictorConfig(config.features, kappa=_kappa(known), most=config.few)
    predictor = Predictor(settings, generator(config.seed, "predictor"))
    regress(predictor, known, config, generator(config.seed, "regression"))
    predictor = predictor.to(device)

    def loss(step: int) -> Tensor:
        rng = generator(config.seed, "update", step)
        losses = [likelihood(predictor, *task(one, config, rng, device)) for one in pick(known, config.batch, rng)]
        return torch.stack(losses).mean()

    fit(predictor, loss, iterations=config.iterations, lr=config.lr, on_step=on_step)
    return predictor.requires_grad_(False).cpu()


def fit(
    net: torch.nn.Module,
    loss: Callable[[int], Tensor],
    *,
    iterations: int,
    lr: float,
    on_step: Callable[[float], None],
) -> None:
    """Adam on the loss of every step, with a rate that follows a cosine to zero; gradients of norm above 1 are cut."""
    adam = torch.optim.Adam(net.parameters(), lr=lr)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, iterations)
    for step in range(iterations):
        value = loss(step)
        adam.zero_grad()
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        cosine.step()
        on_step(float(value.detach()))


def pick(elements: Sequence[Drawn], n: int, rng: torch.Generator) -> list[Drawn]:
    """n slices drawn from all slices of all elements, each as a batch of one."""
    if not elements:
        raise DataError("got no elements to learn from, expected at least one")
    sizes = torch.tensor([float(len(one)) for one in elements])
    found = []
    for i in torch.multinomial(sizes, n, replacement=True, generator=rng).tolist():
        one = elements[i]
        found.append(one.slice(int(torch.randint(len(one), (1,), generator=rng))))
    return found


def task(one: Drawn, config: DistillConfig, rng: torch.Generator, device: torch.device | str) -> tuple[Few, Tensor]:
    """K draws of some rows of a slice, turned over at random, and the variance of the other draws, 1/(n − 1)."""
    K = int(torch.randint(2, min(config.few, one.N - TARGET) + 1, (1,), generator=rng))
    order = torch.randperm(one.N, generator=rng)
    one = one.rows(int(torch.randint(max(0, one.Y.shape[-2] - ROWS) + 1, (1,), generator=rng)), ROWS)
    turned = one.flip([side for side in (-1, -2) if torch.rand(1, generator=rng) < 0.5]).to(device)
    others = turned.deviations[:, order[K:].to(device)].float()
    return turned.few(order[:K].to(device)), others.var(dim=1, correction=1)


@torch.no_grad()
def regress(predictor: Predictor, elements: Sequence[Drawn], config: DistillConfig, rng: torch.Generator) -> None:
    """Centre and width of every feature, and a, b with the least ½(ln s + v/s) over pixels of all slices, by Newton."""
    rows, starts, targets = [], [], []
    for one in elements:
        few, v = task(one.slice(0), config, rng, "cpu")
        inputs, start, scale = features(few)
        places = torch.randint(v[0].numel(), (PIXELS,), generator=rng)
        rows.append(inputs[0].flatten(1)[:, places].T.double())
        starts.append(start.flatten()[places].double())
        targets.append((v[:, None] / scale.square()).flatten()[places].double())
    phi, start, v = torch.cat(rows), torch.cat(starts), torch.cat(targets)
    predictor.centre.copy_(phi.mean(dim=0).float().view_as(predictor.centre))
    predictor.width.copy_(phi.std(dim=0).clamp_min(0.05).float().view_as(predictor.width))
    A = predictor.centred(phi.float()[:, :, None, None])[:, :, 0, 0].double()
    A = torch.cat([A, torch.ones(len(A), 1, dtype=A.dtype)], dim=1)
    weight = torch.exp(2 * start) / torch.exp(2 * start).mean()
    curved = (A.T * weight) @ A + RIDGE * len(A) * torch.eye(A.shape[1], dtype=A.dtype)
    found = torch.zeros(A.shape[1], dtype=A.dtype)
    for _ in range(ROUNDS):
        # of a term: slope 1 − v/s, curvature 2 where v is s; far from there a step is cut
        off = (v * torch.exp(-2 * (start + A @ found)) - 1).clamp(max=3.0)
        found = found + 0.5 * torch.linalg.solve(curved, A.T @ (weight * off))
    predictor.linear.copy_(found[:-1].float().view_as(predictor.linear))
    predictor.bias.copy_(found[-1].float())


def likelihood(predictor: Predictor, few: Few, v: Tensor) -> Tensor:
    """The mean of ½(ln s + v/s) over pixels, weighted with the smoothed variance, in units of what is typical."""
    log_std, start, scale = predictor.log_std(few)
    weight = torch.exp(2 * start)
    cost = log_std + 0.5 * (v[:, None] / scale.square()) * torch.exp(-2 * log_std)
    return (weight * cost).sum() / weight.sum()


def relative_error(std: Tensor, reference: Tensor) -> Tensor:
    """‖std − reference‖₂ / ‖reference‖₂ of every slice: (B, H, W) → (B,)."""
    norm: Tensor = torch.linalg.vector_norm(reference, dim=(-2, -1)).clamp_min(torch.finfo(reference.dtype).tiny)
    error: Tensor = torch.linalg.vector_norm(std - reference, dim=(-2, -1))
    return error / norm


def _kappa(elements: Sequence[Drawn]) -> float:
    """κ over all slices; of the squared bias of X_μ what noise the mean of N samples adds to it is taken away."""
    bias = noise = 0.0
    for one in elements:
        d = one.deviations.float()
        variance = d.var(dim=1, correction=1)
        bias += float((d.mean(dim=1).square() - variance / one.N).sum())
        noise += float(variance.sum())
    return fit_kappa(max(bias, 0.0), noise)


def with_predictor(model: Model, predictor: Predictor, facts: dict[str, object]) -> Model:
    """Error bounds of another predictor do not hold for this one."""
    kept, of_error = (
        tuple(found for found in bounds if not found.setting.fast)
        for bounds in (model.calibrations, model.error_calibrations)
    )
    card = {**model.card, "predictor": facts}
    return replace(model, predictor=predictor, calibrations=kept, error_calibrations=of_error, card=card)
