"""Too little memory, of the machine or of a GPU, is one line that says what to do; no traceback, and exit code 2."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bayesmri.cli import main
from bayesmri.config import dump_toml
from bayesmri.training import loop
from training_runs import tiny

CUDA_SAYS = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 7.79 GiB, of which 9 MiB is free.\n"
    "See documentation for Memory Management (https://pytorch.org/docs)"
)
ADVICE = "smaller --train.batch or --data.patch_rows"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.cuda.OutOfMemoryError(CUDA_SAYS), "out of memory on the GPU (1.50 GiB were asked for)"),
        (
            RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronous"),
            "out of memory on the GPU",
        ),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
            "out of memory on the GPU",
        ),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:75] not enough memory: you tried to allocate 64 bytes."),
            "out of memory (64 bytes were asked for)",
        ),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory: take fewer slices"),
        (MemoryError("Unable to allocate 3.64 PiB for an array with shape (9,)"), "out of memory (3.64 PiB were"),
        (MemoryError(), "out of memory: take fewer slices"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_too_little_memory_is_one_line_that_says_what_to_do(
    error: Exception, words: str, debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Path, **__: object) -> None:
        raise error

    if debug:
        monkeypatch.setenv("BAYESMRI_DEBUG", "1")
    monkeypatch.setattr(sys.modules["bayesmri.cli.inspect"], "inspect_file", fail)
    assert main(["inspect", "scan.h5"]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith(f"bayesmri: {words}")
    assert said.count("\n") == 1
    assert ADVICE in said
    assert ("--device cpu (of train: --train.device cpu)" in said) == ("GPU" in words)


def test_a_training_step_without_memory_leaves_a_run_that_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def step(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise torch.cuda.OutOfMemoryError(CUDA_SAYS)
        return real(*given, **named)

    real = loop.gradients
    monkeypatch.setattr(loop, "gradients", step)
    (tmp_path / "tiny.toml").write_text(dump_toml(tiny()), encoding="utf-8")
    argv = ["train", str(tmp_path / "tiny.toml"), "--out", str(tmp_path / "run")]
    assert main(argv) == 2
    assert ADVICE in capsys.readouterr().err
    monkeypatch.undo()
    assert main([*argv, "--resume", "--train.iterations", "4"]) == 0
    assert "resuming from step 2" in capsys.readouterr().err


def test_other_errors_of_torch_are_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Path, **__: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(sys.modules["bayesmri.cli.inspect"], "inspect_file", fail)
    assert main(["inspect", "scan.h5"]) == 1
    assert "internal error" in capsys.readouterr().err
