"""bayesmri serve --mrd --port 9002."""

import signal
import sys
import time
from typing import Annotated

from cyclopts import Parameter

from bayesmri.cli.options import Whole
from bayesmri.errors import ConfigError
from bayesmri.recon.request import MethodName, Options, check_spread
from bayesmri.stream.limits import Limits
from bayesmri.stream.parameters import Terms, Wish
from bayesmri.stream.reach import check_reach

MEGABYTE = 1_000_000


def serve(
    *,
    mrd: Annotated[bool, Parameter(negative=())] = False,
    host: str = "127.0.0.1",
    port: Whole = 9002,
    anyone: Annotated[bool, Parameter(negative=())] = False,
    model: str | None = None,
    method: MethodName | None = None,
    samples: Whole | None = None,
    seed: Whole = 0,
    most_samples: Whole = 64,
    clients: Whole = 4,
    memory: Whole | None = None,
    idle: float = 600.0,
    texts: bool = True,
    device: str = "cpu",
) -> None:
    """Reconstruct what scanners send by the MRD streaming protocol, slice by slice as lines come in.

    Clients of Gadgetron and python-ismrmrd-server can connect. Mean, standard deviation, error bound and typical error
    go back as series of their own. Ends with SIGINT or SIGTERM. docs/stream.md has the protocol.

    Parameters
    ----------
    mrd
        Serve the MRD streaming protocol (ISMRMRD); the one there is so far.
    host
        Address to listen on: this machine's own unless given.
    port
        TCP port; 0 takes any that is free and prints it.
    anyone
        Allow a host that other machines can reach. The protocol has neither passwords nor encryption: whoever reaches
        the port can send data, use this machine and read along.
    model
        What clients get unless they ask for something else: auto unless given, a shipped name, a run folder or a file.
    method
        A method instead of a model.
    samples
        Draws of the model's posterior for each slice; 16 unless given, for which the shipped error bounds hold. 0 for
        none, and no standard deviation.
    seed
        Of those draws.
    most_samples
        The most that a client may ask for.
    clients
        How many may be connected at once.
    memory
        Megabytes that each client may have waiting here; its share of half of this machine's memory unless given.
    idle
        Seconds without a message, or without reading one, after which a client is given up.
    texts
        Send notes and warnings as messages too; --no-texts for clients that know no such message.
    device
        cpu, cuda or cuda:N.
    """
    if not mrd:
        raise ConfigError("got no protocol, expected --mrd, which is the one there is: bayesmri serve --mrd")
    if method is not None and model is not None:
        raise ConfigError(
            f"got both the method {method} and the model {model}, expected one of them; leave one of the two out"
        )
    check_reach(host, anyone=anyone)
    learned = None if method is not None else model or "auto"
    drawn = samples if samples is not None else 0 if method is not None else 16
    options = Options(method=method or "tv", model=learned, samples=check_spread(drawn), seed=seed, device=device)
    limits = Limits(clients=clients, memory=None if memory is None else memory * MEGABYTE, idle=idle, stalled=idle)
    terms = Terms(Wish(options, texts=texts), most_samples=max(most_samples, drawn))
    from bayesmri.stream.server import Server

    server = Server(host, port, terms, limits, _log)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    bound, at = server.address
    print(f"listening on {bound}:{at} (MRD streaming protocol); for research use only", flush=True)
    if anyone:
        _log("other machines can connect, without a password and unencrypted (--anyone)")
    server.serve()
    print("stopped", flush=True)


def _log(text: str) -> None:
    """One line, with the time; never anything of a patient."""
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}", file=sys.stderr, flush=True)
