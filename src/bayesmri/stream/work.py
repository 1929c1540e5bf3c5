"""The work behind the stream: the lines of one image, sorted as those of a file, reconstructed as `recon` does."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bayesmri.checkpoint import load_model
from bayesmri.io.inspect import data_messages
from bayesmri.io.ismrmrd_xml import Encoding
from bayesmri.io.mrd.grid import Grid
from bayesmri.io.mrd.sort import sort_lines
from bayesmri.model import Model
from bayesmri.recon.choice import chosen
from bayesmri.recon.method import model_name
from bayesmri.recon.reconstruct import Reconstruction, reconstruct
from bayesmri.recon.request import Options
from bayesmri.recon.said import choice_note
from bayesmri.recon.undersample import single_coil
from bayesmri.stream.gather import Complete
from bayesmri.stream.parameters import Wish


@dataclass(frozen=True, eq=False)
class Made:
    """heads: of the first line of every slice, or slab, in the order of the images."""

    result: Reconstruction
    heads: list[Any]
    grid: Grid


@dataclass(frozen=True, eq=False)
class Studio:
    """Reconstructs for all clients; a model is loaded once. budget: the most bytes that one array may claim."""

    budget: int
    models: dict[str, Model] = field(default_factory=dict)

    def make(self, complete: Complete, encoding: Encoding, wish: Wish, on_step: Callable[[], None]) -> Made:
        """on_step: called after each sample or slice, and may raise to give up."""
        found = sort_lines(
            complete.source, encoding, budget=self.budget, choice=complete.key.choice(prewhiten=wish.prewhiten)
        )
        on_step()
        kspace = found.kspace
        known = data_messages(kspace) + complete.said
        if wish.options.single_coil:
            kspace = single_coil(kspace)
        options, choice = chosen(wish.options, kspace)
        result = reconstruct(kspace, self._loaded(options), known=known + choice_note(choice), on_step=on_step)
        if isinstance(options.model, str):  # which has a name of its own, whatever its card says
            result = replace(result, method=model_name(options.model))
        slices, lines = found.placing.slices, found.lines
        first = [int(np.flatnonzero(lines.slice == counter)[0]) for counter in slices]
        return Made(result, [complete.source.head[lines.row[line]] for line in first], found.placing.grid)

    def _loaded(self, options: Options) -> Options:
        name = options.model
        if not isinstance(name, str):
            return options
        if name not in self.models:
            self.models[name] = load_model(Path(name))
        return replace(options, model=self.models[name])
