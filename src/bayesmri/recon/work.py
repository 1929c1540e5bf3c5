"""What the commands on files do once a file was read: simulate, undersample, reconstruct, write."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bayesmri.bounds.left_out import N_FOLDS
from bayesmri.data.simulate import Scanner
from bayesmri.io.dicom_out.write import DicomOut
from bayesmri.io.inspect import data_messages, mask_messages
from bayesmri.io.privacy.anonymous import cleaned
from bayesmri.io.provenance import Seen, provenance
from bayesmri.io.write_h5 import write_kspace
from bayesmri.kspace import Images, KSpace
from bayesmri.messages import Messages
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.choice import chosen
from bayesmri.recon.files import Progress, sampling_facts
from bayesmri.recon.method import Method, make_method, model_name
from bayesmri.recon.outputs import facts, save
from bayesmri.recon.reconstruct import reconstruct
from bayesmri.recon.request import Options, check_spread, recorded_seed, settings
from bayesmri.recon.said import choice_note
from bayesmri.recon.simulated import measured
from bayesmri.recon.simulated import phantom_images as phantom_images
from bayesmri.recon.undersample import as_sampled, left_out, single_coil, undersample
from bayesmri.runs import locate
from bayesmri.zoo import FOLDER as SHIPPED


def simulate_images(
    images: Images,
    out: Path,
    *,
    coils: int,
    snr_db: float | None,
    seed: int,
    config: Mapping[str, Any],
    inputs: Sequence[Seen] = (),
    anonymise: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What a scanner with these coils would measure of the images, written to `out`."""
    scanner = Scanner(coils=coils, snr_db=snr_db)
    with progress(len(images.magnitude)) if progress else nullcontext() as advance:
        kspace = measured(images, scanner, seed=seed, on_slice=advance)
    provenance = _provenance("simulate", {**config, **asdict(scanner)}, seed, inputs)
    said = data_messages(images)
    told = _write_kspace(out, kspace, provenance, said, anonymise=anonymise)
    return {
        "output": str(out),
        "slices": kspace.z.shape[0],
        "coils": kspace.z.shape[1],
        "shape": list(kspace.z.shape[2:]),
        "seed": seed,
        **told,
    }


def write_undersampled(
    kspace: KSpace,
    seen: Sequence[Seen],
    out: Path,
    sampling: Sampling,
    *,
    keep_truth: bool,
    combined: bool,
    strict: bool,
    anonymise: bool = False,
) -> dict[str, Any]:
    """K-space of a file undersampled, and written. combined: into one coil first. strict: unless there are warnings."""
    sampled = undersample(single_coil(kspace) if combined else kspace, sampling)
    said = data_messages(kspace) + mask_messages(sampled.encoded_mask)
    said.check(strict=strict)
    config = {**asdict(sampling), "single_coil": combined}
    record = _provenance("undersample", config, sampling.seed, seen)
    sampled = sampled if keep_truth else replace(sampled, truth=None)
    told = _write_kspace(out, sampled, record, said, anonymise=anonymise)
    return {"output": str(out), **sampling_facts(sampled), **told}


def _write_kspace(
    out: Path, kspace: KSpace, record: dict[str, Any], said: Messages, *, anonymise: bool
) -> dict[str, Any]:
    """JSON values of what was said, and of what was removed where that was asked for."""
    if not anonymise:
        write_kspace(out, kspace, provenance=record, truth=kspace.truth, said=said)
        return dict(said.as_json())
    bare = cleaned(kspace.header, record, said)
    write_kspace(
        out, replace(kspace, header=bare.header), provenance=bare.provenance, truth=kspace.truth, said=bare.said
    )
    return {"removed": list(bare.removed), **bare.said.as_json()}


