"""Posteriors of a model in closed form, for as many β as wanted from one curvature."""

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bayesmri.checkpoint import load_model, save_model
from bayesmri.config import parse, read_toml
from bayesmri.data.dataset import Dataset, generator
from bayesmri.errors import ConfigError
from bayesmri.evaluation.cohort import beta_of
from bayesmri.io.atomic import check_target
from bayesmri.model import Model
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.kl import entropy
from bayesmri.posterior.laplace import closed_form
from bayesmri.posterior.triangular import size
from bayesmri.recon.files import Progress
from bayesmri.recon.method import model_name
from bayesmri.runs import locate
from bayesmri.training.curvature import curvature, quadratic, total_curvature
from bayesmri.training.settings import TrainConfig
from bayesmri.training.spread import PosteriorConfig, spread_facts
from bayesmri.training.stationarity import balance, pulls


@dataclass(frozen=True)
class Sweep:
    """β and α of the posteriors. probes: backward passes, one for each element. recipe: where elements come from.

    checks: other elements, on which every L is asked whether it is at its optimum; 0 for none.
    """

    betas: tuple[float, ...]
    alpha: float = 10.0
    probes: int = 300
    recipe: Path | None = None
    seed: int = 1
    checks: int = 40

    def __post_init__(self) -> None:
        if not self.betas or len(set(self.betas)) < len(self.betas):
            raise ConfigError("got no beta, or one twice, expected one or more different ones, such as --beta 1e-8")
        if not all(0 < beta < float("inf") for beta in (*self.betas, self.alpha)) or self.probes < 1 or self.checks < 0:
            raise ConfigError(
                f"got betas {self.betas}, alpha {self.alpha:g}, {self.probes} probes, expected all above 0"
            )


def posterior_file(
    run: str | Path, out: Path, sweep: Sweep, *, force: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """The model of a run with the posterior of every β: `out` (.json) for one, NAME-BETA.json in a folder for more.

    force: what is there may be overwritten, but not the model itself.
    """
    path = locate(run)
    targets = _targets(out, model_name(str(run)), sweep.betas)
    for target in targets:
        check_target(target, path, force=force)
        check_target(target.with_suffix(".safetensors"), path.with_suffix(".safetensors"), force=force)
    recipe = sweep.recipe or Path(run) / "config.toml"
    if not recipe.is_file():
        raise ConfigError(f"got {recipe} to say where data are, expected a file: give one with --config")
    model = load_model(path)
    settings = parse(TrainConfig, read_toml(recipe))
    matched = replace(settings, mask=replace(settings.mask, acceleration=model.acceleration or 4.0))
    dataset = Dataset(matched.data, matched.recipe(), seed=sweep.seed)
    began = time.perf_counter()
    with progress(sweep.probes) if progress else nullcontext(_nothing) as advance:
        elements = (dataset.element(i, 0) for i in range(sweep.probes))
        H = curvature(model, elements, matched.loss, generator(sweep.seed, "probes"), advance)
    seconds, rows = time.perf_counter() - began, []
    known = [(beta, closed_form(H, alpha=sweep.alpha, beta=beta)) for beta in sweep.betas]
    own, checked = _own(model), (dataset.element(sweep.probes + i, 0) for i in range(sweep.checks))
    asked = [*known, *([] if own is None or own["beta"] is None else [(own["beta"], model.distribution().blocks)])]
    with progress(sweep.checks) if progress else nullcontext(_nothing) as advance:
        found = pulls(model, [L for _, L in asked], checked, matched.loss, generator(sweep.seed, "checks"), advance)
    sizes = [pull / balance(L, alpha=sweep.alpha, beta=beta) for pull, (beta, L) in zip(found, asked, strict=True)]
    for (beta, L), target, v in zip(known, targets, sizes, strict=False):
        save_model(target, with_posterior(model, L, alpha=sweep.alpha, beta=beta))
        rows.append({"beta": beta, "entropy": float(entropy(L)), "output": str(target), **_checked(L, v, sweep.checks)})
    if own is not None and own["beta"] is not None:
        blocks = model.distribution().blocks
        own |= _checked(blocks, sizes[-1], sweep.checks)
        own["v_linear"] = quadratic(H, blocks) / balance(blocks, alpha=sweep.alpha, beta=own["beta"])
    return {"model": str(path), "curvature": total_curvature(H), "seconds": seconds, "rows": rows, "own": own}


def with_posterior(model: Model, L: dict[str, Any], *, alpha: float, beta: float) -> Model:
    """Predictor, head and bounds were of other draws, and stay behind."""
    theta = {name: w.detach() for name, w in model.regularizer.weights().items()}
    facts = spread_facts(L, PosteriorConfig(kind="gaussian", alpha=alpha, beta=beta))
    card = {key: value for key, value in model.card.items() if key not in ("predictor", "error_head", "results")}
    card |= {
        "entropy": facts["entropy"],
        "posterior": {**facts, "alpha": alpha, "beta": beta, "origin": "closed form, by Gauss and Newton"},
    }
    return replace(
        model,
        posterior=BlockGaussian(theta, L),
        predictor=None,
        error_head=None,
        calibrations=(),
        error_calibrations=(),
        card=card,
    )


def _own(model: Model) -> dict[str, Any] | None:
    """What the model came with, to compare with."""
    if not model.stochastic:
        return None
    return {"entropy": float(entropy(model.distribution().blocks)), "beta": beta_of(model.card)}


def _checked(L: Mapping[str, Tensor], v: float, checks: int) -> dict[str, float]:
    """v, and H̄ of this L made smaller or larger until v is 1: of d weights in a kernel, H̄ − (d/2) ln v, for the pull
    goes with the square of the size. Nothing where nothing was checked or nothing pulls."""
    if not checks or not v > 0:
        return {}
    d = size(next(iter(L.values())))
    return {"v": v, "entropy_at_balance": float(entropy(L)) - 0.5 * d * math.log(v)}


def _targets(out: Path, name: str, betas: tuple[float, ...]) -> list[Path]:
    if len(betas) == 1 and out.suffix == ".json":
        return [out]
    if out.suffix == ".json":
        raise ConfigError(f"got {len(betas)} betas for the one file {out.name}, expected a folder; leave .json away")
    return [out / f"{name}-beta-{beta:.0e}.json" for beta in betas]


def _nothing() -> None:
    """No progress to show."""
