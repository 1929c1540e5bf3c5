"""The MRD streaming protocol in numbers: message ids and fixed headers, little endian, as ISMRMRD 1.x packs them."""

from typing import Any, Final

import numpy as np

CONFIG_FILE, CONFIG_TEXT, HEADER, CLOSE, TEXT = 1, 2, 3, 4, 5
ACQUISITION, IMAGE, WAVEFORM = 1008, 1022, 1026
ID_BYTES, NAME_BYTES, LENGTH_BYTES, ATTRIBUTE_BYTES = 2, 1024, 4, 8

SHORT, FLOAT = 2, 5  # data types of images, int16 and float32
PIXELS: Final[dict[int, np.dtype[Any]]] = {  # by data type; complex numbers as files have them
    **{n: np.dtype(kind) for n, kind in enumerate(("<u2", "<i2", "<u4", "<i4", "<f4", "<f8"), start=1)},
    **{n: np.dtype([("real", kind), ("imag", kind)]) for n, kind in ((7, "<f4"), (8, "<f8"))},
}
MAGNITUDE = 1
MOST_CHANNELS = 1024  # as many as the channel mask has bits
MOST_DIMENSIONS = 8  # of a trajectory

_u2, _u4, _u8, _f4, _i4 = "<u2", "<u4", "<u8", "<f4", "<i4"
_DIRECTIONS: list[Any] = [
    (name, _f4, (3,)) for name in ("position", "read_dir", "phase_dir", "slice_dir", "patient_table_position")
]
_USER: list[Any] = [("user_int", _i4, (8,)), ("user_float", _f4, (8,))]

COUNTERS = np.dtype(
    [
        *((name, _u2) for name in ("kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast")),
        *((name, _u2) for name in ("phase", "repetition", "set", "segment")),
        ("user", _u2, (8,)),
    ]
)
ACQUISITION_HEAD = np.dtype(
    [
        ("version", _u2),
        ("flags", _u8),
        ("measurement_uid", _u4),
        ("scan_counter", _u4),
        ("acquisition_time_stamp", _u4),
        ("physiology_time_stamp", _u4, (3,)),
        ("number_of_samples", _u2),
        ("available_channels", _u2),
        ("active_channels", _u2),
        ("channel_mask", _u8, (16,)),
        ("discard_pre", _u2),
        ("discard_post", _u2),
        ("center_sample", _u2),
        ("encoding_space_ref", _u2),
        ("trajectory_dimensions", _u2),
        ("sample_time_us", _f4),
        *_DIRECTIONS,
        ("idx", COUNTERS),
        *_USER,
    ]
)
IMAGE_HEAD = np.dtype(
    [
        ("version", _u2),
        ("data_type", _u2),
        ("flags", _u8),
        ("measurement_uid", _u4),
        ("matrix_size", _u2, (3,)),
        ("field_of_view", _f4, (3,)),
        ("channels", _u2),
        *_DIRECTIONS,
        *((name, _u2) for name in ("average", "slice", "contrast", "phase", "repetition", "set")),
        ("acquisition_time_stamp", _u4),
        ("physiology_time_stamp", _u4, (3,)),
        *((name, _u2) for name in ("image_type", "image_index", "image_series_index")),
        *_USER,
        ("attribute_string_len", _u4),
    ]
)
# the one header that C aligns: six bytes of padding after the version, six at the end
WAVEFORM_HEAD = np.dtype(
    {
        "names": ["version", "flags", "number_of_samples", "channels"],
        "formats": [_u2, _u8, _u2, _u2],
        "offsets": [0, 8, 28, 30],
        "itemsize": 40,
    }
)
