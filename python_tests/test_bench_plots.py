"""Plots show every line apart from the others and every tick with room for its number; committed
ones show what the tables do."""

from __future__ import annotations

import itertools
import re

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex
from test_bench import make_case, make_document

from bench import cells, plot, regime_plots, report, results
from bench.ladder_tables import DTYPES, IDEAS
from bench.regimes import REGIMES
from bench.shapes import Shape

RUNGS = [name for name in IDEAS if name != "shared_tile"]
RUNGS += ["shared_tile_8", "shared_tile_16", "shared_tile_32"]


@pytest.fixture
def cases() -> list[dict]:
    """Of all rungs, each a third faster than the one before it."""
    times = {name: 0.75**i for i, name in enumerate([*RUNGS, "tiled.mm", "torch.mm"])}
    return [make_case("ladder", Shape(n, n, n), times) for n in (512, 1000, 1024)]


@pytest.mark.parametrize("draw", [plot.rate, plot.run_time])
def test_every_candidate_has_a_line_of_its_own(cases, draw):
    (axes,) = draw(cases, "title").axes
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == [*RUNGS, "tiled.mm", "torch.mm"]
    assert len({line.get_marker() for line in axes.lines}) == len(lines)
    assert len({to_hex(line.get_color()) for line in axes.lines}) == len(lines)
    plt.close("all")


def test_rates_far_apart_stand_apart(cases):
    """Not on the floor of a linear axis."""
    figure = plot.rate(cases, "title")
    (axes,) = figure.axes
    figure.canvas.draw()
    heights = [axes.transData.transform((512, line.get_ydata()[0]))[1] for line in axes.lines]
    height = figure.bbox.height
    assert all(b - a > height / 40 for a, b in itertools.pairwise(heights))
    assert min(heights) > 0 and max(heights) < height
    plt.close(figure)


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ((16, 64, 256, 1000, 1024), [16, 64, 256, 1024]),
        ((1023, 1024, 1025, 4095, 4096), [1024, 4096]),
        ((96, 128, 192, 256), [96, 128, 192, 256]),
        ((1000, 1010, 3000), [1000, 3000]),
        ((512, 512), [512]),
    ],
)
def test_ticks_have_room_for_their_numbers(sizes, shown):
    assert plot.ticks(sizes) == shown


def test_the_committed_plots_are_of_the_documents_of_the_tables():
    """Else a plot lacks rungs or cases that its table has."""
    documents = results.read_all(report.RESULTS)
    wanted = {}
    for dtype in DTYPES:
        of_dtype = cells.newest(
            documents,
            lambda c, d=dtype: c["set"] == "ladder" and c["shape"]["dtype"] == d,
            gpu=True,
        )
        for kind in ("rate", "run-time", "roofline"):
            wanted[f"{kind}-ladder-{dtype}"] = [of_dtype[0]]
    by_date = sorted(documents, key=lambda d: d["environment"]["date"])
    for document in by_date:
        if document.get("curves"):
            wanted["loss-curves"] = [document]
        streamed = (document.get("out_of_core") or {}).get("products", [])
        if any(product["name"] == "sweep" for product in streamed):
            wanted["copies-float32"] = [document]
    everything = report.every_document()
    drawn = {f"regime-{name}": regime_plots.regime(name, everything) for name in REGIMES}
    drawn["regimes"] = regime_plots.overview(everything)
    plt.close("all")
    wanted |= {name: of for name, (_, of) in drawn.items()}
    committed = sorted(report.PLOTS.iterdir())
    assert {*drawn, "rate-ladder-bfloat16", "loss-curves"} <= {path.stem for path in committed}
    for path in committed:
        told = re.search(r"<dc:source>(.*)</dc:source>", path.read_text(encoding="utf-8"))[1]
        assert told == plot.sources(wanted[path.stem]), f"make {path.name} anew: bench plot"
        assert path.suffix == ".svg" and path.stat().st_size <= 60_000, path.name


def test_a_plot_is_the_same_file_each_time(cases, tmp_path):
    """So that a commit shows the plots that changed, and no others."""
    document = make_document(cases, gpu="A GPU")
    texts = [
        plot.save_figure(plot.rate(cases, "title"), tmp_path / "a.svg", [document]).read_bytes()
        for _ in range(2)
    ]
    assert texts[0] == texts[1] and b"<dc:date>" not in texts[0]