def reconstruct_to(
    kspace: KSpace,
    targets: dict[str, Path],
    options: Options,
    sampling: Sampling | None,
    *,
    file: str,
    inputs: Sequence[Sequence[Seen]],
    dicom: DicomOut | None = None,
    progress: Progress | None,
    reading: Mapping[str, Any],
    make: Callable[[Options], Method] | None,
    anonymise: bool = False,
    read: Callable[[], KSpace] | None = None,
) -> dict[str, Any]:
    """K-space of a file undersampled if asked for, reconstructed and written.

    file: its name. inputs: the file first, then what else was read, as it was then.
    reading: how, as it is recorded. make: the method of options. read: gives the same k-space in other processes.
    anonymise: without what identifies a patient.
    """
    origin = None if read is None else partial(sampled_volume, read, single=options.single_coil, sampling=sampling)
    known = data_messages(kspace)
    if options.single_coil:
        kspace = single_coil(kspace)
    if sampling is not None:
        whole, kspace = kspace, as_sampled(kspace, sampling)
        known += mask_messages(kspace.encoded_mask) + left_out(whole, kspace)
        del whole
    options, choice = chosen(options, kspace)
    check_spread(options.samples)
    steps = max(1, options.samples) + (N_FOLDS if options.check else 0)
    with progress(len(kspace.z) * steps) if progress else nullcontext(None) as advance:
        result = reconstruct(
            kspace,
            options,
            known=known + choice_note(choice),
            on_step=advance,
            make=make or make_method,
            name=file,
            origin=origin,
        )
    maps = {"nifti_std": result.std, "nifti_error_std": result.error_std, "nifti_bound": result.error_bound}
    without = [targets.pop(kind) for kind, made in maps.items() if made is None and kind in targets]
    record = _recon_provenance(options, sampling, choice, inputs, result.model_file, reading)
    bare = cleaned(result.header, record, Messages(result.notes, result.warnings)) if anonymise else None
    if bare is not None:
        note = None if result.bound_note is None else bare.text(result.bound_note)
        result = replace(result, header=bare.header, bound_note=note, **vars(bare.said))
        record = bare.provenance
    said = save(result, targets, provenance=record, dicom=dicom)
    for former in without:  # of an earlier image, which --force gave up
        former.unlink(missing_ok=True)
    return {
        "file": file,
        **facts(result),
        **({} if choice is None else {"chosen": choice}),
        **({} if result.model_file is None else {"model_file": _model_facts(options, result.model_file)}),
        **sampling_facts(kspace),
        **({} if bare is None else {"removed": list(bare.removed)}),
        "outputs": [str(path) for path in [*targets.values(), *([] if dicom is None else [dicom.folder])]],
        **said.as_json(),
    }


def _model_facts(options: Options, seen: Seen) -> dict[str, str]:
    """Which file the model was: shipped, or where it lies; and the checksum of its JSON, as it was loaded."""
    path = locate(options.model) if isinstance(options.model, str) else Path(seen.name)
    shipped = path.parent.resolve() == SHIPPED.resolve()
    return {**asdict(seen), "place": "shipped with bayesmri" if shipped else str(path.parent / seen.name)}


def sampled_volume(read: Callable[[], KSpace], *, single: bool, sampling: Sampling | None) -> KSpace:
    """As `reconstruct_to` makes it of a file: coils combined, lines left out."""
    kspace = single_coil(read()) if single else read()
    return kspace if sampling is None else as_sampled(kspace, sampling)


def _recon_provenance(
    options: Options,
    sampling: Sampling | None,
    choice: str | None,
    inputs: Sequence[Sequence[Seen]],
    model: Seen | None,
    reading: Mapping[str, Any],
) -> dict[str, Any]:
    """A model is an input: its JSON file as it was loaded, which holds the checksum of its weights.

    choice: what `auto` chose, and why.
    """
    name = None if options.model is None else model_name(options.model)
    config = settings(options, sampling, model=name, reading=reading)
    if choice is not None:
        config["chosen"] = choice
    scan, *more = inputs
    used = [*scan, *([] if model is None else [model]), *(one for given in more for one in given)]
    return _provenance("recon", config, recorded_seed(options, sampling), used)


def _provenance(
    command: str, config: Mapping[str, Any], seed: int | None, inputs: Sequence[Path | Seen]
) -> dict[str, Any]:

    return provenance(command=command, config=config, seed=seed, inputs=inputs, threads=torch.get_num_threads())
