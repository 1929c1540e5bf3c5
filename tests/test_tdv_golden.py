"""Our TDV is the authors' TDV: their weights in our code give their numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bayesmri.regularizers.tdv import TDVCore

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden" / "tdv_gray_reference.npz"
SCALES = 3

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the reference values of the authors' TDV are not here")


def authors_names() -> dict[str, str]:
    """Our name of each weight → theirs. Their residual blocks count by (scale, way down or up), ours by the sweep."""
    sweep = [(s, 0) for s in range(SCALES)] + [(s, 1) for s in reversed(range(SCALES - 1))]
    names = {"K0": "K1", "w": "KN"}
    for i in range(3):
        for j, (s, way) in enumerate(sweep):
            names |= {f"mb{i}_res{j}_K{c}": f"mb.{i}.mb.{s}.{way}.conv{c}" for c in (1, 2)}
        for s in range(SCALES - 1):
            names |= {f"mb{i}_{way}{s}": f"mb.{i}.conv_{way}.{s}" for way in ("down", "up")}
    return names


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN) as file:
        return {name: torch.from_numpy(file[name]).double() for name in file}


@pytest.fixture(scope="module")
def theta(golden: dict[str, Tensor]) -> dict[str, Tensor]:
    theta = {ours: golden[f"w/{theirs}.weight"] for ours, theirs in authors_names().items()}
    assert len(theta) == sum(name.startswith("w/") for name in golden)
    return theta


CORE = TDVCore(macroblocks=3, scales=SCALES, blur=True)


def relative(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float(torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b))


def test_energy_of_every_pixel_is_theirs(golden: dict[str, Tensor], theta: dict[str, Tensor]) -> None:
    assert relative(CORE.density(golden["x"], theta), golden["energy"]) < 1e-10


def test_gradient_is_theirs(golden: dict[str, Tensor], theta: dict[str, Tensor]) -> None:
    assert relative(CORE.grad(golden["x"], theta), golden["grad"]) < 1e-10


def test_ten_steps_are_theirs(golden: dict[str, Tensor], theta: dict[str, Tensor]) -> None:
    S = int(golden["S"])
    h, lam = golden["T"] / S, golden["lmbda"] / S
    z = x = golden["x"]
    for _ in range(S):
        x = (x - h * CORE.grad(x, theta) + lam * z) / (1 + lam)
    assert relative(x, golden["x_S"]) < 1e-10
    assert relative(x, golden["x"]) > 1e-3  # the steps went somewhere


def test_blur_is_seen(golden: dict[str, Tensor], theta: dict[str, Tensor]) -> None:
    plain = TDVCore(macroblocks=3, scales=SCALES, blur=False)
    assert relative(plain.density(golden["x"], theta), golden["energy"]) > 1e-3
