"""A model's card for people: a line of the list, a text for the terminal, a Markdown page."""

from collections.abc import Mapping, Sequence
from typing import Any

from bayesmri.bounds.bound import percent
from bayesmri.zoo import Shipped, trained_for

Line = tuple[str, str]
METRICS = (
    ("psnr", "PSNR", "{:.2f}"),
    ("nmse", "NMSE", "{:.4f}"),
    ("ssim", "SSIM", "{:.4f}"),
    ("seconds", "s", "{:.1f}"),
)


def listed(model: Shipped) -> dict[str, Any]:
    """One model of the list, as JSON values; None where its card does not say."""
    card, coils = model.card, model.record.get("coils") or {}
    parameters = card.get("parameters") or {}
    own, Q = headline(model), coils.get("Q", 1)
    return {
        "name": model.name,
        "family": model.family,
        "coils": "any" if model.knows_coils else "1" if Q == 1 else f"{coils.get('mode')} {Q}",
        "R": model.acceleration,
        "accelerations": list(model.accelerations),
        "parameters": parameters.get("reconstruction"),
        "S": model.record.get("S") if model.record.get("T") else None,  # a network has neither
        "weights": "posterior" if model.stochastic else "deterministic",
        "entropy": card.get("entropy"),
        "psnr": None if own is None else own["psnr"],
        "psnr_zero_filled": None if own is None else own.get("psnr_zero_filled"),
        "bytes": model.nbytes,
    }


