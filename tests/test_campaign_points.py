"""No wrong image without a word, of masks of two axes, partial Fourier and 3-D scans."""

import json
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri.cli import main
from bayesmri.physics.sense import sense
from campaign import CLOSE, Array, image, kspace, matches, padded, psnr
from campaign_points import MIDDLE, WAYS, Way, points, slab


def rss(x: Array) -> Array:
    return np.asarray(np.sqrt((np.abs(x) ** 2).sum(axis=0)))


def quality(X: Array) -> float:
    return psnr(X, rss(image(padded(slab()[0], *X.shape))))


@cache
def plain(mask: str, size: int) -> float:
    """dB of the slice by the method itself, without any file, with zeros around its k-space where the file has them."""
    scan = points(mask)
    z = torch.from_numpy(scan.z)[None]
    x = sense(z / float(rss(image(scan.z)).max()), torch.from_numpy(scan.mask))[0].numpy()
    return quality(rss(image(padded(kspace(x), size, size))))


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_no_wrong_image_without_a_word(way: Way, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = way.write(tmp_path, points(way.mask)), tmp_path / "out.h5"
    flags = [str(tmp_path / flag) if flag.endswith(".npy") else flag for flag in way.flags]
    code = main(["recon", str(path), "-o", str(out), "--method", "sense", "--json", *flags])
    text = capsys.readouterr()
    assert code == way.verdict.code, text
    if code:
        assert not out.exists()
        assert matches(way.verdict.words, [text.err]), text.err
        return
    made = json.loads(text.out)
    heard = [*made["notes"], *made["warnings"]]
    assert not way.verdict.words or matches(way.verdict.words, heard), heard
    if way.verdict.close:
        with h5py.File(out) as file:
            X = np.asarray(file["reconstruction"])[0 if way.flat else MIDDLE]
        assert abs(quality(X.T if way.turned else X) - plain(way.mask, way.size)) < CLOSE, heard


@pytest.mark.parametrize("mask", ["poisson", "ellipse", "grid", "lines"])
def test_the_plain_image_is_a_good_one(mask: str) -> None:
    assert plain(mask, 48) > quality(rss(image(points(mask).z))) + 3


def test_every_way_has_words_or_the_right_image() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert not [way.name for way in WAYS if not way.verdict.close and not way.verdict.words]
