"""Imports point one way: every module uses only lower steps of the staircase; big libraries have one home each."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "bayesmri"

STAIRCASE = (
    {"errors"},
    {"complexes", "kspace", "machine", "zoo", "registry"},
    {"physics", "regularizers"},
    {"io"},
    {"solver", "posterior", "data", "baselines", "bounds"},
    {"config", "metrics", "runs", "checkpoint", "model", "sampler", "statistics", "coil_refinement"},
    {"analysis", "training", "report"},
    {"recon"},
    {"evaluation"},
    {"studies"},
    {"benchmarks"},
    {"api", "cli"},
)
STEP = {name: step for step, names in enumerate(STAIRCASE) for name in names}
# within this step the order is written out: who may use whom
NEIGHBOURS = {("checkpoint", "config"), ("checkpoint", "runs"), ("model", "config"), ("checkpoint", "model")}
HOMES = {"matplotlib": {"report", "studies"}, "cyclopts": {"cli"}, "rich": {"cli"}, "sigpy": {"baselines"}}
TOP = {"__init__", "__main__"}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("home", "path"), [pytest.param(*m, id=str(m[1].relative_to(PACKAGE))) for m in modules()])
def test_imports_only_go_down(home: str, path: Path) -> None:
    assert home in TOP | set(STEP), f"{home} has no step of the staircase yet"
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "bayesmri" and home not in TOP and rest:
            other = rest.partition(".")[0]
            below = STEP[home] > STEP[other] or other == home or (home, other) in NEIGHBOURS
            assert below, f"{path.relative_to(PACKAGE)} imports {name}, which is not below it"
        if top in HOMES and home not in TOP:
            assert home in HOMES[top], f"{path.relative_to(PACKAGE)} imports {top}, whose home is {HOMES[top]}"


def test_no_file_is_longer_than_400_lines() -> None:
    long = {str(p.relative_to(PACKAGE)) for _, p in modules() if len(p.read_text(encoding="utf-8").splitlines()) > 400}
    assert not long


def test_every_numbered_equation_of_the_paper_has_its_place() -> None:
    found = {
        int(number)
        for _, path in modules()
        for numbers in re.findall(r"\beq\. (\d+(?: and \d+)?)", path.read_text(encoding="utf-8"))
        for number in numbers.split(" and ")
    }
    assert found == set(range(1, 14))
