"""bayesmri inspect FILE."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesmri.bounded import one_line
from bayesmri.cli.options import LAYOUT, SOURCE, Layout, Source
from bayesmri.cli.output import print_json
from bayesmri.io.inspect import Inspection, inspect_file
from bayesmri.io.privacy.find import privacy as find_privacy
from bayesmri.messages import Messages


def inspect(
    file: Path,
    /,
    *,
    layout: Layout = LAYOUT,
    source: Source = SOURCE,
    privacy: bool = False,
    strict: bool = False,
    json: bool = False,
) -> None:
    """Say what FILE is: format, sizes, coils, the acceleration found, header facts, and what looks wrong.

    Parameters
    ----------
    file
        Raw k-space (fastMRI or ISMRMRD HDF5, BART .cfl, .npy, .npz) or magnitude images (DICOM, NIfTI, HDF5).
    privacy
        List instead what in FILE identifies a patient, or may: of raw data, results, DICOM, NIfTI, PNG, pages and JSON.
    strict
        Treat warnings as errors: list them and exit with 2.
    json
        Print JSON instead of text.
    """
    if privacy:
        told = find_privacy(file, trusted=source.trusted)
        print_json(told) if json else _print_privacy(told)
        return
    found = inspect_file(file, given=layout.given(), choice=source.choice(), trusted=source.trusted)
    Messages(found.notes, found.warnings).check(strict=strict)
    if json:
        print_json(found.as_json())
    else:
        _print(found)


def _print_privacy(told: Mapping[str, Any]) -> None:
    print(f"{told['file']} ({told['kind']}): {told['identifies']} of {len(told['findings'])} findings identify")
    width = max((len(one["place"]) for one in told["findings"]), default=0)
    for one in told["findings"]:
        print(f"  {one['sure']:<12}  {one['place']:<{width}}  {one['value']}")
    for note in told["notes"]:
        print(f"  note: {note}")


def _print(found: Inspection) -> None:
    H, W = found.shape
    rows = {"format": found.format, "kind": found.kind, "slices": str(found.slices)}
    if found.kind == "k-space":
        rows["coils"] = str(found.coils)
    rows["grid"] = f"{H} x {W} (readout x phase encoding)" if found.kind == "k-space" else f"{H} x {W}"
    if found.recon_shape is not None:
        rows["image"] = f"{found.recon_shape[0]} x {found.recon_shape[1]} (central part shown)"
    if found.acceleration is not None:
        rows["sampling"] = (
            f"{found.acquired_lines} of {H * W if found.points else W} {'points' if found.points else 'lines'}, "
            f"R = {found.acceleration:.2f}, {found.calibration_lines} around the centre complete"
        )
        rows["truth"] = "in the file" if found.has_truth else "none in the file"
    rows["geometry"] = "affine known" if found.has_affine else "no position in space"
    rows |= {key: value for key, value in found.facts.items() if key not in rows}
    print(one_line(found.file))
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"  {key:<{width}}  {value}")
    for note in found.notes:
        print(f"  note: {note}")
    for warning in found.warnings:
        print(f"  warning: {warning}")
