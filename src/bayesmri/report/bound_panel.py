"""How well calibrated error bounds hold on subjects they were not calibrated with: a panel and sentences."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from bayesmri.bounds.bound import percent
from bayesmri.report.figure_style import BLUE, GREEN, GREY, ORANGE, finish

Numbers = Mapping[str, Any]
Order = Mapping[tuple[str, ...], int]

COLOURS = {"foreground": BLUE, "everywhere": GREY}
POINTS = 2.0  # of coverage, shown around the level
LABELS_MAX = 24  # subjects: more names do not fit
LETTERS_MAX = 22


def bound_panel(axes: Axes, bound: Numbers) -> None:
    """The coverage of every subject by the bound that all others calibrate, and of the model's own where it has one."""
    level, known = 100 * bound["level"], {region: bound[region] for region in COLOURS if bound[region] is not None}
    title = f"Error bounds at {percent(bound['level'])} %: held-out subjects"
    if not known:
        axes.text(0.5, 0.5, _too_few(bound), ha="center", va="center", fontsize=9.5, color="0.3")
        axes.set_axis_off()
        axes.set_title(title, fontsize=11, loc="left", weight="bold")
        return
    axes.axvspan(level - POINTS, min(100, level + POINTS), color="0.93", zorder=0)
    axes.axvline(level, color=ORANGE, linewidth=1.2, linestyle="--", label=f"level, ±{POINTS:g} points")
    order = {tuple(row["files"]): i for i, row in enumerate(bound["everywhere"]["of_subjects"])}
    for region, found in known.items():
        rows = found["of_subjects"]
        width = f"±{100 * found['mean_bound']:.1f} % of the maximum"
        label = f"{region}: mean {100 * found['coverage']:.1f} %, {width}"
        axes.plot(
            _percent(rows, "coverage"), _places(rows, order), "o", color=COLOURS[region], markersize=5, label=label
        )
        axes.axvline(100 * found["coverage"], color=COLOURS[region], linewidth=1.2)
    _own(axes, bound, order)
    low = min([level - 5, *(v for found in known.values() for v in _percent(found["of_subjects"], "coverage"))])
    axes.set_xlim(max(0, low - 2), 100.5)
    finish(axes, title=title, x="pixels whose error the bound holds, %")
    _names(axes, bound["everywhere"]["of_subjects"])
    axes.legend(fontsize=8.5, frameon=False, loc="upper left", bbox_to_anchor=(-0.35, -0.13))


def bound_sentences(bound: Numbers | None) -> list[str]:
    """Coverage of the subjects left out in turn, and of the model's own bound."""
    if bound is None:
        return []
    level = f"{percent(bound['level'])} %"
    found = {region: bound[region] for region in COLOURS if bound[region] is not None}
    if not found:
        return [f"error bounds at {level}: {_too_few(bound)}"]
    parts = [
        f"{region} {100 * part['coverage']:.1f} % (width ±{100 * part['mean_bound']:.2g} % of the maximum)"
        for region, part in found.items()
    ]
    lines = [f"error bounds at {level}, each of {bound['subjects']} subjects left out in turn: {', '.join(parts)}"]
    stored = bound.get("stored")
    if stored is not None:
        own = ", ".join(f"{region} {100 * part['stored']:.1f} %" for region, part in found.items())
        seen = f"; calibrated with {len(stored['seen'])} of these files" if stored["seen"] else ""
        lines.append(f"the model's own bound, of {stored['subjects']} subjects ({stored['region']}): {own}{seen}")
    return lines


def _own(axes: Axes, bound: Numbers, order: Order) -> None:
    stored = bound.get("stored")
    if stored is None or bound[stored["region"]] is None:
        return
    found = bound[stored["region"]]
    seen = "; made of these files" if stored["seen"] else ""
    label = f"the model's own ({stored['region']}{seen}): mean {100 * found['stored']:.1f} %"
    rows = found["of_subjects"]
    axes.plot(
        _percent(rows, "stored"), _places(rows, order), "D", color=GREEN, markersize=4, fillstyle="none", label=label
    )


def _names(axes: Axes, rows: list[Numbers]) -> None:
    """The first subject on top; names of files may hold a $."""
    axes.set_ylim(len(rows) - 0.4, -0.6)
    if len(rows) > LABELS_MAX:
        axes.set_ylabel(f"{len(rows)} subjects", fontsize=9.5)
        axes.set_yticks([])
        return
    names = [row["subject"] for row in rows]
    shown = [name if len(name) <= LETTERS_MAX else name[: LETTERS_MAX - 1] + "…" for name in names]
    axes.set_yticks(range(len(rows)), shown, parse_math=False)


def _percent(rows: list[Numbers], key: str) -> list[float]:
    return [100 * row[key] for row in rows]


def _places(rows: list[Numbers], order: Order) -> list[int]:
    """A subject without foreground has no row there, and the others keep their places."""
    return [order[tuple(row["files"])] for row in rows]


def _too_few(bound: Numbers) -> str:
    n = bound["subjects"]
    return f"{n} subject{'s are' if n != 1 else ' is'} too few to leave one out"
