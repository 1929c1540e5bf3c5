"""Flipped bytes: a value or our own error, never another exception."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostile_writers import WRITERS

# HDF5 itself may crash on a flipped byte, so each file is opened in a process of its own: exit code 1 is an exception
# that is not ours. The limit of memory turns absurd sizes into MemoryError rather than into a dead machine.
FLIPS = """
import os, random, resource, signal, sys
from pathlib import Path
import h5py, nibabel, pydicom  # before the forks, which then start at once
from bayesmri.io.formats import read
from bayesmri.errors import BayesMRIError

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
count, names = int(sys.argv[1]), sys.argv[2:]
wholes = {name: Path(name).read_bytes() for name in names}
for seed in range(count * len(names)):
    path = Path(names[seed % len(names)])
    whole = wholes[str(path)]
    rng = random.Random(seed)
    damaged = bytearray(whole)
    # half of the flips fall into the first kilobyte, where most headers are
    limit = len(whole) if rng.random() < 0.5 else min(len(whole), 1024)
    for _ in range(rng.choice((1, 1, 4))):
        damaged[rng.randrange(limit)] = rng.randrange(256)
    path.write_bytes(damaged)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # of its own work, however busy the machine is
        signal.alarm(300)
        try:
            read(path)
        except BayesMRIError as error:
            os._exit(0 if str(error).isprintable() else 3)
        except BaseException as error:
            print(seed, path, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("status", os.waitstatus_to_exitcode(status), seed, path, flush=True)
"""


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_flipped_bytes_give_a_value_or_our_error(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    count = int(os.environ.get("BAYESMRI_TEST_FLIPS", "15"))
    paths = []
    for write in WRITERS:
        (tmp_path / write.__name__).mkdir()
        paths.append(str(write(tmp_path / write.__name__)))
    command = [sys.executable, "-W", "ignore", "-c", FLIPS, str(count), *paths]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1100, check=True)
    statuses = [int(line.split()[1]) for line in result.stdout.splitlines() if line.startswith("status")]
    assert len(statuses) == count * len(paths)
    assert not [status for status in statuses if status > 0], result.stdout
    crashed = [status for status in statuses if status < 0]
    assert len(crashed) <= len(statuses) // 50, result.stdout
