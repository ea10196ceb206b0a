"""The tables of bench.out_of_core's documents."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cells import NOT_MEASURED, captions, last, markdown, of_gpu, seconds_text, table

_KINDS = (("pageable", False), ("pinned", False), ("pageable", True), ("pinned", True))


def _products(document: dict, *, sweep: bool) -> list[dict]:
    """Those of the sweep over N, or the others."""
    streamed = document.get("out_of_core", {}).get("products", [])
    return [p for p in streamed if (p["name"] == "sweep") == sweep]


def time_cell(record: dict | None) -> str:
    """A wrong result has no time."""
    if record is None or record["seconds"] is None:
        return "-"
    return seconds_text(record["seconds"]) if record["equal"] else "**wrong**"


def link_table(documents: Sequence[dict]) -> str:
    document = last(d for d in documents if of_gpu(d) and d.get("out_of_core"))
    if document is None:
        return NOT_MEASURED
    link = document["out_of_core"]["link"]
    rows = [
        ["pinned, to the device", link["to_device"]],
        ["pinned, to the host", link["to_host"]],
        ["pinned, both ways at once, each", link["both_ways_each"]],
        ["pageable, to the device", link["pageable_to_device"]],
        ["pageable, to the host", link["pageable_to_host"]],
        ["the host's own copy, pageable to pinned", link["host_copy"]],
    ]
    cells = [[name, f"{rate / 1e9:.1f}"] for name, rate in rows]
    return table(["copies", "GB/s"], cells, document)


def products_table(documents: Sequence[dict]) -> str:
    """The newest run on one GPU, then that on two, and so on."""
    by_devices: dict[int, list[dict]] = {}
    for document in filter(of_gpu, documents):
        for count in {p["devices"] for p in _products(document, sweep=False)}:
            by_devices.setdefault(count, []).append(document)
    newest = (last(of_count) for _, of_count in sorted(by_devices.items()))
    runs = list({id(d): d for d in newest}.values())
    if not runs:
        return NOT_MEASURED
    rows = []
    for p in (p for document in runs for p in _products(document, sweep=False)):
        shown = time_cell(p)
        fine = shown not in ("-", "**wrong**")
        memory = "all" if p["memory"] is None else f"{p['memory'] / 2**30:.3g} GiB"
        rows.append(
            [
                f"{p['m']}x{p['n']}x{p['k']} {p['dtype']}",
                p["host"] + ("" if p["overlap"] else ", no overlap"),
                memory,
                str(p["devices"]),
                shown,
                seconds_text(p["arithmetic_s"]) if fine else "-",
                seconds_text(p["link_s"]) if fine else "-",
                f"{p['share']:.1%}" if fine else "-",
            ]
        )
    header = ["M x N x K", "host memory", "GPU memory", "GPUs", "time", "arithmetic's", "link's"]
    sources = dict.fromkeys(captions([("", document)]) for document in runs)
    return "\n\n".join([markdown([*header, "of the bound"], rows, texts=3), *sources])


def sweep_table(documents: Sequence[dict]) -> str:
    """As the lesson draws it: kinds of memory along the columns, N down the rows."""
    document = last(d for d in documents if of_gpu(d) and _products(d, sweep=True))
    if document is None:
        return NOT_MEASURED
    swept = _products(document, sweep=True)
    by_place = {(p["n"], p["host"], p["overlap"]): p for p in swept}
    kinds = [*_KINDS, ("mapped", True)]
    rows = [
        [str(n), *(time_cell(by_place.get((n, *kind))) for kind in kinds)]
        for n in sorted({n for n, *_ in by_place})
    ]
    header = ["pageable", "pinned", "pageable, overlap", "pinned, overlap", "zero-copy"]
    return table(["N, float32", *header], rows, document)


TABLES = {
    "out-of-core-link": link_table,
    "out-of-core": products_table,
    "out-of-core-sweep": sweep_table,
}
