"""bayesmri recon FILE -o OUT.h5, and bayesmri recon FOLDER|FILES|PATTERN -o OUTFOLDER."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bayesmri.bounded import one_line
from bayesmri.bounds.bound import percent
from bayesmri.cli.options import LAYOUT, SOURCE, WORKERS, Layout, Source, Whole, Workers
from bayesmri.cli.output import (
    count,
    print_json,
    print_messages,
    print_metrics,
    print_removed,
    print_wrote,
    sampling_line,
)
from bayesmri.cli.progress import VolumeMeter, progress
from bayesmri.errors import ConfigError
from bayesmri.io.atomic import check_target
from bayesmri.machine.memory import keep_memory
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.batch.folder import Batch, reconstruct_folder
from bayesmri.recon.batch.inputs import Shard, is_many
from bayesmri.recon.files import reconstruct_file, with_ending
from bayesmri.recon.page import report_file
from bayesmri.recon.request import MethodName, Options


def recon(
    *files: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    method: MethodName | None = None,
    model: str | None = None,
    acceleration: float | None = None,
    center_fraction: float | None = None,
    mask: str = "random",
    offset: Whole | None = None,
    seed: Whole = 0,
    samples: Whole = 0,
    keep_samples: bool = False,
    fast: bool = False,
    level: float | None = None,
    check: bool = False,
    tune: bool = False,
    visibility: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    tv_weight: float | None = None,
    coils: Whole | None = None,
    single_coil: bool = False,
    sensitivities: Path | None = None,
    full_fov: bool = False,
    scale: float | None = None,
    device: str = "cpu",
    nifti: bool = False,
    png: bool = False,
    report: bool = False,
    shard: str | None = None,
    dicom: Path | None = None,
    like: Path | None = None,
    dicom_float: bool = False,
    layout: Layout = LAYOUT,
    source: Source = SOURCE,
    workers: Workers = WORKERS,
    strict: bool = False,
    anonymise: bool = False,
    force: bool = False,
    json: bool = False,
) -> int:
    """Reconstruct FILES; an undersampled file as it is, a fully sampled one after undersampling it on the fly.

    Of several files, a folder or a pattern ('scans/**/*.h5'), every volume becomes a result in the folder OUTPUT, named
    after it; what is finished is skipped, what cannot be reconstructed is listed in its summary and exits with 3.

    Parameters
    ----------
    files
        K-space of any known format: a file, or several files, folders and patterns.
    output
        HDF5 file to write, .h5 or .hdf5; FILE.recon.h5 in the working folder unless given. Of several: a folder.
    method
        How to fill the missing lines; tv unless a model is given.
    model
        Trained model instead of a method: auto (a shipped one that fits coils and acceleration), a name that `bayesmri
        models` lists, a run folder of `bayesmri train`, or a model's .json file.
    acceleration
        Undersample a fully sampled file by R first, and print metrics against what it was.
    center_fraction
        Share of the lines in the fully sampled centre; 0.32/R unless given. Of points, of rows and of columns; 0.64/R.
    mask
        random, equispaced or partial-fourier lines; poisson or elliptical, points of both axes; or a file with one
        value per line (.npy or text), or per row and column (.npy), 1 if acquired, else 0. With a scan that is not
        fully sampled a file says what of it was acquired, whatever was found.
    offset
        First line of an equispaced mask outside the centre, from 0; drawn unless given.
    seed
        Seed of the mask and of the samples, which derive their own random numbers from it.
    samples
        Draws N from the model's posterior, such as 32: writes their mean and pixelwise standard deviation. None are
        drawn unless given: the reconstruction at the posterior's mean takes 1/N of the time.
    keep_samples
        Also write every sample's image, as the dataset `samples` (slices, N, h, w).
    fast
        Draw only a few samples (6 unless --samples says otherwise), and let the model's own predictor make mean and
        standard deviation of them, nearer to those of many samples than the few themselves are; bench --uncertainty
        measures how near. Deviations in k-space and of coils are those of the few.
    level
        Level of the calibrated error bound, such as 0.9; refused where the model has none for such data. Unless given,
        a calibrated model writes the bound of its highest level wherever one holds.
    check
        Tell the error to be expected of this scan without a reference: a quarter of the outer lines is left out, four
        times in turn, reconstructed without and compared with what was measured. Costs four more reconstructions.
    visibility
        Map how much of the contrast of a structure would survive at every place, in percent: lesion:3:0.3 (radius in
        pixels, contrast over the brightness around), line:7:0.3 (half length; all directions, or line:7:0.3:45 in
        degrees from upright), stripes:4:0.3 (period) or patch:FILE.npy:0.3. May be repeated.
    tune
        Let lines of this very scan, measured and left out, choose the step ρ and the number of steps of the model, from
        a short list and on the middle slice; sixteen more reconstructions of it. Error bounds of the model, which are
        for its own numbers, are not written then.
    tv_weight
        Weight of total variation, for data scaled to a zero-filled maximum of 1.
    coils
        Compress to that many virtual coils first (SVD).
    single_coil
        Combine the coils into one emulated coil first, as fastMRI's single-coil track does.
    sensitivities
        Coil sensitivities of this scan for a model that knows coils, as `bart ecalib` writes them (.cfl) or a complex
        .npy of (coils, H, W), (sets, coils, H, W) or (slices, sets, coils, H, W); estimated unless given.
    full_fov
        Keep the whole grid where the file asks for its central part only (readout oversampling).
    scale
        Divide the data by this number, instead of one taken from the whole volume: a slice alone becomes the image that
        it is in its volume. A result records its own as `scale` of `reconstruction`, and --json prints it.
    device
        cpu, cuda or cuda:N.
    nifti
        Also write OUT.nii.gz, with samples OUT_std.nii.gz, with an error bound OUT_bound.nii.gz, and
        OUT_visibility_TEMPLATE.nii.gz.
    png
        Also write OUT.png: truth, zero-filled, reconstruction (with samples: deterministic, mean, standard
        deviation and error bound) and error of the middle slice.
    report
        Also write OUT.html, the page of `bayesmri report`; the summary of several files links them.
    shard
        Of several files take only part i of n, such as 3/16: each task of a job array takes its own.
    dicom
        Also write a new folder of DICOM files: an MR series of the image, and a Parametric Map each for standard
        deviation, typical error, error bound and visibility. Patient, study and place are the raw file's.
    like
        DICOM file or folder of the same slices: patient and study are taken from it, and the place where the raw file
        knows none.
    dicom_float
        Maps as floating-point numbers instead of 16 bit with a slope, which more viewers show.
    strict
        Treat warnings as errors: list them, write nothing and exit with 2.
    anonymise
        Leave out what identifies a patient (docs/privacy.md), and list what that was.
    force
        Overwrite outputs that are there; of several files those that were made of other inputs or with other settings.
    json
        Print JSON instead of text.
    """
    if method is not None and model is not None:
        raise ConfigError(
            f"got both the method {method} and the model {model}, expected one of them; leave one of the two out"
        )
    keep_memory()
    sampling = Sampling(acceleration, center_fraction, mask, offset, seed)
    options = Options(
        method=method or "tv",
        model=model,
        tv_weight=tv_weight,
        coils=coils,
        single_coil=single_coil,
        device=device,
        full_fov=full_fov,
        scale=scale,
        samples=samples,
        seed=seed,
        keep_samples=keep_samples,
        fast=fast,
        level=level,
        check=check,
        tune=tune,
        visibility=visibility,
        strict=strict,
    )
    wanted = sampling if sampling.needs_full_data else None
    if is_many(files) or shard is not None:
        if anonymise:
            raise ConfigError(
                "got several files to be anonymised, whose outputs are called like them, expected one file and -o NAME"
            )
        if dicom is not None or like is not None or dicom_float:
            raise ConfigError(
                "got DICOM with several files, expected one file; run `bayesmri export` on each result, each with a "
                "folder of its own"
            )
        if output is None:
            raise ConfigError(
                "got several files or a folder without an output, expected a folder for it: give -o FOLDER"
            )
        batch = Batch(
            options,
            wanted,
            sensitivities,
            layout.given(),
            source.choice(),
            nifti=nifti,
            png=png,
            report=report,
            trusted=source.trusted,
            force=force,
            shard=Shard.of(shard),
        )
        with workers.at_work():
            found = reconstruct_folder(files, output, batch, meter=VolumeMeter(model or options.method))
        return print_batch(found, json)
    (file,) = files
    target = output or Path("anonymous.recon.h5" if anonymise else with_ending(Path(file.name), ".recon.h5"))
    if report:
        check_target(with_ending(target, ".html"), file, force=force)
    with workers.at_work():
        made = reconstruct_file(
            file,
            target,
            options,
            wanted,
            sensitivities=sensitivities,
            given=layout.given(),
            choice=source.choice(),
            trusted=source.trusted,
            nifti=nifti,
            png=png,
            dicom=dicom,
            like=like,
            dicom_float=dicom_float,
            anonymise=anonymise,
            force=force,
            progress=partial(progress, title=model or options.method, unit="samples" if options.samples else "slices"),
        )
    if report:
        page = report_file(target, with_ending(target, ".html"), anonymise=anonymise, force=force)
        made["outputs"].append(page["output"])
    print_messages(made)
    print_removed(made)
    if json:
        print_json(made)
        return 0
    print(f"{one_line(made['file'])}: {count(made['slices'], 'slice')}, {sampling_line(made)}")
    print(f"reconstructed by {one_line(made['method'])} in {made['seconds']:.1f} s{samples_words(made)}")
    if "model_file" in made:
        known = made["model_file"]
        place = one_line(known["place"], limit=4096)
        print(f"model {one_line(known['name'])}, {place}, sha256 {known['sha256'][:12]}…")
    if "tuned" in made:
        print(tuned_line(made["tuned"]))
    if "expected" in made:
        print(expected_line(made["expected"]))
    for line in bound_lines(made):
        print(line)
    for text, found in made.get("visibility", {}).items():
        print(visibility_line(text, found))
    print_metrics(made["metrics"])
    print_wrote(made["outputs"])
    return 0


def print_batch(made: Mapping[str, Any], json: bool) -> int:
    """How many volumes became what; 3 where some could not be reconstructed."""
    if json:
        print_json(made)
    else:
        told = [
            f"{made[name]} {name.replace('_', ' ')}" for name in ("done", "finished_before", "failed") if made[name]
        ]
        print(f"{count(len(made['volumes']), 'volume')}: {', '.join(told)}")
        print_wrote(made["outputs"])
    return 3 if made["failed"] else 0


def samples_words(made: Mapping[str, Any]) -> str:
    """ ", 32 samples each, mean std 1.2 % of the mean image"; nothing where none were drawn."""
    if "uncertainty" not in made:
        return ""
    share = made["uncertainty"]["mean_std_over_mean_image"]
    if "samples" not in made:
        return f", with a predicted std: mean {100 * share:.2g} % of the mean image"
    return f", {count(made['samples'], 'sample')} per slice: mean std {100 * share:.2g} % of the mean image"


def tuned_line(found: Mapping[str, Any]) -> str:
    smaller = f"{100 * (1 - found['residual']):.1f} % smaller"
    return f"tuned by left-out lines: {found['rho_factor']:g} ρ, {found['steps']} steps; their residual is {smaller}"


def expected_line(found: Mapping[str, Any]) -> str:
    """ "expected 31.2 dB (30.7 to 31.7 for 90 % of scans), NMSE 0.012, without a reference"."""
    if found["exact"]:
        return f"{found['psnr']:.2f} dB against the image of all lines, of which none is missing"
    interval = f"{found['psnr_low']:.1f} to {found['psnr_high']:.1f} for 90 % of scans"
    return f"expected {found['psnr']:.1f} dB ({interval}), NMSE {found['nmse']:.4f}, measured without a reference"


def visibility_line(text: str, found: Mapping[str, float]) -> str:
    """ "visibility of lesion:3:0.3: median 64 % of its contrast (a tenth of the body below 31 %); …"."""
    worst = (
        f", in the worst direction {found['worst_direction_median']:.0f} %" if "worst_direction_median" in found else ""
    )
    return (
        f"visibility of {text}: median {found['median']:.0f} % of its contrast{worst} (a tenth of the body below "
        f"{found['lower_decile']:.0f} %); half of it is seen from a contrast of {found['visible_from']:.2g} on"
    )


def bound_lines(made: Mapping[str, Any]) -> list[str]:
    """How wide the error bound is and what it promises; why there is none is among the notes."""
    said = []
    if "error_std" in made:
        share, actual = 100 * made["error_std"]["mean_over_mean_image"], made["error_std"].get("error_over_it")
        known = "" if actual is None else f"; the error is {actual:.2f} times that in the foreground"
        said = [f"typical error {share:.2g} % of the mean image on average{known}"]
    if "error_bound" not in made:
        return said
    bound = made["error_bound"]
    where = " of the foreground" if bound["region"] == "foreground" else ""
    held = f", holds {100 * bound['covered']:.1f} % of the pixels{where}" if "covered" in bound else ""
    share = 100 * bound["mean_over_mean_image"]
    return [
        *said,
        f"error bound at {percent(bound['level'])} %: {share:.2g} % of the mean image on average{held}",
        f"  {bound['guarantee']}",
    ]
