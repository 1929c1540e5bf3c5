"""The head of σ_total learns from errors on subjects that the model was not trained on; μ stays as it is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bayesmri.data.dataset import generator
from bayesmri.errors import ConfigError
from bayesmri.model import Model
from bayesmri.posterior.error_head import ErrorHead, ErrorHeadConfig, features
from bayesmri.posterior.evidence import Evidence
from bayesmri.posterior.predictor import FAR, typical
from bayesmri.posterior.rescans import Rescans
from bayesmri.training.distill import fit, pick
from bayesmri.training.drawn import Drawn

INSIDE = 0.1  # of the truth's maximum: the body
BACKGROUND = 0.01  # what a pixel outside the body counts: in air σ_total is too large rather than too small
PIXELS = 2000  # of every slice, for the regression
RIDGE = 1e-3
LOG_NORMAL = 1.27  # −E log ε² of a standard normal ε
JUDGES = 6  # every so-manyth element is kept out and judges, where nobody else does


@dataclass(frozen=True)
class ErrorConfig:
    """How a head is made.

    iterations, batch, lr: of Adam, its rate following a cosine to zero. features: of the network.
    undrawn: the share of tasks without draws and without scanning again.
    """

    iterations: int = 2500
    batch: int = 4
    lr: float = 3e-3
    features: int = 6
    undrawn: float = 0.4
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
    """One slice. error: X̄ − Y. variance: σ̂² of the draws, None of none. inside: the body, bool."""

    seen: Evidence
    error: Tensor
    variance: Tensor | None
    rescans: Rescans | None
    inside: Tensor

    @staticmethod
    def of(one: Drawn, *, drawn: bool) -> "Task":
        """The image is the mean of the draws, and was scanned once more; or that at the mean of θ.

        Of few draws the variance about their mean is too small: here it is about the image at the mean of θ.
        """
        inside = INSIDE * one.Y.amax(dim=(-2, -1), keepdim=True) < one.Y
        if not drawn:
            return Task(one.seen, one.seen.at_mean - one.Y, None, None, inside)
        d = one.deviations.float()
        error = one.seen.at_mean + d.mean(dim=1) - one.Y
        return Task(one.seen, error, d.square().mean(dim=1), one.again, inside)


def train_head(
    elements: Sequence[Sequence[Drawn]],
    config: ErrorConfig,
    on_step: Callable[[float], None],
    *,
    judges: Sequence[Drawn] = (),
    device: torch.device | str = "cpu",
) -> tuple[ErrorHead, dict[str, float]]:
    """The head with the least ½(ln v + e²/v), v = σ_total², scaled so that v has the size of e² on elements kept out.

    Returns it on the CPU, and what it reached on those elements. on_step: called with the loss after each update.

    elements: by recipe; all have the same share of the updates. judges: that are not learned from and give the scale;
    without any every sixth element of the first recipe does.
    """
    pools = list(elements)
    if not judges:
        first = elements[0]
        judges = list(first[JUDGES - 1 :: JUDGES]) or list(first)
        pools[0] = [one for i, one in enumerate(first) if i % JUDGES != JUDGES - 1] or judges
    head = ErrorHead(ErrorHeadConfig(config.features), generator(config.seed, "error head"))
    for drawn in (False, True):
        regress(head, [one for pool in pools for one in pool], generator(config.seed, "regression"), drawn=drawn)
    head = head.to(device)

    def loss(step: int) -> Tensor:
        rng = generator(config.seed, "error update", step)
        # one recipe an update, in turn
        tasks = [_task(one, config, rng, device) for one in pick(pools[step % len(pools)], config.batch, rng)]
        return torch.stack([likelihood(head, one) for one in tasks]).mean()

    fit(head, loss, iterations=config.iterations, lr=config.lr, on_step=on_step)
    head = head.requires_grad_(False).cpu()
    scales = [judge(head, judges, drawn=drawn)["ratio"] for drawn in (False, True)]
    scaled = ErrorHead(replace(head.config, scale=scales[0], scale_again=scales[1]), torch.Generator())
    scaled.load_state_dict(head.state_dict())
    facts = {f"{name}_alone": value for name, value in judge(scaled, judges, drawn=False).items()}
    return scaled.requires_grad_(False), judge(scaled, judges, drawn=True) | facts | {"judged": len(judges)}


@torch.no_grad()
def regress(head: ErrorHead, elements: Sequence[Drawn], rng: torch.Generator, *, drawn: bool) -> None:
    """Of one of the two networks: centre and width of every feature, and a, b with the least squares of ½ log e²/t².

    log e² of a normal e is log s² on average, less 1.27. Slices count alike, pixels outside the body as in the loss.
    """
    rows, wanted, weights = [], [], []
    for one in elements:
        task = Task.of(one.slice(0), drawn=drawn)
        phi, t = features(task.seen, task.rescans)
        places = torch.randint(task.error[0].numel(), (PIXELS,), generator=rng)
        e2 = (task.error / t[:, 0]).flatten()[places].square()
        rows.append(phi[0].flatten(1)[:, places].T.double())
        wanted.append(0.5 * (torch.log(e2 + 1e-8) + LOG_NORMAL).double())
        weights.append(torch.where(task.inside.flatten()[places], 1.0, BACKGROUND).double())
    phi, y, w = torch.cat(rows), torch.cat(wanted), torch.cat(weights)[:, None]
    centre = (w * phi).sum(dim=0) / w.sum()
    width = ((w * (phi - centre).square()).sum(dim=0) / w.sum()).sqrt().clamp_min(0.05)
    A = torch.cat([((phi - centre) / width).clamp(-FAR, FAR), torch.ones_like(w)], dim=1)
    ridge = RIDGE * float(w.sum()) * torch.eye(A.shape[1], dtype=A.dtype)
    ridge[-1, -1] = 0
    found = torch.linalg.solve(A.T @ (w * A) + ridge, A.T @ (w[:, 0] * y))
    voice = head.again if drawn else head.alone
    for part, value in ((voice.linear, found[:-1]), (voice.centre, centre), (voice.width, width)):
        part.copy_(value.float().view(part.shape))
    voice.bias.copy_(found[-1].float())


def likelihood(head: ErrorHead, one: Task) -> Tensor:
    """The mean of ½(ln v + e²/v) over pixels, in units of the slice's brightness; the body counts in full."""
    t2 = typical(one.seen.at_mean[:, None])[:, 0].square().clamp_min(1e-30)
    v = head(one.seen, one.variance, one.rescans).square() / t2 + 1e-8
    weight = torch.where(one.inside, 1.0, BACKGROUND)
    cost = 0.5 * (v.log() + one.error.square() / t2 / v)
    mean: Tensor = (weight * cost).sum() / weight.sum()
    return mean


