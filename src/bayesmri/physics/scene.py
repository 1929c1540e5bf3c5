"""What a magnitude image lacks and a scanner adds: receive coils, smooth phase, complex noise."""

import math

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from bayesmri.complexes import rss
from bayesmri.errors import ConfigError

COARSE = 48  # fields this smooth are computed on a coarse grid and interpolated
MAX_COILS = 256  # twice the largest array that was ever built
SEGMENTS = 24  # straight pieces of a wire loop


def loop_sensitivities(Q: int, shape: tuple[int, int], *, rng: torch.Generator) -> Tensor:
    """s, complex64 (Q, H, W), Σ_q |s_q|² = 1: receive fields B₁⁻ = B_x − iB_y of Q loops around the object.

    The loops stand on a ring outside the field of view, facing its centre, with jittered angle, place, size and tilt.
    """
    if not 1 <= Q <= MAX_COILS:
        raise ConfigError(f"got a request for {Q} coils, expected at least 1 and at most {MAX_COILS}")
    points = _plane_points(shape)
    wires, currents = _wire_loops(Q, rng)
    B_x, B_y = _biot_savart(points, wires, currents)
    coarse = torch.stack((B_x, -B_y), dim=1).reshape(Q, 2, COARSE, COARSE)
    re, im = _enlarge(coarse, shape).unbind(dim=1)
    s = torch.complex(re, im)
    return s / rss(s)


def smooth_phase(shape: tuple[int, int], *, rng: torch.Generator, strength: float = 1.0) -> Tensor:
    """φ, real (H, W) in radians: a random offset and a random field of a few cycles, of std ≈ strength."""
    offset = 2 * math.pi * torch.rand(1, generator=rng)
    bumps = torch.randn(1, 1, 5, 5, generator=rng)
    return offset + strength * _enlarge(bumps, shape)[0, 0]


def add_noise(u: Tensor, snr_db: float, *, rng: torch.Generator) -> Tensor:
    """u + ν with E‖ν‖² = ‖u‖² 10^(−SNR/10): white complex Gaussian noise of a given signal-to-noise ratio in dB."""
    sigma = math.sqrt(float(u.abs().square().mean()) * 10 ** (-snr_db / 10) / 2)
    noise = torch.complex(torch.randn(u.shape, generator=rng), torch.randn(u.shape, generator=rng))
    return u + sigma * noise.to(u.device, u.dtype)


def _biot_savart(points: Tensor, wires: Tensor, currents: Tensor) -> tuple[Tensor, Tensor]:
    """B_x and B_y, each (Q, P), of Σ_k c_k × (p − w_k)/|p − w_k|³ at points p of the plane z = 0.

    Written out, both are sums over k of |p − w_k|⁻³ times what belongs to the wire alone, a product of matrices.
    """
    inverse_cube = torch.cdist(points, wires, compute_mode="donot_use_mm_for_euclid_dist").pow(-3)  # (Q, P, segments)
    (w_x, w_y, w_z), (c_x, c_y, c_z) = wires.unbind(-1), currents.unbind(-1)
    of_wires = torch.stack((c_z * w_y - c_y * w_z, c_x * w_z - c_z * w_x, c_z), dim=-1)
    a, b, c = (inverse_cube @ of_wires).unbind(-1)
    return a - points[:, 1] * c, b + points[:, 0] * c


def _plane_points(shape: tuple[int, int]) -> Tensor:
    """Coarse pixel positions (COARSE², 3) of the imaging plane; the longer side spans [−1, 1]."""
    H, W = (n / max(shape) for n in shape)
    y, x = torch.meshgrid(torch.linspace(-H, H, COARSE), torch.linspace(-W, W, COARSE), indexing="ij")
    return torch.stack((x, y, torch.zeros_like(x)), dim=-1).reshape(-1, 3)


def _wire_loops(Q: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Midpoints and current elements of Q polygonal loops, each (Q, segments, 3)."""
    jitter = torch.rand(5, Q, 1, generator=rng) - 0.5
    angle = 2 * math.pi * (torch.arange(Q)[:, None] + float(torch.rand(1, generator=rng)) + 0.5 * jitter[0]) / Q
    distance, tilt = 1.75 + 0.3 * jitter[1], 0.6 * jitter[2]
    radius = (0.45 + 1.2 / Q) * (1 + 0.5 * jitter[3])
    height = 0.8 * jitter[4]
    t = 2 * math.pi * (torch.arange(SEGMENTS + 1) / SEGMENTS)
    along, up = radius * torch.cos(t), radius * torch.sin(t)
    out = distance + up * torch.sin(tilt)
    corners = torch.stack(
        (
            out * torch.cos(angle) - along * torch.sin(angle),
            out * torch.sin(angle) + along * torch.cos(angle),
            height + up * torch.cos(tilt),
        ),
        dim=-1,
    )
    return (corners[:, 1:] + corners[:, :-1]) / 2, corners[:, 1:] - corners[:, :-1]


def _enlarge(field: Tensor, shape: tuple[int, int]) -> Tensor:
    return interpolate(field, size=shape, mode="bicubic", align_corners=True)
