"""The tables of bench.scale's documents: a column, or a row, for each number of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.cells import NOT_MEASURED, of_gpu, ratio_number, seconds_text, table


def gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count > 1)}"


def by_count(documents: Sequence[dict], part: str) -> dict[int, dict]:
    """The newest document of whole sizes that has it, for each number of GPUs."""
    found: dict[int, dict] = {}
    for document in sorted(documents, key=lambda d: d["environment"]["date"]):
        rows = (document.get("scale") or {}).get("rows", [])
        if document["settings"].get("small") or not of_gpu(document):
            continue
        if any(row["part"] == part for row in rows):
            found[document["scale"]["processes"]] = document
    return dict(sorted(found.items()))


def rows_of(document: dict, part: str) -> list[dict]:
    return [row for row in document["scale"]["rows"] if row["part"] == part]


def table_of(part: str, texts: int, cells: Callable) -> Callable[[Sequence[dict]], str]:
    """`cells` makes (header, rows) of {GPUs: the part's rows}."""

    def newest(documents: Sequence[dict]) -> str:
        found = by_count(documents, part)
        if not found:
            return NOT_MEASURED
        header, rows = cells({count: rows_of(d, part) for count, d in found.items()})
        sources = [(gpus(count), document) for count, document in found.items()]
        return table(header, rows, sources, texts=texts)

    return newest


def times(found: dict[int, list[dict]]) -> tuple[list[str], list[list[str]]]:
    """torch's time, and that over each of the others': above 1 it is the faster."""
    header, lines = ["", "", "tokens"], {}
    for count, rows in found.items():
        others = [name for name in rows[0]["seconds"] if name != "torch"]
        columns = [f"{gpus(count)}: torch", *(f"torch / {name}" for name in others)]
        for row in rows:
            place = (row["what"], row["mode"], str(row.get("tokens", "")))
            line = lines.setdefault(place, ["-"] * (len(header) - 3))
            torch = row["seconds"]["torch"]
            line += [
                seconds_text(torch),
                *(ratio_number(torch / row["seconds"][n]) for n in others),
            ]
        header += columns
        for line in lines.values():
            line += ["-"] * (len(header) - 3 - len(line))
    return header, [[*place, *line] for place, line in lines.items()]


def bits(found: dict[int, list[dict]]) -> tuple[list[str], list[list[str]]]:
    names = list(next(iter(found.values()))[0]["values"])
    lines = [
        [str(count), *(f"{100 * row['values'][name]:.0f} %" for name in names)]
        for count, rows in found.items()
        for row in rows
    ]
    return ["GPUs", *names], lines


def steps(found: dict[int, list[dict]]) -> tuple[list[str], list[list[str]]]:
    """How many parameters differ, of how many."""
    names = list(next(iter(found.values()))[0]["values"])
    lines = [
        [str(count), row["what"], *("{} of {}".format(*row["values"][name]) for name in names)]
        for count, rows in found.items()
        for row in rows
    ]
    return ["GPUs", "products", *names], lines


TABLES = {
    "scale-tp": table_of("tp", 2, times),
    "scale-fsdp": table_of("fsdp", 2, times),
    "scale-host": table_of("host", 2, times),
    "scale-async": table_of("async", 2, times),
    "scale-tree": table_of("tree", 2, times),
    "scale-experts": table_of("experts", 2, times),
    "scale-bits": table_of("bits", 0, bits),
    "scale-steps": table_of("steps", 2, steps),
}
