"""Small models, scans and requests shared by the tests of studies."""

import json
from pathlib import Path
from typing import Any

import torch

from bayesmri.checkpoint import save_model
from bayesmri.evaluation.request import Request
from bayesmri.model import Coils, Model
from bayesmri.physics.scaling import Scaling
from bayesmri.posterior.block_gaussian import BlockGaussian, initial_L
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.regularizers.tdv import TDV, TDVConfig

H, W, N = 32, 36, 5
WIDTH = 0.02
PNG = b"\x89PNG\r\n\x1a\n"


def tiny(Q: int = 1, *, width: float | None = WIDTH, beta: float = 1e-6) -> Model:
    """A small network, with L = width · Id where one is given."""
    config = TDVConfig(Q=Q, features=4, macroblocks=1, scales=2, init="positive")
    reg = TDV(config, torch.Generator().manual_seed(0))
    mu = {name: w.detach() for name, w in reg.weights().items()}
    posterior = None if width is None else BlockGaussian(mu, initial_L(mu, reg.kernels(), width))
    card = {"provenance": {"config": {"posterior": {"beta": beta}}}, "step": 7}
    coils = Coils("raw" if Q == 1 else "virtual", Q)
    return Model(reg, T=2.0, S=3, coils=coils, scaling=Scaling(gain=20.0), card=card, posterior=posterior)


def save_models(folder: Path) -> Path:
    """narrow, wide: of one coil; two: of two virtual ones; fixed: without a posterior."""
    save_model(folder / "narrow.json", tiny(beta=1e-7, width=0.005))
    save_model(folder / "wide.json", tiny())
    save_model(folder / "two.json", tiny(2))
    save_model(folder / "fixed.json", tiny(width=None))
    return folder


def save_scans(folder: Path) -> Path:
    """one.h5 and three.h5, by their coils: three slices each."""
    for name, coils in (("one", 1), ("three", 3)):
        phantom = PhantomRequest("head", "PD", (H, W), slices=3)
        simulate_file(phantom, folder / f"{name}.h5", coils=coils, snr_db=30, seed=coils)
    return folder


def save_heads(folder: Path, subjects: int, *, shape: tuple[int, int] = (24, 40)) -> Path:
    """head0.h5, head1.h5, …: one slice of a subject each, and the last subject twice."""
    for seed in range(subjects):
        simulate_file(PhantomRequest("head", "PD", shape), folder / f"head{seed}.h5", snr_db=30, seed=seed)
    again = folder / f"head{subjects - 1}again.h5"
    simulate_file(PhantomRequest("head", "PD", shape), again, snr_db=20, seed=subjects - 1)
    return folder


def request(models: Path, name: str, data: Path, **changes: Any) -> Request:
    return Request(models=(str(models / f"{name}.json"),), data=data, **{"samples": N, "seed": 3, **changes})


def written(folder: Path, name: str) -> dict[str, Any]:
    """The record of a study, with a figure beside it."""
    assert sorted(p.name for p in folder.iterdir()) == [f"{name}.json", f"{name}.png"]
    assert (folder / f"{name}.png").read_bytes().startswith(PNG)
    record: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    assert record["study"] == name
    return record
