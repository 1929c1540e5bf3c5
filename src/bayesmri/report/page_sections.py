"""The sections of a page below its images: k-space, quality, bounds, how to read it, and where it comes from."""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bayesmri.io.guard import one_line
from bayesmri.io.results import Result
from bayesmri.metrics import Metrics
from bayesmri.report.page import number_table, paragraph, words_table
from bayesmri.report.page_names import expected_text, is_mean, level_text

ROWS_MAX = 200
VALUE_MAX = 300  # characters
SHORTFALL = 0.02  # of the level: less than the spread between volumes would be no news
FOREGROUND = "foreground"  # the region of a bound that holds inside the body only
HEADS = (("psnr", "PSNR, dB", "{:.2f}"), ("ssim", "SSIM", "{:.4f}"), ("nmse", "NMSE", "{:.4f}"))
SHOWN = {  # datasets of the file that a page shows, and as what
    "reconstruction": "the image",
    "uncertainty_std": "standard deviation",
    "deterministic": "deterministic image",
    "zero_filled": "zero-filled image",
    "target": "truth",
    "error_std": "typical error",
    "error_bound": "calibrated error bound",
    "mask": "mask",
    "samples": "samples",
    "visibility": "visibility of templates",
    "kspace_mean": "k-space, over the coils",
    "kspace_std": "k-space, over the coils",
}


@dataclass(frozen=True)
class Compared:
    """Against the truth, by the estimate's title.

    covered: the share of the pixels whose error the bound holds, None without a bound; coverage: of every slice, NaN
    where it has no pixel that counts.
    missing: why there are no numbers; "" where there are.
    """

    volume: Mapping[str, Metrics]
    slices: Mapping[str, Sequence[Metrics]]
    covered: float | None = None
    coverage: Sequence[float] = ()
    missing: str = ""


def kspace_section(result: Result) -> str:
    if result.grid is not None:
        return paragraph(
            "Of the model's coils, on the whole measured grid, relative to the largest magnitude of the slice. The "
            "standard deviation is small on acquired lines, which the data hold, and larger on missing ones, which the "
            "model filled.",
            "soft",
        )
    return paragraph(
        "The file holds no k-space (it comes with --samples). Shown is the Fourier transform of the magnitude image: "
        "without phase and coils it is not what was measured, and its columns need not be those of the mask.",
        "soft",
    )


def quality_section(compared: Compared, *, linked: Container[int]) -> str:
    """Tables of the volume and of every slice."""
    if compared.missing:
        return paragraph(compared.missing)
    heads = [head for _, head, _ in HEADS]
    volume = [[name, *_numbers(row)] for name, row in compared.volume.items()]
    text = number_table(["", *heads], volume, "Whole volume, as fastMRI defines it (central 320 × 320 pixels)")
    names = list(compared.slices)
    pair = names if len(names) == 1 else [names[0], names[-1]]
    columns = ["slice", *(f"{head} {name.lower()}" for head in heads for name in pair)]
    if compared.coverage:
        columns.append("within bound")
    n = len(compared.slices[names[0]])
    rows = [_slice_row(compared, pair, s) for s in range(n)]
    caption = "Every slice, with the range of the volume; choose a number to see the slice"
    return text + number_table(columns, rows, caption, slices=range(n), linked=linked)


def expected_section(result: Result) -> str:
    """The error that left-out lines tell, which needs no truth."""
    known = result.expected
    if not known:
        return ""
    text = expected_text(result)
    if not known["left_out"]:
        return paragraph(f"{text}.")
    return paragraph(
        f"{text[0].upper()}{text[1:]}: PSNR {known['psnr_low']:.1f} to {known['psnr_high']:.1f} dB for 90 % of scans, "
        f"NMSE {known['nmse']:.3g}. {known['left_out']:.0f} measured lines or points were left out, a quarter of them "
        "at a time, and compared with what was reconstructed without them; at most "
        f"{100 * known['noise_share']:.0f} % of the error is noise, which a fully sampled scan holds, too."
    )


def _slice_row(compared: Compared, pair: Sequence[str], s: int) -> list[str]:
    found = [_numbers(compared.slices[name][s]) for name in pair]
    covered = [_share(compared.coverage[s])] if compared.coverage else []
    return [str(s + 1), *(numbers[k] for k in range(len(HEADS)) for numbers in found), *covered]


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _numbers(row: Metrics) -> list[str]:
    values = [(getattr(row, key), form) for key, _, form in HEADS]
    return ["–" if math.isnan(value) else form.format(value) for value, form in values]


