"""The covariances that were learned: of the model alone, no data."""

from functools import partial

from bayesmri.analysis.covariance import layer_covariances
from bayesmri.posterior.block_gaussian import BlockGaussian
from bayesmri.recon.files import Progress
from bayesmri.report.study_covariance import covariance_figure, covariance_text
from bayesmri.studies.base import Outcome, Request
from bayesmri.studies.volumes import load_stochastic


def covariance_study(request: Request, progress: Progress | None) -> Outcome:
    """The mean covariance of the kernels of every layer, and its magnitude by depth."""
    loaded = load_stochastic(request.models[0])
    posterior = loaded.model.posterior
    assert isinstance(posterior, BlockGaussian)
    rows = [layer.row() for layer in layer_covariances(posterior.L)]
    numbers = {**loaded.facts(), "rows": rows}
    return Outcome(numbers, partial(covariance_figure, numbers=numbers), covariance_text(numbers), (loaded.path,))
