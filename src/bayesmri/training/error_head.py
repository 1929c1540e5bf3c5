"""The head of σ_total learns from errors on subjects that the model was not trained on; μ stays as it is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesmri.data.dataset import generator
from bayesmri.errors import ConfigError
from bayesmri.model import Model
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig
from bayesmri.posterior.evidence import Evidence
from bayesmri.posterior.predictor import typical
from bayesmri.training.distill import fit, pick
from bayesmri.training.drawn import Drawn

INSIDE = 0.1  # of the truth's maximum: the body
BACKGROUND = 0.25  # what a pixel outside the body counts
JUDGES = 6  # every so-manyth element is kept out and judges


@dataclass(frozen=True)
class ErrorConfig:
    """How a head is made.

    iterations, batch, lr: of Adam, its rate following a cosine to zero. features: of the network.
    undrawn: the share of tasks without draws.
    """

    iterations: int = 2500
    batch: int = 4
    lr: float = 3e-3
    features: int = 9
    undrawn: float = 0.35
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"error head: got {name} = {getattr(self, name)}, expected at least 1")
        if not self.lr > 0 or not 0 <= self.undrawn <= 1:
            raise ConfigError(
                f"error head: got lr = {self.lr:g}, undrawn = {self.undrawn:g}, expected a rate above 0 and a share"
            )


@dataclass(frozen=True, eq=False)
class Task:
    """One slice. error: X̄ − Y. variance: σ̂² of K draws, None of none. inside: the body, bool."""

    seen: Evidence
    error: Tensor
    variance: Tensor | None
    K: int
    inside: Tensor

    @staticmethod
    def of(one: Drawn, chosen: Tensor) -> "Task":
        """The image is the mean of the chosen draws; without any that at the mean of θ."""
        inside = INSIDE * one.Y.amax(dim=(-2, -1), keepdim=True) < one.Y
        if not len(chosen):
            return Task(one.seen, one.seen.at_mean - one.Y, None, 0, inside)
        few = one.few(chosen)
        return Task(one.seen, few.mean - one.Y, few.variance, few.K, inside)


def train_head(
    elements: Sequence[Sequence[Drawn]],
    config: ErrorConfig,
    on_step: Callable[[float], None],
    *,
    device: torch.device | str = "cpu",
) -> tuple[ErrorHead, dict[str, float]]:
    """The head with the least ½(ln v + e²/v), v = σ_total², scaled so that v has the size of e² on elements kept out.

    Returns it on the CPU, and what it reached on those elements. on_step: called with the loss after each update.

    elements: by recipe; those of the first judge, too. All recipes have the same share of the updates.
    """
    first, *others = elements
    judges = list(first[JUDGES - 1 :: JUDGES]) or list(first)
    pools = [[one for i, one in enumerate(first) if i % JUDGES != JUDGES - 1] or judges, *others]
    head = ErrorHead(ErrorHeadConfig(config.features), generator(config.seed, "error head")).to(device)

    def loss(step: int) -> Tensor:
        rng = generator(config.seed, "error update", step)
        # one recipe an update, in turn
        tasks = [_task(one, config, rng, device) for one in pick(pools[step % len(pools)], config.batch, rng)]
        return torch.stack([likelihood(head, one) for one in tasks]).mean()

    fit(head, loss, iterations=config.iterations, lr=config.lr, on_step=on_step)
    head = head.requires_grad_(False).cpu()
    ratio = judge(head, judges)["ratio"]
    scaled = ErrorHead(replace(head.config, scale=ratio), torch.Generator())
    scaled.load_state_dict(head.state_dict())
    return scaled.requires_grad_(False), judge(scaled, judges) | {"unscaled": ratio, "judged": len(judges)}


def likelihood(head: ErrorHead, one: Task) -> Tensor:
    """The mean of ½(ln v + e²/v) over pixels, in units of the slice's brightness; the body counts in full."""
    t2 = typical(one.seen.at_mean[:, None])[:, 0].square().clamp_min(1e-30)
    v = head(one.seen, one.variance, one.K).square() / t2 + 1e-8
    weight = torch.where(one.inside, 1.0, BACKGROUND)
    cost = 0.5 * (v.log() + one.error.square() / t2 / v)
    mean: Tensor = (weight * cost).sum() / weight.sum()
    return mean


@torch.no_grad()
def judge(head: ErrorHead, elements: Sequence[Drawn]) -> dict[str, float]:
    """Of the body: ratio, (Σe² / Σσ_total²)^½ over all elements, each in units of its brightness, half of them without
    draws; rho and rho_std, the mean rank correlation of |e| with σ_total and with σ̂ of all draws."""
    power = variance = 0.0
    rho, rho_std = [], []
    for i, one in enumerate(elements):
        known = Task.of(one, torch.arange(0 if i % 2 else one.N))
        total = head(known.seen, known.variance, known.K)
        t2 = float(typical(one.seen.at_mean[:, None]).square().max().clamp_min(1e-30))
        inside = known.inside
        power += float(known.error[inside].square().mean()) / t2
        variance += float(total[inside].square().mean()) / t2
        rho.append(rank_correlation(total[inside], known.error[inside].abs()))
        spread = one.deviations.float().var(dim=1)[inside]
        rho_std.append(rank_correlation(spread, known.error[inside].abs()))
    mean = {name: math.fsum(found) / max(1, len(found)) for name, found in (("rho", rho), ("rho_std", rho_std))}
    return {"ratio": math.sqrt(power / variance), **mean}


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's ρ of two lists without many ties."""
    if a.numel() < 2:
        return 0.0
    ranks = [v.argsort().argsort().double() for v in (a.flatten(), b.flatten())]
    x, y = (r - r.mean() for r in ranks)
    return float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())


def _task(one: Drawn, config: ErrorConfig, rng: torch.Generator, device: torch.device | str) -> Task:
    """Of a slice turned over at random, with two draws to all of them, or with none."""
    turned = one.flip([side for side in (-1, -2) if torch.rand(1, generator=rng) < 0.5]).to(device)
    without = float(torch.rand(1, generator=rng)) < config.undrawn or one.N < 2
    K = 0 if without else int(torch.randint(2, one.N + 1, (1,), generator=rng))
    return Task.of(turned, torch.randperm(one.N, generator=rng)[:K].to(device))


def with_error_head(model: Model, head: ErrorHead, facts: dict[str, object]) -> Model:
    """Bounds of another head do not hold for this one."""
    return replace(model, error_head=head, error_calibrations=(), card={**model.card, "error_head": facts})
