"""The figure of a study drawn again from the numbers it left, for the studies whose figures show numbers alone.

Of `hallucination`, which shows pictures beside its charts, the charts are drawn.
"""

import json
from pathlib import Path
from typing import Any

from bayesmri.errors import ConfigError, DataError
from bayesmri.io.atomic import atomic_paths, check_target
from bayesmri.studies.base import study_module
from bayesmri.studies.registry import FORMER

REDRAWN = (
    "reliability",
    "holdout",
    "tuning",
    "hallucination",
    "visibility",
    "compare",
    "entropy",
    "acceleration",
    "covariance",
)


def redraw_study(name: str, source: Path, folder: Path, *, force: bool = False) -> tuple[dict[str, Any], str]:
    """folder/NAME.png of the numbers in `source`, which go to folder/NAME.json as they are; returns them and a table.

    Models and data are not needed: numbers may outlive the weights they came from. force: the figure may be there.
    """
    target, picture = folder / f"{name}.json", folder / f"{name}.png"
    name = FORMER.get(name, name)
    if name not in REDRAWN:
        raise ConfigError(
            f"the figure of the study {name} shows images, which its numbers do not hold, expected one of "
            f"{', '.join(REDRAWN)}, or make the study again"
        )
    text, record = _read(name, source)
    in_place = target.exists() and target.samefile(source)
    targets = [picture] if in_place else [picture, target]
    for path in targets:
        check_target(path, source, force=force)
    figure, words = (study_module(name, part) for part in ("figure", "text"))
    try:
        with atomic_paths(targets) as (png_file, *json_file):
            figure(png_file, numbers=record)
            told = words(record)
            for file in json_file:
                file.write_text(text, encoding="utf-8")
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"{source.name} is not a record of the study {name} of this version: {error!r}") from error
    return record, told


def _read(name: str, source: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = source.read_text(encoding="utf-8")
        record = json.loads(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(
            f"{source.name} cannot be read ({reason}), expected the .json file that a study wrote"
        ) from error
    kind = record.get("study") if isinstance(record, dict) else None
    if FORMER.get(str(kind), kind) != name:
        found = "nothing of a study" if kind is None else f"the study {kind}"
        raise DataError(f"{source.name} holds {found}, expected numbers of the study {name}")
    return text, record
