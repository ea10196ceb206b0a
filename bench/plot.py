"""Plots, from documents only: nothing is measured here."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed, or asked for

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bench.cells import cubes, device_name, source
from bench.training_tables import distances

# The same document gives the same file: names inside an SVG do not come from a random number.
matplotlib.rcParams["svg.hashsalt"] = "tiled-mm"
matplotlib.rcParams["svg.fonttype"] = "none"
_MARKERS = "o^Dvp<*>PhXd8H"
# Without C3, the red of the planner's choice.
_COLOURS = (*(f"C{i}" for i in (0, 1, 2, 4, 5, 6, 7, 8, 9)), "navy", "goldenrod", "teal")
_COLOURS += ("indigo", "salmon")


def _candidate_names(cases: list[dict]) -> list[str]:
    """In the order of the run, which is the ladder's, and then the peers."""
    return list(dict.fromkeys(c["name"] for x in cases for c in x["candidates"] if c["seconds"]))


def _styles(names: Iterable[str]) -> dict[str, dict]:
    """A marker and a colour for each line, so that lines are told apart where they lie close, and
    in print. torch's are black, the planner's choice is red and dotted."""
    styles, rungs = {}, 0
    for name in names:
        if name.startswith("torch"):
            styles[name] = {"color": "black", "linestyle": "--", "marker": "s"}
        elif name.startswith("tiled.mm"):
            styles[name] = {"color": "tab:red", "linestyle": ":", "marker": "x"}
        else:
            i = rungs % len(_MARKERS)
            styles[name] = {"color": _COLOURS[i], "marker": _MARKERS[i]}
            rungs += 1
    return styles


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


def new_figure(title: str, size: tuple[float, float] = (8.5, 5)) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=size)
    axes.set_title(title, fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    return figure, axes


def ticks(sizes: Iterable[int]) -> list[int]:
    """Those of some sizes that have room for their number on a logarithmic axis, a third of an
    octave apart; powers of two first, so of 1000 and 1024 the second."""
    kept: list[int] = []
    for size in sorted(set(sizes), key=lambda s: (s & (s - 1) != 0, s)):
        if all(abs(math.log2(size / other)) >= 1 / 3 for other in kept):
            kept.append(size)
    return sorted(kept)


def _sizes_axis(axes: Axes, cases: list[dict]) -> None:
    shown = ticks(case["shape"]["n"] for case in cases)
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [str(s) for s in shown])
    axes.minorticks_off()
    axes.set_xlabel("N (square matrices)")


def _decades(axis: Axis) -> None:
    """1, 2, 5, 10, ... in plain numbers on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _legend(axes: Axes) -> None:
    """Beside the plot, where it hides no line."""
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))


def run_time(cases: list[dict], title: str) -> Figure:
    """Run time over N, one line for each rung: the plot of every lecture on tiling."""
    figure, axes = new_figure(title)
    styles = _styles(_candidate_names(cases))
    for name, sizes, seconds in _lines(cases, "seconds"):
        axes.plot(sizes, [s * 1e3 for s in seconds], label=name, **styles[name])
    axes.set_yscale("log")
    _sizes_axis(axes, cases)
    axes.set_ylabel("time per product (ms)")
    _legend(axes)
    return figure


def rate(cases: list[dict], title: str) -> Figure:
    """TF/s (of a slow device GF/s) over N. The axis is logarithmic: the first rungs are a hundredth
    of the last, and a linear one would lay them all on its floor."""
    figure, axes = new_figure(title)
    lines = list(_lines(cases, "flops"))
    fastest = max(f for _, _, flops in lines for f in flops)
    unit, scale = ("TF/s", 1e12) if fastest >= 1e12 else ("GF/s", 1e9)
    styles = _styles(_candidate_names(cases))
    for name, sizes, flops in lines:
        axes.plot(sizes, [f / scale for f in flops], label=name, **styles[name])
    axes.set_yscale("log")
    _decades(axes.yaxis)
    _sizes_axis(axes, cases)
    axes.set_ylabel(unit)
    _legend(axes)
    return figure


def roofline(case: dict, ceilings: dict, title: str) -> Figure | None:
    """Every rung's rate over the intensity that its tile plans, under the measured ceilings. A
    point above the slope is a rung whose loads the caches answer."""
    points = [c for c in case["candidates"] if c["flops"] and c["intensity"]]
    bandwidth, peak = ceilings["copy_bytes_per_s"], ceilings["fp32_flops"]
    if not points or peak is None:
        return None
    figure, axes = new_figure(title)
    styles = _styles(_candidate_names([case]))
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
    for i, c in enumerate(points):
        style = {**styles[c["name"]], "linestyle": ""}
        (line,) = axes.plot(c["intensity"], c["flops"] * 1e-12, **style)
        axes.annotate(
            c["name"],
            (c["intensity"], c["flops"] * 1e-12),
            textcoords="offset points",
            xytext=(6, 4 if i % 2 else -10),  # neighbours' names apart
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
    figure, axes = new_figure(title)
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


def sources(documents: Sequence[dict]) -> str:
    """What a plot says of its documents, each once."""
    return "; ".join(dict.fromkeys(map(source, documents)))


def save_figure(figure: Figure, path: Path, documents: Sequence[dict]) -> Path:
    """Writes an SVG. It holds no version of the program and no date but its documents', which its
    description names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.BytesIO()
    figure.savefig(file, format="svg", bbox_inches="tight")
    plt.close(figure)
    path.write_text(small_svg(file.getvalue(), sources(documents)), encoding="utf-8")
    return path


