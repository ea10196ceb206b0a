"""The README's table of figures: a line for each thing that a reader may want to know first, the
losses among them. All other tables are in docs/performance.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import results
from bench.cells import device_name, markdown, newest, rate_text, ratio_number, seconds_text, wrong
from bench.decode_table import newest_decode, ratio

Cells = tuple[str, str, str, str]  # ours, torch.mm's, ratio, device


@dataclass(frozen=True)
class Product:
    """A case of bench.runner's."""

    what: str
    set_name: str
    dtype: str
    sizes: tuple[int, int, int]
    layout: str = "nn"
    mode: str = "burst"

    def cells(self, documents: Sequence[dict]) -> Cells | None:
        def wanted(case: dict) -> bool:
            s = case["shape"]
            place = (case["set"], s["dtype"], (s["m"], s["n"], s["k"]), s["layout"], case["mode"])
            mine = (self.set_name, self.dtype, self.sizes, self.layout, self.mode)
            return place == mine and case["cache"] == "cold"

        found = newest(documents, wanted, gpu=True)
        if found is None:
            return None
        document, (case, *_) = found
        ours = next((c for c in case["candidates"] if c["ours"] and c["seconds"]), None)
        peer = results.find(case, case["peer"] or "")
        return (
            _rate(ours),
            _rate(peer),
            "-" if ours is None or wrong(ours) else _ratio(ours),
            device_name(document),
        )


@dataclass(frozen=True)
class FewRows:
    """A case of bench.decode's, whose weight lies along K."""

    what: str
    dtype: str
    sizes: tuple[int, int, int]

    def cells(self, documents: Sequence[dict]) -> Cells | None:
        document = newest_decode(documents, self.dtype, split_k=True)
        of_all = document["decode"] if document else []
        mine = (self.dtype, self.sizes, "nt")
        found = [c for c in of_all if (c["dtype"], (c["m"], c["n"], c["k"]), c["layout"]) == mine]
        if not found:
            return None
        m, n, k = self.sizes
        seconds = found[0]["seconds"]
        rates = (f"{2e-12 * m * n * k / seconds[side]:.3g} TF/s" for side in ("tiled", "torch"))
        return (*rates, ratio_number(ratio(found[0])), device_name(document))


@dataclass(frozen=True)
class HostTime:
    what: str
    name: str  # of the candidate

    def cells(self, documents: Sequence[dict]) -> Cells | None:
        found = newest(documents, lambda c: c["set"] == "host" and not c["grad"], gpu=True)
        if found is None:
            return None
        document, (case, *_) = found
        ours, peer = results.find(case, self.name), results.find(case, case["peer"] or "")
        texts = (seconds_text(r["seconds"]["median"]) if r else "-" for r in (ours, peer))
        return (*texts, _ratio(ours), f"{device_name(document)}'s host")


@dataclass(frozen=True)
class CpuGroup:
    """A group of bench.cpu_table's, in the geometric mean, on the most threads of the newest."""

    what: str
    group: str

    def cells(self, documents: Sequence[dict]) -> Cells | None:
        found = [
            d
            for d in documents
            if d.get("cpu") and any(line["group"] == self.group for line in d["cpu"]["summary"])
        ]
        if not found:
            return None
        last = max(found, key=lambda d: d["environment"]["date"])
        of_device = [d for d in found if device_name(d) == device_name(last)]
        document = max(of_device, key=lambda d: (d["cpu"]["threads"], d["environment"]["date"]))
        cases = [c for c in document["cpu"]["cases"] if c["group"] == self.group]
        rates = (
            f"{statistics.geometric_mean(c[f'{side}_gflops'] for c in cases):.0f} GF/s"
            for side in ("tiled", "torch")
        )
        ratio = math.exp(statistics.fmean(math.log(c["ratio"]) for c in cases))
        device = f"{device_name(document)}, {document['cpu']['threads']} threads"
        return (*rates, ratio_number(ratio), device)


def _rate(record: dict | None) -> str:
    text = rate_text(record, 1e12)
    return text if text.startswith(("-", "**")) else f"{text} TF/s"


def _ratio(record: dict | None) -> str:
    return ratio_number(record["ratio"]["median"]) if record and record["ratio"] else "-"


ROWS: tuple[Product | FewRows | HostTime | CpuGroup, ...] = (
    Product("bf16, 8192³, sustained", "large16", "bfloat16", (8192, 8192, 8192), mode="sustained"),
    Product("bf16, 4095³, unaligned", "unaligned16", "bfloat16", (4095, 4095, 4095)),
    FewRows("bf16, few rows: 16x4096x4096", "bfloat16", (16, 4096, 4096)),
    Product("fp32 `ieee`, 4096³, sustained", "ieee", "float32", (4096,) * 3, mode="sustained"),
    Product("fp32 `ieee`, small and deep: 64x64x65536", "deep", "float32", (64, 64, 65536)),
    # Not sustained: beside fp16x3 the power limit slows torch.mm down too.
    Product("fp32 `fp16x3`, 4096³", "fp16x3", "float32", (4096,) * 3),
    Product("fp32 `tf32`, 8192³, beside torch's tf32", "tf32", "float32", (8192,) * 3),
    Product("fp64, 4096³, sustained", "fp64", "float64", (4096,) * 3, mode="sustained"),
    HostTime("host time of a call", "torch.ops.tiled.mm"),
    CpuGroup("CPU, fp32, squares of 64 to 2048", "fp32"),
    CpuGroup("CPU, fp32, squares of 256 to 4096", "host-fp32"),
    CpuGroup("CPU, bf16 (AMX), squares of 256 to 4096", "host-bf16"),
)


def headline_table(documents: Sequence[dict]) -> str:
    rows = [[row.what, *(row.cells(documents) or ("-",) * 4)] for row in ROWS]
    header = ["M x N x K", "ours", "torch.mm's", "ratio", "device"]
    table = markdown(header, rows)
    return (
        f"{table}\n\n<sub>From {_span(documents)}; the dates and commits of each run stand in "
        "[docs/performance.md](docs/performance.md).</sub>"
    )


def _span(documents: Sequence[dict]) -> str:
    dates = sorted(d["environment"]["date"][:10] for d in documents)
    return f"the results of {dates[0]} to {dates[-1]}" if dates else "no results"


TABLES: dict[str, Callable[[Sequence[dict]], str]] = {"headline": headline_table}
