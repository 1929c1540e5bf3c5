"""The notebooks of examples/, run cell by cell."""

import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run_as_they_stand(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert sum(1 for cell in cells for line in cell["source"] if line.strip()) <= 25
    names: dict[str, Any] = {}
    try:
        for cell in cells:
            assert cell["outputs"] or cell is cells[0], "a cell without what it shows"
            exec("".join(cell["source"]), names)
    finally:
        plt.close("all")
    result = names["result"]
    assert result.metrics().psnr > result.zero_filled_metrics().psnr + 1
    assert result.std.shape == result.mean.shape
    assert result.std.min() >= 0
    assert result.std.max() > 0
