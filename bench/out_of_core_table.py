"""The tables of bench.out_of_core's documents."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cells import NOT_MEASURED, caption, markdown, seconds_text

_KINDS = (("pageable", False), ("pinned", False), ("pageable", True), ("pinned", True))


def _newest(documents: Sequence[dict], gpu: bool, wanted: str | None = None) -> dict | None:
    """The newest document with such products, or any."""
    found = [
        d
        for d in documents
        if (d["environment"]["gpu"] is not None) == gpu
        and d.get("out_of_core")
        and any(
            wanted is None or (p["name"] == "sweep") == (wanted == "sweep")
            for p in d["out_of_core"]["products"]
        )
    ]
    return max(found, key=lambda d: d["environment"]["date"]) if found else None


def time_cell(record: dict | None) -> str:
    """A wrong result has no time."""
    if record is None or record["seconds"] is None:
        return "-"
    return seconds_text(record["seconds"]) if record["equal"] else "**wrong**"


def link_table(documents: Sequence[dict], *, gpu: bool = True) -> str:
    document = _newest(documents, gpu)
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
    return markdown(["copies", "GB/s"], cells) + "\n\n" + caption(document)


def products_table(documents: Sequence[dict], *, gpu: bool = True) -> str:
    """The newest run on one GPU, then that on two, and so on."""
    by_devices: dict[int, list[dict]] = {}
    for document in documents:
        for count in {p["devices"] for p in document.get("out_of_core", {}).get("products", [])}:
            by_devices.setdefault(count, []).append(document)
    newest = [_newest(by_devices[count], gpu, "products") for count in sorted(by_devices)]
    runs = list({id(d): d for d in newest if d is not None}.values())
    if not runs:
        return NOT_MEASURED
    rows = []
    for p in (p for document in runs for p in document["out_of_core"]["products"]):
        if p["name"] == "sweep":
            continue
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
    sources = dict.fromkeys(caption(document) for document in runs)
    return "\n\n".join([markdown([*header, "of the bound"], rows, texts=3), *sources])


def sweep_table(documents: Sequence[dict], *, gpu: bool = True) -> str:
    """As the lesson draws it: kinds of memory along the columns, N down the rows."""
    document = _newest(documents, gpu, "sweep")
    if document is None:
        return NOT_MEASURED
    by_place = {
        (p["n"], p["host"], p["overlap"]): p
        for p in document["out_of_core"]["products"]
        if p["name"] == "sweep"
    }
    kinds = [*_KINDS, ("mapped", True)]
    rows = [
        [str(n), *(time_cell(by_place.get((n, *kind))) for kind in kinds)]
        for n in sorted({n for n, *_ in by_place})
    ]
    header = ["pageable", "pinned", "pageable, overlap", "pinned, overlap", "zero-copy"]
    return markdown(["N, float32", *header], rows) + "\n\n" + caption(document)


TABLES = {
    "out-of-core-link": link_table,
    "out-of-core": products_table,
    "out-of-core-sweep": sweep_table,
}
