"""Coil sensitivities from the fully sampled centre of k-space by ESPIRiT (Uecker et al. 2014)."""

import torch
from torch import Tensor

from bayesmri.physics.centre import central_block, sensitivities

KERNEL = 4  # k: width and height of the patches of k-space
FEWEST = 8  # central lines: with fewer there are too few patches to learn from
MOST = 24  # central lines and rows that are learned from
THRESHOLD = 0.03  # singular values of the patches below this share of the largest are noise
RAMP = (0.85, 0.95)  # eigenvalues between which a further set of sensitivities fades in
BLOCK = 32  # rows of the image that are worked on at a time: Q x Q numbers for every pixel take memory


def espirit(z: Tensor, mask: Tensor) -> Tensor:
    """Sensitivities s of Σ_q |s_q|² = 1, complex (B, Q, H, W): the first set of `espirit_sets`."""
    return espirit_sets(z, mask, sets=1)[:, 0]


def espirit_sets(z: Tensor, mask: Tensor, *, sets: int = 2, rows: slice = slice(None)) -> Tensor:
    """The leading sets of sensitivities, complex (B, sets, Q, H, W).

    All patches of k x k samples and Q coils of the centre lie near a space of few dimensions. Projecting every patch
    of k-space onto that space and averaging what the patches say of a sample is a convolution in k-space: in every
    pixel a Hermitian matrix (Q, Q) with eigenvalues in [0, 1]. Coil images s_q m stay as they are under it: s is an
    eigenvector of eigenvalue 1. Where an object larger than the field of view folds over there are two of them in a
    pixel. So the first set has unit length, and further ones fade in as their eigenvalues near 1 (RAMP).

    The phase of the first is that of `sensitivities`, which are the first set, and the others 0, with fewer than FEWEST
    central lines, or rows and columns of a block of points, or a single coil.

    z: zero-filled k-space, complex (B, Q, H, W). mask: bool (B or 1, 1, 1 or H, W).
    rows: of the image, where not all of them are wanted.
    """
    s = sensitivities(z, mask)[..., rows, :]
    sides = torch.stack(central_block(mask, z.shape[-2]), dim=-1).expand(len(z), 2).tolist()
    blocks = sides if s.shape[-3] > 1 else [(0, 0)] * len(s)
    return torch.stack([_sets(a, b, (h, w), sets, rows) for a, b, (h, w) in zip(z, s, blocks, strict=True)])


def _sets(z: Tensor, s: Tensor, block: tuple[int, int], sets: int, window: slice) -> Tensor:
    """Of one slice with a central block of (rows, columns): (sets, Q, h, W) from z, (Q, H, W), and s, (Q, h, W)."""
    if min(block) < FEWEST:
        return torch.cat([s[None], s.new_zeros(sets - 1, *s.shape)])
    w = kernels(_centre(z, block))
    rows, columns = (_waves(size, z) for size in z.shape[-2:])
    w = torch.einsum("yxpq,wx->ywpq", w, columns)
    parts = zip(torch.split(rows[window], BLOCK), torch.split(s.permute(1, 2, 0), BLOCK), strict=True)
    found = [_leading(torch.einsum("ywpq,hy->hwpq", w, waves), start, sets) for waves, start in parts]
    return torch.cat(found).permute(3, 2, 0, 1)


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


def _centre(z: Tensor, block: tuple[int, int]) -> Tensor:
    """The central block, MOST rows and lines at most: (Q, rows, lines)."""
    sizes = [min(MOST, side) for side in block]
    first = [full // 2 - size // 2 for full, size in zip(z.shape[-2:], sizes, strict=True)]
    return z[:, first[0] :, first[1] :][:, : sizes[0], : sizes[1]]


def _waves(size: int, z: Tensor) -> Tensor:
    """e^{−2πi d r / size} of the pixels r, counted from the centre, and the offsets d: complex (size, 2k − 1)."""
    r = torch.arange(size, device=z.device) - size // 2
    d = torch.arange(1 - KERNEL, KERNEL, device=z.device)
    angle = -2 * torch.pi * (r[:, None] * d).to(z.real.dtype) / size
    return torch.polar(torch.ones_like(angle), angle)


def _leading(G: Tensor, s: Tensor, sets: int) -> Tensor:
    """Leading eigenvectors of every G, (h, w, Q, Q), as sets of sensitivities (h, w, Q, sets) with the phase of s."""
    values, v = torch.linalg.eigh(G)
    values, v = values.flip(-1)[..., :sets], v.flip(-1)[..., :sets]
    phase = torch.sgn((v[..., 0].conj() * s).sum(-1, keepdim=True))  # 0 where nothing was measured
    low, high = RAMP
    share = ((values[..., 1:] - low) / (high - low)).clamp(0, 1)
    weight = torch.cat([phase, share.to(phase.dtype)], dim=-1)
    weighted: Tensor = v * weight[..., None, :]
    return weighted
