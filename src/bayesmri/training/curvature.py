"""E ∇²J of the kernels' blocks, by Gauss and Newton: one backward pass per element.

    H_u = Σ_j λ_j ∂_u X_j ∂_u X_jᵀ = E_v g_u g_uᵀ,   g = ∇_θ Σ_j √λ_j v_j X_j,   v_j = ±1

λ_j is the curvature of J in the pixel X_j, whose error e_j is not known before: of mean |e| it is 2 p(0)/n, with p the
density of the errors around, here by a kernel as wide as a fifth of them; of 1 − SSIM it is that of the difference's
share of the variance in a window.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from bayesmri.complexes import rss
from bayesmri.data.dataset import Batch
from bayesmri.errors import ModelError
from bayesmri.metrics import K2
from bayesmri.model import Model
from bayesmri.posterior.predictor import blur
from bayesmri.posterior.triangular import dense
from bayesmri.regularizers.base import ParametricRegularizer
from bayesmri.training.loss import LossConfig

BANDWIDTH = 0.2  # of the error around a pixel: what σ̂ is of it at the shipped models' β
REACH = 4  # pixels: what counts as around


def curvature(
    model: Model,
    batches: Iterable[Batch],
    loss: LossConfig,
    rng: torch.Generator,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Tensor]:
    """H by kernel, (out, in, o², o²) in double precision: the mean over all elements."""
    reg = model.regularizer
    if not isinstance(reg, ParametricRegularizer) or not reg.kernels():
        raise ModelError("got a model without kernels to draw, expected a regularizer that has some, such as tdv")
    kernels, gain, n = reg.kernels(), model.scaling.gain, 0
    theta = {name: w.detach().requires_grad_(name in kernels) for name, w in reg.weights().items()}
    H = {name: torch.zeros(*theta[name].shape[:2], *2 * (theta[name][0, 0].numel(),)).double() for name in kernels}
    scheme = model.scheme
    for batch in batches:
        for i in range(len(batch.z)):
            s = None if batch.s is None else batch.s[i : i + 1]
            D = scheme.data_term(batch.z[i : i + 1], batch.mask[i : i + 1], s)
            X = rss(scheme.run(D, reg.bind(theta), checkpoint=True)) / gain
            weight = pixel_curvature(X.detach(), batch.Y[i : i + 1] / gain, loss).sqrt()
            v = 2.0 * torch.randint(2, X.shape, generator=rng) - 1
            grads = torch.autograd.grad((weight * v * X).sum(), [theta[name] for name in kernels])
            for name, g in zip(kernels, grads, strict=True):
                flat = g.flatten(2).double()
                H[name] += flat[..., :, None] * flat[..., None, :]
            n += 1
            on_step()
    return {name: h / max(1, n) for name, h in H.items()}


def pixel_curvature(X: Tensor, Y: Tensor, loss: LossConfig) -> Tensor:
    """λ of images of maximum about 1, (B, H, W)."""
    e = (X - Y).abs()[:, None]
    around = blur(e, REACH).clamp_min(1e-6)
    width = BANDWIDTH * around
    density = torch.exp(-0.5 * (e / width).square()) / (width * (2 * torch.pi) ** 0.5)
    found: Tensor = 2 * density[:, 0]
    if loss.reduction == "mean":
        found = found / X[0].numel()
    if loss.tau > 0:
        variances = [_variance(image[:, None]) for image in (X, Y)]
        within = 2 / (variances[0] + variances[1] + (K2 * loss.ssim_range) ** 2)
        found = found + loss.tau * within[:, 0] / X[0].numel()
    return found


def _variance(X: Tensor) -> Tensor:
    """Around every pixel, of a window about as large as SSIM's."""
    return (blur(X.square(), 2) - blur(X, 2).square()).clamp_min(0)


def total_curvature(H: Mapping[str, Tensor]) -> float:
    """tr H over all kernels: how curved J is in all of them together."""
    return float(sum(h.diagonal(dim1=-2, dim2=-1).sum() for h in H.values()))


def quadratic(H: Mapping[str, Tensor], L: Mapping[str, Tensor]) -> float:
    """tr LᵀHL: the pull on L if X were linear in θ over its whole width."""
    blocks = {name: dense(l.detach()).double() for name, l in L.items()}
    return float(sum((l.mT @ H[name] @ l).diagonal(dim1=-2, dim2=-1).sum() for name, l in blocks.items()))
