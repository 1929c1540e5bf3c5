"""Configurations: what is written is read back, and what is wrong is named."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from bayesmri.config import as_dict, dump_toml, literal, override, parse, read_toml
from bayesmri.errors import ConfigError
from bayesmri.training.run_folder import read_config

CONFIGS = sorted((Path(__file__).resolve().parents[1] / "configs").glob("*.toml"))


@dataclass(frozen=True)
class Round:
    radius: float = 1.0


@dataclass(frozen=True)
class Square:
    side: int = 2


@dataclass(frozen=True)
class Item:
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Example:
    seed: int
    rate: float = 1e-3
    note: str | None = None
    how: Literal["sum", "mean"] = "sum"
    pair: tuple[float, float] = (0.5, 0.9)
    items: tuple[Item, ...] = ()
    shape: Round | Square = field(default_factory=Round, metadata={"kinds": {"round": Round, "square": Square}})


FULL = {
    "seed": 3,
    "rate": 2,
    "note": 'a "quoted" ü',
    "how": "mean",
    "pair": [1, 2.5],
    "items": [{"name": "a"}, {"name": "b", "weight": 0}],
    "shape": {"kind": "square", "side": 5},
}


def test_toml_round_trip(tmp_path: Path) -> None:
    config = parse(Example, FULL)
    assert config.shape == Square(5)
    assert config.rate == 2.0
    assert isinstance(config.rate, float)
    (tmp_path / "c.toml").write_text(dump_toml(config), encoding="utf-8")
    assert parse(Example, read_toml(tmp_path / "c.toml")) == config
    assert parse(Example, as_dict(config)) == config


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"sed": 3}, "did you mean 'seed'"),
        ({}, "'seed' is missing"),
        ({"seed": "three"}, "whole number"),
        ({"seed": True}, "whole number"),
        ({"seed": 1.5}, "whole number"),
        ({"seed": 1, "how": "max"}, "one of sum, mean"),
        ({"seed": 1, "pair": [1]}, "expected 2"),
        ({"seed": 1, "items": [{"name": "a", "wieght": 1}]}, r"items\[0\].wieght.*did you mean 'weight'"),
        ({"seed": 1, "shape": {"kind": "squar"}}, "did you mean 'square'"),
        ({"seed": 1, "shape": {"kind": "square", "radius": 1}}, "unknown key 'shape.radius'"),
        ({"seed": 1, "items": 3}, "expected a list"),
        ({"seed": 1, "shape": 3}, "expected"),
    ],
)
def test_wrong_values_are_named(data: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(Example, data)


def test_overrides_reach_any_depth() -> None:
    tokens = ["--shape.kind", "square", "--shape.side=7", "--note", "none", "--pair", "[0.1, 0.2]", "--rate", "1e-4"]
    config = parse(Example, override(FULL, tokens))
    assert config.shape == Square(7)
    assert (config.note, config.pair, config.rate) == (None, (0.1, 0.2), 1e-4)
    assert FULL["rate"] == 2  # the tables given are left as they were


@pytest.mark.parametrize("tokens", [["--seed"], ["seed", "3"], ["--seed.deeper", "3"]])
def test_malformed_overrides_are_refused(tokens: list[str]) -> None:
    with pytest.raises(ConfigError):
        override(FULL, tokens)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("1e-3", 1e-3), ("true", True), ("[1, 2]", [1, 2]), ("none", None), ("a/b", "a/b")]
)
def test_words_are_toml_values(text: str, value: object) -> None:
    assert literal(text) == value


def test_broken_toml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("seed = = 1")
    with pytest.raises(ConfigError, match=r"c\.toml is not valid TOML"):
        read_toml(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path / "absent.toml")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_shipped_configs_are_valid(path: Path) -> None:
    config = read_config(path)
    assert config.name == path.stem
    assert parse(type(config), as_dict(config)) == config


def test_paper_configs_say_the_papers_numbers() -> None:
    folder = CONFIGS[0].parent
    for name, Q, R, iterations in (
        ("paper-single-r4", 1, 4, 120_000),
        ("paper-single-r8", 1, 8, 100_000),
        ("paper-multi-r4", 15, 4, 200_000),
        ("paper-multi-r8", 15, 8, 130_000),
    ):
        config = read_config(folder / f"{name}.toml")
        assert (config.model.Q, config.mask.acceleration, config.train.iterations) == (Q, R, iterations)
        assert config.optimizer.betas == (0.5, 0.9)
        assert (config.train.batch, config.data.patch_rows, config.unroll.S_max) == (8, 96, 15)
        assert (config.train.init_from is not None) == (R == 8)
