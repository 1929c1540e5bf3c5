"""What a network learned end to end is: x = f(z, M, θ), with neither a regularizer nor T and S."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, final

import torch
from torch import Tensor, nn

from bayesmri.errors import ConfigError, ShapeError
from bayesmri.physics.operator import batched, check_mask
from bayesmri.regularizers.base import Weights, check_weights


class NetworkConfig(Protocol):
    """A frozen dataclass that describes a network; Q is the number of coils it is trained with."""

    @property
    def Q(self) -> int: ...


class Network(nn.Module, ABC):
    """A network that owns its weights θ, behind the same door as a regularizer: weights, bind, project_.

    drops: passes through it can be random. doubts: it gives a variance beside the image (`moments`).
    """

    config: NetworkConfig
    unrolled: ClassVar[bool] = False
    drops: bool = False
    doubts: bool = False

    @abstractmethod
    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        """Zero-filled k-space, complex (B, Q, H, W), and mask, bool (B or 1, 1, 1 or H, W) → images (B, Q', H, W).

        Their root-sum-of-squares is the result: Q' = Q where the network keeps the coils, 1 where it combines them.
        """

    @abstractmethod
    def draw_(self, rng: torch.Generator) -> None:
        """Fills all weights with their start values."""

    @abstractmethod
    def smallest(self) -> int:
        """The fewest rows and columns of an image it can take."""

    @final
    def weights(self) -> dict[str, Tensor]:
        """The own θ by name: the parameters themselves, not copies."""
        return dict(self.named_parameters())

    @final
    def bind(self, theta: Weights) -> "BoundNetwork":
        """f(·, θ) with exactly these weights; the own ones are neither used nor touched."""
        check_weights(theta, {name: tuple(w.shape) for name, w in self.weights().items()})
        return BoundNetwork(self, theta)

    @final
    def kernels(self) -> tuple[str, ...]:
        """None: networks have no posterior here."""
        return ()

    @final
    def project_(self) -> None:
        """Nothing: any weight will do."""


@final
@dataclass(frozen=True, eq=False)
class BoundNetwork:
    """f(·, θ) for one θ.

    rng: what a network with dropout drops its channels by; None drops none. Every call goes on in it.
    """

    network: Network
    theta: Weights = field(repr=False)
    rng: torch.Generator | None = None

    def dropping(self, rng: torch.Generator) -> "BoundNetwork":
        """The same, with channels dropped by this generator."""
        return replace(self, rng=rng)

    def __call__(self, z: Tensor, mask: Tensor) -> Tensor:
        """Coil images of zero-filled k-space, complex (B, Q, H, W); mask: bool (W,), (H, W) or (B, 1, 1, W)."""
        arguments = (z, self.checked(z, mask), *(() if self.rng is None else (self.rng,)))
        x: Tensor = torch.func.functional_call(self.network, dict(self.theta), arguments)
        return x

    def checked(self, z: Tensor, mask: Tensor) -> Tensor:
        """The mask as networks take it, bool (B or 1, 1, 1 or H, W); what they cannot take is refused."""
        check_mask(z, mask)
        if z.ndim != 4 or not z.is_complex():
            raise ShapeError(f"got {z.dtype} of shape {tuple(z.shape)}, expected complex k-space (B, Q, H, W)")
        least = self.network.smallest()
        if min(z.shape[-2:]) < least:
            raise ShapeError(
                f"got an image of {z.shape[-2]} x {z.shape[-1]}, expected at least {least} rows and columns, "
                "since this network halves it several times"
            )
        return batched(mask)


def build_network(kind: type[Network], config: NetworkConfig, rng: torch.Generator) -> Network:
    """The network with its start values drawn from `rng` alone; torch's layers would ask a global generator."""
    with torch.device("meta"):
        network = kind(config)
    network.to_empty(device="cpu")
    network.draw_(rng)
    return network


@torch.no_grad()
def draw_convolutions_(module: nn.Module, rng: torch.Generator) -> None:
    """Weights and biases of all convolutions uniform in ±1/√n with n inputs per output, torch's own start values."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            bound = (layer.weight[0].numel()) ** -0.5
            for parameter in layer.parameters():
                parameter.uniform_(-bound, bound, generator=rng)


def check_counts(name: str, config: object, *fields: str) -> None:
    """The named fields of a configuration are at least 1."""
    for field_name in fields:
        if getattr(config, field_name) < 1:
            raise ConfigError(f"got {name} with {field_name} = {getattr(config, field_name)}, expected at least 1")


def to_unit(z: Tensor) -> tuple[Tensor, Tensor]:
    """z / σ and σ, the root mean square of RSS(F⁻¹z) over the pixels of each element: (B, 1, 1, 1), 1 for an empty one.

    Networks without normalisation inside see images of the same size this way, whatever the scanner's units.
    """
    power = (z.real.square() + z.imag.square()).sum(dim=(-3, -2, -1), keepdim=True) / (z.shape[-2] * z.shape[-1])
    sigma = torch.where(power > 0, power, 1).sqrt()
    return z / sigma, sigma


def standardise(v: Tensor, dim: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """(v − mean)/std over the axes `dim`, with that mean and standard deviation (1/(n − 1)), axes kept.

    Where v is constant the standard deviation is 0 and the first result too, and both have finite gradients.
    """
    variance, mean = torch.var_mean(v, dim=dim, keepdim=True)
    varies = variance > 0
    std = torch.where(varies, variance, 1).sqrt()
    return (v - mean) / std, mean, std * varies
