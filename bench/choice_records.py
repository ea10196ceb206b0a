"""Records of bench.choice: read, and written anew as the project keeps them.

    python -m bench.choice_records RAW OUT [--device h100]

bench.choice appends a line of JSON for each problem. Kept records have the same in columns, of the
ways that the library still has: each way's name once, a problem's ways by their steps in that list,
and times as multiples of the problem's least, to four digits below 1.1, three below 2, then two.
"""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer


def _lines(path: Path) -> list[dict]:
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def problems_in(path: Path) -> list[dict]:
    """A record's problems, with seconds by the ways' names, and the names of those that were timed
    in turn. Other lines say where and when they were measured."""
    lines = _lines(path)
    kept = [line for line in lines if "columns" in line]
    return _from_columns(kept[0]["columns"]) if kept else [x for x in lines if "case" in x]


def gpu_of(path: Path) -> str:
    """The name of the GPU that a record was measured on, empty where it does not say."""
    heads = (line["environment"] for line in _lines(path) if "environment" in line)
    return next((head["gpu"]["name"] for head in heads if head.get("gpu")), "")


def source_of(path: Path) -> str:
    """A record's file, its GPU, and the library's commits whose ways it timed, with their dates."""
    heads = [line["environment"] for line in _lines(path) if "environment" in line]
    runs = dict.fromkeys(f"{(e['commit'] or '-')[:12]} of {e['date'][:10]}" for e in heads)
    return ", ".join(filter(None, [path.name, gpu_of(path), *runs]))


def _multiple(value: float) -> str:
    """Choices differ in times near the least; what is slow need only be known to be."""
    return f"{value:.{4 if value < 1.1 else 3 if value < 2 else 2}g}"


def _to_columns(problems: list[dict]) -> dict:
    ways = sorted({name for p in problems for name in p["seconds"]})
    at = {name: i for i, name in enumerate(ways)}
    columns: dict[str, list] = {"least": [], "steps": [], "multiples": [], "turns": []}
    for p in problems:
        names, least = sorted(p["seconds"]), min(p["seconds"].values())
        places = [at[name] for name in names]
        columns["least"].append(least)
        columns["steps"].append(" ".join(str(b - a) for a, b in itertools.pairwise([0, *places])))
        columns["multiples"].append(" ".join(_multiple(p["seconds"][n] / least) for n in names))
        columns["turns"].append(" ".join(str(names.index(n)) for n in p["turns"]))
    return {"cases": [p["case"] for p in problems], "ways": ways, **columns}


def _from_columns(columns: dict) -> list[dict]:
    found = []
    keys = ("least", "steps", "multiples", "turns")
    rows = zip(columns["cases"], *(columns[k] for k in keys), strict=True)
    for case, least, steps, multiples, turns in rows:
        places = itertools.accumulate(map(int, steps.split()))
        names = [columns["ways"][place] for place in places]
        seconds = [float(f"{least * float(x):.7g}") for x in multiples.split(" ")]
        timed = dict(zip(names, seconds, strict=True))
        in_turn = [names[int(i)] for i in turns.split()]
        found.append({"case": case, "seconds": timed, "turns": in_turn})
    return found


def write(path: Path, heads: list[dict], problems: list[dict]) -> None:
    lines = [*heads, {"columns": _to_columns(problems)}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def known(problems: Iterable[dict], device: str) -> list[dict]:
    """Problems with the ways that this library has; of those that it has lost their fastest ways to
    the rest stay."""
    from bench.choice import Case, ways_of

    found = []
    for p in problems:
        names = {w["name"] for w in ways_of(Case.from_json(p["case"]), device) if not w["by_name"]}
        names.add("torch.mm")
        seconds = {name: s for name, s in p["seconds"].items() if name in names}
        if seconds:
            turns = [name for name in p["turns"] if name in names]
            found.append({"case": p["case"], "seconds": seconds, "turns": turns})
    return found


def main(
    raw: Path,
    out: Path,
    device: Annotated[str, typer.Option(help="the record's device by name")] = "h100",
    without: Annotated[
        str, typer.Option(help="families to leave out, with commas: of kernels that have changed")
    ] = "",
) -> None:
    """Writes a record, a kept one too, as the project keeps them."""
    import tiled_mm  # noqa: F401, registers the operators

    heads = [line for line in _lines(raw) if not {"case", "columns"} & line.keys()]
    from bench.choice import FAMILIES

    left_out = {name.strip() for name in without.split(",")} - {""}
    if unknown := left_out - FAMILIES.keys():
        raise typer.BadParameter(f"there is no family {', '.join(sorted(unknown))}")
    kept = [p for p in problems_in(raw) if p["case"]["family"] not in left_out]
    write(out, heads, known(kept, device))


if __name__ == "__main__":
    typer.run(main)
