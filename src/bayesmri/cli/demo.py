"""bayesmri demo."""

from functools import partial
from pathlib import Path

from bayesmri.cli.options import Out
from bayesmri.cli.output import print_json, print_messages, print_metrics, sampling_line
from bayesmri.cli.progress import progress

NAMES = {"tv": "total variation"}


def demo(*, output: Out = Path("out/demo"), force: bool = False, json: bool = False) -> None:
    """Simulate an undersampled multi-coil scan of a real head slice, reconstruct it, and say where to look.

    Parameters
    ----------
    output
        Folder to write to.
    force
        Overwrite outputs that are there.
    json
        Print JSON instead of text.
    """
    from bayesmri.recon.demo import demo as run

    made = run(output, force=force, progress=partial(progress, title="demo", unit="steps"))
    print_messages(made)
    if json:
        print_json(made)
        return
    print(f"Simulated from {made['simulated_from']}: {sampling_line(made)}.")
    drawn = f", mean of {made['samples']} samples of its weights," if "samples" in made else ""
    print(f"Reconstructed by {NAMES.get(made['method'], made['method'])}{drawn} in {made['seconds']:.1f} s.\n")
    print_metrics(made["metrics"])
    print(f"\nLook at {next(path for path in made['outputs'] if path.endswith('.png'))}; all of it:")
    for path in made["outputs"]:
        print(f"  {path}")
    print("For research use only. To work with it in the browser (pip install 'bayesmri[app]'):")
    print(f"  bayesmri app {next(path for path in made['outputs'] if path.endswith('recon.h5'))}")
