"""Masks have the acceleration they claim: exactly round(W/R) lines, for every width."""

import pytest
import torch

from bayesmri.errors import MaskError
from bayesmri.physics.mask import (
    MaskKind,
    MaskSpec,
    equispaced_mask,
    n_center_lines,
    random_mask,
)

KINDS: tuple[MaskKind, ...] = ("random", "equispaced")


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("R", [1, 2, 3, 4, 6, 8])
def test_every_width_keeps_exactly_the_lines_of_R(kind: MaskKind, R: int) -> None:
    for W in range(32, 401):
        mask = MaskSpec(kind, R).draw(W, rng(W))
        assert int(mask.sum()) == round(W / R)
        assert int(mask.sum()) == round(W / R)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("R", "fraction"), [(4, 0.08), (8, 0.04)])
def test_calibration_area_is_complete_and_holds_the_zero_frequency(kind: MaskKind, R: int, fraction: float) -> None:
    for W in range(32, 401):
        n = n_center_lines(W, R, fraction)
        assert n == max(1, round(W * fraction))
        first = (W - n + 1) // 2
        assert first <= W // 2 < first + n
        assert MaskSpec(kind, R, fraction).draw(W, rng(W))[first : first + n].all()


def test_the_default_calibration_area_is_the_papers() -> None:
    for W in (320, 368, 372):
        assert n_center_lines(W, 4, None) == round(0.08 * W)
        assert n_center_lines(W, 8, None) == round(0.04 * W)


def test_random_lines_are_uniform_outside_the_calibration_area() -> None:
    generator, W, R, draws = rng(), 64, 4, 4000
    counts = torch.stack([random_mask(W, R, rng=generator) for _ in range(draws)]).sum(dim=0)
    n_center = n_center_lines(W, R, None)
    outer = counts[counts < draws]
    assert len(outer) == W - n_center
    p = (W // R - n_center) / (W - n_center)
    assert ((outer - draws * p).abs() < 5 * (draws * p * (1 - p)) ** 0.5).all()


def test_a_rule_of_several_accelerations_draws_each_as_often() -> None:
    spec, generator = MaskSpec("random", 4.0, also=(8.0, 2.0)), rng(3)
    lines = [int(spec.draw(64, generator).sum()) for _ in range(600)]
    assert set(lines) == {16, 8, 32}
    assert all(abs(lines.count(n) - 200) < 50 for n in (16, 8, 32))  # 50 are 4.3 standard deviations
    with pytest.raises(MaskError, match=r"got an acceleration of 0\.5"):
        MaskSpec("random", 4.0, also=(0.5,))


def test_masks_follow_their_seed() -> None:
    assert torch.equal(random_mask(368, 4, rng=rng(3)), random_mask(368, 4, rng=rng(3)))
    assert not torch.equal(random_mask(368, 4, rng=rng(3)), random_mask(368, 4, rng=rng(4)))


def test_equispaced_gaps_differ_by_at_most_one_line() -> None:
    for W in range(32, 401):
        mask = equispaced_mask(W, 4, offset=1, rng=rng())
        n = n_center_lines(W, 4, None)
        outer = torch.cat((mask[: (W - n + 1) // 2], mask[(W - n + 1) // 2 + n :]))
        gaps = torch.nonzero(outer).flatten().diff()
        assert gaps.max() - gaps.min() <= 1


def test_the_offset_moves_an_equispaced_mask() -> None:
    first, second = (equispaced_mask(128, 4, offset=o, rng=rng()) for o in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(first, equispaced_mask(128, 4, offset=0, rng=rng(9)))
    assert first[0]
    assert second[1]


@pytest.mark.parametrize("R", [1, 2, 3.7, 4, 8])
def test_the_offset_is_the_first_line_outside_the_centre_and_no_other_is_taken(R: float) -> None:
    """As many offsets as leave every line in its place; the next one would wrap around, or leave a gap too wide."""
    for W in range(32, 200):
        n = n_center_lines(W, R, None)
        first, n_rest = (W - n + 1) // 2, round(W / R) - n
        spacing = -(-(W - n) // n_rest)  # rounded up
        for offset in range(spacing):
            mask = equispaced_mask(W, R, offset=offset, rng=rng())
            outer = torch.cat((mask[:first], mask[first + n :]))
            assert int(torch.nonzero(outer)[0]) == offset
            assert int(mask.sum()) == round(W / R)
        for offset in (-1, spacing, 400, 99999999999999999999):
            with pytest.raises(MaskError, match=f"got the offset {offset} for"):
                equispaced_mask(W, R, offset=offset, rng=rng())


def test_a_mask_of_the_centre_alone_has_no_offset() -> None:
    centre = equispaced_mask(64, 8, center_fraction=0.125, offset=0, rng=rng())
    assert int(centre.sum()) == 8
    with pytest.raises(MaskError, match="the only one possible"):
        equispaced_mask(64, 8, center_fraction=0.125, offset=1, rng=rng())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (lambda: MaskSpec("random", 0.5), "at least 1"),
        (lambda: MaskSpec("random", float("nan")), "at least 1"),
        (lambda: MaskSpec("random", 4, 1.5), "between 0 and 1"),
        (lambda: MaskSpec("random", 8, 0.5).draw(64, rng()), "lower the center fraction"),
        (lambda: MaskSpec("random", 400).draw(64, rng()), "keeps none"),
        (lambda: MaskSpec("radial", 4), "random, equispaced, poisson"),  # type: ignore[arg-type]
    ],
)
def test_impossible_masks_are_refused(spec, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MaskError, match=words):
        spec()
