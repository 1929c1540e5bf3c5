"""Sensitivities of another scan, in another order or with alternating signs are warned of; turned scans turn them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bayesmri.data.phantom import PhantomSpec, phantom
from bayesmri.data.simulate import Scanner, acquire
from bayesmri.io.layout.array import kspace_of_array
from bayesmri.io.sensitivity_maps import with_sensitivities
from bayesmri.kspace import KSpace
from bayesmri.physics.espirit import espirit_sets
from bayesmri.physics.operator import batched

Complex = NDArray[np.complex64]
N, Q = 48, 6


@pytest.fixture(scope="module")
def scan() -> tuple[Complex, Complex]:
    """(u, s): fully sampled k-space and its sensitivities, both (Q, N, N)."""
    X = phantom(PhantomSpec(anatomy="head", shape=(N, N)), rng=torch.Generator().manual_seed(3))
    u = acquire(X / X.max(), Scanner(coils=Q, snr_db=30.0), rng=torch.Generator().manual_seed(4))
    s = espirit_sets(u, batched(torch.ones(N, dtype=torch.bool)))[0, 0]
    return u.numpy()[0], s.numpy()


def lines() -> NDArray[np.bool_]:
    return np.asarray((np.arange(N) % 3 == 0) | (abs(np.arange(N) - N // 2) < 6))


def read(z: Complex) -> KSpace:
    return kspace_of_array(z.astype(np.complex64), source="array", name="scan")


def test_its_own_sensitivities_fit(scan: tuple[Complex, Complex]) -> None:
    u, s = scan
    for z in (u, u * lines(), u * lines() * lines()[:, None], u * (np.arange(N) % 3 == 0)):
        kspace = read(z)
        assert with_sensitivities(kspace, s).header.warnings == kspace.header.warnings


def test_a_turned_scan_turns_them(scan: tuple[Complex, Complex]) -> None:
    u, s = scan
    plain, side = with_sensitivities(read(u * lines()), s), with_sensitivities(read(u * lines()[:, None]), s)
    assert side.header.turned
    assert not side.header.warnings
    assert plain.sensitivities is not None
    assert side.sensitivities is not None
    np.testing.assert_array_equal(side.sensitivities.swapaxes(-1, -2), plain.sensitivities)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.swapaxes(-1, -2), "do not explain"),
        (lambda s: s[::-1], "do not explain"),
        (lambda s: np.roll(s, N // 2, axis=-1), "do not explain"),
        (lambda s: s.conj(), "do not explain"),
        (lambda s: s * (-1.0) ** np.add.outer(np.arange(N), np.arange(N)), "from pixel to pixel"),
    ],
    ids=["transposed", "coils in another order", "rolled", "conjugate", "fftmod"],
)
def test_others_are_warned_of(scan: tuple[Complex, Complex], change: Callable[[Complex], Complex], words: str) -> None:
    u, s = scan
    wrong = np.ascontiguousarray(change(s)).astype(np.complex64)
    (warning,) = with_sensitivities(read(u * lines()), wrong).header.warnings
    assert words in warning
