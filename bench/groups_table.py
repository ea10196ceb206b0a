"""The table of bench.cpu_table's documents: one row a group of cases."""

from __future__ import annotations

from collections.abc import Sequence

from bench.cells import NOT_MEASURED, caption, device_name, markdown


def groups_table(documents: Sequence[dict]) -> str:
    """Of every group, for each number of threads, the newest document of the CPU that the newest of
    all is of: groups may have been measured by processes of their own."""
    found = sorted((d for d in documents if d.get("cpu")), key=lambda d: d["environment"]["date"])
    if not found:
        return NOT_MEASURED
    last = found[-1]
    by_place: dict[tuple[str, int], dict] = {}
    for document in found:
        if device_name(document) == device_name(last):
            for line in document["cpu"]["summary"]:
                by_place[line["group"], document["cpu"]["threads"]] = line
    threads = sorted({count for _, count in by_place})
    header = ["torch.mm's time / ours", "goal: geomean", "least"]
    for count in threads:
        named = "1 thread" if count == 1 else f"{count} threads"
        header += [f"{named}: geomean", "least", "at"]
    rows = []
    for group in dict.fromkeys(group for group, _ in by_place):
        lines = [by_place.get((group, count)) for count in threads]
        goal = next(line["goal"] for line in lines if line)
        row = [f"`{group}`", f"{goal['geomean']:g}", f"{goal['least']:g}" if goal["least"] else "-"]
        for line in lines:
            if line is None:
                row += ["-", "-", "-"]
            else:
                row += [f"{line['geomean']:.2f}", f"{line['least']:.2f}", line["where"]]
        rows.append(row)
    return markdown(header, rows) + "\n\n" + caption(last, threads=False)
