"""The command `bayesmri`: each verb parses, calls one function of the pipeline, and prints.

Exit codes: 0 done, 1 failed, 2 misused or too much for the memory there is (one line on stderr says what was got, what
was expected, what to do), 3 done but for some of many files, which the summary lists. With --json an error is also on
stdout: {"error": {"kind": …, "message": …}}.
"""

import io
import os
import platform
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Group

from bayesmri.bounded import printable
from bayesmri.cli.output import print_json, printing
from bayesmri.errors import BayesMRIError, ConfigError, StrictError
from bayesmri.machine.cores import MOST_THREADS, limit_threads
from bayesmri.registry import load_plugin

EVERYDAY = Group("Every day", sort_key=0)
BUILDERS = Group("For model builders", sort_key=1)
PLUGIN, THREADS = "--plugin", "--threads"
HELP = {"--help", "-h", "--version"}
DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
# the words of torch's RuntimeErrors: of the CPU's allocators, of CUDA and of its libraries
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED")


def build_app(asked: str | None = None) -> App:
    """All verbs, each with an example at the end of its help; a module of its own is imported when its verb runs.

    asked: the verb whose own help is wanted in full; the others need their first line alone.
    """
    app = App(
        name="bayesmri",
        help="Learned variational MRI reconstruction that says how sure it is of every pixel. For research use only."
        "\n\nWith any command, --plugin MODULE (or FILE.py) loads models of your own, and may be repeated; --threads N "
        "takes N processor cores instead of all that this process may use: results are the same.",
        version=metadata.version("bayesmri"),
        result_action="return_value",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # main says that it was interrupted
    )
    for group, verbs in ((EVERYDAY, _everyday()), (BUILDERS, _builders())):
        for place, (verb, epilogue) in enumerate(verbs):
            app.command(
                f"bayesmri.cli.{verb}:{verb}",
                group=group,
                sort_key=place,
                help=None if verb == asked else _first_line(verb),
                help_epilogue=epilogue or _own_epilogue(verb, asked),
            )
    return app


def _first_line(verb: str) -> str:
    """Of the verb's docstring, read from its source: importing all verbs for a list of them would take its time."""
    source = Path(__file__).with_name(f"{verb}.py").read_text(encoding="utf-8")
    found = re.search(rf'^def {verb}\(.*?"""(.*?)$', source, flags=re.MULTILINE | re.DOTALL)
    return found[1].removesuffix('"""') if found else ""


def _own_epilogue(verb: str, asked: str | None) -> str:
    """What a verb's module says at the end of its help, where that has to be looked up."""
    return str(import_module(f"bayesmri.cli.{verb}").listed()) if verb == asked else ""


def _everyday() -> list[tuple[str, str]]:
    """In the order in which one meets them."""
    return [
        ("inspect", "Example: bayesmri inspect scan.h5"),
        ("recon", "Example: bayesmri recon knee.h5 -o knee_tv.h5 --method tv --acceleration 4 --png"),
        ("export", "Example: bayesmri export knee_r4.recon.h5 --dicom knee_r4 --like scanner_series/"),
        ("send", "Example: bayesmri send knee_r4 --to localhost:4242 --called ORTHANC"),
        ("report", "Example: bayesmri report knee_r4.recon.h5 -o knee_r4.html"),
        ("app", "Example: bayesmri app scans/"),
        ("verify", "Example: bayesmri verify knee_r4.recon.h5 tdv-mine.json runs/small"),
        ("whatif", "Example: bayesmri whatif scan.h5 --erase 120,96,4 --model auto -o out.h5 --png"),
        ("evaluate", "Example: bayesmri evaluate --data val/ --methods tv,runs/small --acceleration 4"),
        ("train", "Example: bayesmri train configs/small-single-r4.toml -o runs/small"),
        ("models", "Example: bayesmri models tdv-r4"),
        ("calibrate", "Example: bayesmri calibrate runs/bayes --data val/ -o bayes.json"),
        ("simulate", "Example: bayesmri simulate --phantom knee -o knee.h5 --coils 8 --snr 30 --seed 1"),
        ("undersample", "Example: bayesmri undersample knee.h5 -o knee_r4.h5 --acceleration 4"),
        ("demo", "Example: bayesmri demo -o out/demo"),
        ("serve", "Example: bayesmri serve --mrd --port 9002"),
        ("stream", "Example: bayesmri stream scan.h5 localhost:9002 -o images.h5"),
    ]


