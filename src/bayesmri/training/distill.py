"""Distillation: a predictor of σ̂ learns from maps of many exact samples on the data that the model was trained on."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import count

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch, Dataset, generator
from bayesmri.errors import ConfigError, DivergedError, ModelError
from bayesmri.model import Model
from bayesmri.physics.fourier import ifft2c
from bayesmri.posterior.predictor import Few, Predictor, PredictorConfig, fit_kappa
from bayesmri.regularizers.base import Bound, ParametricRegularizer


@dataclass(frozen=True)
class DistillConfig:
    """How a predictor is made.

    elements: training slices with exact maps. samples: N of each map. few: K runs from 2 to this.
    iterations, batch, lr: of Adam, its rate following a cosine to zero. features: of the network.
    """

    elements: int = 320
    samples: int = 40
    few: int = 8
    iterations: int = 1200
    batch: int = 4
    lr: float = 3e-3
    features: int = 16
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("elements", "iterations", "batch", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"distill: got {name} = {getattr(self, name)}, expected at least 1")
        if self.few < 2 or self.samples < 2 * self.few or not self.lr > 0:
            raise ConfigError(
                f"distill: got K up to {self.few} of {self.samples} samples at a rate of {self.lr:g}, "
                "expected K of at least 2, at least twice as many samples, and a rate above 0"
            )


@dataclass(frozen=True, eq=False)
class Exact:
    """Slices of one shape with N exact samples each.

    at_mean, zero_filled: X_μ and X₀, (B, H, W). samples: (B, N, H, W) in half precision.
    coil_distance: (Σ_q |x_{i,q} − x_{μ,q}|²)^{1/2} of every sample, (B, N, H, W) in half precision.
    """

    at_mean: Tensor
    zero_filled: Tensor
    samples: Tensor
    coil_distance: Tensor

    def to(self, device: torch.device | str) -> "Exact":
        return Exact(*(getattr(self, part.name).to(device) for part in fields(self)))


@torch.no_grad()
def exact(model: Model, batch: Batch, N: int, rng: torch.Generator, accelerate: Callable[[Bound], Bound]) -> Exact:
    """N draws of θ, each serving all slices of the batch, on whose device all is computed."""
    reg, posterior = model.regularizer, model.distribution().to(batch.z.device)
    if not posterior.stochastic or not isinstance(reg, ParametricRegularizer):
        raise ModelError(
            "got a model without a posterior, which has no samples to learn from, expected one with a posterior"
        )

    D = model.scheme.data_term(batch.z, batch.mask, batch.s)

    def solved(bound: Bound) -> Tensor:
        return model.scheme.run(D, accelerate(bound))

    at_mean = solved(reg.bind({name: w.detach() for name, w in posterior.mean().items()}))
    images, distances = [], []
    for _ in range(N):
        x = solved(reg.bind(posterior.sample(rng)))
        images.append(rss(x).half())
        distances.append(rss(x - at_mean).half())
    found = Exact(rss(at_mean), rss(ifft2c(batch.z)), torch.stack(images, dim=1), torch.stack(distances, dim=1))
    if not (found.at_mean.isfinite().all() and found.samples.isfinite().all() and found.coil_distance.isfinite().all()):
        raise DivergedError(
            "a sample of a training slice holds NaN or Inf, expected finite images to learn from; the model diverges "
            "on the data it was trained on, take another"
        )
    return found


def exact_maps(
    model: Model,
    dataset: Dataset,
    config: DistillConfig,
    accelerate: Callable[[Bound], Bound],
    *,
    device: torch.device | str = "cpu",
) -> Iterator[Exact]:
    """Slices of the dataset with their samples until there are enough: computed on the device, kept on the CPU."""
    found = 0
    for step in count():
        for batch in dataset.batches(step, range(min(config.batch, config.elements - found))):
            there = batch.to(device)
            rng = generator(config.seed, "distill", step)
            yield exact(model, there, config.samples, rng, accelerate).to("cpu")
            found += len(batch.z)
        if found >= config.elements:
            return


def distill(
    maps: Iterable[Exact],
    config: DistillConfig,
    on_step: Callable[[float], None],
    *,
    device: torch.device | str = "cpu",
) -> Predictor:
    """A predictor with the least relative error of σ̂ from K of the samples against that of the others.

        ‖σ̂(K samples) − σ(N − K others)‖² / ‖σ(N − K others)‖²

    on_step: called with the square root of that after each update.
    device: computes; what is drawn, the maps and the predictor in the end are on the CPU.
    """
    groups = list(maps)
    settings = PredictorConfig(config.features, kappa=_kappa(groups), most=config.few)
    predictor = Predictor(settings, generator(config.seed, "predictor")).to(device)
    adam = torch.optim.Adam(predictor.parameters(), lr=config.lr)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.iterations)
    sizes = torch.tensor([float(len(group.at_mean)) for group in groups])
    for step in range(config.iterations):
        rng = generator(config.seed, "update", step)
        few, std = _task(groups[int(torch.multinomial(sizes, 1, generator=rng))], config, rng, device)
        loss = relative_error(predictor.std(few), std).square().mean()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
        cosine.step()
        on_step(float(loss.detach().sqrt()))
    return predictor.requires_grad_(False).cpu()


def relative_error(std: Tensor, reference: Tensor) -> Tensor:
    """‖std − reference‖₂ / ‖reference‖₂ of every slice: (B, H, W) → (B,)."""
    norm: Tensor = torch.linalg.vector_norm(reference, dim=(-2, -1)).clamp_min(torch.finfo(reference.dtype).tiny)
    error: Tensor = torch.linalg.vector_norm(std - reference, dim=(-2, -1))
    return error / norm


def _task(group: Exact, config: DistillConfig, rng: torch.Generator, device: torch.device | str) -> tuple[Few, Tensor]:
    """A few samples of some slices, flipped at random, and the standard deviation of the other samples."""
    some = torch.randint(len(group.at_mean), (config.batch,), generator=rng)
    K = int(torch.randint(2, config.few + 1, (1,), generator=rng))
    order = torch.randperm(group.samples.shape[1], generator=rng)
    sides = [side for side in (-1, -2) if torch.rand(1, generator=rng) < 0.5]
    chosen = Exact(group.at_mean[some], group.zero_filled[some], group.samples[some], group.coil_distance[some])
    chosen, order = chosen.to(device), order.to(device)
    X, X0 = chosen.at_mean.flip(sides), chosen.zero_filled.flip(sides)
    samples = chosen.samples.float().flip(sides)
    taken, others = samples[:, order[:K]], samples[:, order[K:]]
    power = chosen.coil_distance[:, order[:K]].float().flip(sides).square().mean(dim=1)
    return Few(X, X0, taken.mean(dim=1), taken.var(dim=1, correction=0), power, K), others.std(dim=1, correction=0)


def _kappa(groups: list[Exact]) -> float:
    """κ over all slices; of the squared bias of X_μ what noise the mean of N samples adds to it is taken away."""
    bias = noise = 0.0
    for group in groups:
        samples = group.samples.float()
        N = samples.shape[1]
        variance = samples.var(dim=1, correction=1)
        bias += float(((samples.mean(dim=1) - group.at_mean).square() - variance / N).sum())
        noise += float(variance.sum())
    return fit_kappa(max(bias, 0.0), noise)


def with_predictor(model: Model, predictor: Predictor, facts: dict[str, object]) -> Model:
    """Error bounds of another predictor do not hold for this one."""
    kept = tuple(found for found in model.calibrations if not found.setting.fast)
    return replace(model, predictor=predictor, calibrations=kept, card={**model.card, "predictor": facts})
