"""From k-space to an image, slice by slice, whatever the method; with a posterior also how sure it is."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from bayesmri.bounds.bound import Calibration
from bayesmri.bounds.expected import Expected
from bayesmri.bounds.left_out import folds
from bayesmri.complexes import rss
from bayesmri.errors import DataError
from bayesmri.io.geometry import center_window
from bayesmri.io.inspect import data_messages
from bayesmri.io.provenance import Seen
from bayesmri.kspace import Header, KSpace
from bayesmri.machine.crew import current
from bayesmri.machine.memory import tidy_memory
from bayesmri.machine.workers import one_thread, ordered
from bayesmri.messages import Messages, noted
from bayesmri.metrics import Metrics, volume_metrics
from bayesmri.physics.data_terms import DataTerm
from bayesmri.physics.fourier import ifft2c
from bayesmri.recon.asked import check_asked, check_kept
from bayesmri.recon.bound import choose_bound
from bayesmri.recon.check import Checker, Scan
from bayesmri.recon.choice import chosen
from bayesmri.recon.crop import common_crop, crop_to
from bayesmri.recon.elsewhere.jobs import Origin
from bayesmri.recon.elsewhere.slices import Asked, Far, far_slices
from bayesmri.recon.error_std import error_std, unseen
from bayesmri.recon.grid import encoded, padding, turned_back
from bayesmri.recon.method import Method, make_method
from bayesmri.recon.request import Options
from bayesmri.recon.said import messages, outside_of, scale_messages
from bayesmri.recon.samples import Estimate, Sampled, predicted
from bayesmri.recon.sound import check_finite, zero_filled
from bayesmri.recon.task import Task, drawn_samples, solved_slice, task_of
from bayesmri.recon.tune import Tuned, tuned
from bayesmri.recon.visibility import Visibility, Watch, surveyor_of
from bayesmri.sampler import Stream

if TYPE_CHECKING:
    from bayesmri.recon.notebooks.frame import Viewing

Images = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Magnitude images, float32 (slices, h, w), in the units of the input.

    mean: X̄, the mean of the samples' images; without samples the one reconstruction there is.
    fast: X̄ and σ̂ were predicted from few samples, of which `samples` and all of k-space and coils are.
    zero_filled: X₀ of the same data. truth: the fully sampled image, where it is known. grid: (H, W) before the crop.

    With samples (else None and 0):
    std: σ̂, their pixelwise standard deviation (1/N). deterministic: X_S at the posterior's mean.
    samples: (slices, N, h, w), where they were kept. n_samples: N. seed: what they were drawn with.
    kspace_mean, kspace_std, coil_std: of F x_S and x_S on the whole grid (slices, Q, H, W), in the model's coils.

    A network that predicts its variance has a std without samples.

    error_std: σ_total, the size of the error by the model's head, where it has one; with draws and without.
    error_bound: of |X̄ − Y| at every pixel, where the model was calibrated for such data; calibration: its level, and
    what is promised; bound_of: error_std or uncertainty_std. bound_note: why there is none, where the model has bounds
    for other data.

    tuned: ρ and steps that left-out lines chose, where that was asked for.
    expected: its error as left-out lines tell it, where that was asked for and can be told; else a note says why not.

    scale: what the data was divided by; given to a reconstruction of one of the slices alone, it gives the same image.
    notes: what was done or assumed; warnings: what may make the image wrong. One sentence each.
    visibility: of every template that was asked for, by its text. model_file: what the model was loaded from.
    """

    mean: Images
    zero_filled: Images
    truth: Images | None
    mask: NDArray[np.bool_]
    header: Header
    grid: tuple[int, int]
    method: str
    seconds: float
    std: Images | None = None
    deterministic: Images | None = None
    samples: NDArray[np.float32] | None = None
    n_samples: int = 0
    seed: int | None = None
    fast: bool = False
    kspace_mean: NDArray[np.complex64] | None = None
    kspace_std: NDArray[np.float32] | None = None
    coil_std: NDArray[np.float32] | None = None
    error_std: Images | None = None
    error_bound: Images | None = None
    calibration: Calibration | None = None
    bound_note: str | None = None
    expected: Expected | None = None
    tuned: Tuned | None = None
    bound_of: str = "uncertainty_std"
    scale: float | None = None
    notes: tuple[str, ...] = ()
    visibility: Mapping[str, Visibility] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    model_file: Seen | None = None

    @property
    def image(self) -> Images:
        """The same, by a plainer name."""
        return self.mean

    def metrics(self, truth: "ArrayLike | None" = None) -> Metrics:
        """NMSE, PSNR and SSIM of the image against the truth given, or else the one that came with the data."""
        return volume_metrics(*self._pair(self.mean, truth))

    def zero_filled_metrics(self, truth: "ArrayLike | None" = None) -> Metrics:
        return volume_metrics(*self._pair(self.zero_filled, truth))

    def deterministic_metrics(self, truth: "ArrayLike | None" = None) -> Metrics:
        """Of X_S at the posterior's mean; without samples that is the image."""
        return volume_metrics(*self._pair(self.mean if self.deterministic is None else self.deterministic, truth))

    def _repr_html_(self) -> str:
        """In a notebook: the page of the report, in a frame."""
        from bayesmri.recon.notebooks.frame import frame

        return frame(self)

    def view(self, *, show: bool = True) -> "Viewing":
        """Open the application on a copy of this result; `address` says where it is, `close()` ends it.

        show: open the browser.
        """
        from bayesmri.recon.notebooks.frame import viewing

        return viewing(self, show=show)

    def _pair(self, image: Images, truth: "ArrayLike | None") -> tuple[Images, Images]:
        Y = self.truth if truth is None else np.asarray(truth, dtype=np.float32)
        if Y is None:
            raise DataError("no fully sampled image is known: give the truth to compare with")
        return common_crop(image, Y)


