"""Rows and columns exchanged: undersampling lies along the last axis inside, wherever a file has it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayesmri.kspace import Header, KSpace

NOTE = (
    "the data is undersampled along its rows: rows and columns were exchanged for the reconstruction, and the images "
    "turned back"
)


def turned(kspace: KSpace, *, mask: NDArray[np.bool_] | None = None) -> KSpace:
    """All of it with rows and columns exchanged. mask: of the new columns; all of them unless given."""
    z = np.ascontiguousarray(kspace.z.swapaxes(-1, -2))
    return replace(
        kspace,
        z=z,
        mask=np.ones(z.shape[-1], dtype=bool) if mask is None else mask,
        header=turned_header(kspace.header),
        truth=None if kspace.truth is None else np.ascontiguousarray(kspace.truth.swapaxes(-1, -2)),
    )


def turned_header(header: Header) -> Header:
    """Shapes, spacings and the affine of the turned grid; turning twice changes nothing."""
    shape, voxel, affine, window = header.recon_shape, header.voxel_mm, header.affine, header.encoded
    return replace(
        header,
        recon_shape=None if shape is None else (shape[1], shape[0]),
        voxel_mm=None if voxel is None else (voxel[1], voxel[0], voxel[2]),
        affine=None if affine is None else np.asarray(affine)[:, [1, 0, 2, 3]],
        turned=not header.turned,
        encoded=None if window is None else (*window[2:], *window[:2]),
    )
