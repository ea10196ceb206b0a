"""Documents: checking, writing and reading them. bench/schema.py says what they hold.

A file is a document's summary: numbers have five digits, and what no table shows is left out. What
follows from the rest is worked out again when it is read. A name that ends in .xz says that the
JSON is compressed, as in bench/results/: `xz -dc FILE` prints it.
"""

from __future__ import annotations

import copy
import json
import lzma
import math
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bench.schema import SCHEMA, Candidate, Case, Document
from bench.shapes import Shape

_DOCUMENT = TypeAdapter(Document)


def _place(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in path)


def problems(value: Any, kind: Any = Document) -> list[str]:
    """What is wrong with a record of a kind of bench/schema.py; empty if nothing is."""
    try:
        (_DOCUMENT if kind is Document else TypeAdapter(kind)).validate_python(value)
    except ValidationError as error:
        return [f"{_place(e['loc'])}: {e['msg']}" for e in error.errors()]
    return []


def validate(document: Any) -> list[str]:
    """What is wrong with a document."""
    found = problems(document)
    if not found and document["schema"] > SCHEMA:
        found.append(f"schema {document['schema']} is newer than {SCHEMA}")
    return found


_DIGITS = 5  # a table shows four at most


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(x) for key, x in value.items()}
    if isinstance(value, list):
        return [_rounded(x) for x in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def summary(document: dict) -> dict:
    """What a file keeps of a document."""
    document = copy.deepcopy(document)
    for case in document["cases"]:
        for record in case["candidates"]:
            for key in ("seconds", "above_floor"):
                record[key] = record[key] and {"median": record[key]["median"]}
            check = record["check"]
            record["check"] = check and {key: check[key] for key in ("frobenius", "ok")}
            for key, value in _derived(case, record).items():
                found = record[key]
                if found is value or (found and value and math.isclose(found, value, rel_tol=1e-3)):
                    del record[key]
    curves = document.pop("curves", None)  # what tables show of these is how little they differ
    document = _rounded(document)
    return document if curves is None else document | {"curves": curves}


def _derived(case: dict, record: dict) -> dict[str, float | None]:
    """The rates of a product by its time; a training step's are others."""
    if not record["seconds"] or not record["seconds"]["median"]:
        return {"flops": None, "bandwidth": None}
    shape, seconds = Shape.from_json(case["shape"]), record["seconds"]["median"]
    return {"flops": shape.flops / seconds, "bandwidth": shape.bytes / seconds}


def write(document: dict, path: Path) -> None:
    """Writes a valid document's summary; the file is never seen half-written."""
    found = validate(document)
    if found:
        raise ValueError("not a valid result: " + "; ".join(found[:5]))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    text = json.dumps(summary(document), ensure_ascii=False, allow_nan=False, indent=1)
    data = f"{text}\n".encode()
    if path.suffix == ".xz":
        data = lzma.compress(data, preset=6 | lzma.PRESET_EXTREME)
    part.write_bytes(data)
    part.replace(path)


def read(path: Path) -> dict:
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    document = json.loads(data)
    for case in document.get("cases", ()):
        for record in case["candidates"]:
            record |= {k: v for k, v in _derived(case, record).items() if k not in record}
    found = validate(document)
    if found:
        raise ValueError(f"{path}: " + "; ".join(found[:5]))
    return document


def files_in(folder: Path) -> list[Path]:
    """The documents' files of a folder, by name."""
    return sorted([*folder.glob("*.json"), *folder.glob("*.json.xz")])


def read_all(folder: Path) -> list[dict]:
    """Every document of a folder, the oldest first."""
    documents = [read(path) for path in files_in(folder)]
    return sorted(documents, key=lambda d: d["environment"]["date"])


def case(set_name: str, shape: dict, mode: str, cache: str, *, grad: bool = False) -> dict:
    """A case's record with nothing measured yet."""
    record: dict[str, Any] = dict.fromkeys(Case.__annotations__)
    record.update(set=set_name, shape=shape, mode=mode, cache=cache, grad=grad)
    record.update(note="", candidates=[])
    return record


def candidate(name: str, *, ours: bool, note: str = "", error: str | None = None) -> dict:
    """A candidate's record with nothing measured yet."""
    record: dict[str, Any] = dict.fromkeys(Candidate.__annotations__)
    record.update(name=name, ours=ours, note=note, error=error)
    return record


def find(case: dict, name: str) -> dict | None:
    """The candidate of this name that was measured, or None."""
    for record in case["candidates"]:
        if record["name"] == name and record["seconds"] is not None:
            return record
    return None


def failures(document: dict) -> list[str]:
    """Errors of cases, and of ours: failed runs and failed checks. A peer's are shown, not held
    against us."""
    found = []
    for case in document["cases"]:
        what = f"{case['set']} {case['shape']} {case['mode']}"
        if case["error"]:
            found.append(f"{what}: {case['error']}")
        for record in case["candidates"]:
            if not record["ours"]:
                continue
            if record["error"]:
                found.append(f"{what}: {record['name']}: {record['error']}")
            if record["check"] is not None and not record["check"]["ok"]:
                found.append(f"{what}: {record['name']}: wrong result: {record['check']}")
    for curve in document.get("curves", []):
        if curve["ours"] and curve["error"]:
            found.append(f"curve of {curve['name']}: {curve['error']}")
    for record in document.get("errors", []):
        what = " ".join(str(record[key]) for key in ("arithmetic", "data", "m", "n", "k"))
        for side in ("tiled", "tree"):
            if side in record and record[side]["error"]:
                found.append(f"errors of {what}, {side}: {record[side]['error']}")
    for record in document.get("out_of_core", {}).get("products", []):
        what = " ".join(str(record[key]) for key in ("name", "m", "n", "k", "dtype", "host"))
        if record["error"]:
            found.append(f"out of core {what}: {record['error']}")
        elif not record["equal"]:
            found.append(f"out of core {what}: not the bits of tiled.mm")
    self_test = document.get("share", {}).get("self_test")
    if self_test and not self_test["ok"]:
        found.append("self-test: " + "; ".join(self_test["output"][-3:]))
    return found
