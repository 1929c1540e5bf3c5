"""No wrong image without a word: every way of storing or damaging one scan has its verdict."""

import json
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bayesmri.cli import main
from bayesmri.physics.sense import sense
from campaign import CLOSE, Way, image, kspace, matches, padded, plain_scan, psnr
from campaign import WAYS as ARRAYS
from campaign_mrd import WAYS as MRD

WAYS = [*ARRAYS, *MRD]


@dataclass(frozen=True)
class Outcome:
    """code: of the command. said: notes and warnings, or the error. X: the first slice."""

    code: int
    said: list[str]
    X: np.ndarray | None = None


def outcome(way: Way, folder: Path, capsys: pytest.CaptureFixture[str]) -> Outcome:
    path, out = way.write(folder, plain_scan()), folder / "out.h5"
    flags = [str(folder / flag) if flag.endswith(".npy") else flag for flag in way.flags]
    method = [] if "--method" in flags else ["--method", "sense"]
    code = main(["recon", str(path), "-o", str(out), *method, "--json", *flags])
    text = capsys.readouterr()
    if code:
        assert not out.exists()
        return Outcome(code, [text.err + text.out])
    made = json.loads(text.out)
    with h5py.File(out) as file:
        X = np.asarray(file["reconstruction"])
    return Outcome(code, [*made["notes"], *made["warnings"]], X[0].T if way.turned else X[0])


def quality(X: np.ndarray) -> float:
    """Padded images have more pixels: so has the truth then."""
    return psnr(X, rss(image(padded(plain_scan().u, *X.shape))))


def rss(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt((np.abs(x) ** 2).sum(axis=0)))


@pytest.fixture(scope="module")
def plain() -> np.ndarray:
    """Coil images of the scan by the method itself, without any file."""
    scan = plain_scan()
    z = torch.from_numpy(scan.z)[None]
    factor = float(rss(image(scan.z)).max())
    return np.asarray(sense(z / factor, torch.from_numpy(scan.mask))[0].numpy())


def wanted(plain: np.ndarray, shape: tuple[int, ...]) -> float:
    """dB of the plain image, with zeros around its k-space where the file has them."""
    return quality(rss(image(padded(kspace(plain), *shape))))


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_no_wrong_image_without_a_word(
    way: Way, plain: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = outcome(way, tmp_path, capsys)
    assert found.code == way.verdict.code, found.said
    assert not way.verdict.words or matches(way.verdict.words, found.said), found.said
    if way.verdict.close:
        assert found.X is not None
        assert abs(quality(found.X) - wanted(plain, found.X.shape)) < CLOSE, found.said


def test_the_plain_image_is_a_good_one(plain: np.ndarray) -> None:
    """Within a tenth of a decibel of a bad image would mean nothing."""
    assert quality(rss(plain)) > quality(rss(image(plain_scan().z))) + 3


def test_every_way_has_words_or_the_right_image() -> None:
    assert len(WAYS) >= 60
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert not [way.name for way in WAYS if not way.verdict.close and not way.verdict.words]
