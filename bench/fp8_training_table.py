"""The tables of bench.fp8_training's documents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.cells import NOT_MEASURED, last, of_gpu, table


def _newest(documents: Sequence[dict]) -> dict | None:
    return last(d for d in documents if d.get("fp8_training") and of_gpu(d))


def loss_table(documents: Sequence[dict]) -> str:
    """The loss at the end of each kind's runs, and how far the same seed's losses are apart."""
    document = _newest(documents)
    if document is None:
        return NOT_MEASURED
    ends: dict[str, dict[int, float]] = {"bf16": {}}  # first: what the others are held against
    for run in document["fp8_training"]["runs"]:
        ends.setdefault(run["kind"], {})[run["seed"]] = run["losses"][-1]
    first = next(iter(ends))
    rows = []
    for kind, by_seed in ends.items():
        losses = list(by_seed.values())
        apart = max(abs(loss - ends[first][seed]) for seed, loss in by_seed.items())
        cells = [f"{x:.4f}" for x in (statistics.mean(losses), min(losses), max(losses))]
        rows.append([kind, str(len(losses)), *cells, "-" if kind == first else f"{apart:.4f}"])
    steps = document["settings"]["steps"]
    header = ["products", "seeds", f"mean loss after {steps} steps", "least", "largest"]
    header.append(f"farthest from the same seed's {first}")
    return table(header, rows, document)


def step_table(documents: Sequence[dict]) -> str:
    document = _newest(documents)
    if document is None or not document["fp8_training"]["step"]:
        return NOT_MEASURED
    seconds, sizes = document["fp8_training"]["step"], document["settings"]["timed"]
    names = {"torch": "torch, bf16", "tiled": "ours, bf16", "fp8": "ours, fp8"}
    what = f"{sizes['depth']} blocks {sizes['width']} wide, "
    what += f"{sizes['sequences'] * sizes['length']} tokens"
    rows = [
        [names[name], f"{time * 1e3:.1f}", f"{seconds['torch'] / time:.2f}"]
        for name, time in seconds.items()
    ]
    return table([what, "ms a step", "torch's time / ours"], rows, document)


TABLES = {"fp8-loss": loss_table, "fp8-step": step_table}
