"""The short form of the fault campaign: nothing lost, no traceback, no silent change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "faults.py"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and limited as on Linux")
def test_the_short_campaign_is_clean() -> None:
    run = subprocess.run([sys.executable, str(SCRIPT), "--short", "--json"], capture_output=True, text=True)
    assert run.stdout, run.stderr
    rows = json.loads(run.stdout)
    assert len(rows) == 18
    assert sum(row["trials"] for row in rows) > 100
    bad = [row for row in rows if row["lost"] or row["tracebacks"] or row["silent"]]
    assert not bad, bad
