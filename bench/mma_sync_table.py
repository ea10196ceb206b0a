"""The table of rung async_mma beside CUTLASS's kernels that use the same instructions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench import results
from bench.cells import NOT_MEASURED, captions, markdown, newest, sizes_text

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
# The case's dtype, the candidate, and the share of CUTLASS's rates in bf16 that tf32's instructions
# have; bytes stand beside no peer.
KINDS = {
    "bf16": ("bfloat16", RUNG, 1.0),
    "tf32": ("float32", f"{RUNG} tf32", 0.5),
    "int8": ("int8", RUNG, None),
}
LAYOUTS = ("nn", "nt", "tn")


def _rates(cases: Sequence[dict], name: str) -> dict[tuple, float]:
    """TF/s by (M, N, K, layout)."""
    rates = {}
    for case in cases:
        record, s = results.find(case, name), case["shape"]
        if record is not None and record["seconds"]:
            work = 2 * s["m"] * s["n"] * s["k"]
            place = (s["m"], s["n"], s["k"], s["layout"])
            rates[place] = work / record["seconds"]["median"] / 1e12
    return rates


def mma_sync_table(documents: Sequence[dict]) -> str:
    """TF/s of each shape by kind and layout, and those with a peer over CUTLASS's."""
    header, summaries, sources = ["TF/s"], [], []
    rows = [[sizes_text(*sizes)] for sizes in CUTLASS]
    for kind, (dtype, name, share) in KINDS.items():

        def wanted(case: dict, dtype: str = dtype, name: str = name) -> bool:
            is_of_kind = case["set"] == "mma_sync" and case["shape"]["dtype"] == dtype
            return is_of_kind and results.find(case, name) is not None

        document, cases = newest(documents, wanted)
        if not cases:
            continue
        sources.append((kind, document))
        rates = _rates(cases, name)
        header += [f"{kind} {LAYOUTS[0]}", *LAYOUTS[1:]]
        header += [f"CUTLASS, {kind}"] * (share == 1)
        for row, (shape, peer) in zip(rows, CUTLASS.items(), strict=True):
            of_shape = [rates.get((*shape, layout)) for layout in LAYOUTS]
            row += ["-" if rate is None else f"{rate:.0f}" for rate in of_shape]
            row += [str(peer)] * (share == 1)
        over = [
            rates[(*shape, layout)] / (share * peer)
            for shape, peer in CUTLASS.items()
            for layout in LAYOUTS
            if share is not None and (*shape, layout) in rates
        ]
        if over:
            beside = "CUTLASS's" if share == 1 else f"{share:g} of CUTLASS's in bf16"
            mean = statistics.geometric_mean(over)
            summaries.append(
                f"{kind} over {beside}: {mean:.2f} in the geometric mean, {min(over):.2f} at least."
            )
    if not sources:
        return NOT_MEASURED
    return "\n\n".join((markdown(header, rows), *summaries, captions(sources)))
