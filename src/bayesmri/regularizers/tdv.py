"""Total deep variation: R(x, θ) = Σ_l r(x, θ)_l with r = (1/m) w ψ(K0 x).

ψ is a chain of macroblocks on a pyramid of features (`blocks.py`). The 1/m is the authors' and not in the paper.
Weights by name: K0 (m, 2Q, 3, 3), w (1, m, 1, 1), and of macroblock i mb{i}_res{j}_K1, mb{i}_res{j}_K2, mb{i}_down{s},
mb{i}_up{s}, all (m, m, 3, 3); j counts the residual blocks in the order of the forward sweep, s the scales from fine.
"""

from dataclasses import dataclass
from typing import Literal, final, get_args

import torch
from torch import Tensor, nn

from bayesmri.errors import ConfigError
from bayesmri.registry import register
from bayesmri.regularizers import native
from bayesmri.regularizers.base import Bound, Core, ParametricRegularizer, Weights, check_weights
from bayesmri.regularizers.blocks import (
    PLAIN,
    Macroblock,
    Pyramid,
    Residual,
    Steps,
    Trace,
    macroblock,
    macroblock_adjoint,
    macroblock_trace,
)
from bayesmri.regularizers.conv import blurred
from bayesmri.regularizers.fused import FUSED
from bayesmri.regularizers.learned import LEARNED
from bayesmri.regularizers.tv import LAMBDA, TVCore

ZeroMean = Literal["filter", "channel", "off"]
Init = Literal["normal", "positive", "identity"]
MOST_MACROBLOCKS, MOST_SCALES = 64, 12  # an image halved twelve times is a pixel; more is a mistyped number
_MEAN_AXES: dict[ZeroMean, tuple[int, ...]] = {"filter": (1, 2, 3), "channel": (2, 3)}


