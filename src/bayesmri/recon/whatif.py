"""Remove and look again: a structure is taken out of the image (or put in), the scan simulated and reconstructed again.

    z' = z + A a,   carried = ⟨X' − X, â⟩ / ⟨a, â⟩,   â = a − mean(a) over the place

a: the change that was asked for, with the phase of the coil images, on measured lines alone. carried is 1 where the
image follows the data, and 0 where it stays as it was: then the model, and not the data, decides what is there.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from torch import Tensor

from bayesmri.analysis.profiles import disc
from bayesmri.analysis.sight import noise_of_coils
from bayesmri.complexes import rss
from bayesmri.errors import DataError
from bayesmri.io.atomic import atomic_paths
from bayesmri.io.geometry import center_window
from bayesmri.io.inspect import data_messages, mask_messages
from bayesmri.io.layout.turn import turned_header
from bayesmri.io.privacy.anonymous import cleaned
from bayesmri.io.provenance import Seen, provenance
from bayesmri.io.write_h5 import name_files, write_reconstruction
from bayesmri.kspace import KSpace
from bayesmri.machine.workers import one_thread
from bayesmri.messages import Messages
from bayesmri.physics.data_terms import Coupled, DataTerm
from bayesmri.physics.fourier import fft2c
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.choice import chosen
from bayesmri.recon.grid import Padding, encoded, padding, sideways
from bayesmri.recon.intervention import Intervention, Kind
from bayesmri.recon.method import Method, make_method, model_name
from bayesmri.recon.outputs import pixel_aspect
from bayesmri.recon.request import Options
from bayesmri.recon.said import choice_note, messages, outside_of, scale_messages
from bayesmri.recon.sound import check_finite, zero_filled
from bayesmri.recon.task import Task
from bayesmri.recon.undersample import single_coil, undersample
from bayesmri.recon.visibility import sight_of
from bayesmri.report.panel import ERROR, GREY, PanelStyle, fitting_scale, panel, window

Floats = NDArray[np.float64]
Image = NDArray[np.float32]

VERBS = {"erase": "taken out", "plant": "put in"}
CLEAR, SMALL = 0.75, 0.25  # shares that are carried, or not
AUDIBLE = 3.0  # times the noise, below which the data says nothing for certain
LEAST = 1e-3  # of a pixel, which stays where more would be taken
ROOM = 1.5  # radii of a place, and SURROUND pixels
SURROUND = 2.0


@dataclass(frozen=True, eq=False)
class WhatIf:
    """One slice, float32 (h, w), in the units of the input.

    before, after: reconstructions of the scan as it is and as it would have been. change: a, that was asked for.
    carried: the share of a's contrast that the reconstruction follows. kept: the share of its energy on measured lines.
    noise_units: its length in the data over the noise of a matched filter; None where no noise is found.
    kspace: the simulated scan of that slice, (Q, H, W), in the method's coils. scale: what the data was divided by.
    notes, warnings: as of a reconstruction: of the data, the model and what it was trained on.
    """

    kind: Kind
    slice: int
    before: Image = field(repr=False)
    after: Image = field(repr=False)
    change: Image = field(repr=False)
    carried: float
    kept: float
    noise_units: float | None
    method: str
    seconds: float
    kspace: NDArray[np.complex64] = field(repr=False)
    scale: float = 1.0
    model_file: Seen | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def came_back(self) -> float:
        """Of what was erased, or of what was planted against: 1 − carried."""
        return 1 - self.carried

    @property
    def verdict(self) -> str:
        """One sentence."""
        share = f"{100 * self.carried:.0f} %"
        quiet = self.noise_units is not None and self.noise_units < AUDIBLE
        doubt = (
            f"; the data holds only {self.noise_units:.1f} times the noise of it, so nothing is certain"
            if quiet
            else ""
        )
        if self.kind == "erase":
            if self.carried >= CLEAR:
                return f"stays away when it is taken out ({share} of it is gone): the data carried it{doubt}"
            if self.carried <= SMALL:
                return f"comes back by itself (only {share} of it is gone): the model put it there, not the data{doubt}"
            return f"comes back in part ({share} of it is gone): data and model both make it{doubt}"
        if self.carried >= CLEAR:
            return f"would be seen: {share} of its contrast comes through{doubt}"
        if self.carried <= SMALL:
            return f"would be lost: only {share} of its contrast comes through{doubt}"
        return f"would be seen in part: {share} of its contrast comes through{doubt}"


@dataclass(frozen=True, eq=False)
class Look:
    """A slice that was reconstructed, to be asked many times.

    x: complex (Q', H, W) in the method's scale. X: magnitude of the whole grid. said: what `recon` would say of it.
    """

    task: Task
    turned: bool
    s: int
    D: DataTerm
    x: Tensor
    X: Floats
    said: Messages

    @property
    def shape(self) -> tuple[int, int]:
        """(h, w) of the image as it is shown."""
        rows, columns = self.task.window
        h, w = rows.stop - rows.start, columns.stop - columns.start
        return (w, h) if self.turned else (h, w)


def whatif(kspace: KSpace, asked: Intervention, options: Options | Method, *, known: Messages | None = None) -> WhatIf:
    """A slice with the change and without it. options: what to reconstruct with, or a method that was made before.

    known: what is to be said of the data, where it was seen whole before lines were left out; else it is looked at.
    """
    began = time.perf_counter()
    h, w = _shown(kspace, full_fov=not isinstance(options, Method) and options.full_fov)
    s = asked.at((w, h) if kspace.header.turned else (h, w), len(kspace.z))
    found = look_again(look(kspace, s, options, known=known), asked)
    return replace(found, seconds=time.perf_counter() - began)


def _shown(kspace: KSpace, *, full_fov: bool) -> tuple[int, int]:
    """Of the grid, in the directions of k-space."""
    grid = (kspace.z.shape[2], kspace.z.shape[3])
    return grid if full_fov else kspace.header.recon_shape or grid


def look(
    kspace: KSpace,
    s: int,
    given: Options | Method,
    *,
    known: Messages | None = None,
    full_fov: bool = False,
    scale: float | None = None,
) -> Look:
    """Slice s as it is. full_fov, scale: where a method is given, which does not know them."""
    zero_filled(kspace)  # refuses what holds nothing
    options, choice = (Options(full_fov=full_fov), None) if isinstance(given, Method) else chosen(given, kspace)
    method = given if isinstance(given, Method) else make_method(options)
    inner, grid = encoded(kspace), (kspace.z.shape[2], kspace.z.shape[3])
    window = center_window(grid, _shown(kspace, full_fov=options.full_fov))
    task = replace(Task.of(inner, method, window, scale=options.scale if scale is None else scale), pad=padding(kspace))
    said = (data_messages(kspace) if known is None else known) + told_of(task, inner, options, choice)
    said += scale_messages(task.factor, task.own)
    with one_thread():
        D = task.begin(s)
        x = method.solve(D)[0]
        X = rss(task.shown(x)).double().cpu().numpy()
    return Look(task, kspace.header.turned, s, D, x, X, said)


def look_again(seen: Look, asked: Intervention) -> WhatIf:
    """The same slice with the change."""
    asked.at(seen.shape, max(seen.s, asked.slice or 0) + 1)
    with one_thread():
        found = _looked_again(seen, asked.sideways if seen.turned else asked)
    return _upright(found) if seen.turned else found


def _looked_again(seen: Look, asked: Intervention) -> WhatIf:
    began = time.perf_counter()
    task, D, X = seen.task, seen.D, seen.X
    method, pad, (rows, columns) = task.method, task.pad, task.window
    a, place = change_of(X, asked, row=asked.y + rows.start, column=asked.x + columns.start)
    phase = coil_phase(D, seen.x, pad)
    added = measured(D, phase, a, pad)
    after = rss(task.shown(method.solve(with_data(D, D.z + added, method))[0])).double().cpu().numpy()
    check_finite("the image", after, method, seen.s)
    centred = np.zeros_like(a)
    centred[place] = a[place] - a[place].mean()
    kept, units = _held(D, phase, centred, pad)
    z = (D.z + added)[0] * task.factor
    return WhatIf(
        kind=asked.kind,
        slice=seen.s,
        before=(task.factor * X[task.window]).astype(np.float32),
        after=(task.factor * after[task.window]).astype(np.float32),
        change=(task.factor * a[task.window]).astype(np.float32),
        carried=float(np.sum((after - X) * centred) / np.sum(a * centred)),
        kept=kept,
        noise_units=units,
        method=method.name,
        seconds=time.perf_counter() - began,
        kspace=(z if pad is None else pad.around(z)).cpu().numpy().astype(np.complex64),
        scale=task.factor,
        model_file=method.file,
        **vars(seen.said),
    )


def _upright(found: WhatIf) -> WhatIf:
    """Rows and columns exchanged again, where the reader had exchanged them."""
    images = {name: sideways(getattr(found, name)) for name in ("before", "after", "change", "kspace")}
    return replace(found, **images)


def told_of(task: Task, kspace: KSpace, options: Options, choice: str | None) -> Messages:
    """What `recon` would say of the model and this data; of error bounds nothing is asked here."""
    outside, lines = outside_of(task.method, kspace), task.coil_lines()
    return messages(task.method, kspace, options, choice, outside=outside, coil_lines=lines, bound_note=None)


def change_of(X: Floats, asked: Intervention, *, row: float, column: float) -> tuple[Floats, tuple[slice, slice]]:
    """a, (H, W), and the place around it.

    Erased: what is inside the disc becomes what is around it, m (B − X), with B the mean of X outside, weighted by how
    near it is. Planted: c b m, with the brightness b of the place. X + a stays positive.
    """
    H, W = X.shape
    v, u = np.arange(H, dtype=np.float64)[:, None] - row, np.arange(W, dtype=np.float64)[None] - column
    m = disc(v, u, asked.r)
    if asked.contrast is None:
        outside = 1 - disc(v, u, 1.3 * asked.r)
        weight = gaussian_filter(outside, asked.r, mode="nearest")
        a = m * (gaussian_filter(outside * X, asked.r, mode="nearest") / np.maximum(weight, 1e-9) - X)
    else:
        a = asked.contrast * float(np.average(X, weights=m)) * m
    a = np.maximum(a, (LEAST - 1) * X)
    reach = math.ceil(ROOM * asked.r + SURROUND)
    place = tuple(slice(max(0, round(c) - reach), min(n, round(c) + reach + 1)) for c, n in ((row, H), (column, W)))
    a = np.where(m > 1e-6, a, 0.0)
    inside = a[place]
    if not np.abs(inside - inside.mean()).max() > 1e-6 * max(float(X.max()), 1e-30):
        raise DataError(
            f"nothing at {asked.x:g},{asked.y:g} differs from what is around it, expected a structure or tissue there; "
            "give another place or radius"
        )
    return a, (place[0], place[1])


def coil_phase(D: DataTerm, x: Tensor, pad: Padding | None = None) -> Tensor:
    """x/X, the share and phase of every coil at every pixel of the stored grid, (Q, H, W); of the image of low
    resolution where the method combines coils.
    """
    if x.shape[0] != D.z.shape[1]:
        x = torch.from_numpy(sight_of(D, x).smooth).to(D.z)
    x = x if pad is None else pad.widen(x)
    X = rss(x)
    return torch.where(X > 0, x / torch.where(X > 0, X, 1), 0)


def measured(D: DataTerm, phase: Tensor, a: Floats, pad: Padding | None = None) -> Tensor:
    """A a = M F(a x/X), complex (1, Q, H, W): what the scan would have measured of the change."""
    change = torch.from_numpy(a).to(phase.device, phase.real.dtype)
    u = fft2c(phase * change)
    return (D.mask * (u if pad is None else pad.inside(u))).reshape(D.z.shape).to(D.z.dtype)


def with_data(D: DataTerm, z: Tensor, method: Method) -> DataTerm:
    """The same slice with other data; its sensitivities stay what they were."""
    return replace(D, z=z) if isinstance(D, Coupled) else method.begin(z, D.mask, None)


def _held(D: DataTerm, phase: Tensor, a: Floats, pad: Padding | None) -> tuple[float, float | None]:
    """‖A a‖²/‖a‖², and √2 ‖A a/σ‖: Re⟨A a, ν⟩/‖A a‖ of complex noise has the deviation σ/√2."""
    part = measured(D, phase, a, pad)[0].cpu().numpy().astype(np.complex128)
    power = np.sum(np.abs(part) ** 2, axis=(1, 2))
    whole = float(torch.sum((phase.abs().double().cpu() * torch.from_numpy(a)) ** 2))
    sight = sight_of(D, phase)
    sigma = noise_of_coils(sight.z, sight.mask)
    units = math.sqrt(2 * float(np.sum(power[sigma > 0] / sigma[sigma > 0] ** 2))) if (sigma > 0).any() else None
    return min(1.0, float(power.sum()) / max(whole, 1e-30)), units


def whatif_to(
    kspace: KSpace,
    name: str,
    seen: Sequence[Seen],
    targets: dict[str, Path],
    asked: Intervention,
    options: Options,
    sampling: Sampling | None,
    *,
    anonymise: bool = False,
) -> dict[str, Any]:
    """Ask and write; returns JSON values. name, seen: of the file, as it was when it was read."""
    said = data_messages(kspace)
    if options.single_coil:
        kspace = single_coil(kspace)
    if sampling is not None:
        kspace = undersample(kspace, sampling, otherwise=f"leave {sampling.given} out to take it as it is")
        said += mask_messages(kspace.encoded_mask)
    options, choice = chosen(options, kspace)
    found = whatif(kspace, asked, options, known=said + choice_note(choice))
    said = Messages(found.notes, found.warnings)
    facts = whatif_facts(found, asked)
    named = options if options.model is None else replace(options, model=model_name(options.model))
    config = {"model": named.model, "method": None if named.model else named.method, **asdict(asked)}
    config |= {"sampling": None if sampling is None else asdict(sampling), "scale": options.scale}
    model = [] if found.model_file is None else [found.model_file]
    seed = None if sampling is None else sampling.seed
    origin = provenance(
        command="whatif", config=config, seed=seed, inputs=[*seen, *model], threads=torch.get_num_threads()
    )
    header = turned_header(kspace.header) if kspace.header.turned else kspace.header
    bare = cleaned(header, origin, said) if anonymise else None
    if bare is not None:
        header, origin, said = bare.header, bare.provenance, bare.said
    with atomic_paths(list(targets.values())) as paths:
        made = dict(zip(targets, paths, strict=True))
        images = {"before": found.before[None], "after": found.after[None], "change": found.change[None]}
        told = {"after": {key: value for key, value in facts.items() if value is not None}}
        write_reconstruction(made["h5"], images, header=header, provenance=origin, about=told, said=said)
        if "png" in made:
            write_picture(made["png"], found, pixel_aspect(header))
            name_files(made["h5"], {targets["png"].name: made["png"]})
    return {
        "file": name,
        **({} if choice is None else {"chosen": choice}),
        **facts,
        "seconds": found.seconds,
        **({} if bare is None else {"removed": list(bare.removed)}),
        "outputs": [str(target) for target in targets.values()],
        **said.as_json(),
    }


def whatif_facts(found: WhatIf, asked: Intervention) -> dict[str, Any]:
    """JSON values."""
    return {
        "kind": found.kind,
        "slice": found.slice,
        "x": asked.x,
        "y": asked.y,
        "r": asked.r,
        "contrast": asked.contrast,
        "method": found.method,
        "carried": found.carried,
        "came_back": found.came_back,
        "kept": found.kept,
        "noise_units": found.noise_units,
        "scale": found.scale,
        "verdict": found.verdict,
    }


def write_picture(path: Path, found: WhatIf, aspect: float) -> None:
    """Before | as asked | after | the change asked for | the change seen, both in one scale."""
    asked, seen = np.abs(found.change), np.abs(found.after - found.before)
    scale = fitting_scale(np.maximum(asked, seen), window(found.before))
    style = PanelStyle(cmap="inferno", scale=scale, label=ERROR.replace("error", "change"))
    tiles = [
        ("Before\n" + found.method, found.before, GREY),
        (f"{VERBS[found.kind].capitalize()}\nas asked for", np.maximum(found.before + found.change, 0), GREY),
        ("After\nscanned and reconstructed again", found.after, GREY),
        (f"Asked ×{scale:g}\n{100 * found.kept:.0f} % of its energy measured", asked, style),
        (f"Seen ×{scale:g}\n{100 * found.carried:.0f} % of its contrast", seen, style),
    ]
    panel(path, tiles, pixel_aspect=aspect)