@torch.no_grad()
def judge(head: ErrorHead, elements: Sequence[Drawn], *, drawn: bool) -> dict[str, float]:
    """Of the body: ratio, the geometric mean over slices of (Σe² / Σσ_total²)^½; rho and rho_std, the mean rank
    correlation of |e| with σ_total and with σ̂ of all draws; between, that of the slices' own RMS errors with what was
    expected, in units of their brightness. drawn: with draws and scanned once more."""
    ratios, rho, rho_std, sizes = [], [], [], []
    for one in elements:
        known = Task.of(one, drawn=drawn)
        total, inside = head(known.seen, known.variance, known.rescans), known.inside
        error, size = known.error[inside], total[inside]
        t = float(typical(one.seen.at_mean[:, None]).max().clamp_min(1e-30))
        rms = [float(part.square().mean().sqrt()) / t for part in (error, size)]
        sizes.append(rms)
        ratios.append(math.log(max(rms[0], 1e-12) / max(rms[1], 1e-12)))
        rho.append(rank_correlation(size, error.abs()))
        rho_std.append(rank_correlation(one.deviations.float().var(dim=1)[inside], error.abs()))
    between = rank_correlation(*torch.tensor(sizes).T)
    mean = {name: math.fsum(found) / max(1, len(found)) for name, found in (("rho", rho), ("rho_std", rho_std))}
    return {"ratio": math.exp(math.fsum(ratios) / len(ratios)), **mean, "between": between}


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's ρ of two lists without many ties."""
    if a.numel() < 2:
        return 0.0
    ranks = [v.argsort().argsort().double() for v in (a.flatten(), b.flatten())]
    x, y = (r - r.mean() for r in ranks)
    return float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())


def _task(one: Drawn, config: ErrorConfig, rng: torch.Generator, device: torch.device | str) -> Task:
    """Of a slice turned over at random."""
    turned = one.flip([side for side in (-1, -2) if torch.rand(1, generator=rng) < 0.5]).to(device)
    return Task.of(turned, drawn=float(torch.rand(1, generator=rng)) >= config.undrawn)


def with_error_head(model: Model, head: ErrorHead, facts: dict[str, object]) -> Model:
    """Bounds of another head do not hold for this one."""
    return replace(model, error_head=head, error_calibrations=(), card={**model.card, "error_head": facts})
