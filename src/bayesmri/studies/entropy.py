"""The paper's ablation: PSNR against the mean entropy H̄ of models trained with different β, by the samples averaged."""

import math
from functools import partial
from pathlib import Path
from typing import Any

from bayesmri.analysis.averaging import Span, Volume, over_volumes, spans
from bayesmri.errors import ConfigError
from bayesmri.metrics import volume_metrics
from bayesmri.recon.files import Progress
from bayesmri.recon.reconstruct import Reconstruction, common_crop
from bayesmri.report.study_entropy import entropy_figure, entropy_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import Loaded, Volumes, counted, load, sample_volume


def entropy_study(request: Request, progress: Progress | None) -> Outcome:
    """Every model on the same volumes and masks. A model without a posterior is the limiting case H̄ = −∞."""
    models = named([load(text) for text in request.models], request.models)
    volumes = Volumes(request)
    at_mean: dict[str, list[float]] = {loaded.name: [] for loaded in models}
    parts: dict[str, list[list[Span]]] = {loaded.name: [] for loaded in models}
    with counted(progress, request) as advance:
        for path, full in volumes:
            for loaded in models:
                result = sample_volume(full, path, request.accelerations[0], loaded, request, keep=True)
                at_mean[loaded.name].append(result.deterministic_metrics().psnr)
                if result.samples is not None:
                    parts[loaded.name].append(spans(result.samples, partial(_psnr, result)))
                advance()
    rows = [row for m in models for row in _rows(m, at_mean[m.name], parts[m.name])]
    numbers = {
        "acceleration": request.accelerations[0],
        "samples": request.samples,
        "volumes": [path.name for path in volumes.used],
        **volumes.facts(),
        "models": [m.facts() for m in models],
        "rows": rows,
    }
    inputs = (*volumes.used, *(m.path for m in models))
    return Outcome(numbers, partial(entropy_figure, numbers=numbers), entropy_text(numbers), inputs)


def _psnr(result: Reconstruction, image: Volume) -> float:
    assert result.truth is not None
    return volume_metrics(*common_crop(image, result.truth)).psnr


def _rows(loaded: Loaded, at_mean: list[float], parts: list[list[Span]]) -> list[dict[str, Any]]:
    """One for every n; of a model without a posterior one with n = 0. PSNR: the mean over volumes."""
    facts = loaded.facts()
    deterministic = math.fsum(at_mean) / len(at_mean)
    known = {"model": loaded.name, "beta": facts["beta"], "entropy": facts["entropy"]}
    if not parts:
        only = {"psnr_mean": deterministic, "psnr_low": deterministic, "psnr_high": deterministic}
        return [{**known, "n": 0, "subsets": 1, **only, "psnr_deterministic": deterministic}]
    return [
        {
            **known,
            "n": span.n,
            "subsets": len(span.scores),
            "psnr_mean": span.mean,
            "psnr_low": span.low,
            "psnr_high": span.high,
            "psnr_deterministic": deterministic,
        }
        for span in over_volumes(parts)
    ]


def named(models: list[Loaded], given: tuple[str, ...]) -> list[Loaded]:
    """Each under a name of its own: the last part of its path, or all of it where two would share one."""
    if len({loaded.path for loaded in models}) < len(models):
        raise ConfigError("the same model came twice: give each once")
    names = [loaded.name for loaded in models]
    if len(set(names)) == len(names):
        return models
    return [Loaded(str(Path(text)), m.path, m.model) for m, text in zip(models, given, strict=True)]