def _builders() -> list[tuple[str, str]]:
    return [
        ("study", ""),
        ("publish", "Example: bayesmri publish runs/small tdv-mine -o weights/"),
        ("familiarise", "Example: bayesmri familiarise runs/small --data train/ -o small.json"),
        ("distill", "Example: bayesmri distill runs/small-bayes -o small-bayes.json"),
        ("posterior", "Example: bayesmri posterior runs/small-bayes --beta 1e-8 -o wide.json"),
        ("curves", "Example: bayesmri curves runs/small runs/unet -o curves.png"),
        ("bench", "Example: bayesmri bench --json"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every error a user can mend is one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # names of files may hold what the terminal's encoding cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else [str(word) for word in argv]
    try:
        rest = _with_threads(_without_plugins(words))
        helps = not rest or not HELP.isdisjoint(rest)  # in colours of its own
        with nullcontext() if helps else printing():
            code = build_app(next(iter(rest), None))(rest, exit_on_error=False, print_error=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # a reader that has gone is noticed here, and not in the interpreter's last breath
    except BrokenPipeError:
        _drop_output()
        return FAILED
    except (Exception, KeyboardInterrupt) as error:
        kind, message, failed = _explained(error)
        if kind == "InternalError" and os.environ.get("BAYESMRI_DEBUG"):
            raise
        if as_json(words):
            _tell_json(kind, message, error)
        if isinstance(error, OSError):
            _drop_output()
        return _complain(message, failed)
    return code if isinstance(code, int) else DONE


def _explained(error: BaseException) -> tuple[str, str, int]:
    """(kind, one line, exit code) of whatever went wrong."""
    said = " ".join(str(error).split())
    if isinstance(error, CycloptsError):
        return "UsageError", f"{said} (see bayesmri --help)", MISUSED
    if isinstance(error, BayesMRIError):
        return type(error).__name__, said, MISUSED
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted", "interrupted; no file was left half-written", INTERRUPTED
    if isinstance(error, OSError):
        return "SystemError", f"the system refused: {said}", FAILED
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _lacks_memory(said)):
        return "OutOfMemory", _memory_advice(said), MISUSED
    return "InternalError", _report(error, said), FAILED


def _report(error: BaseException, said: str) -> str:
    """What to copy into a report: where it happened and in which version; neither names of files nor values of data."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "bayesmri" in Path(f.filename).parts]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-4:-1]) or "unknown"
    versions = " ".join(f"{name} {metadata.version(name)}" for name in ("bayesmri", "torch", "numpy"))
    line = f"{type(error).__name__} at {where}; {versions}; Python {platform.python_version()}, {sys.platform}"
    return (
        f"internal error, {type(error).__name__}: {said} (set BAYESMRI_DEBUG=1 for details; to report it, see "
        f"SECURITY.md and copy this: [{line}])"
    )


def as_json(words: Sequence[str]) -> bool:
    """Whether JSON was asked for, also where the rest of the line cannot be parsed; the last word on it counts."""
    flags = {"--json": True, "--json=true": True, "--no-json": False, "--json=false": False}
    asked = [flags[word] for word in words if word in flags]
    return bool(asked) and asked[-1]


def _tell_json(kind: str, message: str, error: BaseException) -> None:
    told: dict[str, Any] = {"kind": kind, "message": message}
    if isinstance(error, StrictError):
        told["warnings"] = list(error.warnings)
    with suppress(OSError):  # where nobody listens, the line on stderr is left
        print_json({"error": told})
        sys.stdout.flush()


def _without_plugins(words: Sequence[str]) -> list[str]:
    """What is left after every `--plugin NAME` was taken out and its module imported: for all commands alike."""
    rest, taken = _taken_out(words, PLUGIN, "a name, expected a module or a .py file")
    for name in taken:
        load_plugin(name)
    return rest


def _with_threads(words: Sequence[str]) -> list[str]:
    """What is left without `--threads N`, which is heeded; `bench` measures with a number of its own."""
    if words[:1] == ["bench"]:
        return list(words)
    rest, taken = _taken_out(words, THREADS, "a number, expected one of cores")
    for word in taken:
        if not word.isdecimal() or not 1 <= int(word) <= MOST_THREADS:
            raise ConfigError(f"got {THREADS} {word}, expected a whole number from 1 to {MOST_THREADS}")
    limit_threads(int(taken[-1]) if taken else None)
    return rest


def _taken_out(words: Sequence[str], flag: str, lacking: str) -> tuple[list[str], list[str]]:
    """The words without a flag of all commands, and what was given with it."""
    rest, taken = list(words), []
    while (place := next((i for i, word in enumerate(rest) if word.split("=")[0] == flag), None)) is not None:
        value = rest.pop(place).partition("=")[2]
        if not value:
            if place >= len(rest):
                raise ConfigError(f"got {flag} without {lacking} after it")
            value = rest.pop(place)
        taken.append(value)
    return rest, taken


def _lacks_memory(said: str) -> bool:
    return any(words in said for words in NO_MEMORY)


def _memory_advice(said: str) -> str:
    """What was asked for, where an error says it, and what to do; a GPU has the CPU beside it."""
    asked = re.search(r"(?i)tried to allocate ([\d.]+ \w+)|allocate ([\d.]+ \w+) for an array", said)
    size = f" ({asked[1] or asked[2]} were asked for)" if asked else ""
    gpu = re.search(r"CUDA|cuda|CUBLAS|CUDNN|cuDNN", said)
    other = "; or --device cpu (of train: --train.device cpu)" if gpu else ""
    return (
        f"out of memory{' on the GPU' if gpu else ''}{size}: take fewer slices at a time or fewer --coils; to train, a "
        f"smaller --train.batch or --data.patch_rows, or --train.recompute true{other}"
    )


def _drop_output() -> None:
    """What is still to be printed goes nowhere: the interpreter would try again at its end, and complain."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: object, code: int) -> int:
    print("bayesmri:", printable(" ".join(str(message).split())), file=sys.stderr)
    return code
