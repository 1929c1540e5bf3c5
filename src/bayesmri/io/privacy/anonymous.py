"""Everything that is written has a header, a provenance and words: the same without what identifies a patient."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from bayesmri.io.results import Result
from bayesmri.kspace import Header
from bayesmri.messages import Messages

# of patient, study, machine and sequence all others identify, or are free text that may
KEPT = frozenset({
    "Manufacturer", "ManufacturerModelName", "MagneticFieldStrength", "RepetitionTime", "EchoTime", "InversionTime",
    "FlipAngle", "EchoTrainLength", "MRAcquisitionType", "ImagingFrequency", "SliceThickness", "PatientPosition",
    "BodyPartExamined", "Laterality",
})  # fmt: skip
KEPT_FACTS = frozenset({
    "scanner", "manufacturer", "field strength", "field strength (T)", "receiver channels", "TR", "TE", "TI", "TR (ms)",
    "TE (ms)", "flip angle", "flip angle (°)", "encoded matrix", "encoded field of view", "scanner acceleration",
    "averages", "modality", "body part", "sequence",
})  # fmt: skip
MARK = "anonymised"  # in a provenance: what was removed, in words
MODEL = ".json"  # a model among the inputs keeps its name: no scan is read from such a file
NAMELESS = "reconstruction"  # the name of a result whose file is not named
SHORTEST = 3  # letters of what is looked for in sentences
# names of files that say nothing, and that sentences need
ORDINARY = frozenset({
    "acquisition", "array", "brain", "data", "file", "head", "image", "images", "input", "kspace", "knee", "line",
    "lines", "mask", "phantom", "raw", "recon", "scan", "series", "slice", "slices", "test", "volume",
})  # fmt: skip
FILE = re.compile(r"[/\\]|\.(npy|npz|txt|h5|hdf5|cfl|hdr|mrd|dcm|nii|gz)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Cleaned:
    """removed: what there was of it, in words, without the values."""

    header: Header
    provenance: dict[str, Any]
    said: Messages
    removed: tuple[str, ...]
    words: tuple[str, ...]

    def text(self, text: str) -> str:
        """Without what identifies."""
        return _without(text, self.words)


def cleaned(header: Header, provenance: Mapping[str, Any], said: Messages) -> Cleaned:
    """All that goes into a file beside images, without names, numbers, dates and free text of patient and study."""
    bare, removed = anonymous_header(header)
    files = [str(one.get("name", "")) for one in _inputs(provenance)]
    files = [name for name in files if not name.endswith(MODEL)]
    words = _words([header.patient_id, header.acquisition, *_identifying(header.dicom).values()], files)
    record = {**provenance, "inputs": [_unnamed(one, i) for i, one in enumerate(_inputs(provenance), start=1)]}
    if record.pop("time", None) is not None:
        removed += ("time of processing",)
    if files:
        removed += ("names of input files",)
    record["config"] = _plain(record.get("config"), words)
    former = provenance.get(MARK)
    removed = tuple(dict.fromkeys([*(former if isinstance(former, list) else []), *removed]))
    record[MARK] = list(removed)
    notes, warnings = (tuple(_without(text, words) for text in texts) for texts in (said.notes, said.warnings))
    return Cleaned(bare, record, Messages(notes, warnings), removed, words)


def anonymous_header(header: Header) -> tuple[Header, tuple[str, ...]]:
    """Where pixels lie, and how they were measured, stays."""
    found = _identifying(header.dicom)
    removed = [*(["patient identifier"] if header.patient_id else []), *map(_spaced, found)]
    removed += ["name of the protocol"] if header.acquisition and "ProtocolName" not in found else []
    kept = {name: value for name, value in header.dicom.items() if name in KEPT}
    facts = {name: value for name, value in header.facts.items() if name in KEPT_FACTS}
    bare = replace(header, patient_id="", acquisition="", dicom=kept, facts=facts)
    return bare, tuple(dict.fromkeys(removed))


def anonymous_result(result: Result) -> tuple[Result, tuple[str, ...]]:
    """A stored result as if it had been reconstructed without its patient; its images are the same."""
    bare = cleaned(result.header, result.provenance, result.said)
    changed = replace(
        result,
        name=NAMELESS,
        header=bare.header,
        provenance=bare.provenance,
        said=bare.said,
        bound_note=bare.text(result.bound_note),
        identified=False,
    )
    return changed, bare.removed


def is_anonymous(provenance: Mapping[str, Any]) -> bool:
    return MARK in provenance


def _identifying(dicom: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in dicom.items() if name not in KEPT}


def _spaced(keyword: str) -> str:
    """ "PatientBirthDate" → "patient birth date"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", keyword).lower().replace("patient id", "patient identifier")


def _inputs(provenance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = provenance.get("inputs")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _unnamed(one: Mapping[str, Any], i: int) -> dict[str, Any]:
    named = str(one.get("name", ""))
    return {**one, "name": named if named.endswith(MODEL) else f"input {i}"}


def _words(values: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Texts that sentences may repeat, the longest first: whole values, parts of names, names of files and stems."""
    parts = [part for value in values for part in (value, *re.split(r"[\^=]", value))]
    stems = [stem for name in files for stem in (name, PurePath(name).stem, name.split(".")[0])]
    found = {word.strip() for word in (*parts, *stems) if word.strip().lower() not in ORDINARY}
    return tuple(sorted((word for word in found if len(word) >= SHORTEST), key=lambda word: (-len(word), word)))


def _without(text: str, words: Sequence[str]) -> str:
    for word in words:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "…", text, flags=re.IGNORECASE)
    return text


def _plain(value: Any, words: Sequence[str]) -> Any:
    """JSON without the words, and without names of files of any kind."""
    if isinstance(value, Mapping):
        return {key: item if key == "model" else _plain(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, words) for item in value]
    if not isinstance(value, str):
        return value
    named = FILE.search(value) and not value.startswith("patch:")  # a template of the user's own
    return "a file" if named else _without(value, words)
