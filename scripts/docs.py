"""Draws every study for the docs: python scripts/docs.py [--data DIR] [NAME …].

Of each study it leaves docs/figures/NAME.png and docs/data/NAME.json, and in docs/studies.md what stands between
<!-- NAME --> and <!-- /NAME -->. A study that fails keeps its old files, the others are drawn, and the exit is 1.

Of the shipped models' cards it makes the tables between such marks in other pages (TABLES).

Of the trainings it draws docs/figures/NAME.png from docs/data/NAME.json, which `bayesmri curves` made of runs that are
not shipped, and renews their blocks in docs/training-log.md.

Pictures show a phantom and the head slice of the demo; validation data is only counted. Studies of models that are not
shipped are drawn again from the numbers in docs/data.
"""

import argparse
import json
import re
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from bayesmri.evaluation.curves import draw_curves
from bayesmri.evaluation.request import Request
from bayesmri.recon.demo import head_slice
from bayesmri.recon.files import PhantomRequest, simulate_file
from bayesmri.recon.work import simulate_images
from bayesmri.studies.redraw import redraw_study
from bayesmri.studies.registry import STUDIES
from bayesmri.studies.run import run_study
from bayesmri.zoo import Shipped, shipped

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
VALIDATION = ROOT.parent / "shared" / "data" / "val"
WIDTH, BYTES = 1600, 300_000  # of a figure
MODEL = "tdv-r4"

HEAD = "a head slice of matplotlib's sample data, eight simulated coils, SNR 30 dB"
KNEE = "a procedural phantom of a knee, one coil, SNR 30 dB"
MEASURED = (
    "measured k-space of ten volumes: 0.055 T heads (bispmri/Ultra-low-field-MRI-Scanner, CC0), a sagittal head, and "
    "heads by arrays of 7, 8 and 32 coils (MIT; the last is a measured image times its measured maps)"
)
EVERYTHING = (
    f"{MEASURED}; and magnitude images of a head (TCIA VS-SEG, CC BY 4.0), a knee (NVIDIA/DALI_extra, Apache-2.0), "
    "hearts (Sunnybrook Cardiac Data, CC0) and chests (yangyan92/Deep-ADMM-Net, MIT), with simulated phase and noise"
)

Source = Literal["head", "knee", "measured", "everything", "model", "numbers"]


@dataclass(frozen=True)
class Plan:
    """How a study is drawn for the docs.

    source: what it is made of; "model" alone, or "numbers" that were made before. options: of its request.
    about: what the numbers were made of. charts: without the pictures, which would be of validation data.
    """

    source: Source
    options: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = (MODEL,)
    about: str = ""
    charts: bool = False

    @property
    def words(self) -> str:
        known = {"head": HEAD, "knee": KNEE, "measured": MEASURED, "everything": EVERYTHING}
        return known.get(self.source, self.about)


PLANS: dict[str, Plan] = {
    "overview": Plan("head", {"samples": 16, "errors": True}, models=()),
    "reliability": Plan("everything", {"samples": 16, "slices": 1}),
    "holdout": Plan("everything", {"slices": 1, "accelerations": (4.0, 8.0)}, models=("tdv-r4", "tdv-r8")),
    "tuning": Plan("everything", {"slices": 1, "track": "single"}),
    "hallucination": Plan("measured", {"samples": 16, "slices": 1}, charts=True),
    "visibility": Plan("everything", {"samples": 4, "slices": 4, "track": "single"}),
    "compare": Plan("numbers", about=f"{MEASURED}, as one coil, by tdv-r4 and a U-Net with σ² that is not shipped"),
    "entropy": Plan("numbers", about=f"{MEASURED}, by tdv-r4 with L in closed form for five values of β, and without"),
    "acceleration": Plan("measured", {"samples": 8, "slices": 1}),
    "kspace": Plan("head", {"samples": 16}),
    "samples": Plan("head", {"samples": 16}),
    "covariance": Plan("model"),
    "eigenfunctions": Plan("knee", {"iterations": 300}),
}


TRAININGS = ("training-single", "training-multi")


def bounds_table(models: Sequence[Shipped]) -> list[list[str]]:
    """The error bounds that the models carry."""
    rows = [
        [
            "model",
            "of",
            "coils of the data",
            "samples",
            "subjects",
            "level",
            "λ",
            "left out in turn, mean",
            "worst calibrated subject",
        ]
    ]
    for model in models:
        known = [("uncertainty_std", found) for found in model.record.get("calibration") or ()]
        known += [("error_std", found) for found in model.record.get("error_calibration") or ()]
        for of, found in known:
            least, most = found["setting"]["arrays"]
            arrays = str(least) if least == most else f"{least} to {most}"
            shares = [f"{100 * found[key]:.1f} %" for key in ("held_out", "worst")]
            level = f"{100 * found['level']:g} %"
            drawn = str(found["setting"]["samples"])
            rows.append(
                [f"`{model.name}`", of, arrays, drawn, str(found["subjects"]), level, f"{found['factor']:.3g}", *shares]
            )
    return rows


def hours_table(models: Sequence[Shipped]) -> list[list[str]]:
    """How long the models learned, with the runs they went on from."""
    rows = [["model", "R", "parameters", "runs", "updates", "hours"]]
    for model in models:
        training = model.card["training"]
        updates = sum(stage["iterations"] for stage in (training, *training["stages"]))
        R = " and ".join(f"{R:g}" for R in model.accelerations)
        count = f"{model.card['parameters']['reconstruction']:,}"
        rows.append(
            [f"`{model.name}`", R, count, str(1 + len(training["stages"])), f"{updates:,}", f"{training['hours']:.2f}"]
        )
    return rows


