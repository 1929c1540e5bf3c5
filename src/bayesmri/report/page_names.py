"""What things are called on a page, and in one line what they are."""

from bayesmri.bounds.bound import percent
from bayesmri.io.results import Result
from bayesmri.physics.pattern import sampling_words

Names = dict[str, str]


def layer_names(result: Result) -> dict[str, Names]:
    """Title and a line about every layer, by its name on the page."""
    made = made_of(result)
    sampled = is_mean(result)
    by = f"by {result.method}" if result.method else "method not recorded"
    level = "" if result.level is None else f", {level_text(result.level)}"
    return {
        "mean": _named("Mean", f"{made}, {by}") if sampled else _named("Reconstruction", by),
        "truth": _named("Truth", f"fully sampled{_known_part(result)}"),
        "zero_filled": _named("Zero-filled", sampling_text(result) or "missing lines set to 0"),
        "deterministic": _named("Deterministic", "at the posterior's mean weights"),
        "std": _named("Standard deviation", made),
        "error_std": _named("Typical error", "its standard deviation, learned on subjects kept out of training"),
        "bound": _named(f"Error bound{level}", "calibrated, for many pixels together"),
        **{f"visibility/{name}": _visible(name, result) for name in result.visibility},
        "error": _named("Error", f"|{'mean' if sampled else 'reconstruction'} − truth|"),
    }


def _visible(name: str, result: Result) -> Names:
    seen = f"; half is seen from {result.visible_from[name]:.2g} on" if name in result.visible_from else ""
    return _named(f"Visibility, {name}", f"% of its contrast that would survive, were it there{seen}")


def kspace_names(result: Result) -> dict[str, Names]:
    if result.grid is None:
        return {"mean": _named("Of the magnitude image", "Fourier transform, relative to its largest")}
    return {
        "mean": _named("Mean", "magnitude over the coils, relative to its largest"),
        "std": _named("Standard deviation", f"{made_of(result)}, relative to the same"),
    }


def samples_name() -> Names:
    return _named("Samples", "what they agree on stands still")


def mask_name(result: Result) -> str:
    return "" if result.mask is None else f"{sampling_text(result)}; white: acquired"


def sampling_text(result: Result) -> str:
    """ "64 of 256 lines, R = 4.00"; nothing where the file has no mask."""
    if result.mask is None:
        return ""
    acquired = int(result.mask.sum())
    return sampling_words(result.mask) + (f", R = {result.mask.size / acquired:.2f}" if acquired else "")


def level_text(level: float) -> str:
    """0.9 → "90 %", 0.995 → "99.5 %"."""
    return f"{percent(level)} %"


def summary(result: Result) -> list[str]:
    """The page's first lines: what this is."""
    n, h, w = result.mean.shape
    uncertain = "uncertainty_std" in result.others
    voxel = result.header.voxel_mm
    texts = [
        result.header.acquisition,
        f"{n} {'slice' if n == 1 else 'slices'}, {h} × {w} pixels",
        "" if voxel is None else f"{voxel[0]:.3g} × {voxel[1]:.3g} × {voxel[2]:.3g} mm",
        sampling_text(result),
        result.method,
        expected_text(result),
        f"standard deviation {made_of(result)}" if uncertain else "no uncertainty in this file",
        "" if result.truth is None else "truth known",
    ]
    return [text for text in texts if text]


def expected_text(result: Result) -> str:
    """ "expected 31.2 dB ± 0.5, measured without a reference"; nothing where it was not asked for."""
    known = result.expected
    if not known:
        return ""
    if not known["left_out"]:
        return f"{known['psnr']:.1f} dB against the image of all lines, of which none is missing"
    half = (known["psnr_high"] - known["psnr_low"]) / 2
    return f"expected {known['psnr']:.1f} dB ± {half:.1f}, measured without a reference"


def is_mean(result: Result) -> bool:
    """The image is the mean of samples; a network may also predict a standard deviation of its one image."""
    return "uncertainty_std" in result.others and result.drawn > 0


def made_of(result: Result) -> str:
    """ "of 32 samples", "predicted from 6 samples", "predicted by the network"."""
    if not result.drawn:
        return "predicted by the network"
    count = "1 sample" if result.drawn == 1 else f"{result.drawn} samples"
    return f"{'predicted from' if result.fast else 'of'} {count}"


def _known_part(result: Result) -> str:
    if result.truth is None:
        return ""
    h, w = (min(a, b) for a, b in zip(result.truth.shape[1:], result.mean.shape[1:], strict=True))
    return "" if (h, w) == result.mean.shape[1:] else f", known in the central {h} × {w} pixels"


def _named(title: str, about: str) -> Names:
    return {"title": title, "about": about}
