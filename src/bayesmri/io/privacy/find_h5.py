"""HDF5: attributes, the XML of ISMRMRD, our own provenance, and the clock in every line of an MRD file."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from bayesmri.errors import FormatError
from bayesmri.io.guard import one_line
from bayesmri.io.integrity.seal import SEAL
from bayesmri.io.integrity.together import SET
from bayesmri.io.privacy.anonymous import KEPT
from bayesmri.io.privacy.finding import MOST, Finding, Sure, finding
from bayesmri.io.safe_h5 import dataset, names, open_h5, read_text, small_attributes

SURE = ("patient_id", "subject", "patient", "name")  # attributes that name a person
OURS = frozenset(
    {"acquisition", "affine", "voxel_mm", "max", "norm", "notes", "warnings", "provenance", "dicom", SEAL, SET}
)  # looked at one by one, or without words
NAMED = ("subjectInformation", "studyInformation")  # of the XML: all that stands in them is about the patient
PLACES = ("measurementInformation", "acquisitionSystemInformation")
HARMLESS = frozenset({
    "systemVendor", "systemModel", "systemFieldStrength_T", "relativeReceiverNoiseBandwidth", "receiverChannels",
    "patientPosition", "coilLabel", "coilNumber", "coilName", "measurementDependency", "dependencyType",
    "relativeTablePosition", "x", "y", "z",
})  # fmt: skip
XML = ("ismrmrd_header", "xml")


def in_h5(path: Path) -> list[Finding]:
    with open_h5(path) as file:
        return list(_all(file))[:MOST]


def _all(file: Any) -> Iterator[Finding]:
    yield from _attributes(file, "")
    for key in names(file)[:MOST]:
        found = file[key] if isinstance(file.get(key, getlink=True), h5py.HardLink) else None
        if key in XML and isinstance(found, h5py.Dataset):
            yield from _xml(file, key)
        elif isinstance(found, h5py.Group):
            yield from _attributes(found, f"{key} ")
            for inner in names(found)[:MOST]:
                yield from _inside(found, inner, key)


def _inside(group: Any, key: str, name: str) -> Iterator[Finding]:
    if not isinstance(group.get(key, getlink=True), h5py.HardLink) or not isinstance(group[key], h5py.Dataset):
        return
    if key in XML:
        yield from _xml(group, key)
    fields = group[key].dtype.names or ()
    if key == "data" and "head" in fields:
        yield finding("may identify", f"{name}/data", "the time of day at which each line was measured")


def _attributes(owner: Any, prefix: str) -> Iterator[Finding]:
    values = small_attributes(owner)
    for name, value in values.items():
        if name in SURE and value:
            yield finding("identifies", f"{prefix}attribute {name}", value)
        elif isinstance(value, str) and value and name not in OURS:
            yield finding("may identify", f"{prefix}attribute {name}", value)
    if values.get("acquisition"):
        yield finding("may identify", f"{prefix}attribute acquisition", values["acquisition"])
    for name in _json(values.get(SET)):
        yield finding("may identify", f"{prefix}attribute {SET}: name of a file beside it", name)
    yield from _dicom(_json(values.get("dicom")), prefix)
    yield from _provenance(_json(values.get("provenance")), prefix)


def _json(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dicom(values: dict[str, Any], prefix: str) -> Iterator[Finding]:
    for name, value in values.items():
        if name not in KEPT:
            yield finding("identifies", f"{prefix}attribute dicom: {name}", value)


def _provenance(record: dict[str, Any], prefix: str) -> Iterator[Finding]:
    inputs = record.get("inputs")
    for one in inputs if isinstance(inputs, list) else []:
        name = str(one.get("name", "")) if isinstance(one, dict) else ""
        if name and not name.endswith(".json") and not name.startswith("input "):
            yield finding("may identify", f"{prefix}attribute provenance: name of an input", name)
    if record.get("time"):
        yield finding("may identify", f"{prefix}attribute provenance: time of processing", record["time"])


def _xml(group: Any, key: str) -> Iterator[Finding]:
    try:
        dataset(group, key)
        text = read_text(group, key)
        if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
            raise FormatError("entities")
        root = ET.fromstring(text.strip("\0 \r\n\t"))
    except (FormatError, ET.ParseError, ValueError) as error:
        yield finding("may identify", key, f"a header that cannot be read ({one_line(error, limit=60)})")
        return
    for section in (*NAMED, *PLACES):
        for node in root.findall(f"{{*}}{section}"):
            for leaf in node.iter():
                tag = leaf.tag.rpartition("}")[2]
                if (leaf.text or "").strip() and len(leaf) == 0 and tag not in HARMLESS:
                    sure: Sure = "identifies" if section in NAMED else "may identify"
                    yield finding(sure, f"{key}: {section}/{tag}", leaf.text)
    for node in root.iter():
        if node.tag.rpartition("}")[2] == "userParameterString":
            texts = [(child.text or "").strip() for child in node]
            yield finding("may identify", f"{key}: userParameterString {' '.join(texts[:1])}", " ".join(texts[1:]))