def reconstruct(
    kspace: KSpace,
    options: Options | Method,
    *,
    known: Messages | None = None,
    on_step: Callable[[], None] | None = None,
    watch: Watch | None = None,
    make: Callable[[Options], Method] = make_method,
    name: str = "the volume",
    origin: Origin | None = None,
) -> Reconstruction:
    """X for every slice of a volume; with samples their mean and standard deviation too.

    What is not finite is a DivergedError: no image is made of it.

    z is divided by one number, `scale` or else taken from the volume's zero-filled image, reconstructed, and multiplied
    back. Zero padding is left out of that; images have the stored grid and orientation.

    options: what to do, or a method that was made before.
    known: what is to be said of the data, where it was seen whole before lines were left out; else it is looked at.
    on_step: called after each sample, or each slice where none are drawn, for a progress bar.
    watch: called with every slice's data term and x, both in the method's scale.
    make: the method that options name; one that remembers loads a model once for many volumes.
    name: of the volume, for people. origin: where other processes may read the same k-space.
    """
    began = time.perf_counter()
    asked, choice = (Options(), None) if isinstance(options, Method) else chosen(options, kspace)
    method = options if isinstance(options, Method) else make(asked)
    check_asked(asked, method)
    inner = encoded(kspace)
    method, tuning, untuned = tuned(scan_of(inner, method, asked.scale), method) if asked.tune else (method, None, "")
    outside = outside_of(method, inner)
    bounds = choose_bound(method, inner, asked, outside=outside)
    crop = None if asked.full_fov else kspace.header.recon_shape
    grid = (kspace.z.shape[2], kspace.z.shape[3])
    if asked.keep_samples:
        check_kept(asked.samples, (len(kspace.z), *(crop or grid)))
    start = zero_filled(kspace)
    pad = padding(kspace)
    inside = crop if pad is None else pad.inner(crop)
    task = task_of(kspace, method, full_fov=asked.full_fov, scale=asked.scale)
    said = data_messages(kspace) if known is None else known
    said += messages(
        method, inner, asked, choice, outside=outside, coil_lines=task.coil_lines(), bound_note=bounds.note
    )
    said += scale_messages(task.factor, task.own)
    said.check(strict=asked.strict)
    streams = None
    if asked.samples:
        streams = [Stream(asked.seed, content, s) for s, content in enumerate(kspace.contents())]
    surveyor = surveyor_of(asked, task, turned=kspace.header.turned)
    checker = Checker.of(task.scan(), inner, method, inside, on_step) if asked.check else None
    watchers = [one for one in (surveyor, watch) if one is not None]
    far = _far(task, asked, streams, checker, name, origin, on_step)
    at_mean, sampled = _solved(task, asked, streams, on_step, checker, watchers, far)
    expected, told = (None, "") if checker is None else checker.expected()
    result = Reconstruction(
        mean=crop_to(at_mean.images, crop),
        zero_filled=crop_to(start, crop),
        truth=None if kspace.truth is None else crop_to(kspace.truth, crop),
        mask=kspace.mask,
        header=kspace.header,
        grid=grid,
        method=method.name,
        model_file=method.file,
        scale=task.factor,
        seconds=0.0,
        std=None if at_mean.std is None else crop_to(at_mean.std, crop),
        error_std=None if at_mean.error_std is None else crop_to(at_mean.error_std, crop),
        expected=expected,
        tuned=tuning,
        **vars(said + noted(*filter(None, (untuned, told, expected.note if expected else "")))),
    )
    if sampled is not None:
        result = _with_samples(result, sampled, asked)
    result = replace(
        result,
        error_bound=bounds.bound(result.mean, result.std, result.error_std, expected),
        calibration=bounds.calibration,
        bound_note=bounds.note,
        visibility={} if surveyor is None else surveyor.maps(),
        bound_of="error_std" if bounds.of_error else "uncertainty_std",
        seconds=time.perf_counter() - began,
    )
    return turned_back(result)


