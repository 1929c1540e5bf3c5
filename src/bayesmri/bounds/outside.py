"""Is the data at hand outside what a model knows: its masks, R, coils, sizes, noise and images? NumPy only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesmri.bounds.familiar import Familiar, fall, volume_features
from bayesmri.kspace import KSpace
from bayesmri.physics.pattern import centre_run, kind_of

FAR = 1.5  # times, or part of, what a model was trained for: R and sizes
NOISIER = 0.1  # decades that k-space may fall less than in training


def reasons(training: Mapping[str, Any], familiar: Familiar | None, kspace: KSpace) -> tuple[str, ...]:
    """Why the data is unlike that of training, a few words each; nothing where it is like it, or nothing is known.

    training: the configuration that the model records. familiar: how its training data looked.
    """
    found = [*_of_mask(_part(training, "mask"), kspace), *_of_coils(training, kspace)]
    return (*found, *([] if familiar is None else _of_images(familiar, kspace)))


def extrapolation(accelerations: Sequence[float], R: float) -> list[str]:
    """A sentence where a model was trained for quite other accelerations than the data has."""
    if not accelerations or any(1 / FAR <= R / known <= FAR for known in accelerations):
        return []
    listed = ", ".join(f"{known:g}" for known in accelerations)
    return [
        f"the model was trained for R = {listed} and the data has R = {R:.3g}: image and standard deviation are "
        "extrapolations, the latter may be too small"
    ]


def _of_mask(trained: Mapping[str, Any], kspace: KSpace) -> list[str]:
    if kspace.fully_sampled:
        return []
    said = []
    kinds = [str(trained["kind"])] if "kind" in trained else []
    if trained.get("equispaced_share", 0) and "equispaced" not in kinds:
        kinds.append("equispaced")
    found = kind_of(kspace.mask)
    if kinds and found is not None and found not in kinds:
        said.append(f"its mask is of the kind {found}, those of training were {' and '.join(kinds)}")
    if trained and trained.get("center_fraction") != 0 and centre_run(kspace.mask) == 0:
        said.append("no central line was acquired, which all masks of training had")
    return said


def _of_coils(training: Mapping[str, Any], kspace: KSpace) -> list[str]:
    simulation, mode = _part(training, "simulation"), _part(training, "coils").get("mode")
    if "coils" not in simulation or mode not in ("sensitivities", "virtual"):
        return []
    Q, (least, most) = kspace.z.shape[1], simulation["coils"]
    if FAR * most < Q:
        return [f"it has {Q} coils, training had at most {most}"]
    single = simulation.get("single", 0) if mode == "sensitivities" else 0
    if least > Q and not (Q == 1 and single):
        return [f"it has {Q} coil{'s' * (Q != 1)}, training had at least {least}"]
    return []


def _of_images(familiar: Familiar, kspace: KSpace) -> list[str]:
    said, (H, W) = [], kspace.header.recon_shape or kspace.z.shape[-2:]  # what is shown: readout oversampling is air
    least, most = familiar.sizes
    if min(H, W) < least / FAR or max(H, W) > most * FAR:
        said.append(f"its grid is {H}x{W}, those of training had {least} to {most} pixels along a side")
    features = volume_features(kspace.z, kspace.mask)
    if not len(features):
        return said
    flat = float(np.median(fall(features)))
    if flat > familiar.flattest + NOISIER:
        said.append(
            f"it is noisier: k-space falls by {-10 * flat:.0f} dB from its centre to its edge, in training by at least "
            f"{-10 * familiar.flattest:.0f} dB"
        )
    far = float(np.median(familiar.distance(features)))
    if far > familiar.threshold:
        said.append(
            f"its zero-filled image is unlike those of training (distance {far:.1f}, nearly all of those are below "
            f"{familiar.threshold:.1f})"
        )
    return said


def _part(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key)
    return found if isinstance(found, Mapping) else {}
