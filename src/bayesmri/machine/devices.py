"""Which device computes: the CPU, or a CUDA device that this machine has."""

import os

import torch

from bayesmri.errors import ConfigError

WANTED = "expected auto, cpu, cuda or cuda:0"


def check_device(name: str) -> torch.device:
    """The device of that name, if this machine has it; auto takes CUDA where there is any.

    Of several processes on one machine each takes its own CUDA device unless a number is given. From then on CUDA
    computes in single precision, as the CPU does, for the whole process.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"got the device {name!r}, {WANTED}") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"got the device {name!r}, {WANTED}")
    if device.type == "cpu":
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices; use cpu")
    _whole_single_precision()
    return torch.device("cuda", index)


def _whole_single_precision() -> None:
    """No TF32: its 10 bits of fraction in products and convolutions (cuDNN's default) are too few for ∇R.

    Both of torch's interfaces are told, this one first: torch refuses to read flags that contradict each other.
    """
    torch.backends.cudnn.fp32_precision = "ieee"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