def scan_of(kspace: KSpace, method: Method, scale: float | None = None) -> Scan:
    """K-space as the method takes it, for those who ask more of it than an image."""
    return whole_task(kspace, method, scale).scan()


def whole_task(kspace: KSpace, method: Method, scale: float | None = None) -> Task:
    """The same volume, of which the whole grid is shown."""
    grid = (kspace.z.shape[2], kspace.z.shape[3])
    return Task.of(kspace, method, center_window(grid, grid), scale=scale)


def checked_slices(task: Task, *, name: str) -> Iterator[Far]:
    """Every slice at the mean of θ; where others make it, also without each fold of its outer lines."""
    crew = current()
    if crew is None or task.method.again is None:
        return _means(task, together=False)
    wanted = Asked(fold=folds(task.mask.cpu().numpy()))
    return far_slices(crew, task, wanted, name=name, origin=None, on_step=None)


def begin_slice(kspace: KSpace, method: Method, s: int) -> tuple[DataTerm, float]:
    """Slice s as the method takes it, in its scale, and the number of the volume that it was divided by."""
    task = whole_task(kspace, method)
    return task.begin(s), task.factor


@dataclass(frozen=True, eq=False)
class _Solved:
    """Slices on the whole grid. images: X. std: σ, where the method predicts it. error_std: σ_total, likewise."""

    images: Images
    std: Images | None
    error_std: Images | None


def _solved(
    task: Task,
    asked: Options,
    streams: Sequence[Stream] | None,
    on_step: Callable[[], None] | None,
    checker: Checker | None = None,
    watchers: Sequence[Watch] = (),
    far: Iterator[Far] | None = None,
) -> tuple[_Solved, Sampled | None]:
    """Every slice, at the mean of θ where it is drawn; with streams also N samples of it. far: as others made them."""
    images, std, total, sampled, spread = [], [], [], None, None
    for s, one in enumerate(far or _means(task, together=streams is None and checker is None)):
        D, x, sigma = one.D, one.x, one.std
        images.append((rss(task.shown(x)) * task.factor).cpu().numpy())
        check_finite("the image", images[s], task.method, s)
        if sigma is not None:
            std.append(sigma)
        if checker is not None:
            checker.add(s, x * task.factor, one.without)
        for watcher in watchers:
            watcher(D, x)
        if streams is not None:
            sampled, spread = _sampled_to(sampled, task, asked, one, streams[s], s, on_step)
            tidy_memory()
        elif on_step is not None and far is None:
            on_step()
        if task.method.error_head is not None:
            head, again, rest = task.method.error_head, streams is not None, one.unseen
            if rest is None:
                rest = unseen(head, D, x, task.rescans(D, x) if again else None)
            total.append(error_std(head, rest, spread, task.factor, task.pad, again=again))
            check_finite("the size of the error", total[s], task.method, s)
    return _Solved(np.stack(images), *(np.stack(part) if part else None for part in (std, total))), sampled


