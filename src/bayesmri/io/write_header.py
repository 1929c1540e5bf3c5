"""The ISMRMRD header that fastMRI files carry: sizes, field of view and the range of phase-encoding steps."""

from collections.abc import Mapping
from xml.etree import ElementTree

NAMESPACE = "http://www.ismrm.org/ISMRMRD"

Tree = Mapping[str, "Tree | str"]


def fastmri_header(
    *,
    grid: tuple[int, int],
    recon_shape: tuple[int, int],
    n_slices: int,
    n_coils: int,
    voxel_mm: tuple[float, float, float] | None,
) -> str:
    """Valid ISMRMRD XML for a Cartesian scan on a full grid: x is the readout H, y the phase encoding W.

    voxel_mm: along (h, w, slice); None gives a field of view of 0, the mark of "unknown".
    """
    H, W = grid
    spacing = voxel_mm or (0.0, 0.0, 0.0)
    header: Tree = {
        "acquisitionSystemInformation": {"receiverChannels": str(n_coils)},
        "experimentalConditions": {"H1resonanceFrequency_Hz": "0"},  # the schema demands it; 0: unknown
        "encoding": {
            "encodedSpace": _space((H, W), spacing),
            "reconSpace": _space(recon_shape, spacing),
            "encodingLimits": {
                "kspace_encoding_step_1": _limits(W),
                "slice": _limits(n_slices),
            },
            "trajectory": "cartesian",
        },
    }
    root = ElementTree.Element("ismrmrdHeader", {"xmlns": NAMESPACE})
    _grow(root, header)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + text


def _space(shape: tuple[int, int], spacing: tuple[float, float, float]) -> Tree:
    matrix = dict(zip("xyz", (*shape, 1), strict=True))
    return {
        "matrixSize": {axis: str(n) for axis, n in matrix.items()},
        "fieldOfView_mm": {axis: f"{n * mm:.9g}" for (axis, n), mm in zip(matrix.items(), spacing, strict=True)},
    }


def _limits(n: int) -> Tree:
    return {"minimum": "0", "maximum": str(n - 1), "center": str(n // 2)}


def _grow(parent: ElementTree.Element, children: Tree) -> None:
    for name, content in children.items():
        child = ElementTree.SubElement(parent, name)
        if isinstance(content, str):
            child.text = content
        else:
            _grow(child, content)
