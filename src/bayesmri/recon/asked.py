"""What a method cannot do, refused before any work."""

import math

from bayesmri.errors import ConfigError, ModelError
from bayesmri.io.guard import byte_budget, human
from bayesmri.recon.method import Method
from bayesmri.recon.request import Options


def check_asked(asked: Options, method: Method) -> None:
    """Samples want a posterior, the fast route a predictor that learned from as many."""
    if asked.samples and method.sampler is None:
        raise ModelError(
            f"{asked.samples} samples of {method.name} were asked for, which has no posterior: train one "
            "(configs/*-bayes.toml), or leave the samples out"
        )
    if asked.fast and method.predictor is None:
        raise ModelError(
            f"got a request for the fast route of {method.name}, which has no predictor; make one "
            "(bayesmri distill), or give a number of samples instead"
        )
    if asked.fast and method.predictor is not None and not 2 <= asked.samples <= method.predictor.config.most:
        raise ModelError(
            f"the fast route of {method.name} with {asked.samples} samples was asked for, which learned from 2 to "
            f"{method.predictor.config.most}: ask for so many, or leave the fast route out"
        )


def check_kept(N: int, shape: tuple[int, int, int]) -> None:
    """Samples to be kept fit into memory. shape: (slices, h, w)."""
    needed, limit = 4 * N * math.prod(shape), byte_budget()
    if needed > limit:
        raise ConfigError(
            f"{N} samples of {shape[0]} slices to be kept take {human(needed)}, the limit is {human(limit)}: keep "
            "fewer, or none (mean and standard deviation do without), or set BAYESMRI_MAX_BYTES if the memory is there"
        )