def table(models: Sequence[Shipped]) -> str:
    """All models in aligned columns."""
    heads = ("name", "coils", "R", "parameters", "S", "weights", "entropy", "PSNR/dB", "zero-filled", "size")
    rows = [heads, *(_cells(listed(model)) for model in models)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    aligned = [
        [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows
    ]
    return "\n".join("  ".join(row) for row in aligned)


def headline(model: Shipped) -> dict[str, Any] | None:
    """The deterministic result at the model's own R, with zero filling's PSNR on the same data."""
    results = model.card.get("results") or {}
    rows = [r for r in results.get("rows", ()) if not r.get("samples") and r["acceleration"] == model.acceleration]
    if not rows:
        return None
    zero = [
        r["psnr"]
        for r in results.get("zero_filled", ())
        if (r["track"], r["acceleration"]) == (rows[0]["track"], rows[0]["acceleration"])
    ]
    return {**rows[0], "psnr_zero_filled": zero[0] if zero else None}


def text(model: Shipped) -> str:
    """The card in aligned lines."""
    blocks = []
    for title, lines in sections(model):
        width = max((len(key) for key, _ in lines), default=0)
        blocks.append("\n".join([title, *(f"  {key:<{width}}  {value}".rstrip() for key, value in lines)]))
    return "\n\n".join(blocks)


def markdown(model: Shipped) -> str:
    """The card as a page."""
    blocks = [f"# {model.name}"]
    for title, lines in sections(model):
        blocks.append(f"## {title}\n\n" + "\n".join(f"- {_strong(key)}{_escaped(value)}" for key, value in lines))
    return "\n\n".join(blocks) + "\n"


def sections(model: Shipped) -> list[tuple[str, list[Line]]]:
    """Titles with their (key, value) lines; what the card does not know is left out."""
    found = [
        (f"{model.name}", _what(model)),
        ("Error bounds", _bounds(model.record)),
        ("Results", _results(model.card.get("results") or {})),
        ("Training", _training(model.card)),
        ("Data", _data(model.card.get("data") or {})),
        ("Limits", [("", limit) for limit in model.card.get("limits", ())]),
    ]
    return [(title, lines) for title, lines in found if lines]


def _what(model: Shipped) -> list[Line]:
    row, card = listed(model), model.card
    parameters = card.get("parameters") or {}
    settings = ", ".join(f"{k} {v}" for k, v in (model.record.get("regularizer") or {}).items() if k != "kind")
    lines: list[tuple[str, Any]] = [
        ("summary", card.get("summary")),
        ("kind", f"{row['family']} ({settings})"),
        ("coils", row["coils"]),
        ("trained for", trained_for(model) if model.accelerations else None),
        ("unrolled", None if row["S"] is None else _unrolled(model.record)),
        ("parameters", _parameters(parameters)),
        ("entropy H̄", None if row["entropy"] is None else f"{row['entropy']:.2f}"),
        ("L at its optimum", _optimum((card.get("posterior") or {}).get("v"))),
        ("size", _size(row["bytes"])),
    ]
    return [(key, str(value)) for key, value in lines if value]


def _optimum(v: Any) -> str | None:
    """ "v = 0.93 to 1.21 by kernel (1 at the optimum)", as the last updates of training found."""
    found = [x for x in v.values() if isinstance(x, int | float)] if isinstance(v, Mapping) else []
    return f"v = {min(found):.2f} to {max(found):.2f} by kernel (1 at the optimum)" if found else None


def _unrolled(record: Mapping[str, Any]) -> str:
    steps = [f"S = {record['S']} steps", f"T = {record['T']:.4g}"]
    steps += [f"{sign} = {record[key]:.3g}" for key, sign in (("rho", "ρ"), ("momentum", "γ")) if record.get(key)]
    start = "SENSE" if record.get("start") == "sense" else "zero-filled"
    if (record.get("coils") or {}).get("mode") == "sensitivities":
        start = "zero-filled image of one coil, of several from the SENSE"
    return f"{', '.join(steps)}, from the {start} images"


def _parameters(parameters: Mapping[str, int]) -> str:
    if not parameters:
        return ""
    drawn = parameters["total"] - parameters["reconstruction"]
    return f"{parameters['reconstruction']:,}" + (f", and {drawn:,} of the posterior" if drawn else "")


def _results(results: Mapping[str, Any]) -> list[Line]:
    if not results:
        return []
    lines = [("command", results["command"])]
    for role, rows in (("", results.get("rows", ())), ("zero-filled ", results.get("zero_filled", ()))):
        for row in rows:
            drawn = f", mean of {row['samples']} samples" if row.get("samples") else ""
            values = ", ".join(f"{name} {form.format(row[key])}" for key, name, form in METRICS if key in row)
            where = f"{role}{_track(row['track'])}R = {row['acceleration']:g}{drawn}"
            lines.append((where, f"{values}; mean over {row['volumes']} volume{'s' * (row['volumes'] != 1)}"))
    return lines


def _bounds(record: Mapping[str, Any]) -> list[Line]:
    """Of σ̂, and of the typical error."""
    of = {"calibration": "std", "error_calibration": "typical error"}
    return [_bound(found, what) for key, what in of.items() for found in record.get(key) or ()]


def _bound(found: Mapping[str, Any], what: str) -> Line:
    """One calibrated bound: where it holds, its formula, and what it was made of."""
    setting = found["setting"]
    least, most = setting["arrays"]
    arrays = f"{most} coil{'s' * (most != 1)}" if least == most else f"{least} to {most} coils"
    drawn = f"{setting['samples'] or 'no'} samples{' of the fast route' if setting['fast'] else ''}"
    where = f"{percent(found['level'])} % at R = {setting['acceleration']:g}"
    capped = "" if found["cap"] == 1 else f", no subject counting with more than {100 * found['cap']:.3g} % missed"
    middle = f", middle slice{'s' * (found['slices'] != 1)}" if found.get("slices") else ""
    held = "" if found["held_out"] is None else f", {100 * found['held_out']:.1f} % of those left out in turn"
    return where, (
        f"{found['factor']:.3g} ({what} + {100 * found['floor']:.3g} % of the maximum) for {setting['mask']} masks, "
        f"{arrays}, {drawn}; held for {100 * found['coverage']:.1f} % of the pixels ({found['region']}{middle}) of "
        f"{found['subjects']} subjects{held}{capped}"
    )


def _training(card: Mapping[str, Any]) -> list[Line]:
    training = card.get("training") or {}
    if not training:
        return []
    hours = "unknown" if training.get("hours") is None else f"{training['hours']:.2f}"
    machine = f"{hours} h on {training.get('processor') or 'an unknown processor'}, {training.get('threads')} threads"
    lines = [("iterations", f"{training['iterations']:,}"), ("seed", str(training["seed"])), ("hardware", machine)]
    for stage in training.get("stages", ()):
        spent = "unknown time" if stage.get("hours") is None else f"{stage['hours']:.2f} h"
        lines.append(("after", f"{stage['name']}, {stage.get('iterations') or 'unknown'} iterations, {spent}"))
    if card.get("validation"):
        values = ", ".join(f"{key} {value:.4g}" for key, value in card["validation"].items())
        lines.append(("validation", f"{values} (held-out training subjects)"))
    versions = (card.get("provenance") or {}).get("versions") or {}
    return [*lines, ("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))]


def _data(data: Mapping[str, Any]) -> list[Line]:
    lines = []
    for side in ("train", "validation"):
        facts = data.get(side)
        if facts:
            volumes, subjects, slices = facts["volumes"], facts["subjects"], facts["slices"]
            lines.append((side, f"{volumes} volumes of {subjects} subjects, {slices} slices"))
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for file in data.get("files", ()):
        groups.setdefault((file.get("source") or file["name"], file["licence"]), []).append(file)
    for (source, licence), files in groups.items():
        shown = ", ".join(dict.fromkeys(file["anatomy"] for file in files if file.get("anatomy")))
        names = ", ".join(file["name"] for file in files)
        lines.append((source, "; ".join(filter(None, (licence, shown, names)))))
    lines += [(f"{p['kind']} phantom", f"drawn, {p['subjects']} subjects") for p in data.get("phantoms", ())]
    return lines


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    def number(value: float | None, form: str) -> str:
        return "-" if value is None else form.format(value)

    return (
        row["name"],
        row["coils"],
        ", ".join(f"{R:g}" for R in row["accelerations"]) or "-",
        number(row["parameters"], "{:,}"),
        number(row["S"], "{}"),
        row["weights"],
        number(row["entropy"], "{:.2f}"),
        number(row["psnr"], "{:.2f}"),
        number(row["psnr_zero_filled"], "{:.2f}"),
        _size(row["bytes"]),
    )


def _track(track: str) -> str:
    return f"{track}-coil, " if track in ("single", "multi") else ""


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.2f} MB"


def _strong(key: str) -> str:
    return f"**{_escaped(key)}**: " if key else ""


def _escaped(value: str) -> str:
    """What Markdown would take for its own."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|" else c for c in value)