@final
@dataclass(frozen=True)
class TDVConfig:
    """The network; the defaults are the paper's.

    Q: coils. features: m. scales: a, each half as fine as the one before.
    blur: the stride-2 kernels are convolved with a 5x5 binomial filter (the authors' denoising code; not the paper).
    zero_mean: over what each filter of K0 has zero mean. "filter" is the paper's, over (2Q x 3 x 3) at once: R ignores
        one real number added to all real and imaginary parts. "channel" is stricter, over each 3 x 3: R ignores any
        complex constant of any coil. "off" leaves K0 free.
    init: how weights start. "normal": every kernel N(0, 1/(in·o²)), as the authors do; R has no sign then, and ∇R no
        useful direction. The others make w one and K2 a mean: "positive" over all features, with entries of about
        1/(9m); "identity" over none, x ↦ x but for a tenth of the normal noise. R then starts as a mean of φ over
        random filters, a penalty on local variation that already helps.
    init_scale: w starts times this. R is linear in w, so it is the start scale of R.
    tv: where λ starts of a smoothed total variation that is added, R = TDV + λ TV; it is learned. None adds none.
    tv_epsilon: below this, in the units that R sees, an edge costs like its square.
    """

    Q: int = 1
    features: int = 64
    macroblocks: int = 3
    scales: int = 4
    blur: bool = False
    zero_mean: ZeroMean = "filter"
    init: Init = "normal"
    init_scale: float = 1.0
    tv: float | None = None
    tv_epsilon: float = 0.15

    def __post_init__(self) -> None:
        for name in ("Q", "features", "macroblocks", "scales"):
            if getattr(self, name) < 1:
                raise ConfigError(f"got a TDV with {name} = {getattr(self, name)}, expected at least 1")
        if self.macroblocks > MOST_MACROBLOCKS or self.scales > MOST_SCALES:
            raise ConfigError(
                f"got a TDV of {self.macroblocks} macroblocks and {self.scales} scales, expected at most "
                f"{MOST_MACROBLOCKS} and {MOST_SCALES}"
            )
        if self.zero_mean not in get_args(ZeroMean):
            raise ConfigError(f"got a TDV with zero_mean = {self.zero_mean!r}, expected one of {get_args(ZeroMean)}")
        if self.init not in get_args(Init):
            raise ConfigError(f"got a TDV with init = {self.init!r}, expected one of {get_args(Init)}")
        if not 0 < self.init_scale < float("inf"):
            raise ConfigError(f"got a TDV with init_scale = {self.init_scale}, expected a positive number")
        if (self.tv is not None and not 0 <= self.tv < float("inf")) or not 0 < self.tv_epsilon < float("inf"):
            raise ConfigError(
                f"got a TDV with tv = {self.tv}, tv_epsilon = {self.tv_epsilon}, expected tv of at least 0 or none, "
                "and a positive tv_epsilon"
            )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every weight in θ, in the order of the forward sweep."""
        m = self.features
        shapes: dict[str, tuple[int, ...]] = {"K0": (m, 2 * self.Q, 3, 3)}
        for i in range(self.macroblocks):
            names = [f"mb{i}_res{j}_{K}" for j in range(2 * self.scales - 1) for K in ("K1", "K2")]
            names += [f"mb{i}_{way}{s}" for way in ("down", "up") for s in range(self.scales - 1)]
            shapes |= dict.fromkeys(names, (m, m, 3, 3))
        shapes["w"] = (1, m, 1, 1)
        return shapes if self.tv is None else shapes | {LAMBDA: ()}


@final
@dataclass(frozen=True)
class TDVCore(Core):
    """r and ∇R as pure functions of real features (B, C, H, W); C is what K0 takes, 2Q for complex images.

    memory_format: of the features; channels_last is faster everywhere, and what the kernels of `native.py` take; the
        other is what `bench` compares with.
    tv: the total variation that is added, whose λ is in θ. plain: by torch alone, which `bench` compares with.
    """

    macroblocks: int
    scales: int
    blur: bool = False
    memory_format: torch.memory_format = torch.channels_last
    tv: TVCore | None = None
    plain: bool = False

    def density(self, v: Tensor, theta: Weights) -> Tensor:
        """r = (1/m) w ψ(K0 v)."""
        pyramid = self._start(v, theta)
        for k in self._kernels(theta):
            pyramid, _ = macroblock(pyramid, k)
        w = theta["w"]
        r = torch.einsum("om,bmhw->bohw", w[:, :, 0, 0], _finest(pyramid)) / w.shape[1]
        return r if self.tv is None else r + self.tv.density(v, theta)

    def grad(self, v: Tensor, theta: Weights) -> Tensor:
        """∇R = K0* (Dψ)* (w/m) 1: one forward sweep, then one adjoint sweep."""
        kernels, w = self._kernels(theta), theta["w"]
        by, v = self._steps(v, theta), v.contiguous(memory_format=self.memory_format)
        traces = self._traces(v, theta, kernels, by)
        g: Pyramid = (w / w.shape[1], *(None,) * (self.scales - 1))  # the same in every pixel
        for k, trace in zip(reversed(kernels), reversed(traces), strict=True):
            g = macroblock_adjoint(g, k, trace, by)
        gradient = by.conv_adjoint(_finest(g), theta["K0"])
        if self.tv is None:
            return gradient
        if by is FUSED:
            return native.add_total_variation(gradient, v, float(theta[LAMBDA]), self.tv.epsilon)
        return gradient + self.tv.grad(v, theta)

    def _steps(self, v: Tensor, theta: Weights) -> Steps:
        """By the kernels in C where they fit; those that write in place where nothing is to be learned."""
        fits = theta["w"].shape[1] % native.BLOCK == 0 and not self.blur and self.memory_format == torch.channels_last
        if self.plain or not fits or not native.usable(v, *theta.values()):
            return PLAIN
        learning = torch.is_grad_enabled() and any(t.requires_grad for t in (v, *theta.values()))
        return LEARNED if learning else FUSED

    def _traces(self, v: Tensor, theta: Weights, kernels: tuple[Macroblock, ...], by: Steps) -> list[Trace]:
        """What the adjoint sweep needs of the forward one, which may stop before its last convolution."""
        pyramid, traces = self._start(v, theta, by), []
        for k in kernels[:-1]:
            pyramid, trace = macroblock(pyramid, k, by)
            traces.append(trace)
        return [*traces, macroblock_trace(pyramid, kernels[-1], by)[1]]

    def _start(self, v: Tensor, theta: Weights, by: Steps = PLAIN) -> Pyramid:
        """K0 v on the finest scale."""
        v = v.contiguous(memory_format=self.memory_format)
        return by.conv(v, theta["K0"]), *(None,) * (self.scales - 1)

    def _kernels(self, theta: Weights) -> tuple[Macroblock, ...]:
        """θ by macroblocks."""
        return tuple(
            Macroblock(
                tuple(
                    Residual(theta[f"mb{i}_res{j}_K1"], theta[f"mb{i}_res{j}_K2"]) for j in range(2 * self.scales - 1)
                ),
                tuple(self._strided(theta[f"mb{i}_down{s}"]) for s in range(self.scales - 1)),
                tuple(self._strided(theta[f"mb{i}_up{s}"]) for s in range(self.scales - 1)),
            )
            for i in range(self.macroblocks)
        )

    def _strided(self, k: Tensor) -> Tensor:
        return blurred(k) if self.blur else k


@register("tdv", TDVConfig)
@final
class TDV(ParametricRegularizer):
    """The owner of the weights of a TDV: kernels start as N(0, 1/(in·o²)), with K0 projected."""

    def __init__(self, config: TDVConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        drawn = {name: _normal(shape, rng) for name, shape in config.shapes().items() if name != LAMBDA}
        self.theta = nn.ParameterDict(drawn)
        if config.tv is not None:
            self.theta[LAMBDA] = nn.Parameter(torch.tensor(float(config.tv)))
        with torch.no_grad():
            if config.init == "positive":
                self._make_positive_()
            if config.init == "identity":
                self._make_identity_()
            self.theta["w"].mul_(config.init_scale)
        self.project_()

    def weights(self) -> dict[str, Tensor]:
        return dict(self.theta.items())

    def bind(self, theta: Weights) -> Bound:
        check_weights(theta, self.config.shapes())
        config = self.config
        tv = None if config.tv is None else TVCore(config.tv_epsilon)
        return Bound(TDVCore(config.macroblocks, config.scales, config.blur, tv=tv), dict(theta), config.Q)

    def kernels(self) -> tuple[str, ...]:
        """K1 and K2 of every residual block; K0, the stride-2 kernels and w are deterministic."""
        return tuple(name for name in self.config.shapes() if "_res" in name)

    def _make_positive_(self) -> None:
        for name, k in self.theta.items():
            if name.endswith("K2"):
                k.abs_()
                k.div_(k.sum(dim=(1, 2, 3), keepdim=True))
        self.theta["w"].fill_(1)

    def _make_identity_(self) -> None:
        for name, k in self.theta.items():
            if name.endswith("K2"):
                k.mul_(0.1)
                k[:, :, 1, 1] += torch.eye(len(k), dtype=k.dtype, device=k.device)
        self.theta["w"].fill_(1)

    @torch.no_grad()
    def project_(self) -> None:
        """Each filter k of K0: zero mean, then ‖k‖₂ ≤ 1; λ ≥ 0."""
        K0 = self.theta["K0"]
        if self.config.zero_mean in _MEAN_AXES:
            K0.sub_(K0.mean(dim=_MEAN_AXES[self.config.zero_mean], keepdim=True))
        K0.div_(torch.linalg.vector_norm(K0, dim=(1, 2, 3), keepdim=True).clamp_min(1))
        if LAMBDA in self.theta:
            self.theta[LAMBDA].clamp_min_(0)


def by_kernels(config: object) -> bool:
    """Whether ∇R of such a model is computed by the kernels in C, on the CPU of this machine."""
    fits = isinstance(config, TDVConfig) and config.features % native.BLOCK == 0 and not config.blur
    return fits and native.library() is not None


def _normal(shape: tuple[int, ...], rng: torch.Generator) -> nn.Parameter:
    """N(0, 1/(in·o²)) for a kernel (out, in, o, o)."""
    n_in = shape[1] * shape[2] * shape[3]
    return nn.Parameter(torch.randn(shape, generator=rng) / n_in**0.5)


def _finest(pyramid: Pyramid) -> Tensor:
    finest = pyramid[0]
    assert finest is not None
    return finest
