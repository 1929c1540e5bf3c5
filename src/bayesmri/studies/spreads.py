"""Every way to an image with σ̂ behind one door: posterior, dropout, a predicted variance, an ensemble of models.

A text names one: a model, several joined by + for an ensemble, as runs/e1+runs/e2+runs/e3, isotropic:MODEL for a model
with one variance for all weights in the place of what it learned, or error:MODEL for one with its typical error in the
place of σ̂: of its draws and of the image scanned once more, or of a single reconstruction where it has no posterior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from bayesmri.errors import ModelError
from bayesmri.evaluation.cohort import Loaded, load
from bayesmri.evaluation.request import ERROR, ISOTROPIC, JOIN, members_of
from bayesmri.kspace import KSpace
from bayesmri.model import solve
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.posterior.rescans import RESCANS
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.statistics import Moments

SpreadKind = Literal["posterior", "dropout", "variance", "ensemble", "error"]
KINDS: dict[SpreadKind, str] = {
    "posterior": "Bayesian",
    "dropout": "Monte-Carlo dropout",
    "variance": "predicted variance",
    "ensemble": "ensemble",
    "error": "typical error",
}


@dataclass(frozen=True, eq=False)
class Spread:
    """One method with a standard deviation.

    members: its models, one unless it is an ensemble. They take the coils of data alike.
    """

    name: str
    kind: SpreadKind
    members: tuple[Loaded, ...]

    @property
    def draws(self) -> bool:
        """Whether it has a number of samples to choose."""
        return self.kind in ("posterior", "dropout") or (self.kind == "error" and self.members[0].stochastic)

    @property
    def beside(self) -> int:
        """Reconstructions that are made beside the samples."""
        return RESCANS if self.draws and self.kind == "error" else 0

    def passes(self, samples: int) -> int:
        """Reconstructions of a slice that σ̂ is made of."""
        return samples + self.beside if self.draws else len(self.members)

    def cost(self, shape: tuple[int, int]) -> int:
        """Floating-point operations of the convolutions of one pass through one slice; of the mean member."""
        return sum(_operations(member, shape) for member in self.members) // len(self.members)

    def facts(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "method": self.name,
            "kind": self.kind,
            "members": len(self.members),
            "parameters": sum(member.model.n_parameters for member in self.members),
            "trained_for": self.members[0].model.acceleration,
        }

    def __call__(self, kspace: KSpace, *, samples: int, seed: int, device: str, keep: bool = False) -> Reconstruction:
        """Image and σ̂ on the whole grid."""
        options = Options(
            samples=samples if self.draws else 0,
            seed=seed,
            device=device,
            keep_samples=keep and self.draws and self.kind != "error",  # whose first samples would be another method's
            full_fov=True,
            model=self.members[0].model,
        )
        if self.kind != "ensemble":
            result = reconstruct(kspace, options)
            std = result.error_std if self.kind == "error" else result.std
            return replace(result, method=self.name, std=std)
        results = (reconstruct(kspace, replace(options, model=member.model)) for member in self.members)
        return replace(together(list(results)), method=self.name)


def spread(text: str) -> Spread:
    """The method that a text names; a model without any σ̂ is refused by its name."""
    if text.startswith(ISOTROPIC):
        return _isotropic(spread(text.removeprefix(ISOTROPIC)))
    if text.startswith(ERROR):
        return _typical(load(text.removeprefix(ERROR)))
    members = tuple(load(part) for part in members_of(text))
    if len(members) > 1:
        _check_members(members)
        return Spread(JOIN.join(member.name for member in members), "ensemble", members)
    return Spread(members[0].name, _kind(members[0]), members)


def _isotropic(learned: Spread) -> Spread:
    (loaded, *others), posterior = learned.members, learned.members[0].model.posterior
    if others or not isinstance(posterior, BlockGaussian):
        raise ModelError(
            f"got {ISOTROPIC}{learned.name}, expected one model with a posterior, whose variances it equals"
        )
    model = replace(loaded.model, posterior=posterior.isotropic(), calibrations=())
    return replace(learned, name=f"{ISOTROPIC}{learned.name}", members=(replace(loaded, model=model),))


def _typical(loaded: Loaded) -> Spread:
    if loaded.model.error_head is None:
        raise ModelError(
            f"got {ERROR}{loaded.name}, which has no typical error; make one (bayesmri distill --what error)"
        )
    return Spread(f"{ERROR}{loaded.name}", "error", (loaded,))


def together(results: Sequence[Reconstruction]) -> Reconstruction:
    """Mean over members and σ̂² = (1/M) Σ (X_m − X̄)², plus the mean of their own σ_m² where they predict it.

    That is the variance of the mixture of their distributions (Lakshminarayanan et al. 2017).
    """
    moments = Moments.of(torch.from_numpy(results[0].mean))
    for result in results[1:]:
        moments = moments.add(torch.from_numpy(result.mean))
    variance = moments.std().square().numpy()
    own = [result.std.astype(np.float64) ** 2 for result in results if result.std is not None]
    if len(own) == len(results):
        variance = variance + np.mean(own, axis=0)
    return replace(
        results[0],
        mean=moments.mean.numpy().astype(np.float32),
        std=np.sqrt(variance).astype(np.float32),
        n_samples=len(results),
        seconds=sum(result.seconds for result in results),
        error_bound=None,  # a member's own bound says nothing about the mean of all
        calibration=None,
        bound_note=None,
    )


def same_coils(spreads: Sequence[Spread]) -> Loaded:
    """A model that takes data as all of them do; one with sensitivities takes what the others need."""
    firsts = [s.members[0] for s in spreads]
    fixed = [loaded for loaded in firsts if loaded.model.coils.mode != "sensitivities"] or firsts
    for other in fixed[1:]:
        if other.model.coils != fixed[0].model.coils:
            raise ModelError(
                f"{other.name} takes coils otherwise than {fixed[0].name}: compare methods of the same coils, "
                "so that all see the same data"
            )
    return fixed[0]


def equal_samples(spreads: Sequence[Spread], samples: int, shape: tuple[int, int]) -> list[int]:
    """N of each that costs what `samples` passes of the first cost, at least 2; 0 where it has no N to choose.

    Costs are counted, not timed: the same N on every machine.
    """
    budget = samples * spreads[0].cost(shape)
    return [max(2, round(budget / s.cost(shape)) - s.beside) if s.draws else 0 for s in spreads]


def _operations(loaded: Loaded, shape: tuple[int, int]) -> int:
    """Counted on tensors without numbers, which cost no time."""
    model = loaded.model
    theta = {name: w.detach().to("meta") for name, w in model.regularizer.weights().items()}
    Q = 1 if model.coils.mode == "sensitivities" else model.coils.Q  # R sees one image, however many coils
    z = torch.zeros((1, Q, *shape), dtype=torch.complex64, device="meta")
    mask = torch.ones(shape[1], dtype=torch.bool, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        solve(z, mask, model.regularizer.bind(theta), model.scheme)
    return int(counter.get_total_flops())


def _kind(loaded: Loaded) -> SpreadKind:
    if loaded.stochastic:
        return "posterior"
    if loaded.model.regularizer.drops:
        return "dropout"
    if loaded.model.regularizer.doubts:
        return "variance"
    raise ModelError(
        f"{loaded.name} has no standard deviation, neither by a posterior nor by dropout nor as an output of its own: "
        f"give one that has, or join several models with {JOIN} to an ensemble"
    )


def _check_members(members: Sequence[Loaded]) -> None:
    for member in members[1:]:
        if member.model.coils != members[0].model.coils:
            raise ModelError(
                f"{member.name} takes coils otherwise than {members[0].name}, expected members of an ensemble of one "
                "kind"
            )
