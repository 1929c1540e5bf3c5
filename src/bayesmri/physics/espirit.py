"""Coil sensitivities from the fully sampled centre of k-space by ESPIRiT (Uecker et al. 2014)."""

import torch
from torch import Tensor

from bayesmri.physics.calibration import n_central_lines, sensitivities

KERNEL = 4  # k: width and height of the patches of k-space
FEWEST = 8  # central lines: with fewer there are too few patches to learn from
MOST = 24  # lines and rows of the centre that are learned from
THRESHOLD = 0.03  # singular values of the patches below this share of the largest are noise
ITERATIONS = 20
BLOCK = 32  # rows of the image that are worked on at a time: Q x Q numbers for every pixel take memory


def espirit(z: Tensor, mask: Tensor) -> Tensor:
    """Sensitivities s of Σ_q |s_q|² = 1, complex (B, Q, H, W); those of `sensitivities` where central lines are few.

    All patches of k x k samples and Q coils of the centre lie near a space of few dimensions. Projecting every patch
    of k-space onto that space and averaging what the patches say of a sample is a convolution in k-space: in every
    pixel a Hermitian matrix (Q, Q) with eigenvalues in [0, 1]. Coil images s_q m stay as they are under it, so s is its
    leading eigenvector, found by power iteration from `sensitivities`.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (B or 1, 1, 1, W).
    """
    s = sensitivities(z, mask)
    if z.shape[-3] == 1:
        return s
    lines = n_central_lines(mask).expand(len(z)).tolist()
    return torch.stack([refine(a, b, n) if n >= FEWEST else b for a, b, n in zip(z, s, lines, strict=True)])


def refine(z: Tensor, s: Tensor, n: int) -> Tensor:
    """s of one slice after the power iteration, all (Q, H, W), with n central lines."""
    w = kernels(_centre(z, n))
    rows, columns = (_waves(size, z) for size in z.shape[-2:])
    w = torch.einsum("yxpq,wx->ywpq", w, columns)
    v = s.permute(1, 2, 0)[..., None]
    parts = zip(torch.split(rows, BLOCK), torch.split(v, BLOCK), strict=True)
    v = torch.cat([_lead(torch.einsum("ywpq,hy->hwpq", w, waves), start) for waves, start in parts])
    return v[..., 0].permute(2, 0, 1)


def kernels(centre: Tensor) -> Tensor:
    """w_pq(d) = 1/k² Σ P[(p, δ), (q, δ + d)], complex (2k − 1, 2k − 1, Q, Q), with P the projection of patches.

    (w y)_p(κ) = Σ_{q, d} w_pq(d) y_q(κ + d) is what the patches around κ, projected, say of y_p(κ) on average.
    """
    k, Q = KERNEL, len(centre)
    patches = centre.unfold(-2, k, 1).unfold(-2, k, 1).permute(1, 2, 0, 3, 4).reshape(-1, Q * k * k)
    power, u = torch.linalg.eigh(patches.mT @ patches.conj())
    kept = u * (power >= THRESHOLD**2 * power[-1].clamp(min=torch.finfo(power.dtype).tiny))
    P = (kept @ kept.mH).reshape(Q, k, k, Q, k, k)
    offsets = range(1 - k, k)
    P = torch.stack([P.diagonal(d, 1, 4).sum(-1) for d in offsets])  # (dy, p, δx, q, δx′)
    return torch.stack([P.diagonal(d, 2, 4).sum(-1) for d in offsets], dim=1) / k**2


def _centre(z: Tensor, n: int) -> Tensor:
    """The central lines, and of the rows, which are all there, as many: (Q, n, n), n at most MOST."""
    n = min(n, MOST)
    first = [max(0, (size - n + 1) // 2) for size in z.shape[-2:]]
    return z[:, first[0] :, first[1] :][:, :n, :n]


def _waves(size: int, z: Tensor) -> Tensor:
    """e^{−2πi d r / size} of the pixels r, counted from the centre, and the offsets d: complex (size, 2k − 1)."""
    r = torch.arange(size, device=z.device) - size // 2
    d = torch.arange(1 - KERNEL, KERNEL, device=z.device)
    angle = -2 * torch.pi * (r[:, None] * d).to(z.real.dtype) / size
    return torch.polar(torch.ones_like(angle), angle)


def _lead(G: Tensor, v: Tensor) -> Tensor:
    """Towards the leading eigenvector of every G, (..., Q, Q), from v, (..., Q, 1), of unit length; 0 stays 0."""
    for _ in range(ITERATIONS):
        v = G @ v
        length = v.abs().square().sum(-2, keepdim=True).sqrt()
        v = v / torch.where(length > 0, length, 1)
    return v
