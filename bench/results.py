"""The document that a run leaves: its schema, reading and writing.

    {schema, run, environment, settings, ceilings, cases: [case], curves?: [curve],
     counters?: [counters],
     cpu?: {threads, peak_gflops, summary: [group], cases, tiny?}, errors?: [errors],
     decode?: [decode], grouped?: [grouped], scaled?: [scaled], models?: {part: [row]},
     scale?: {processes, rows: [row]},
     out_of_core?: {link: {name: bytes/s}, arithmetic: {dtype: flop/s}, products: [streamed]},
     share?: {build, device, copy_bytes_per_s, refused: {precision: why}, self_test, plans}}

A case is one problem in one mode, with all its candidates:

    {set, shape, mode, cache, grad, peer, note, error, power, candidates: [candidate]}

and a candidate is

    {name, ours, note, error, method, calls, rounds, seconds, ratio, above_floor, flops, bandwidth,
     intensity, check, recomputed?}

`seconds`, `ratio` and `above_floor` hold the median and quartiles over the rounds. `ratio` is the
first peer's time over this candidate's, above 1 where the candidate is the faster; `above_floor`
is in seconds and only there for host times; `recomputed` is the share of C that fp16x3 computed
again. What was not measured is null, and `error` says why. A curve is the loss of every step of a
training run:

    {name, ours, error, losses: [float]}

`counters` are a kernel's under Nsight Compute: how busy units were, in percent of their peak, and
the shares of a warp's time that it waited, by reason:

    {algo, dtype, n, kernel, units: {name: percent}, stalls: {reason: share}}

`cpu` is bench.cpu_table's: a group of its summary is

    {group, geomean, least, where, met, goal: {geomean, least}}

`errors` are bench.errors's of one problem, ours and torch.mm's on the same operands, either as
{frobenius, largest, bias, error}:

    {arithmetic, data, m, n, k, tiled, torch}

`decode` is bench.decode's, one problem of few rows; `changed` says whose rows had other bits among
1,024 rows:

    {dtype, layout, m, n, k, drawn, seconds: {tiled, torch}, changed: {tiled, torch}}

`grouped` is bench.grouped's, one case; `ratio` is the time of torch's, or of the aligned neighbour,
over ours, and `hit` counts the experts that have rows:

    {name, experts, top, tokens, n, k, work, dtype, precision, router, aligned, seed, rows, hit,
     seconds: {tiled, torch or aligned}, ratio, tflops, gbs}

`scaled` is bench.scaled's, one case; `seconds` may have torch's, with fast accumulation and a
copy's, `ratio` is torch's time over ours, and `beside_copy` the copy's:

    {name, work, recipe, m, n, k, experts, seed, seconds, refused, ratio, beside_copy, tflops, gbs,
     of_copy}

`out_of_core` is bench.out_of_core's: a streamed product beside what bounds it is

    {name, m, n, k, dtype, host, overlap, memory, devices, tiles, bytes_in, bytes_out, seconds,
     arithmetic_s, link_s, share, equal, error}

`models` is bench.models' by its parts, and those of bench.compiled, eager and rivals;
times by name, the library's as `tiled`, and `torch`

    bits    {model, arithmetic, batch, differ, largest, of}
    speed   {model, what, tokens, seconds}
    linear  {what, shape: [M, N, K], seconds}, cpu the same
    host    {what, grad, seconds}

`scale` is bench.scale's, of so many processes; `values` are what a part counts

    {part, what, mode, tokens, seconds, values}

`share` is bench.share's: what the library was built for, what the device says of itself, and

    self_test  {ok, seconds, output: [line]}
    plans      [{shape, precision, plan, error}], `plan` as explain has it

What has a ? may be missing: most documents do not have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SCHEMA = 1

_SPREAD = {"median": float, "q1": float, "q3": float}
_CHECK = {
    "frobenius": (float, None),
    "componentwise": (float, None),
    "gate": float,
    "nan_count": int,
    "ok": bool,
}
_CANDIDATE = {
    "name": str,
    "ours": bool,
    "note": str,
    "error": (str, None),
    "method": (str, None),
    "calls": (int, None),
    "rounds": (int, None),
    "seconds": (_SPREAD, None),
    "ratio": (_SPREAD, None),
    "above_floor": (_SPREAD, None),
    "flops": (float, None),
    "bandwidth": (float, None),
    "intensity": (float, None),
    "check": (_CHECK, None),
    "recomputed?": (float, None),
}
_SHAPE = {
    "m": int,
    "n": int,
    "k": int,
    "layout": str,
    "dtype": str,
    "batch": int,
    "data?": str,
}
_CASE = {
    "set": str,
    "shape": _SHAPE,
    "mode": str,
    "cache": str,
    "grad": bool,
    "peer": (str, None),
    "note": str,
    "error": (str, None),
    "power": (dict, None),
    "candidates": [_CANDIDATE],
}
_CURVE = {"name": str, "ours": bool, "error": (str, None), "losses": [float]}
_ENVIRONMENT = {
    "date": str,
    "commit": (str, None),
    "dirty": (bool, None),
    "tiled_mm": (str, None),
    "python": str,
    "torch": str,
    "cuda": (str, None),
    "cublas": (str, None),
    "cpu": dict,
    "gpu": (dict, None),
}
_COUNTERS = {
    "algo": str,
    "dtype": str,
    "n": int,
    "kernel": str,
    "units": dict,
    "stalls": dict,
}
_CPU_GROUP = {
    "group": str,
    "geomean": float,
    "least": float,
    "where": str,
    "met": bool,
    "goal": {"geomean": float, "least": float},
}
_ERRORS_OF = {
    "frobenius": (float, None),
    "largest": (float, None),
    "bias": (float, None),
    "error": (str, None),
}
_ERRORS = {
    "arithmetic": str,
    "data": str,
    "m": int,
    "n": int,
    "k": int,
    "tiled": _ERRORS_OF,
    "torch": _ERRORS_OF,
}
_GROUPED = {
    "name": str,
    "experts": int,
    "top": int,
    "tokens": int,
    "n": int,
    "k": int,
    "work": str,
    "dtype": str,
    "precision": (str, None),
    "router": str,
    "aligned": bool,
    "seed": int,
    "rows": int,
    "hit": int,
    "seconds": {"tiled": float, "torch?": float, "aligned?": float},
    "ratio": float,
    "tflops": float,
    "gbs": float,
    "bound": float,
}
_SCALED = {
    "name": str,
    "work": str,
    "recipe": str,
    "m": int,
    "n": int,
    "k": int,
    "experts": int,
    "seed": int,
    "seconds": {"tiled": float, "torch?": float, "fast?": float, "copy?": float},
    "refused": str,
    "ratio": (float, None),
    "beside_copy": (float, None),
    "tflops": float,
    "gbs": float,
    "of_copy": float,
}
_DECODE = {
    "dtype": str,
    "layout": str,
    "m": int,
    "n": int,
    "k": int,
    "drawn": bool,
    "seconds": {"tiled": float, "torch": float},
    "changed": {"tiled": bool, "torch": bool},
}
_SCALE = {
    "processes": int,
    "rows": [
        {
            "part": str,
            "what": str,
            "mode": str,
            "tokens?": int,
            "seconds?": dict,
            "values?": dict,
        }
    ],
}
_LINEAR = {"what": str, "shape": [int], "seconds": dict}
_MODELS = {
    "bits?": [
        {
            "model": str,
            "arithmetic": str,
            "batch": int,
            "differ": int,
            "largest": float,
            "of": int,
        }
    ],
    "speed?": [{"model": str, "what": str, "tokens": int, "seconds": dict}],
    "linear?": [_LINEAR],
    "host?": [{"what": str, "grad": bool, "seconds": dict}],
    "cpu?": [_LINEAR],
    # bench.compiled's, bench.eager's and bench.rivals'.
    "compiled-rows?": [
        {
            "model": str,
            "setting": str,
            "batch": int,
            "differ": int,
            "of": int,
            "largest": float,
            "eager": int,
            "kernels": int,
            "seconds": float,
            "first?": str,
        }
    ],
    "compiled-speed?": [{"model": str, "what": str, "tokens": int, "seconds": dict}],
    "compiled-epilogues?": [{"model": str, "what": str, "tokens": int, "seconds": dict}],
    "eager-calls?": [{"what": str, "grad": bool, "seconds": dict}],
    "eager-decode?": [{"what": str, "grad": bool, "seconds": dict}],
    "eager-prompt?": [{"what": str, "grad": bool, "seconds": dict}],
    "eager-training?": [{"what": str, "grad": bool, "seconds": dict}],
    "rivals-bits?": [{"candidate": str, "kind": str, "changed": int, "of": int}],
    "rivals-speed?": [{"shape": [int], "seconds": dict}],
}
_STREAMED = {
    "name": str,
    "m": int,
    "n": int,
    "k": int,
    "dtype": str,
    "host": str,
    "overlap": bool,
    "memory": (int, None),
    "devices": int,
    "tiles": (int, None),
    "bytes_in": (int, None),
    "bytes_out": (int, None),
    "seconds": (float, None),
    "arithmetic_s": (float, None),
    "link_s": (float, None),
    "share": (float, None),
    "equal": (bool, None),
    "error": (str, None),
}
_SHARE = {
    "build": dict,
    "device": (dict, None),
    "copy_bytes_per_s": (float, None),
    "refused": dict,
    "self_test": ({"ok": bool, "seconds": float, "output": [str]}, None),
    "plans": [
        {"shape": _SHAPE, "precision": (str, None), "plan": (dict, None), "error": (str, None)}
    ],
}
_DOCUMENT = {
    "schema": int,
    "run": str,
    "environment": _ENVIRONMENT,
    "settings": dict,
    "ceilings": (dict, None),
    "cases": [_CASE],
    "curves?": [_CURVE],
    "counters?": [_COUNTERS],
    "cpu?": {
        "threads": int,
        "peak_gflops": dict,
        "summary": [_CPU_GROUP],
        "cases": [dict],
        "tiny?": dict,
    },
    "errors?": [_ERRORS],
    "decode?": [_DECODE],
    "grouped?": [_GROUPED],
    "scaled?": [_SCALED],
    "models?": _MODELS,
    "scale?": _SCALE,
    "out_of_core?": {"link": dict, "arithmetic": dict, "products": [_STREAMED]},
    "share?": _SHARE,
}


def _problems(value: Any, wanted: Any, where: str) -> Iterable[str]:
    if isinstance(wanted, tuple):
        if value is None and None in wanted:
            return
        wanted = next(w for w in wanted if w is not None)
    if isinstance(wanted, list):
        if not isinstance(value, list):
            yield f"{where}: a list is wanted, not {value!r}"
            return
        for i, item in enumerate(value):
            yield from _problems(item, wanted[0], f"{where}[{i}]")
    elif isinstance(wanted, dict):
        if not isinstance(value, dict):
            yield f"{where}: an object is wanted, not {value!r}"
            return
        optional = {key for key in wanted if key.endswith("?")}
        wanted = {key.removesuffix("?"): kind for key, kind in wanted.items()}
        for key in wanted.keys() - value.keys():
            if f"{key}?" not in optional:
                yield f"{where}.{key} is missing"
        for key in value.keys() - wanted.keys():
            yield f"{where}.{key} is unknown"
        for key in wanted.keys() & value.keys():
            yield from _problems(value[key], wanted[key], f"{where}.{key}")
    else:
        # bool is an int to Python, and a whole number is a fine float to JSON.
        fine = isinstance(value, (int, float)) if wanted is float else isinstance(value, wanted)
        if not fine or (isinstance(value, bool) and wanted is not bool):
            yield f"{where}: {wanted.__name__} is wanted, not {value!r}"


def validate(document: Any) -> list[str]:
    """What is wrong with a document; empty if nothing is."""
    found = sorted(_problems(document, _DOCUMENT, "document"))
    if not found and document["schema"] != SCHEMA:
        found.append(f"schema {document['schema']} is not {SCHEMA}")
    return found


def write(document: dict, path: Path) -> None:
    """Writes a valid document; the file is never seen half-written."""
    found = validate(document)
    if found:
        raise ValueError("not a valid result: " + "; ".join(found[:5]))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    part.replace(path)


def read(path: Path) -> dict:
    document = json.loads(path.read_text())
    found = validate(document)
    if found:
        raise ValueError(f"{path}: " + "; ".join(found[:5]))
    return document


def read_all(folder: Path) -> list[dict]:
    """Every document of a folder, the oldest first."""
    documents = [read(path) for path in sorted(folder.glob("*.json"))]
    return sorted(documents, key=lambda d: d["environment"]["date"])


def case(set_name: str, shape: dict, mode: str, cache: str, *, grad: bool = False) -> dict:
    """A case's record with nothing measured yet."""
    record: dict[str, Any] = dict.fromkeys(_CASE)
    record.update(set=set_name, shape=shape, mode=mode, cache=cache, grad=grad)
    record.update(note="", candidates=[])
    return record


def candidate(name: str, *, ours: bool, note: str = "", error: str | None = None) -> dict:
    """A candidate's record with nothing measured yet."""
    record: dict[str, Any] = {key.removesuffix("?"): None for key in _CANDIDATE}
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
        if record["tiled"]["error"]:
            what = " ".join(str(record[key]) for key in ("arithmetic", "data", "m", "n", "k"))
            found.append(f"errors of {what}: {record['tiled']['error']}")
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
