"""The benchmark counts the right work and compares equals with equals; how fast they are is not a test."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bayesmri.benchmarks.felt import felt, plain
from bayesmri.benchmarks.rival import ByAutograd, plain_gradient
from bayesmri.benchmarks.speed import best_times, gradient_flops, report_memory, training_memory
from bayesmri.complexes import to_complex, to_real
from bayesmri.regularizers.tdv import TDV, TDVConfig

counts_memory = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak of a process cannot be read from /proc here"
)


@pytest.mark.parametrize("image", [(32, 32), (19, 22)])
@pytest.mark.parametrize("config", [TDVConfig(1, 4, 1, 2), TDVConfig(2, 6, 2, 3)])
def test_the_work_of_the_gradient_is_counted_as_torch_counts_it(config: TDVConfig, image: tuple[int, int]) -> None:
    reg = TDV(config, torch.Generator().manual_seed(0))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        reg.grad(torch.ones(1, config.Q, *image, dtype=torch.complex64))
    assert gradient_flops(config, image) == pytest.approx(counter.get_total_flops(), rel=1e-12)


@pytest.mark.parametrize("size", [(9, 12), (16, 11)])
def test_the_rival_computes_the_same_gradient(size: tuple[int, int]) -> None:
    config = TDVConfig(2, 4, 2, 3)
    module = TDV(config, torch.Generator().manual_seed(0)).double()
    x = torch.randn(1, 2, *size, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    ours = module.bind(module.weights())
    rival = ByAutograd(config, ours.theta)
    torch.testing.assert_close(rival.grad(x), ours.grad(x))
    torch.testing.assert_close(to_complex(rival.plain(to_real(x))), ours.grad(x))
    torch.testing.assert_close(rival.energy(x), ours.energy(x))


def test_the_rival_in_its_own_process_computes_when_asked_and_ends() -> None:
    with plain_gradient(TDVConfig(1, 4, 1, 2), (8, 8), threads=1) as run:
        run()
        run()
    with pytest.raises(ValueError, match="closed"):
        run()


@counts_memory
def test_memory_is_reported_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    report_memory(1)
    assert json.loads(capsys.readouterr().out)["bytes"] >= 0


def test_runs_take_turns_after_one_that_does_not_count() -> None:
    calls: list[str] = []
    times = best_times([lambda: calls.append("a"), lambda: calls.append("b")], 3)
    assert len(times) == 2
    assert calls == ["a", "b"] * 4


@counts_memory
@pytest.mark.timeout(900)
def test_recomputation_keeps_the_memory_of_a_step_flat() -> None:
    """Four unrolled steps cost less than a tenth more than two."""
    assert training_memory(4) < 1.1 * training_memory(2)


def test_what_a_user_waits_for_has_its_keys_and_compares_equals() -> None:
    found = felt(1, samples=2, image=(48, 48))
    ratios = {
        "recon16_speedup",
        "grad16_share_of_peak",
        "train_speedup_vs_previous",
        "train_speedup_one_core",
        "startup_seconds",
    }
    assert all(found[key] > 0 for key in ratios)
    assert {"scaling_2_workers", "recon_seconds_over_bart_pics"} < found.keys()
    module = TDV(TDVConfig(features=16, macroblocks=1, scales=2), torch.Generator().manual_seed(0))
    reg = module.bind({name: w.detach() for name, w in module.weights().items()})
    x = torch.randn(1, 1, 20, 24, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert float((plain(reg).grad(x) - reg.grad(x)).norm() / reg.grad(x).norm()) < 1e-5
