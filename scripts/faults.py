"""The fault campaign: commands are killed, starved and lied to, and what is left is looked at. One table, seeded.

    python scripts/faults.py --short          (a minute; `make test` runs it)
    python scripts/faults.py -o docs/reliability.md

Every trial is a process of its own that runs `bayesmri …`. Killed means SIGKILL, before the k-th change of the file
system or after a time drawn by lot. Counted are: lost, what was there before and is gone, or came and cannot be read;
tracebacks, a Python traceback or an internal error; silent, a change in what we wrote that no reader of ours notices.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bayesmri.errors import BayesMRIError
from bayesmri.evaluation.verify import verify
from bayesmri.io.provenance import sha256
from bayesmri.runs import checkpoints, opened, read_record
from fault_servers import kill_app_jobs, kill_app_server, kill_stream_client, kill_stream_server
from fault_tools import Bench, Row, aimed, good, moments, prepared, run


def recon_words(bench: Bench, out: Path, seed: int, *more: str) -> list[str]:
    sampling = ["--acceleration", "4", "--method", "tv", "--seed", str(seed)]
    return ["recon", str(bench.scan), "-o", str(out), *sampling, "--force", *more]


def kill_recon(bench: Bench) -> Row:
    """HDF5, NIfTI and PNG over those of another seed."""
    folder, fresh = bench.home / "at", bench.home / "old"
    new = bench.home / "new"
    for place, seed in ((fresh, 1), (new, 2)):
        place.mkdir(exist_ok=True)
        good(run(recon_words(bench, place / "r.h5", seed, "--nifti", "--png")))
    names = ("r.nii.gz", "r.png")
    ages = {sha256(place / name): age for age, place in (("old", fresh), ("new", new)) for name in names}

    def judge() -> tuple[bool, bool]:
        told = verify(folder / "r.h5")
        missing = any(not (folder / name).exists() for name in ("r.h5", *names))
        mixed = len({ages.get(sha256(folder / name), "torn") for name in names} | _age(folder / "r.h5")) > 1
        return missing or not _readable(folder / "r.h5"), mixed and bool(told.whole)

    words = recon_words(bench, folder / "r.h5", 2, "--nifti", "--png")
    return aimed(Row("kill recon (3 files)"), words, folder, fresh, judge, moments(bench.rng, bench.n(5, 60), 80))


def _age(path: Path) -> set[str]:
    from bayesmri.io.results import read_provenance

    try:
        return {{1: "old", 2: "new"}[read_provenance(path)["config"]["sampling"]["seed"]]}
    except (BayesMRIError, KeyError):
        return {"torn"}


def _readable(path: Path) -> bool:
    from bayesmri.io.results import open_result

    try:
        with open_result(path):
            return True
    except BayesMRIError:
        return False


def _lost_model(folder: Path) -> tuple[bool, bool]:
    """Whether the model is lost; nothing here is silent."""
    try:
        opened(folder / "tiny.json")
    except BayesMRIError:
        return True, False
    return False, False


def kill_publish(bench: Bench) -> Row:
    """Over a model of the same name, with another limit on its card."""
    folder = bench.home / "given"
    judge = partial(_lost_model, folder)
    words = ["publish", str(bench.home / "run"), "tiny", "-o", str(folder), "--force", "--limit", "Another."]
    row = Row("kill publish over a model")
    return aimed(row, words, folder, bench.model.parent, judge, moments(bench.rng, bench.n(5, 40), 30))


def kill_calibrate(bench: Bench) -> Row:
    """A model is calibrated in its place, which is the only one it has."""
    fresh, folder, data = bench.home / "plain", bench.home / "bounded", bench.home / "heads"
    _model_of(bench, fresh)
    data.mkdir(exist_ok=True)
    for i in range(3):
        head = ["simulate", "--phantom", "head", "--size", "24x24", "--seed", str(i), "-o", str(data / f"{i}.h5")]
        good(run(head))
    words = ["calibrate", str(folder / "tiny.json"), "--data", str(data), "--level", "0.5", "--samples", "2"]
    row = Row("kill calibrate in the model's place")
    return _kill_maker(bench, row, [*words, "--cap", "1", "--force"], folder, fresh)


def kill_distill(bench: Bench) -> Row:
    """Over a model, with a folder that keeps what was drawn."""
    fresh, folder = bench.home / "plain", bench.home / "taught"
    _model_of(bench, fresh)
    words = ["distill", str(bench.home / "run"), "-o", str(folder / "tiny.json"), "--elements", "2", "--samples", "4"]
    words += ["--few", "2", "--iterations", "3", "--features", "4", "--keep", str(folder / "kept"), "--force"]
    return _kill_maker(bench, Row("kill distill over a model"), words, folder, fresh)


def _model_of(bench: Bench, folder: Path) -> None:
    shutil.copytree(bench.model.parent, folder, dirs_exist_ok=True)


def _kill_maker(bench: Bench, row: Row, words: list[str], folder: Path, fresh: Path) -> Row:
    """The model is there and whole after every kill; the same command then ends, and nothing else is left."""
    judge = partial(_lost_model, folder)
    aimed(row, words, folder, fresh, judge, moments(bench.rng, bench.n(3, 40), 30))
    for _ in range(bench.n(1, 10)):
        shutil.rmtree(folder)
        shutil.copytree(fresh, folder)
        killed = run(words, kill_after=bench.rng.uniform(0, 1.5))
        row.add(killed, lost=judge()[0], what="killed at any time")
    ended = run(words)
    left = {path.name for path in folder.iterdir()} - {"kept"}
    names = {"tiny.json", opened(folder / "tiny.json").record["files"]["weights"]["name"]}
    row.add(ended, lost=ended.code != 0 or left != names, what=f"after kills, with {sorted(left)}")
    return row


def kill_evaluate(bench: Bench) -> Row:
    fresh, folder, data = bench.home / "tables", bench.home / "table", bench.home / "data"
    for place in (fresh, data):
        place.mkdir(exist_ok=True)
    shutil.copy(bench.scan, data / "scan.h5")
    words = ["evaluate", "--data", str(data), "--methods", "zero-filled", "--acceleration", "4", "--force", "-o"]
    good(run([*words, str(fresh / "t.json")]))

    def judge() -> tuple[bool, bool]:
        told = verify(folder / "t.json")
        lost = any(not (folder / f"t.{ending}").exists() for ending in ("json", "md", "tex"))
        return lost, told.whole is None

    words = [*words, str(folder / "t.json"), "--seed", "3"]
    row = Row("kill evaluate (3 files)")
    return aimed(row, words, folder, fresh, judge, moments(bench.rng, bench.n(3, 30), 20))


def kill_batch(bench: Bench) -> Row:
    """A folder of scans is killed at any time and run again: all results are there and whole."""
    row, scans = Row("kill recon of a folder, then again"), bench.home / "scans"
    scans.mkdir(exist_ok=True)
    for i in range(2):
        shutil.copy(bench.scan, scans / f"s{i}.h5")
    for _ in range(bench.n(1, 20)):
        out = bench.home / "batch"
        shutil.rmtree(out, ignore_errors=True)
        words = ["recon", str(scans), "-o", str(out), "--acceleration", "4", "--method", "tv"]
        first = run(words, kill_at=bench.rng.randrange(60))
        row.add(first, what="killed")
        ended = run(words)
        results = sorted(out.rglob("*.recon.h5"))
        lost = ended.code != 0 or len(results) != 2 or not all(verify(path).whole for path in results)
        row.add(ended, lost=lost, what="run again")
    return row


def kill_train(bench: Bench) -> Row:
    """Killed at moments drawn by lot, as often as it takes; the end equals the run that was left alone, bit by bit."""
    row, straight = Row("kill train, then --resume"), bench.home / "run"
    wanted = opened(checkpoints(straight)[-1], ("weights", "state"))
    for _ in range(bench.n(1, 20)):
        out = bench.home / "again"
        shutil.rmtree(out, ignore_errors=True)
        words = ["train", str(bench.home / "tiny.toml"), "-o", str(out), "--resume"]
        for _ in range(bench.n(3, 30)):
            ended = run(words, kill_at=bench.rng.randrange(5, 60))
            row.tracebacks += ended.traceback
            if ended.code == 0:
                break
        ended = run(words)
        found = opened(checkpoints(out)[-1], ("weights", "state"))
        same = found.parts == wanted.parts
        same &= (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
        row.add(ended, lost=not same, what="after kills")
    return row


def full_disk(bench: Bench) -> Row:
    row, folder = Row("full disk"), bench.home / "full"
    for _ in range(bench.n(3, 50)):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(bench.home / "old", folder)
        was = sha256(folder)
        room = int(2 ** bench.rng.uniform(7, 14))
        ended = run(recon_words(bench, folder / "r.h5", 2, "--nifti", "--png"), file_bytes=room)
        row.add(ended, lost=ended.code != 0 and sha256(folder) != was, what=f"{room} bytes")
    return row


def read_only(bench: Bench) -> Row:
    row, folder = Row("read-only folder, unprivileged user"), bench.home / "locked"
    if os.geteuid() != 0:
        row.notes.append("needs root to become somebody else")
        return row
    for place in (bench.home, *bench.home.parents):
        if place != Path("/") and place.stat().st_uid == 0 and str(place).startswith(tempfile.gettempdir() + "/"):
            place.chmod(0o755)
    shutil.copytree(bench.home / "old", folder, dirs_exist_ok=True)
    was = sha256(folder)
    for words in (recon_words(bench, folder / "r.h5", 2), ["publish", str(bench.home / "run"), "x", "-o", str(folder)]):
        ended = run(words, nobody=True)
        row.add(ended, lost=ended.code != 2 or sha256(folder) != was, what=words[0])
    return row


def bit_flips(bench: Bench) -> Row:
    """Of results, models and checkpoints; of a flip in a place that nothing is read from nobody need know."""
    from bayesmri.io.results import open_result

    def of_result(path: Path) -> Any:
        with open_result(path) as found:
            return found.mean.tobytes(), found.zero_filled if hasattr(found, "zero_filled") else None, found.provenance

    def of_model(path: Path) -> Any:
        stored = opened(path.with_suffix(".json"))
        return stored.record, stored.parts

    def of_checkpoint(path: Path) -> Any:
        json_file = path.with_name(path.name.partition(".")[0] + ".json")
        stored = opened(json_file, tuple(read_record(json_file)[0]["files"]))
        return stored.record, stored.parts

    row, last = Row("bit flips in results, models, checkpoints"), checkpoints(bench.home / "run")[-1]
    subjects: list[tuple[Path, Callable[[Path], Any]]] = [
        (bench.home / "old" / "r.h5", of_result),
        (bench.model, of_model),
        (bench.model.with_suffix(".safetensors"), of_model),
        (last, of_checkpoint),
        (last.with_suffix(".state.safetensors"), of_checkpoint),
    ]
    for path, look in subjects:
        content, was = path.read_bytes(), look(path)
        for _ in range(bench.n(20, 200)):
            place, broken = bench.rng.randrange(8 * len(content)), bytearray(content)
            broken[place // 8] ^= 1 << place % 8
            path.write_bytes(bytes(broken))
            try:
                row.add(silent=look(path) != was, what=f"bit {place} of {path.name}")
            except BayesMRIError:
                row.add()
        path.write_bytes(content)
    return row


def odd_names(bench: Bench) -> Row:
    """Newlines, escapes, 250 letters, other scripts; links to files, to nothing and to themselves."""
    row, folder = Row("odd names and links"), bench.home / "odd"
    folder.mkdir(exist_ok=True)
    names = [
        "a\nb.h5",
        "\x1b[31mred\x07.h5",
        "x" * 247 + ".h5",
        "膝関節.h5",
        "रीढ़.h5",
        "rtl\u202eh5.h5",
        " .h5",
        "-o.h5",
    ]
    for name in names[: bench.n(3, len(names))]:
        path = folder / name
        shutil.copy(bench.scan, path)
        recon = ["recon", str(path), "-o", str(folder / "out.h5"), "--acceleration", "4", "--force"]
        for words in (["inspect", str(path)], recon):
            ended = run(words)
            row.add(ended, lost=ended.code not in (0, 2), what=repr(name))
    for name, target in (("loop", "loop"), ("dangling", "nowhere"), ("link", str(bench.scan))):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        was = sha256(bench.scan)
        ended = run(recon_words(bench, folder / name, 1))
        row.add(ended, lost=sha256(bench.scan) != was or ended.code not in (0, 2), what=name)
    return row


def two_writers(bench: Bench) -> Row:
    """The second training in a folder is refused while the first runs, and goes on when it is dead."""
    from bayesmri.io.locks import exclusive

    row, out = Row("two writers in one folder"), bench.home / "shared"
    with exclusive(out, lambda text: None):
        ended = run(["train", str(bench.home / "tiny.toml"), "-o", str(out)])
        row.add(ended, lost=ended.code != 2 or f"process {os.getpid()} on" not in ended.said, what="second")
    ended = run(["train", str(bench.home / "tiny.toml"), "-o", str(out), "--train.iterations", "1"])
    row.add(ended, lost=ended.code != 0, what="after the first")
    return row


def replaced_model(bench: Bench) -> Row:
    """Read while another process replaces it: always whole, and recorded as what was read."""
    row, folder = Row("model replaced while read"), bench.home / "moving"
    shutil.copytree(bench.model.parent, folder, dirs_exist_ok=True)
    other = bench.home / "other"
    good(run(["publish", str(checkpoints(bench.home / "run")[0]), "tiny", "-o", str(other)]))
    from bayesmri.io.integrity.commit import commit, placed
    from bayesmri.runs import signed

    kinds = [opened(place / "tiny.json") for place in (folder, other)]
    over, path = threading.Event(), folder / "tiny.json"

    def write() -> None:
        former: str | None = None
        while not over.is_set():
            for one in kinds:
                weights = one.parts["weights"]
                file = placed(path, weights)
                named = {"weights": {"name": file.name, "sha256": one.weights}}
                commit(path, signed({**one.record, "files": named}), file, weights, former)
                former = file.name

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(bench.n(40, 2000)):
            try:
                found = opened(path)
                row.add(silent=found.parts["weights"] not in [one.parts["weights"] for one in kinds])
            except BayesMRIError as error:
                row.add(lost=True, what=str(error))
    finally:
        over.set()
        writer.join()
    return row


def memory(bench: Bench) -> Row:
    """Too little memory is one line."""
    row, folder = Row("memory limits"), bench.home / "small"
    shutil.copytree(bench.home / "old", folder, dirs_exist_ok=True)
    for _ in range(bench.n(2, 20)):
        was = sha256(folder)
        room = int(2 ** bench.rng.uniform(16, 26))
        ended = run(recon_words(bench, folder / "r.h5", 1), memory_bytes=room)
        row.add(ended, lost=ended.code != 0 and sha256(folder) != was, what=f"{room} bytes")
    return row


CAMPAIGNS: tuple[Callable[[Bench], Row], ...] = (
    kill_recon,
    kill_publish,
    kill_calibrate,
    kill_distill,
    kill_evaluate,
    kill_batch,
    kill_train,
    kill_app_jobs,
    kill_app_server,
    kill_stream_client,
    kill_stream_server,
    full_disk,
    read_only,
    bit_flips,
)
CAMPAIGNS += (odd_names, two_writers, replaced_model, memory)


def table(rows: list[Row]) -> str:
    lines = ["| campaign | trials | lost | tracebacks | silent |", "|---|---|---|---|---|"]
    lines += [f"| {r.name} | {r.trials} | {r.lost} | {r.tracebacks} | {r.silent} |" for r in rows]
    return "\n".join(lines)


def renew(page: Path, rows: list[Row]) -> None:
    """The table of a page; rows of campaigns that were not run stay as they are."""
    start, _, rest = page.read_text(encoding="utf-8").partition("<!-- table -->")
    former, _, end = rest.partition("<!-- /table -->")
    lines = {line.split("|")[1].strip(): line for line in former.strip().splitlines()[2:]}
    head, rule, *made = table(rows).splitlines()
    lines |= {line.split("|")[1].strip(): line for line in made}
    text = "\n".join([head, rule, *lines.values()])
    page.write_text(f"{start}<!-- table -->\n{text}\n<!-- /table -->{end}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few trials of everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=[c.__name__ for c in CAMPAIGNS])
    parser.add_argument(
        "-o", "--output", type=Path, help="a page with a table between two marks, whose rows are renewed"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bayesmri-faults-") as home:
        bench = prepared(Path(home), asked.short, asked.seed)
        rows = [c(bench) for c in CAMPAIGNS if not asked.only or c.__name__ in asked.only]
    if asked.json:
        print(json.dumps([vars(row) for row in rows], indent=1))
    else:
        print(table(rows))
        for row in rows:
            for note in row.notes[:5]:
                print(f"{row.name}: {note}", file=sys.stderr)
    if asked.output is not None:
        renew(asked.output, rows)
    return 0 if all(row.clean for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