_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HREF = f"{{{_LINK}}}href"
_FONTS = re.compile("font-family: [^;]*")


def small_svg(text: bytes, description: str) -> str:
    """A third of matplotlib's bytes: coordinates to a tenth of a point, each style once, no groups
    that say nothing, and an element a line. The picture stays."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(text)
    classes: dict[str, str] = {}
    names: dict[str, str] = {}

    def name(found: str) -> str:
        return names.setdefault(found, f"i{len(names)}")

    def tenths(value: str) -> str:
        return re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)

    def short(path: str) -> str:
        return re.sub(r"\s*([A-Za-z])\s*", r"\1", tenths(path).strip())

    def visit(element: ElementTree.Element) -> list[ElementTree.Element]:
        inside = [kept for child in element for kept in visit(child)]
        element[:] = inside
        element.text = (element.text or "").strip() or None
        element.tail = None if element.tag.endswith("tspan") else "\n"
        kind, own = element.tag.removeprefix(f"{{{_SVG}}}"), element.attrib
        if kind in ("metadata", "style") or (kind in ("g", "defs") and not inside):
            return []
        if kind == "g":
            own.pop("id", None)
            if not own:
                return inside
        if style := own.pop("style", None):
            style = _FONTS.sub("font-family: DejaVu Sans, sans-serif", style)
            own["class"] = classes.setdefault(style, f"c{len(classes)}")
        if own.get("transform", "").startswith("rotate(-0 "):
            del own["transform"]
        for key in {"d", "x", "y", "width", "height", "viewBox", "transform"} & own.keys():
            own[key] = short(own[key]) if key == "d" else tenths(own[key])
        if "id" in own:
            own["id"] = name(own["id"])
        if _HREF in own:
            own[_HREF] = "#" + name(own[_HREF][1:])
        if "clip-path" in own:
            own["clip-path"] = f"url(#{name(own['clip-path'][5:-1])})"
        return [element]

    visit(root)
    root.text = "\n"
    styles = ElementTree.Element("style")
    rules = [f".{kind}{{{style}}}" for style, kind in classes.items()]
    styles.text = "\n".join(["*{stroke-linejoin: round; stroke-linecap: butt}", *rules])
    told = ElementTree.Element("desc")
    told.text = description
    told.tail = styles.tail = "\n"
    root[:0] = [told, styles]
    return ElementTree.tostring(root, encoding="unicode")


def redraw(documents: Sequence[dict], folder: Path) -> list[Path]:
    """Draws anew those plots of single documents that the folder holds, each from the last of the
    documents that has its data."""
    held = {path.stem for path in folder.glob("*.svg")}
    runs = ("ladder", "training", "out_of_core")
    return [p for d in documents if d["run"] in runs for p in plot_document(d, folder, held)]


def plot_document(document: dict, folder: Path, only: Container[str] | None = None) -> list[Path]:
    """Writes what the document has data for, or of that those with these names, and returns the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Figure, name: str) -> None:
        if only is None or name in only:
            written.append(save_figure(figure, folder / f"{name}.svg", [document]))
        plt.close(figure)

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
