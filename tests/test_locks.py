"""One writer for each folder; what a dead one left is taken over and swept, what a living one has is left alone."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bayesmri.errors import OutputError
from bayesmri.io.atomic import TEMPORARY, atomic_path, sweep
from bayesmri.io.locks import LOCK, SILENCE, exclusive
from bayesmri.machine.processes import ended, this_process
from bayesmri.training.run_folder import train
from training_runs import tiny

HOLDER = """
import sys, time
from pathlib import Path
from bayesmri.io.atomic import atomic_path
from bayesmri.io.locks import exclusive
with exclusive(Path(sys.argv[1]), print), atomic_path(Path(sys.argv[1]) / "sub" / "half.h5") as temporary:
    temporary.write_text("half")
    print("in", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_a_second_writer_is_told_of_the_first_and_a_dead_one_is_taken_over(tmp_path: Path) -> None:
    process, said = holder(tmp_path), list[str]()
    first = re.escape(f"process {process.pid} on {platform.node()} is at work")
    with process:
        with pytest.raises(OutputError, match=first), exclusive(tmp_path, said.append):
            pytest.fail("two writers in one folder")
        assert sweep(tmp_path / "sub") == 0, "a file of a living process was swept"
        assert len(names(tmp_path)) == 2
        process.send_signal(signal.SIGKILL)
    with exclusive(tmp_path, said.append):
        assert names(tmp_path) == [LOCK]
    assert [f"process {process.pid}" in line and "taken over" in line for line in said] == [True, False]
    assert "1 unfinished file" in said[1]
    assert names(tmp_path) == []


def test_of_many_threads_one_enters_at_a_time_and_none_stays_behind(tmp_path: Path) -> None:
    inside, entered, refused = list[int](), list[int](), list[int]()

    def enter(number: int) -> None:
        while True:
            try:
                with exclusive(tmp_path / "run", lambda text: None):
                    inside.append(number)
                    assert inside == [number]
                    inside.remove(number)
                    entered.append(number)
                return
            except OutputError:
                refused.append(number)

    threads = [threading.Thread(target=enter, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == list(range(8))
    assert not (tmp_path / "run").exists(), "a folder made for nothing stays"


def test_a_writer_on_another_machine_counts_as_alive_while_it_gives_signs_of_it(tmp_path: Path) -> None:
    elsewhere = replace(this_process(), host="far\x1b[31m\naway", space="0" * 8)
    lock = tmp_path / LOCK
    lock.write_text(json.dumps(asdict(elsewhere)))
    assert ended(elsewhere) is None
    with (
        pytest.raises(OutputError, match=r"on far\?\[31m away is at work.*try again in \d+ s"),
        exclusive(tmp_path, print),
    ):
        pytest.fail("two writers in one folder")
    said = list[str]()
    old = lock.stat().st_mtime - 2 * SILENCE
    os.utime(lock, (old, old))
    with exclusive(tmp_path, said.append):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert "taken over" in said[0]


@pytest.mark.parametrize("content", ["", "{", "[" * 4000, '{"pid": "x"}', "null", "\x00" * 9000])
def test_a_lock_that_names_nobody_is_taken(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with exclusive(tmp_path, print):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_a_temporary_name_says_whose_it_is_and_fits(tmp_path: Path) -> None:
    """Also where the target's own name is as long as a name may be, in letters of four bytes."""
    with atomic_path(tmp_path / ("𝔐" * 62 + ".h5")) as temporary:
        temporary.write_text("new")
        found = TEMPORARY.match(temporary.name)
        assert found
        assert int(found[2]) == os.getpid()
    assert ended(replace(this_process(), started=1)) is True, "a number given again is another process"
    assert ended(this_process()) is False


def test_two_trainings_in_one_folder_are_one_too_many(tmp_path: Path) -> None:
    with exclusive(tmp_path, print), pytest.raises(OutputError, match=f"process {os.getpid()} on"):
        train(tiny(), tmp_path, say=lambda event, values: None)
    assert names(tmp_path) == []
