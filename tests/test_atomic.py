"""A file appears whole or not at all, and what cannot be written is refused before the work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayesmri.errors import OutputError
from bayesmri.io.atomic import atomic_path, atomic_paths, check_target


def test_a_file_appears_with_its_folders_when_the_block_succeeds(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "file.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == target.parent
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def write_half(target: Path, error: type[BaseException]) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        raise error("stop")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OutputError])
def test_a_failing_block_leaves_nothing_behind(tmp_path: Path, error: type[BaseException]) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old")
    for target in (old, tmp_path / "a" / "b" / "new.txt"):
        with pytest.raises(error):
            write_half(target, error)
    assert [p.name for p in tmp_path.rglob("*")] == ["old.txt"]
    assert old.read_text() == "old"


def test_files_that_belong_together_appear_all_or_not_at_all(tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "made" / "second.txt"
    first.write_text("old")

    def write(content: str, *, then: Exception | None = None) -> None:
        with atomic_paths([first, second]) as (a, b):
            a.write_text(content)
            if then:
                raise then
            b.write_text(content)

    with pytest.raises(ValueError, match="stop"):
        write("half", then=ValueError("stop"))
    assert [p.name for p in tmp_path.rglob("*")] == ["first.txt"]
    assert first.read_text() == "old"
    write("new")
    assert (first.read_text(), second.read_text()) == ("new", "new")


def test_errors_of_a_writer_inside_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "map.nii.gz"
    with pytest.raises(OutputError) as caught, atomic_path(target) as temporary, atomic_path(temporary):
        raise OSError(28, "No space left on device")
    assert str(caught.value) == f"cannot write {target}: No space left on device"


def test_a_link_is_followed_and_survives(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    link.symlink_to(real)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_system_errors_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write") as caught, atomic_path(tmp_path / "file" / "x.h5"):
        pytest.fail("a file served as a folder")
    assert "\n" not in str(caught.value)
    with pytest.raises(OutputError, match="No space left"), atomic_path(tmp_path / "x.h5"):
        raise OSError(28, os.strerror(28))


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on file size stands in for the full disk; HDF5 notices at different places, by the size of the data."""
    pytest.importorskip("resource", reason="limits on file size are POSIX")
    target = tmp_path / "r.h5"
    target.write_text("old")
    code = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from bayesmri.kspace import Header
from bayesmri.errors import OutputError
from bayesmri.io.write_h5 import write_reconstruction
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for n in (49_000, 49_700, 100_000, 1_000_000):
    try:
        write_reconstruction(Path(sys.argv[1]), {"r": np.ones(n, np.float32)}, header=Header("x"), provenance={})
    except OutputError as error:
        print(error)
assert "torch" not in sys.modules, "writing HDF5 must not cost the import of torch"
"""
    run = subprocess.run([sys.executable, "-c", code, target], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"cannot write {target}: File too large"] * 4
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_targets_that_cannot_be_written_are_refused_early(tmp_path: Path) -> None:
    source = tmp_path / "in.h5"
    source.write_text("")
    (tmp_path / "same.h5").hardlink_to(source)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_target(tmp_path / "not" / "yet" / "there.h5", source)
    check_target(tmp_path / "out.h5", source, tmp_path / "absent")
    refused = {tmp_path: "folder", source: "input itself", tmp_path / "same.h5": "input itself"}
    refused |= {source / "x.h5": "not a folder", tmp_path / ("x" * 300): "cannot write", tmp_path / "loop": "links"}
    refused |= {Path(os.devnull): "device"}
    for target, words in refused.items():
        with pytest.raises(OutputError, match=words):
            check_target(target, source)
    assert not (tmp_path / "not").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="permission"):
        check_target(tmp_path / "x.h5")


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OutputError, match="device"), atomic_path(Path(os.devnull)):
        pytest.fail("a device was opened for replacement")
