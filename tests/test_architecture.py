"""Imports point one way: every module uses only lower steps of the staircase; big libraries have one home each."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "bayesmri"

STAIRCASE = (
    {"errors", "bounded"},
    {"complexes", "kspace", "machine", "messages", "zoo", "registry"},
    {"physics", "regularizers"},
    {"io"},
    {"solver", "posterior", "data", "baselines", "bounds"},
    {"arguments", "config", "metrics", "runs", "checkpoint", "model", "sampler", "statistics", "coil_refinement"}
    | {"stored_model", "sealed"},
    {"analysis", "training", "report"},
    {"recon", "cluster"},
    {"evaluation"},
    {"studies"},
    {"app"},
    {"benchmarks", "stream"},
    {"api", "cli"},
)
STEP = {name: step for step, names in enumerate(STAIRCASE) for name in names}
# within this step the order is written out: who may use whom
NEIGHBOURS = {("checkpoint", "config"), ("checkpoint", "runs"), ("model", "config"), ("checkpoint", "model")}
NEIGHBOURS |= {("checkpoint", "stored_model"), ("stored_model", "config"), ("stored_model", "model")}
HOMES = {"matplotlib": {"report", "studies"}, "cyclopts": {"cli"}, "rich": {"cli"}, "sigpy": {"baselines"}}
TOP = {"__init__", "__main__"}
VERBS = {p.stem for p in (PACKAGE / "cli").glob("*.py")} - {"__init__", "options", "output", "progress"}


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


def test_every_room_of_the_staircase_is_there() -> None:
    for name in STEP:
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file(), f"{name} is no room of the package"


def test_no_room_is_crowded() -> None:
    crowded = {str(p.relative_to(PACKAGE)): n for p in PACKAGE.rglob("*/") if (n := len(list(p.glob("*.py")))) > 30}
    assert not crowded


def nested_imports(path: Path) -> list[str]:
    """Imports inside functions and conditions, those for type checkers alone left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset and id(node) not in for_types
    ]


def test_few_imports_wait_inside_functions() -> None:
    """One for each verb, whose work begins behind it, and a dozen besides."""
    found = [place for _, path in modules() for place in nested_imports(path)]
    assert len(found) <= len(VERBS) + 12, found


def test_doors_open_without_torch() -> None:
    """All that parses, checks and refuses; the work behind is imported when it begins."""
    doors = [
        *(f"bayesmri.cli.{p.stem}" for p in (PACKAGE / "cli").glob("*.py") if p.stem != "__init__"),
        *(f"bayesmri.io.{p.stem}" for p in (PACKAGE / "io").glob("*.py") if p.stem != "__init__"),
        *(f"bayesmri.io.dicom_out.{p.stem}" for p in (PACKAGE / "io" / "dicom_out").glob("*.py")),
        *(f"bayesmri.io.pacs.{p.stem}" for p in (PACKAGE / "io" / "pacs").glob("*.py")),
        *(f"bayesmri.io.privacy.{p.stem}" for p in (PACKAGE / "io" / "privacy").glob("*.py")),
        "bayesmri.recon.export",
        "bayesmri.recon.files",
        "bayesmri.recon.page",
        "bayesmri.evaluation.request",
        "bayesmri.studies.registry",
        "bayesmri.registry",
        "bayesmri.runs",
        "bayesmri",
    ]
    code = f"import importlib, sys; [importlib.import_module(n) for n in {doors}]; print('torch' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert made.stdout.strip() == "False"


def test_the_walks_name_modules_that_exist() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)?\w+\.py)`", page)) - {"blocks.py", "conv.py", "tests/test_architecture.py"}
    assert len(named) > 40
    for name in named:
        assert (PACKAGE / name).is_file(), f"docs/architecture.md names {name}, which is not there"
    recon = page.split("## Walk 1")[1].split("## Walk 2")[0]
    assert len(re.findall(r"^\d+\. ", recon, flags=re.MULTILINE)) <= 25
