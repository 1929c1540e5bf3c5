"""The cost of volumes: rates that made measurements are found again, and plans grow as they should."""

from dataclasses import replace
from pathlib import Path

import pytest

from bayesmri.benchmarks.cluster import Size, differing, overhead
from bayesmri.benchmarks.cost import CHECKED, FITTED, PLANS, fitted, plan, predicted
from bayesmri.recon.files import PhantomRequest, reconstruct_file, simulate_file
from bayesmri.recon.request import Options

RATES = [2e-5, 1e-6, 3e-6, 0.4]


def test_rates_are_found_again() -> None:
    found = fitted({work: predicted(work, RATES) for work in FITTED})
    assert found == pytest.approx(RATES, rel=1e-6)
    for work in CHECKED:
        assert predicted(work, found) == pytest.approx(predicted(work, RATES))


def test_plans_follow_what_is_asked() -> None:
    for name, (n, work) in PLANS.items():
        one, two = plan(name, n, work, RATES), plan(name, 2 * n, work, RATES)
        assert two["core_hours"] == pytest.approx(2 * one["core_hours"])
        more = plan(name, n, replace(work, samples=work.samples + 8), RATES)
        assert more["core_hours"] > one["core_hours"]
        assert more["terabytes_moved"] > one["terabytes_moved"]
        assert more["terabytes_read"] == one["terabytes_read"]


def test_overhead_and_differences_are_measured(tmp_path: Path) -> None:
    found = overhead(tmp_path / "few", replace(Size(), tiny=3))
    assert 0 < found["batch_overhead_seconds"] < found["batch_seconds"]
    assert found["batch_memory_last_over_first_tenth"] > 0.5
    simulate_file(PhantomRequest("head", shape=(24, 28)), tmp_path / "scan.h5")
    for name, method in (("a", "zero-filled"), ("b", "zero-filled"), ("c", "tv")):
        (tmp_path / name).mkdir()
        reconstruct_file(tmp_path / "scan.h5", tmp_path / name / "x.recon.h5", Options(method=method))  # type: ignore[arg-type]
    assert differing(tmp_path / "a", tmp_path / "b") == 0
    assert differing(tmp_path / "a", tmp_path / "c") >= 1
