"""i-RIM, the invertible recurrent inference machine (Putzky and Welling 2019; Putzky et al. 2019 for fastMRI)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bayesmri.baselines.network import Network, check_counts, draw_convolutions_, to_unit
from bayesmri.complexes import to_complex, to_real
from bayesmri.errors import ConfigError, ShapeError
from bayesmri.physics.fidelity import fidelity_grad
from bayesmri.physics.fourier import ifft2c
from bayesmri.registry import register

REFLECTIONS = 3  # Householder reflections that make up one orthogonal mixing of the channels
CALM = 0.5  # factor of the last convolutions' start values: the machine starts near x = F⁻¹z


@dataclass(frozen=True)
class IRIMConfig:
    """The network; the defaults are those published for a single coil, 275 M parameters.

    Q: coils, whose real and imaginary parts are channels.
    steps: each with its own layers. channels: of the whole state, estimate and memory; at least 4Q, and even.
    hidden, strides: of the layers of one step; a layer looks at the image at 1/stride of its resolution.
    """

    Q: int = 1
    steps: int = 8
    channels: int = 64
    hidden: tuple[int, ...] = (64, 64, 128, 128, 256, 1024, 1024, 256, 128, 128, 64, 64)
    strides: tuple[int, ...] = (1, 1, 2, 2, 4, 8, 8, 4, 2, 2, 1, 1)

    def __post_init__(self) -> None:
        check_counts("i-RIM", self, "Q", "steps")
        if len(self.hidden) != len(self.strides) or not self.hidden or min(self.hidden + self.strides) < 1:
            raise ConfigError(
                f"got an i-RIM with {len(self.hidden)} hidden widths and {len(self.strides)} strides, "
                "expected as many of each, all at least 1"
            )
        if self.channels < 4 * self.Q or self.channels % 2:
            raise ConfigError(
                f"got an i-RIM with {self.channels} channels for Q = {self.Q}, expected an even number of at "
                f"least {4 * self.Q}, for the estimate, the gradient and a memory"
            )


@register("irim", IRIMConfig)
class IRIM(Network):
    """State (x, s), from x = F⁻¹z and s = 0. A step puts ∇D(x) = A*(Ax − z) into the memory, then passes its layers:

        (x, s) ← h_t(x, s + ∇D(x)),   x_out = W (x, s)

    ∇D(x) is added to the first 2Q channels of s, the layers h_t are invertible, and so is the step: from its result it
    finds x, and with that the ∇D(x) to take away again. W starts by reading x. All for z of unit size (`to_unit`).
    """

    config: IRIMConfig

    def __init__(self, config: IRIMConfig) -> None:
        super().__init__()
        self.config = config
        layers = tuple(zip(config.hidden, config.strides, strict=True))
        self.steps = nn.ModuleList(
            nn.ModuleList(InvertibleLayer(config.channels, m, d) for m, d in layers) for _ in range(config.steps)
        )
        self.read = nn.Conv2d(config.channels, 2 * config.Q, 1)

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        z, sigma = to_unit(z)
        v = self.start(z)
        for t in range(self.config.steps):
            v = self.step(v, t, z, mask)
        return sigma * to_complex(self.read(v))

    def start(self, z: Tensor) -> Tensor:
        """(F⁻¹z, 0), real (B, channels, H, W)."""
        if z.shape[-3] != self.config.Q:
            raise ShapeError(f"got data of {z.shape[-3]} coils for an i-RIM of {self.config.Q}; compress the coils")
        x = to_real(ifft2c(z))
        return F.pad(x, (0, 0, 0, 0, 0, self.config.channels - x.shape[-3]))

    def step(self, v: Tensor, t: int, z: Tensor, mask: Tensor) -> Tensor:
        v = v + self._gradient(v, z, mask)
        for layer in self._layers(t):
            v = layer(v)
        return v

    def step_back(self, v: Tensor, t: int, z: Tensor, mask: Tensor) -> Tensor:
        """The state before `step`."""
        for layer in reversed(self._layers(t)):
            v = layer.inverse(v)
        return v - self._gradient(v, z, mask)

    def _gradient(self, v: Tensor, z: Tensor, mask: Tensor) -> Tensor:
        """∇D(x) in the channels of s that take it, 0 elsewhere, the channels of x above all."""
        n = 2 * self.config.Q
        g = to_real(fidelity_grad(to_complex(v[:, :n]), z, mask))
        return F.pad(g, (0, 0, 0, 0, n, self.config.channels - 2 * n))

    def _layers(self, t: int) -> "list[InvertibleLayer]":
        return [layer for layer in self.steps[t].children() if isinstance(layer, InvertibleLayer)]

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        draw_convolutions_(self, rng)
        for layer in self.modules():
            if isinstance(layer, InvertibleLayer):
                layer.draw_(rng)
        self.read.weight.copy_(torch.eye(2 * self.config.Q, self.config.channels)[..., None, None])
        assert self.read.bias is not None
        self.read.bias.zero_()

    def smallest(self) -> int:
        """Layers pad what they look at."""
        return 1


class InvertibleLayer(nn.Module):
    """Additive coupling of two halves of the channels, mixed by an orthogonal U = (U_a; U_b):

        v ← Uᵀ(a, b + G(a)) = v + U_bᵀ G(a),   (a, b) = U v,   U = Π_k (1 − 2 w_k w_kᵀ/‖w_k‖²)

    G: a d x d convolution of stride d, a 3 x 3 one, and a transposed one back, with rectifiers between, and the product
    of one half of its result with the sigmoid of the other (a gated linear unit). The result has the same a = U_a v, so
    the inverse subtracts the same G(a); G itself needs none.
    """

    def __init__(self, channels: int, hidden: int, stride: int) -> None:
        super().__init__()
        half = channels // 2
        self.stride = stride
        self.mirrors = nn.Parameter(torch.empty(REFLECTIONS, channels))
        self.look = nn.Conv2d(half, hidden, stride, stride=stride)
        self.think = nn.Conv2d(hidden, hidden, 3, padding=1)
        self.grow = nn.ConvTranspose2d(hidden, 2 * half, stride, stride=stride)

    @torch.no_grad()
    def draw_(self, rng: torch.Generator) -> None:
        """Convolutions that keep the variance through rectifiers (He et al. 2015), but for the last, which is calm."""
        self.mirrors.normal_(generator=rng)
        for layer, gain, inputs in (
            (self.look, 6.0, self.look.weight[0].numel()),
            (self.think, 6.0, self.think.weight[0].numel()),
            (self.grow, 3.0 * CALM**2, self.grow.in_channels),
        ):
            bound = (gain / inputs) ** 0.5
            layer.weight.uniform_(-bound, bound, generator=rng)

    def forward(self, v: Tensor) -> Tensor:
        return v + self._change(v)

    def inverse(self, v: Tensor) -> Tensor:
        """The v that `forward` came from."""
        return v - self._change(v)

    def _change(self, v: Tensor) -> Tensor:
        """U_bᵀ G(U_a v), on an image padded to a multiple of the stride and cut again."""
        H, W = v.shape[-2:]
        U_a, U_b = self._mixing().chunk(2)
        # U_a goes into the first kernel: no image of a at full resolution
        kernel = torch.einsum("macd,an->mncd", self.look.weight, U_a).contiguous()
        v = F.conv2d(F.pad(v, (0, -W % self.stride, 0, -H % self.stride)), kernel, self.look.bias, stride=self.stride)
        g = F.glu(self.grow(F.relu(self.think(F.relu(v)))), dim=1)[..., :H, :W]
        return F.conv2d(g, U_b.T.contiguous()[..., None, None])

    def _mixing(self) -> Tensor:
        """U, (channels, channels)."""
        U = torch.eye(self.mirrors.shape[-1], device=self.mirrors.device, dtype=self.mirrors.dtype)
        for w in self.mirrors:
            U = U - 2 * torch.outer(U @ w, w) / (w @ w)
        return U
