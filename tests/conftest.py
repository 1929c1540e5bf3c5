"""Tests marked slow run only with --run-slow; the small models and scans that studies are tried on.

What a machine has set for its own purposes is taken away first: tests mean the defaults.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from study_runs import save_models, save_scans

# our own settings, those of torchrun, the width of a terminal, and what makes Python say more on stderr
FOREIGN = (
    "BAYESMRI_DEBUG",
    "BAYESMRI_MAX_BYTES",
    "COLUMNS",
    "LINES",
    "LOCAL_RANK",
    "PYTHONDEVMODE",
    "PYTHONWARNINGS",
    "RANK",
    "WORLD_SIZE",
)


def pytest_configure(config: pytest.Config) -> None:
    for name in FOREIGN:
        os.environ.pop(name, None)
    cache = getattr(config, "cache", None)
    if cache is not None:
        with suppress(OSError):  # by default all processes of a user share one folder under /tmp for what they compile
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache.mkdir("torchinductor"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="takes minutes: run with --run-slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_scans(tmp_path_factory.mktemp("scans"))
