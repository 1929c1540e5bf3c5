"""The down-up network (Yu, Park, Jeong 2019), which regularizes in Σ-Net: to coarse scales and back, several times."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

GRID = 8  # half resolution once, and two scales more in each block


class DownUp(nn.Module):
    """Real (B, C, H, W) → the same: a convolution, half resolution, down-up blocks in a row, all their results joined,
    full resolution, a convolution. Images are padded by zeros to a multiple of 8 and cut again.
    """

    def __init__(self, channels: int, *, features: int, blocks: int) -> None:
        super().__init__()
        m = features
        self.first = _convolution(channels, m)
        self.halve = nn.Conv2d(m, m, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(DownUpBlock(m) for _ in range(blocks))
        self.join = nn.Sequential(nn.Conv2d(blocks * m, m, 1), nn.PReLU(), *_convolution(m, m))
        self.enlarge = _Enlarge(m, m)
        self.last = nn.Conv2d(m, channels, 3, padding=1)

    def forward(self, v: Tensor) -> Tensor:
        H, W = v.shape[-2:]
        v = self.halve(self.first(F.pad(v, (0, -W % GRID, 0, -H % GRID))))
        seen = []
        for block in self.blocks:
            v = block(v)
            seen.append(v)
        out: Tensor = self.last(self.enlarge(self.join(torch.cat(seen, dim=1)) + v))
        return out[..., :H, :W]


class DownUpBlock(nn.Module):
    """Three scales of m, 2m and 4m features: down by strided convolutions, up by shuffling channels into pixels, with
    two convolutions as a residual at each scale on each way, and the finer scale's features joined on the way up."""

    def __init__(self, m: int) -> None:
        super().__init__()
        self.fine, self.fine_up = _Residual(m), _Residual(m)
        self.middle, self.middle_up = _Residual(2 * m), _Residual(2 * m)
        self.coarse = _Residual(4 * m)
        self.to_middle = nn.Conv2d(m, 2 * m, 3, stride=2, padding=1)
        self.to_coarse = nn.Conv2d(2 * m, 4 * m, 3, stride=2, padding=1)
        self.from_coarse, self.join_middle = _Enlarge(4 * m, 2 * m), nn.Conv2d(4 * m, 2 * m, 1)
        self.from_middle, self.join_fine = _Enlarge(2 * m, m), nn.Conv2d(2 * m, m, 1)
        self.last = nn.Conv2d(m, m, 3, padding=1)

    def forward(self, v: Tensor) -> Tensor:
        fine = self.fine(v)
        middle = self.middle(self.to_middle(fine))
        up = self.from_coarse(self.coarse(self.to_coarse(middle)))
        middle = self.middle_up(self.join_middle(torch.cat((middle, up), dim=1)))
        fine = self.fine_up(self.join_fine(torch.cat((fine, self.from_middle(middle)), dim=1)))
        out: Tensor = v + self.last(fine)
        return out


class _Residual(nn.Module):
    """v + two convolutions of v."""

    def __init__(self, m: int) -> None:
        super().__init__()
        self.change = nn.Sequential(*_convolution(m, m), *_convolution(m, m))

    def forward(self, v: Tensor) -> Tensor:
        out: Tensor = v + self.change(v)
        return out


class _Enlarge(nn.Module):
    """Twice the resolution: four features become the 2 x 2 pixels of one."""

    def __init__(self, m_in: int, m_out: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(m_in, 4 * m_out, 1)

    def forward(self, v: Tensor) -> Tensor:
        return F.pixel_shuffle(self.spread(v), 2)


def _convolution(m_in: int, m_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(m_in, m_out, 3, padding=1), nn.PReLU())