def bounds_section(result: Result, compared: Compared) -> str:
    if "error_bound" not in result.others:
        reminder = " The standard deviation says how much the samples differ, not how large the error is."
        if result.bound_note:
            return paragraph(f"Not applied: {result.bound_note}.{reminder}")
        return paragraph("Not calibrated: this file holds no error bounds." + (reminder if is_mean(result) else ""))
    if result.level is None:
        return paragraph("The file holds error bounds, but does not say at which level they were calibrated.")
    text = paragraph(f"Calibrated at {level_text(result.level)}: {_promised(result)}")
    if compared.covered is not None:
        where = " of the foreground" if result.promise.get("region") == FOREGROUND else ""
        held = f"{_share(compared.covered)} of the pixels{where}"
        text += paragraph(f"In this volume the bound holds for {held}; the table above has every slice.")
        if compared.covered < result.level - SHORTFALL:
            text += paragraph(
                "That is less than the level, which holds on average over subjects: this one may be unlike those of "
                "the calibration.",
                "notice",
            )
    rows = [(name, value) for name, value in result.promise.items() if name != "guarantee"]
    return text + (words_table(rows, "The calibration, as recorded in the file") if rows else "")


def _promised(result: Result) -> str:
    """In the words of the file, where it has some."""
    said = result.promise.get("guarantee", "").rstrip(".")
    general = "in volumes like those of the calibration that share of the pixels is at most this far from the truth"
    return f"{said or general}. It is a statement about many pixels, not about each of them."


def reading_section(result: Result) -> str:
    texts = [
        "White stands for the value that 99.5 % of the truth's pixels stay below (of the reconstruction's where no "
        "truth is known), the same for all images and slices; window, level and maps are given in percent of it.",
        "The page keeps images in steps of 1/4095 of each slice's range, samples in 1/127 of their largest difference "
        "from the mean, k-space in 1/255 of six decades. Numbers in the tables come from the exact values.",
    ]
    if result.visibility:
        texts.append(
            "Visibility says how much of the contrast of a structure like the template would come out right at every "
            "place, were it there: an estimate from the measured lines, clutter and noise, with weights fitted on "
            "other subjects. Where it is low, that nothing is seen does not mean that nothing is there."
        )
    if is_mean(result):
        texts.append(
            "The standard deviation says how much the reconstruction varies with the weights of the model. Where all "
            "draws make the same mistake it is small, and the mistake remains."
        )
    if "error_std" in result.others:
        texts.append(
            "The typical error is the standard deviation of the image's error at every pixel, learned on subjects "
            "that the model was not trained on. It has the size of errors on average, and does not know each of them."
        )
    if not is_mean(result) and "uncertainty_std" in result.others:
        texts.append("The standard deviation is what the network expects its error to be; it may be wrong about it.")
    return "".join(map(paragraph, texts))


def origin_section(result: Result) -> str:
    rows = list(islice(provenance_rows(_effective(result.provenance)), ROWS_MAX))
    identity = "in the HDF5 file, left out here" if result.identified else "none in the file"
    rows.append(("patient identifier", identity))
    intro = "" if result.provenance else paragraph("The file does not record where it comes from.")
    contents = [(name, shape, kind, SHOWN.get(name, "not shown")) for name, shape, kind in result.contents]
    return intro + words_table(rows, "As recorded in the file") + words_table(contents, "Datasets of the file")


def _effective(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the name of a method where a model took its place."""
    config = provenance.get("config")
    if not isinstance(config, Mapping) or config.get("model") is None:
        return provenance
    return {**provenance, "config": {key: value for key, value in config.items() if key != "method"}}


def provenance_rows(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Nested JSON as dotted names and one-line values; what was not set is left out."""
    if isinstance(value, Mapping) and depth < 8:
        for key, item in value.items():
            yield from provenance_rows(item, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value) and depth < 8:
        for i, item in enumerate(value):
            yield from provenance_rows(item, f"{name}[{i + 1}]", depth + 1)
    elif value is not None:
        yield one_line(name, limit=80), _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(", ".join(map(str, value)) if isinstance(value, list) else value, limit=VALUE_MAX)
