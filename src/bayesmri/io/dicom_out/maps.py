"""σ̂, typical error, error bound and visibility as Parametric Maps: numbers with units, laid over the mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmri.io.dicom_out.sheet import MAKER, Sheet, stamp
from bayesmri.io.dicom_out.uids import uid
from bayesmri.io.dicom_out.words import Kind, window
from bayesmri.machine.optional import needed

TOP = 65_535
LABEL, EXPLANATION = 16, 64  # characters


def parametric_map(
    values: NDArray[np.float32], kind: Kind, sheet: Sheet, *, over: Sequence[Any], number: int, as_float: bool
) -> Any:
    """One file of all slices (slices, h, w). over: the images of the mean, whose place and patient it takes.

    as_float: the values themselves; otherwise 16 bit with a slope, which more viewers show.
    """
    hd = needed("highdicom", extra="dicom", what="DICOM")
    pm = needed("highdicom.pm", extra="dicom", what="DICOM")
    pixels, scale, offset = (values, 1.0, 0.0) if as_float else _stored(values)
    centre, width = window(pixels, least=1e-30 if as_float else 1.0)
    made = pm.ParametricMap(
        source_images=list(over),
        pixel_array=pixels,
        series_instance_uid=sheet.series_uid(kind),
        series_number=number,
        sop_instance_uid=sheet.instance_uid(kind, 1),
        instance_number=1,
        manufacturer=MAKER,
        manufacturer_model_name=MAKER,
        software_versions=sheet.version,
        device_serial_number=sheet.content[:16],
        contains_recognizable_visual_features=True,
        real_world_value_mappings=[_real_world(pm, hd, kind, pixels, scale=scale, offset=offset)],
        voi_lut_transformations=[
            hd.VOILUTTransformation(window_center=centre, window_width=width, voi_lut_function="LINEAR_EXACT")
        ],
        content_label=kind.label[:LABEL],
        content_description=kind.title[:EXPLANATION],
    )
    stamp(made, sheet, kind)
    _stable(made, sheet, kind)
    return made


def _stored(values: NDArray[np.float32]) -> tuple[NDArray[np.uint16], float, float]:
    """(16 bit, slope, intercept); 0 is stored as 0 unless there are negative values."""
    low, high = min(float(values.min()), 0.0), float(values.max())
    scale = (high - low) / TOP or 1.0
    return np.clip(np.rint((values.astype(np.float64) - low) / scale), 0, TOP).astype(np.uint16), scale, low


def _real_world(pm: Any, hd: Any, kind: Kind, pixels: NDArray[Any], *, scale: float, offset: float) -> Any:
    as_float = pixels.dtype.kind == "f"
    ends = (float(pixels.min()), float(pixels.max())) if as_float else (0, TOP)
    return pm.RealWorldValueMapping(
        lut_label=kind.label[:LABEL],
        lut_explanation=kind.title[:EXPLANATION],
        unit=hd.sr.CodedConcept(*kind.unit),
        value_range=ends,
        slope=scale,
        intercept=offset,
        quantity_definition=hd.sr.CodedConcept(*kind.quantity),
    )


def _stable(made: Any, sheet: Sheet, kind: Kind) -> None:
    """The organization of dimensions has a random identifier otherwise."""
    own = uid(sheet.content, kind.name, "dimensions")
    for item in [*made.DimensionOrganizationSequence, *made.DimensionIndexSequence]:
        item.DimensionOrganizationUID = own
