"""Errors that say what was got, what was expected, what to do; the command line prints one line and exits with 2."""

from collections.abc import Sequence


class BayesMRIError(Exception):
    """What a user can mend: a wrong file, shape, option or model."""


class ShapeError(BayesMRIError):
    """Arrays whose shapes do not fit together."""


class FormatError(BayesMRIError):
    """A file that is not what it claims to be, is damaged, or is of no known format."""


class DataError(BayesMRIError):
    """A readable file whose content cannot be reconstructed (NaN, zero coils, no lines)."""


class MaskError(BayesMRIError):
    """A sampling pattern that cannot exist or does not fit the data."""


class ConfigError(BayesMRIError):
    """An option or a configuration value outside what it may be."""


class ModelError(BayesMRIError):
    """Weights that are missing, damaged, or made for other data."""


class DivergedError(ModelError):
    """A loss, a gradient or a reconstruction that is not finite."""


class OutputError(BayesMRIError):
    """A result that cannot be written where it was asked for."""


class NetworkError(BayesMRIError):
    """Another machine that does not answer, refuses, or breaks off."""


class ClusterError(BayesMRIError):
    """Workers or a scheduler that are gone, or out of memory."""


class ClusterLostError(ClusterError):
    """A cluster of which nothing more can be expected."""


class MissingExtraError(BayesMRIError):
    """An optional dependency that is not installed; the message names the extra."""


class StrictError(BayesMRIError):
    """Warnings where none were allowed (--strict): nothing was written.

    warnings: one sentence each.
    """

    def __init__(self, warnings: Sequence[str]) -> None:
        self.warnings = tuple(warnings)
        n = len(self.warnings)
        told = "; ".join(self.warnings)
        super().__init__(
            f"got {n} warning{'s' * (n != 1)} with --strict, expected none, and wrote nothing; mend the data, or leave "
            f"--strict out: {told}"
        )
