"""The command `bayesmri`: each verb parses, calls one function of the pipeline, and prints.

Exit codes: 0 done, 1 failed, 2 misused or too much for the memory there is (one line on stderr says what came, what was
wanted, what to do).
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata

from cyclopts import App, CycloptsError

from bayesmri.cli.bench import bench
from bayesmri.cli.calibrate import calibrate
from bayesmri.cli.curves import curves
from bayesmri.cli.demo import demo
from bayesmri.cli.distill import distill
from bayesmri.cli.evaluate import evaluate
from bayesmri.cli.inspect import inspect
from bayesmri.cli.models import models
from bayesmri.cli.publish import publish
from bayesmri.cli.recon import recon
from bayesmri.cli.report import report
from bayesmri.cli.simulate import simulate
from bayesmri.cli.study import listed, study
from bayesmri.cli.train import train
from bayesmri.cli.undersample import undersample
from bayesmri.errors import BayesMRIError

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
# the words of torch's RuntimeErrors: of the CPU's allocators, of CUDA and of its libraries
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED")


def build_app() -> App:
    """All verbs, each with an example at the end of its help."""
    app = App(
        name="bayesmri",
        help="Learned variational MRI reconstruction that says how sure it is of every pixel. For research use only.",
        version=metadata.version("bayesmri"),
        result_action="return_value",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # main says that it was interrupted
    )
    app.command(inspect, help_epilogue="Example: bayesmri inspect scan.h5")
    app.command(
        simulate, help_epilogue="Example: bayesmri simulate --phantom knee -o knee.h5 --coils 8 --snr 30 --seed 1"
    )
    app.command(undersample, help_epilogue="Example: bayesmri undersample knee.h5 -o knee_r4.h5 --acceleration 4")
    app.command(recon, help_epilogue="Example: bayesmri recon knee.h5 -o knee_tv.h5 --method tv --acceleration 4 --png")
    app.command(report, help_epilogue="Example: bayesmri report knee_r4.recon.h5 -o knee_r4.html")
    app.command(train, help_epilogue="Example: bayesmri train configs/small-single-r4.toml --out runs/small")
    app.command(
        evaluate, help_epilogue="Example: bayesmri evaluate --data val/ --methods tv,runs/small --acceleration 4"
    )
    app.command(curves, help_epilogue="Example: bayesmri curves runs/small runs/unet -o curves.png")
    app.command(study, help_epilogue=listed())
    app.command(distill, help_epilogue="Example: bayesmri distill runs/small-bayes -o small-bayes.json")
    app.command(calibrate, help_epilogue="Example: bayesmri calibrate runs/bayes --data val/ -o bayes.json")
    app.command(models, help_epilogue="Example: bayesmri models tdv-single-r4")
    app.command(publish, help_epilogue="Example: bayesmri publish runs/small tdv-single-r4 --out weights/")
    app.command(bench, help_epilogue="Example: bayesmri bench --json")
    app.command(demo, help_epilogue="Example: bayesmri demo -o out/demo")
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; every error a user can mend is one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # names of files may hold what the terminal's encoding cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        build_app()(argv, exit_on_error=False, print_error=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # a reader that has gone is noticed here, and not in the interpreter's last breath
    except CycloptsError as error:
        return _complain(f"{error} (see bayesmri --help)", MISUSED)
    except BayesMRIError as error:
        return _complain(error, MISUSED)
    except KeyboardInterrupt:
        return _complain("interrupted; no file was left half-written", INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return FAILED
    except OSError as error:
        _drop_output()
        return _complain(f"the system refused: {error}", FAILED)
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _lacks_memory(str(error))):
            return _complain(_memory_advice(str(error)), MISUSED)
        if os.environ.get("BAYESMRI_DEBUG"):
            raise
        return _complain(f"internal error, {type(error).__name__}: {error} (set BAYESMRI_DEBUG=1 for details)", FAILED)
    return DONE


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
    print("bayesmri:", " ".join(str(message).split()), file=sys.stderr)
    return code
