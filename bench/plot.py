"""Plots, from documents only: nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed, or asked for

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.cells import cubes, device_name
from bench.training_tables import distances

_DPI = 150


def _candidate_names(cases: list[dict]) -> list[str]:
    """In the order of the run, which is the ladder's, and then the peers."""
    return list(dict.fromkeys(c["name"] for x in cases for c in x["candidates"] if c["seconds"]))


def _style(name: str) -> dict:
    if name.startswith("torch"):
        return {"color": "black", "linestyle": "--", "marker": "s"}
    if name.startswith("tiled.mm"):
        return {"color": "tab:red", "linestyle": ":", "marker": "x"}
    return {"marker": "o"}


def _lines(cases: list[dict], quantity: str) -> Iterator[tuple[str, list[int], list[float]]]:
    """(candidate, sizes N, values) with seconds or flops over N."""
    for name in _candidate_names(cases):
        points = []
        for case in cases:
            for c in case["candidates"]:
                if c["name"] == name and c["seconds"]:
                    value = c["seconds"]["median"] if quantity == "seconds" else c["flops"]
                    points.append((case["shape"]["n"], value))
        points.sort()
        yield name, [p[0] for p in points], [p[1] for p in points]


def _figure(title: str) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(7.5, 5))
    axes.set_title(title, fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    return figure, axes


def _sizes_axis(axes: Axes, cases: list[dict]) -> None:
    sizes = sorted({case["shape"]["n"] for case in cases})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(s) for s in sizes])
    axes.minorticks_off()
    axes.set_xlabel("N (square matrices)")


def run_time(cases: list[dict], title: str) -> Figure:
    """Run time over N, one line for each rung: the plot of every lecture on tiling."""
    figure, axes = _figure(title)
    for name, sizes, seconds in _lines(cases, "seconds"):
        axes.plot(sizes, [s * 1e3 for s in seconds], label=name, **_style(name))
    axes.set_yscale("log")
    _sizes_axis(axes, cases)
    axes.set_ylabel("time per product (ms)")
    axes.legend(fontsize=8)
    return figure


def rate(cases: list[dict], title: str) -> Figure:
    """TF/s (of a slow device GF/s) over N."""
    figure, axes = _figure(title)
    lines = list(_lines(cases, "flops"))
    fastest = max(f for _, _, flops in lines for f in flops)
    unit, scale = ("TF/s", 1e12) if fastest >= 1e12 else ("GF/s", 1e9)
    for name, sizes, flops in lines:
        axes.plot(sizes, [f / scale for f in flops], label=name, **_style(name))
    _sizes_axis(axes, cases)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)
    axes.legend(fontsize=8)
    return figure


