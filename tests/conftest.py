"""Tests marked slow run only with --run-slow."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow"):
        return
    skip = pytest.mark.skip(reason="takes minutes: run with --run-slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)