TABLES: dict[str, tuple[str, Callable[[Sequence[Shipped]], list[list[str]]]]] = {
    "bounds": ("calibration.md", bounds_table),
    "hours": ("baselines.md", hours_table),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the studies for the docs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; all unless given")
    parser.add_argument("--data", type=Path, default=VALIDATION, help="validation data, with the folder raw in it")
    asked = parser.parse_args()
    unplanned = sorted((set(STUDIES) ^ set(PLANS)) | (set(asked.names) - set(PLANS) - set(TRAININGS) - set(TABLES)))
    if unplanned:
        print(f"no study, or no plan for the docs: {', '.join(unplanned)}", file=sys.stderr)
        return 2
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.names or (*PLANS, *TRAININGS, *TABLES):
            began = time.perf_counter()
            try:
                if name in TABLES:
                    write_table(name, docs=DOCS)
                elif name in TRAININGS:
                    draw_training(name, scratch=Path(scratch), docs=DOCS)
                else:
                    draw(name, PLANS[name], data=asked.data, scratch=Path(scratch), docs=DOCS)
            except Exception:  # whatever it is, the others are still drawn and this one is told
                traceback.print_exc()
                failed.append(name)
            print(f"{name}: {time.perf_counter() - began:.0f} s{', FAILED' if name in failed else ''}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; their files are the old ones", file=sys.stderr)
    return 1 if failed else 0


def draw(name: str, plan: Plan, *, data: Path, scratch: Path, docs: Path) -> None:
    """One study's figure, numbers and block."""
    made = scratch / "made"
    if plan.source == "numbers":
        record, text = redraw_study(name, docs / "data" / f"{name}.json", made, force=True)
    else:
        request = Request(plan.models, _input(plan.source, data, scratch), **plan.options)
        record, outcome = run_study(name, request, made, force=True)
        text = outcome.text
        if plan.charts:
            redraw_study(name, made / f"{name}.json", made, force=True)
    page = docs / "studies.md"
    told = replaced(page.read_text(encoding="utf-8"), name, block(name, plan, record, text))
    for folder in ("figures", "data"):
        (docs / folder).mkdir(exist_ok=True)
    shrink(made / f"{name}.png", docs / "figures" / f"{name}.png")
    record["provenance"].pop("processor", None)  # of no use to a reader of the docs
    (docs / "data" / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page.write_text(told, encoding="utf-8")


def draw_training(name: str, *, scratch: Path, docs: Path) -> None:
    """The figure and the block of trainings, from their numbers."""
    _, text = draw_curves([str(docs / "data" / f"{name}.json")], scratch / f"{name}.png", force=True)
    page = docs / "training-log.md"
    new = f"![{name}](figures/{name}.png)\n\nNumbers: [{name}.json](data/{name}.json).\n\n```\n{text}\n```"
    told = replaced(page.read_text(encoding="utf-8"), name, new)
    shrink(scratch / f"{name}.png", docs / "figures" / f"{name}.png")
    page.write_text(told, encoding="utf-8")


def write_table(name: str, *, docs: Path) -> None:
    """A table of the shipped models, in its page."""
    page, rows = docs / TABLES[name][0], TABLES[name][1](shipped())
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    new = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, new), encoding="utf-8")


def block(name: str, plan: Plan, record: Mapping[str, Any], text: str) -> str:
    """The figure, what it is made of, and the study's own table."""
    parts = [f"Model: {record['model']}." if "model" in record else "", f"Data: {plan.words}." if plan.words else ""]
    parts += [f"Left out: {line}." for line in record.get("left_out", [])]
    parts.append(f"Numbers: [{name}.json](data/{name}.json).")
    about = textwrap.fill(" ".join(filter(None, parts)), 125, break_long_words=False, break_on_hyphens=False)
    return f"![{name}](figures/{name}.png)\n\n{about}\n\n```\n{text}\n```"


def replaced(page: str, name: str, new: str) -> str:
    """The page with the block of that name renewed; a page without one is an error."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", flags=re.DOTALL)
    changed, n = pattern.subn(lambda found: f"{found[1]}{new}\n{found[2]}", page)
    if n != 1:
        raise ValueError(f"the page has {n} blocks <!-- {name} --> … <!-- /{name} -->: want 1")
    return changed


def shrink(source: Path, target: Path) -> None:
    """At most WIDTH pixels wide; what is still too large gets 256 colours: a quarter of the bytes."""
    with Image.open(source) as opened:
        image = opened.convert("RGB")
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    image.save(target, format="PNG", optimize=True)
    if target.stat().st_size > BYTES:
        # colours that cover all there are, then moved to their means: colour maps keep their ends
        few = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4)
        few.save(target, format="PNG", optimize=True)


def _input(source: Source, data: Path, scratch: Path) -> Path | None:
    if source == "model":
        return None
    if source in ("measured", "everything"):
        return data / "raw" if source == "measured" else data
    path = scratch / f"{source}.h5"
    if path.exists():
        return path
    if source == "knee":
        simulate_file(PhantomRequest("knee", "PD", (160, 160)), path, coils=1, snr_db=30, seed=0)
        return path
    head = head_slice()
    if head is None:
        raise FileNotFoundError("matplotlib was installed without its sample data, where the head slice is")
    simulate_images(head, path, coils=8, snr_db=30, seed=0, config={"source": head.header.source})
    return path


if __name__ == "__main__":
    sys.exit(main())