def roofline(case: dict, ceilings: dict, title: str) -> Figure | None:
    """Every rung's rate over the intensity that its tile plans, under the measured ceilings. A
    point above the slope is a rung whose loads the caches answer."""
    points = [c for c in case["candidates"] if c["flops"] and c["intensity"]]
    bandwidth, peak = ceilings["copy_bytes_per_s"], ceilings["fp32_flops"]
    if not points or peak is None:
        return None
    figure, axes = _figure(title)
    low = min(c["intensity"] for c in points) / 2
    high = max(4 * peak / bandwidth, *(2 * c["intensity"] for c in points))
    knee = peak / bandwidth
    axes.plot(
        [low, knee, high],
        [low * bandwidth * 1e-12, peak * 1e-12, peak * 1e-12],
        color="black",
        label=f"if no load hit a cache: copy {bandwidth * 1e-9:.0f} GB/s, "
        f"fp32 peak {peak * 1e-12:.1f} TF/s",
    )
    for c in points:
        (line,) = axes.plot(c["intensity"], c["flops"] * 1e-12, **{**_style(c["name"]), "ls": ""})
        axes.annotate(
            c["name"],
            (c["intensity"], c["flops"] * 1e-12),
            textcoords="offset points",
            xytext=(6, -10),
            fontsize=8,
            color=line.get_color(),
        )
    for c in case["candidates"]:
        if c["name"] == case["peer"] and c["flops"]:
            axes.axhline(c["flops"] * 1e-12, color="black", linestyle="--", lw=1, label=c["name"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte that tiles load, from memory or a cache")
    axes.set_ylabel("TF/s")
    axes.legend(fontsize=8, loc="lower right")
    return figure


def loss_curves(curves: list[dict], title: str) -> Figure:
    """Losses over the steps of a training run, and below them how far each is from the first."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(7.5, 7), sharex=True)
    apart = distances(curves)
    for i, curve in enumerate(curves):
        style = {"color": f"C{i}", "ls": ("-", "--", "-.", ":")[i % 4], "label": curve["name"]}
        above.plot(range(1, len(curve["losses"]) + 1), curve["losses"], **style)
        if i:
            below.plot(range(1, len(apart[curve["name"]]) + 1), apart[curve["name"]], **style)
    above.set_title(title, fontsize=10)
    above.set_ylabel("loss")
    below.set_ylabel(f"relative distance from {curves[0]['name']}")
    below.set_xlabel("step")
    above.set_yscale("log")
    if any(x > 0 for values in apart.values() for x in values):
        below.set_yscale("log")
    for axes in (above, below):
        axes.grid(True, which="both", alpha=0.25)
        axes.legend(fontsize=8)
    return figure


# Copies as the lesson compares them: (host memory, whether copies and products overlap) -> style.
_COPIES = {
    ("pageable", False): ("pageable", {"color": "tab:orange", "linestyle": "--", "marker": "o"}),
    ("pinned", False): ("pinned", {"color": "tab:blue", "linestyle": "--", "marker": "o"}),
    ("pageable", True): ("pageable, overlap", {"color": "tab:orange", "marker": "s"}),
    ("pinned", True): ("pinned, overlap", {"color": "tab:blue", "marker": "s"}),
    ("mapped", True): ("zero-copy", {"color": "tab:green", "marker": "x"}),
}


def copies(products: list[dict], title: str) -> Figure | None:
    """Time over N of squares in the host's memory, one line for each way to copy them."""
    figure, axes = _figure(title)
    for (host, overlap), (label, style) in _COPIES.items():
        points = sorted(
            (p["n"], p["seconds"] * 1e3)
            for p in products
            if (p["host"], p["overlap"]) == (host, overlap) and p["seconds"] and p["equal"]
        )
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    if not axes.lines:
        plt.close(figure)
        return None
    axes.set_yscale("log")
    _sizes_axis(axes, [{"shape": p} for p in products])
    axes.set_ylabel("time per product (ms)")
    axes.legend(fontsize=8)
    return figure


def plot_document(document: dict, folder: Path) -> list[Path]:
    """Writes what the document has data for and returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Figure, name: str) -> None:
        path = folder / f"{name}.png"
        figure.tight_layout()
        # No date or version inside: the same document gives the same file.
        figure.savefig(path, dpi=_DPI, metadata={"Software": None})
        plt.close(figure)
        written.append(path)

    device = device_name(document)
    for set_name, dtype, mode, cases in cubes(document):
        title = f"{dtype}, {device}, {mode}"
        suffix = f"{set_name}-{dtype}" + ("" if mode == "burst" else f"-{mode}")
        save(run_time(cases, title), f"run-time-{suffix}")
        save(rate(cases, title), f"rate-{suffix}")
        if document["ceilings"]:
            largest = max(cases, key=lambda c: c["shape"]["n"])
            n = largest["shape"]["n"]
            figure = roofline(largest, document["ceilings"], f"{n} x {n} x {n}, {title}")
            if figure is not None:
                save(figure, f"roofline-{suffix}")
    if document.get("curves"):
        save(loss_curves(document["curves"], f"float32, {device}"), "loss-curves")
    streamed = document.get("out_of_core", {}).get("products", [])
    sweep = [p for p in streamed if p["name"] == "sweep"]
    figure = copies(sweep, f"float32 squares in host memory, {device}")
    if figure is not None:
        save(figure, "copies-float32")
    return written