def _far(
    task: Task,
    asked: Options,
    streams: Sequence[Stream] | None,
    checker: Checker | None,
    name: str,
    origin: Origin | None,
    on_step: Callable[[], None] | None,
) -> Iterator[Far] | None:
    """All slices by the crew that is at work; None where there is none, or none that could make this method."""
    crew = current()
    if crew is None or task.method.again is None:
        return None
    fold = None if checker is None else folds(task.mask.cpu().numpy())
    again = streams is not None and task.method.error_head is not None
    wanted = Asked(asked.samples, streams, fold, asked.keep_samples, asked.full_fov, again, asked.scale)
    return far_slices(crew, task, wanted, name=name, origin=origin, on_step=on_step)


def _means(task: Task, *, together: bool) -> Iterator[Far]:
    """Every slice at the mean of θ, in their order; together: several at a time, where nothing else is to be done."""

    def one(s: int) -> Far:
        with one_thread():
            D = task.begin(s)
            return Far(D, *solved_slice(task, D, s))

    slices = range(len(task.volume))
    several = together and len(slices) > 1 and task.method.device.type == "cpu"
    return ordered(one, slices, workers=None if several else 1)


def _sampled_to(
    sampled: Sampled | None,
    task: Task,
    asked: Options,
    one: Far,
    stream: Stream,
    s: int,
    on_step: Callable[[], None] | None,
) -> tuple[Sampled, Tensor]:
    """Mean and standard deviation of N samples of slice s beside those of slices before, and σ̂ on its whole grid."""
    rows, columns = task.window

    def samples() -> Iterator[Tensor]:
        for x in drawn_samples(task, one.D, stream, range(asked.samples), s):
            yield x
            if on_step is not None:
                on_step()

    if sampled is None:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        slices, _, *grid = task.volume.shape if task.pad is None else (*task.volume.shape[:2], *task.pad.grid)
        keep = asked.samples if asked.keep_samples else 0
        sampled = Sampled.empty((slices, one.x.shape[0], *grid), shape, keep=keep)
    estimate = _fast_estimate(task, one.D, one.x) if asked.fast else None
    if one.summary is None:
        std = sampled.fill(s, samples(), window=task.window, estimate=estimate)
    else:
        std = sampled.put(s, one.summary, window=task.window, estimate=estimate, kept=one.kept)
    check_finite("the mean of the samples", sampled.mean[s], task.method, s)
    check_finite("the standard deviation of the samples", sampled.std[s], task.method, s)
    return sampled, std


def _fast_estimate(task: Task, D: DataTerm, at_mean: Tensor) -> Estimate:
    assert task.method.predictor is not None
    gain = 1.0 if task.pad is None else task.pad.gain  # the predictor knows images of the encoded grid's brightness
    at_mean, start = (task.shown(x) / gain for x in (at_mean, ifft2c(D.z)[0]))
    return predicted(task.method.predictor, at_mean, start, task.factor * gain)


def _with_samples(at_mean: Reconstruction, sampled: Sampled, asked: Options) -> Reconstruction:
    """X̄ takes the place of X_S at the mean of θ, which is kept beside it."""
    return replace(
        at_mean,
        mean=sampled.mean,
        deterministic=at_mean.mean,
        std=sampled.std,
        samples=sampled.samples,
        n_samples=asked.samples,
        seed=asked.seed,
        fast=asked.fast,
        kspace_mean=sampled.kspace_mean,
        kspace_std=sampled.kspace_std,
        coil_std=sampled.coil_std,
    )
