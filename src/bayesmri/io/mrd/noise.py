"""Noise prewhitening: the coils are mixed so that their noise is independent and equally strong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.errors import BayesMRIError
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.mrd.choice import NOISE, flag
from bayesmri.io.mrd.source import Acquisitions
from bayesmri.io.mrd.table import Lines, samples, table
from bayesmri.messages import Messages, noted, warned

FEWEST = 5  # noise samples for each coil; the covariance of fewer says more of chance than of the coils
CONDITION = 1e8  # of the covariance; beyond, a coil is dead or a copy of others


@dataclass(frozen=True)
class Whitening:
    """z ↦ σ L⁻¹ z along the coils, for noise of covariance Σ = L L*; σ² = tr Σ / Q keeps the units of the file.

    matrix: complex (Q, Q). sigma: the standard deviation of complex noise in a sample of the image.
    """

    matrix: NDArray[np.complex64]
    sigma: float

    def apply(self, z: NDArray[np.complex64]) -> NDArray[np.complex64]:
        """(n, Q, samples) → the same, with noise of covariance σ² Id over the coils."""
        out: NDArray[np.complex64] = np.matmul(self.matrix, z)
        return out


def covariance(noise: NDArray[np.complexfloating]) -> NDArray[np.complex128]:
    """Σ = E[n n*] of samples (Q, M); noise has mean zero."""
    n = noise.astype(np.complex128)
    found: NDArray[np.complex128] = n @ n.conj().T / n.shape[1]
    return found


def whitening(Sigma: NDArray[np.complex128], *, scale: float = 1.0) -> Whitening | None:
    """Of a covariance by its Cholesky factor; None where it is singular. scale: of Σ from noise scan to image."""
    power = np.diagonal(Sigma).real
    if not np.isfinite(Sigma).all() or power.min() <= 0:
        return None
    normed = Sigma / np.sqrt(np.outer(power, power))  # strengths alone make no covariance singular
    if np.linalg.cond(normed) > CONDITION:
        return None
    sigma = float(np.sqrt(power.mean()))
    try:
        L = np.linalg.cholesky(Sigma)
    except np.linalg.LinAlgError:
        return None
    return Whitening((sigma * np.linalg.inv(L)).astype(np.complex64), sigma * float(np.sqrt(scale)))


def read_whitening(
    source: Acquisitions, lines: Lines, encoding: Encoding, *, wanted: bool
) -> tuple[Whitening | None, Messages]:
    """From the noise scans; what was measured, or why it was not used, is said."""
    head = source.head
    keep = flag(head["flags"].astype(np.uint64), (NOISE,))
    if not keep.any():
        return None, Messages()
    told = f"noise scans ({int(keep.sum())} lines)"
    if not wanted:
        return None, noted(f"{told} were left out, as asked: the coils were not prewhitened")
    unused = "and the coils were not prewhitened"
    try:
        scans = table(head, keep, Messages())
        parts = [part.swapaxes(0, 1).reshape(scans.channels, -1) for _, part in samples(source, scans)]
    except BayesMRIError as error:
        return None, warned(f"{told} cannot be read ({error}), {unused}")
    noise = np.concatenate(parts, axis=1)
    Q, M = noise.shape
    if lines.channels != Q:
        return None, warned(f"{told} are of {Q} channels and the image of {lines.channels}, {unused}")
    if M < FEWEST * Q:
        return None, warned(f"{told} hold {M} samples for {Q} coils, fewer than {FEWEST} each, {unused}")
    with np.errstate(over="ignore", invalid="ignore"):
        Sigma = covariance(noise)
    found = whitening(Sigma, scale=bandwidth_scale(scans, lines, encoding))
    if found is None:
        return None, warned(f"{told} have a singular covariance (a dead coil, or a copy of another), {unused}")
    return found, noted(_measured(Sigma, found, told, M))


def bandwidth_scale(noise: Lines, image: Lines, encoding: Encoding) -> float:
    """σ²_image / σ²_noise = (t_noise / t_image) / b: white noise of a receiver that passes the share b of its band.

    t: times of a sample. 1 where either is unknown; b is 1 unless the header says it (relativeReceiverNoiseBandwidth).
    """
    t_noise, t_image = float(np.median(noise.dwell_us)), float(np.median(image.dwell_us))
    if t_noise <= 0 or t_image <= 0:
        return 1.0
    return t_noise / t_image / (encoding.noise_bandwidth or 1.0)


def _measured(Sigma: NDArray[np.complex128], found: Whitening, told: str, M: int) -> str:
    power = np.sqrt(np.diagonal(Sigma).real)
    correlation = np.abs(Sigma / np.outer(power, power))
    beside = correlation[~np.eye(len(power), dtype=bool)]
    if not len(beside):
        return f"{told}: σ = {found.sigma:.3g} for every sample of the image; one coil needs no prewhitening"
    return (
        f"the coils were prewhitened by {told}, {M} samples: correlations up to {beside.max():.2f} (mean "
        f"{beside.mean():.2f}), strongest over weakest coil {power.max() / power.min():.2f}; now independent, "
        f"σ = {found.sigma:.3g} for every sample of the image"
    )
