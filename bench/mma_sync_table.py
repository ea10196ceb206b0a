"""The table of rung async_mma beside CUTLASS's kernels that use the same instructions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench import results
from bench.cells import NOT_MEASURED, caption, markdown, newest

# TF/s of the best of six kernels that CUTLASS 2.x has for compute capability 8.0, in bf16, nn, nt
# and tn alike: measured on an H200, sustained.
CUTLASS = {
    (512, 512, 512): 27,
    (1024, 1024, 1024): 165,
    (2048, 2048, 2048): 380,
    (4096, 4096, 4096): 414,
    (8192, 8192, 8192): 434,
    (128, 4096, 4096): 130,
    (512, 4096, 4096): 345,
    (2048, 4096, 14336): 446,
}
RUNG = "async_mma"


def _rate(case: dict, name: str) -> float | None:
    record = results.find(case, name)
    if record is None or not record["seconds"]:
        return None
    s = case["shape"]
    return 2 * s["m"] * s["n"] * s["k"] / record["seconds"]["median"] / 1e12


def mma_sync_table(documents: Sequence[dict]) -> str:
    """TF/s of each shape by layout, and bf16 over CUTLASS's."""

    def wanted(case: dict) -> bool:
        return case["set"] == "mma_sync" and results.find(case, RUNG) is not None

    found = newest(documents, wanted, gpu=True)
    if found is None:
        return NOT_MEASURED
    document, cases = found
    rates = {
        (c["shape"]["dtype"], *(c["shape"][x] for x in "mnk"), c["shape"]["layout"]): _rate(c, RUNG)
        for c in cases
    }
    rows, over = [], []
    for (m, n, k), peer in CUTLASS.items():
        row = [f"{m}³" if m == n == k else f"{m}x{n}x{k}"]
        for dtype in ("bfloat16", "int8"):
            for layout in ("nn", "nt", "tn"):
                rate = rates.get((dtype, m, n, k, layout))
                row.append("-" if rate is None else f"{rate:.0f}")
                if dtype == "bfloat16" and rate is not None:
                    over.append(rate / peer)
        rows.append([*row[:4], str(peer), *row[4:]])
    header = ["TF/s", "bf16 nn", "nt", "tn", "CUTLASS, bf16", "int8 nn", "nt", "tn"]
    mean = math.exp(statistics.fmean(map(math.log, over))) if over else math.nan
    summary = f"bf16 over CUTLASS's: {mean:.2f} in the geometric mean, {min(over):.2f} at least."
    return "\n\n".join((markdown(header, rows), summary, caption(document)))
