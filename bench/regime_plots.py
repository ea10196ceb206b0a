"""The plots of docs/performance.md and the README: one for each regime, and one of them all.
Nothing is measured here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter

from bench.plot import new_figure, save_figure, ticks
from bench.regimes import CARDS, CPUS, REGIMES, Found, Part, Regime

_COLOURS = dict(
    zip((*CARDS, *CPUS), ("tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True)
)
_MARKERS = "o^s"
_RATIOS = (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 10)


def _ratio_axis(axis, low: float, high: float) -> None:
    axis.set_major_locator(FixedLocator([r for r in _RATIOS if low / 1.3 <= r <= high * 1.3]))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _all_found(regime: Regime, documents: Sequence[dict]) -> list[tuple[int, Part, str, Found]]:
    found = []
    for i, part in enumerate(regime.parts):
        for device in regime.devices:
            f = part.find(documents, device)
            if f is not None:
                found.append((i, part, device, f))
    return found


def plain(text: str) -> str:
    """A table's words without their marks."""
    return text.replace("`", "")


def regime(name: str, documents: Sequence[dict]) -> tuple[Figure, list[dict]] | None:
    """Every case's ratio over its size, and the documents that hold them."""
    chosen = REGIMES[name]
    found = _all_found(chosen, documents)
    if not found:
        return None
    figure, axes = new_figure(f"{plain(chosen.title)}: torch's time over ours", (7.2, 3.4))
    ratios = [p.ratio for *_, f in found for p in f.points]
    for i, part, device, f in found:
        style = {
            "linestyle": "",
            "marker": _MARKERS[i],
            "markersize": 4,
            "markerfacecolor": "none",
            "color": _COLOURS[device],
            "label": f"{plain(part.what)}, {device}",
        }
        if chosen.ranges:
            _ranges(axes, f, 1.04 ** (2 * i), style)
        else:
            axes.plot([p.at for p in f.points], [p.ratio for p in f.points], **style)
    axes.axhline(1, color="black", lw=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _ratio_axis(axes.yaxis, min(ratios), max(ratios))
    if chosen.ranges:
        places = ticks(int(p.at) for *_, f in found for p in f.points)
        axes.set_xticks(places, [str(x) for x in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(chosen.axis)
    axes.set_ylabel("ratio; above 1 ours is faster")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure, [d for *_, f in found for d in f.sources]


def _ranges(axes: Axes, found: Found, shift: float, style: dict) -> None:
    """A mean and a range for each place of the axis, moved aside by a factor."""
    for at in sorted({p.at for p in found.points}):
        ratios = [p.ratio for p in found.points if p.at == at]
        mean = statistics.geometric_mean(ratios)
        errors = [[mean - min(ratios)], [max(ratios) - mean]]
        axes.errorbar([at * shift], [mean], yerr=errors, elinewidth=0.8, **style)
        style = {**style, "label": None}


def overview(documents: Sequence[dict]) -> tuple[Figure, list[dict]] | None:
    """A line for each part and card from its least ratio to its greatest, a mark at the geometric
    mean."""
    rows = [
        (part, device, f)
        for r in REGIMES.values()
        for _, part, device, f in _all_found(r, documents)
    ]
    if not rows:
        return None
    names = list(dict.fromkeys(part.what for part, *_ in rows))
    figure, axes = new_figure("torch's time over ours: least, geometric mean, greatest", (7.2, 5.4))
    shifts = dict(zip(_COLOURS, (-0.15, 0.15, -0.15, 0.15), strict=True))
    for part, device, f in rows:
        _range(axes, names.index(part.what) + shifts[device], f, _COLOURS[device])
    axes.axvline(1, color="black", lw=1)
    axes.set_xscale("log")
    ratios = [p.ratio for *_, f in rows for p in f.points]
    _ratio_axis(axes.xaxis, min(ratios), max(ratios))
    axes.set_yticks(range(len(names)), [plain(n) for n in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("ratio; right of 1 ours is faster")
    used = [d for d in _COLOURS if any(device == d for _, device, _ in rows)]
    handles = [Line2D([], [], color=_COLOURS[d], marker="o", label=d) for d in used]
    axes.legend(handles=handles, fontsize=7, loc="upper right")
    return figure, [d for *_, f in rows for d in f.sources]


def _range(axes: Axes, height: float, found: Found, colour: str) -> None:
    ratios = [p.ratio for p in found.points]
    axes.plot([min(ratios), max(ratios)], [height, height], color=colour, lw=1.5)
    axes.plot([found.mean], [height], color=colour, marker="o", markersize=5)


def write(documents: Sequence[dict], folder: Path) -> list[Path]:
    """Draws all that was measured; returns the paths."""
    written = []
    drawn = [("regimes", overview(documents))]
    drawn += [(f"regime-{name}", regime(name, documents)) for name in REGIMES]
    for name, result in drawn:
        if result is not None:
            written.append(save_figure(result[0], folder / f"{name}.svg", result[1]))
    return written
