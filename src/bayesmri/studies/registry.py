"""Studies by name; no torch here.

A study is the module of its name, with NAME_study, NAME_figure and NAME_text, and a line here.
"""

from bayesmri.studies.base import Kind

FORMER = {"calibration": "reliability"}  # names of earlier versions, whose files keep the name that was asked for

STUDIES: dict[str, Kind] = {
    "overview": Kind(
        "truth, zero filling, at μ, mean and standard deviation of a slice, by coils and R",
        accelerations=(),
        several_accelerations=True,
        several_models=True,
        one_slice=True,
        errors=True,
        shipped_models=True,
    ),
    "reliability": Kind(
        "does the standard deviation tell where the error is, and its size?",
        bounds=True,
    ),
    "holdout": Kind(
        "the error expected of a scan from left-out lines, against the actual one",
        several_accelerations=True,
        several_models=True,
        draws=False,
    ),
    "tuning": Kind(
        "what is gained where left-out lines of a scan choose ρ and the number of steps",
        several_accelerations=True,
        several_models=True,
        draws=False,
    ),
    "hallucination": Kind(
        "structures planted and erased: is the standard deviation large where they come out wrong?",
        several_models=True,
    ),
    "visibility": Kind(
        "structures planted: does visibility, or the standard deviation, tell which come out wrong?",
        several_models=True,
    ),
    "compare": Kind(
        "posterior, dropout, predicted variance and ensembles at equal compute",
        several_models=True,
    ),
    "entropy": Kind(
        "PSNR against the entropy of several models, by samples averaged",
        several_models=True,
    ),
    "acceleration": Kind(
        "the standard deviation as R falls to 1, in image and k-space",
        accelerations=(8.0, 6.0, 4.0, 2.0, 1.0),
        several_accelerations=True,
    ),
    "kspace": Kind("mask, data, mean and standard deviation of a slice in k-space", one_slice=True),
    "samples": Kind("single samples of a slice, where they differ most", one_slice=True),
    "covariance": Kind("covariances of the kernels, by depth in the network", needs_data=False),
    "eigenfunctions": Kind(
        "patterns that the regularizer keeps in shape, from reconstructions of a slice",
        several_models=True,
        one_slice=True,
        draws=False,
        iterations=300,
    ),
}
