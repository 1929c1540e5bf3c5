"""Which of a model's calibrated bounds holds for the data at hand; one that does not is refused, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import Expected
from bayesmri.bounds.left_out import tells
from bayesmri.errors import ModelError
from bayesmri.kspace import KSpace
from bayesmri.recon.method import Method
from bayesmri.recon.request import Options

Images = NDArray[np.float32]


@dataclass(frozen=True)
class Chosen:
    """calibration: that holds here, None where there is none. note: why a bound that the model has does not hold.

    of_error: the bound is of σ_total, by the model's head, instead of σ̂.
    """

    calibration: Calibration | None = None
    note: str | None = None
    of_error: bool = False

    def bound(
        self, mean: Images, std: Images | None, error_std: Images | None = None, expected: Expected | None = None
    ) -> Images | None:
        """λ (σ + f max X̄) where a calibration holds, or with the expected RMS error where it is relative to that.

        σ: σ_total or σ̂.
        """
        width = error_std if self.of_error else std
        if self.calibration is None or width is None:
            return None
        return self.calibration.bound(mean, width, None if expected is None else expected.rmse)


def choose_bound(method: Method, kspace: KSpace, asked: Options, *, outside: Sequence[str] = ()) -> Chosen:
    """The bound of σ_total that holds here, where the method has a head and one; otherwise that of σ̂.

    outside: why the data is unlike that of the model's training, where no bound holds whatever its setting.
    """
    of_error = method.error_calibrations if method.error_head is not None and not outside else ()
    if asked.level is not None:
        of_error = tuple(c for c in of_error if abs(c.level - asked.level) < 1e-9)
    fitting = [c for c in of_error if _misfit(c, kspace, asked) is None]
    if fitting:
        return Chosen(max(fitting, key=lambda c: (c.level, c.relative)), of_error=True)
    return choose(method.name, method.calibrations, kspace, asked, outside=outside)


def choose(
    name: str, known: Sequence[Calibration], kspace: KSpace, asked: Options, *, outside: Sequence[str] = ()
) -> Chosen:
    """The bound at the level asked for, or else at the highest level that holds here.

    A level that was asked for and does not hold is refused before any work; otherwise there is a note.

    name: of the model. known: its calibrations. kspace: as it will be reconstructed.
    outside: why the data is unlike that of the model's training, where no bound holds whatever its setting.
    """
    if asked.level is None and not known:
        return Chosen()
    at_level = [c for c in known if asked.level is None or abs(c.level - asked.level) < 1e-9]
    if not at_level:
        raise ModelError(f"{_wanted(asked)} of {name} was asked for, which has {_levels(known)}")
    unlike = f"the data is unlike that of training: {'; '.join(outside)}" if outside else None
    reasons = {c: unlike or _misfit(c, kspace, asked) for c in at_level}
    fitting = [c for c, reason in reasons.items() if reason is None]
    if fitting:
        return Chosen(max(fitting, key=lambda c: (c.level, c.relative)))
    said = "; ".join(list(dict.fromkeys(filter(None, reasons.values())))[:3])
    if asked.level is None:
        # without samples nobody expects a bound
        return Chosen(note=f"no error bound of {name} holds here: {said}" if asked.samples else None)
    raise ModelError(
        f"{_wanted(asked)} of {name} does not hold here: {said}; leave the level out, or calibrate for such data "
        "(bayesmri calibrate)"
    )


def _misfit(calibration: Calibration, kspace: KSpace, asked: Options) -> str | None:
    if calibration.relative and not (asked.check and tells(kspace.mask)):
        return "it is relative to the expected error, which --check tells where enough lines can be left out"
    return calibration.setting.misfit(kspace.mask, coils=kspace.z.shape[1], samples=asked.samples, fast=asked.fast)


def _wanted(asked: Options) -> str:
    return "an error bound" if asked.level is None else f"an error bound at the level {asked.level:g}"


def _levels(known: Sequence[Calibration]) -> str:
    if not known:
        return "none: make one with bayesmri calibrate, or leave the level out"
    levels = ", ".join(f"{level:g}" for level in sorted({c.level for c in known}))
    return f"bounds at {levels}: ask for one of these, or calibrate for that level"
