"""The regimes: kinds of products that are fast or slow for one reason, each with the cards and CPUs
that it was measured on. The README's table and docs/performance.md's have a row for each part of a
regime; bench/regime_plots.py draws them. All single cases are in docs/tables/."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bench import results
from bench.cells import (
    NOT_MEASURED,
    device_name,
    last,
    markdown,
    newest,
    ratio_number,
    sizes_text,
    wrong,
)
from bench.decode_table import newest_decode

CARDS = {"H100": "NVIDIA H100 80GB HBM3", "H200": "NVIDIA H200"}
CPUS = {"Zen 5, 2 threads": ("AMD EPYC", 2)}
CPUS["Sapphire Rapids, 16 threads"] = ("Intel(R) Xeon(R) Processor", 16)


@dataclass(frozen=True)
class Point:
    """One measured case. `at` is its place on the plot's axis; rates are in operations a second."""

    label: str
    at: float
    work: float
    ratio: float  # torch's time over ours
    ours: float
    theirs: float


@dataclass(frozen=True)
class Found:
    """The cases of a part on one device, and the documents that hold them."""

    points: list[Point]
    sources: list[dict]

    @property
    def mean(self) -> float:
        return statistics.geometric_mean(p.ratio for p in self.points)

    @property
    def least(self) -> Point:
        return min(self.points, key=lambda p: p.ratio)

    @property
    def largest(self) -> Point:
        return max(self.points, key=lambda p: p.work)


@dataclass(frozen=True)
class Products:
    """Cases of bench.runner's, one set and dtype in one mode."""

    what: str
    set_name: str
    dtype: str
    mode: str = "burst"

    def find(self, documents: Sequence[dict], device: str) -> Found | None:
        def wanted(case: dict) -> bool:
            chosen = case["set"] == self.set_name and case["shape"]["dtype"] == self.dtype
            return chosen and case["mode"] == self.mode and case["cache"] == "cold"

        document, cases = newest(_of(documents, device), wanted)
        points = [p for p in map(_product, cases) if p is not None]
        return Found(points, [document]) if points else None


def _of(documents: Sequence[dict], card: str) -> list[dict]:
    return [d for d in documents if device_name(d) == CARDS.get(card)]


def _product(case: dict) -> Point | None:
    ours = next((c for c in case["candidates"] if c["ours"] and c["seconds"]), None)
    peer = results.find(case, case["peer"] or "")
    if ours is None or peer is None or ours["ratio"] is None or wrong(ours):
        return None
    label, work = _label_and_work(case["shape"])
    return Point(label, work, work, ours["ratio"]["median"], ours["flops"], peer["flops"])


@dataclass(frozen=True)
class FewRows:
    """Cases of bench.decode's in one dtype, over the number of rows."""

    what: str
    dtype: str

    def find(self, documents: Sequence[dict], device: str) -> Found | None:
        document, cases = newest_decode(_of(documents, device), self.dtype, split_k=True)
        points = []
        for c in cases:
            label, work = _label_and_work(c)
            ours, theirs = c["seconds"]["tiled"], c["seconds"]["torch"]
            points.append(Point(label, c["m"], work, theirs / ours, work / ours, work / theirs))
        return Found(points, [document]) if points else None


@dataclass(frozen=True)
class Grouped:
    """Cases of bench.grouped's that torch has too, of one work in bf16, over the tokens."""

    what: str
    works: tuple[str, ...]

    def find(self, documents: Sequence[dict], device: str) -> Found | None:
        document, cases = newest(_of(documents, device), part="grouped")
        points = [
            Point(
                c["name"],
                c["tokens"],
                c["tflops"] * 1e12 * c["seconds"]["tiled"],
                c["ratio"],
                c["tflops"] * 1e12,
                c["tflops"] * 1e12 / c["ratio"],
            )
            for c in cases
            if c["work"] in self.works and c["dtype"] == "bfloat16" and "torch" in c["seconds"]
        ]
        return Found(points, [document]) if points else None


@dataclass(frozen=True)
class Scaled:
    """Products of bench.scaled's that torch has too, of these recipes and numbers of rows, over the
    number of rows. torch's sums are its accurate ones."""

    what: str
    recipes: tuple[str, ...]
    rows: tuple[int, ...]

    def find(self, documents: Sequence[dict], device: str) -> Found | None:
        document, cases = newest(
            _of(documents, device), lambda r: r["work"] == "product", part="scaled"
        )
        points = []
        for c in cases:
            if c["recipe"] not in self.recipes or c["m"] not in self.rows or c["ratio"] is None:
                continue
            sizes, rate = sizes_text(c["m"], c["n"], c["k"]), c["tflops"] * 1e12
            work = 2.0 * c["m"] * c["n"] * c["k"]
            label = f"{sizes} {c['recipe']}"
            points.append(Point(label, c["m"], work, c["ratio"], rate, rate / c["ratio"]))
        return Found(points, [document]) if points else None


@dataclass(frozen=True)
class OnCpu:
    """Groups of bench.cpu_table's, one for each CPU's name."""

    what: str
    groups: tuple[str, ...]

    def find(self, documents: Sequence[dict], device: str) -> Found | None:
        name, threads = CPUS.get(device, ("", 0))

        def cases_of(document: dict) -> list[dict]:
            return [c for c in document["cpu"]["cases"] if c["group"] in self.groups]

        of_cpu = [d for d in documents if d.get("cpu") and device_name(d) == name]
        document = last(d for d in of_cpu if d["cpu"]["threads"] == threads and cases_of(d))
        if document is None:
            return None
        points = []
        for c in cases_of(document):
            label, work = _label_and_work(c)
            rates = (c["tiled_gflops"] * 1e9, c["torch_gflops"] * 1e9)
            points.append(Point(label, work, work, c["ratio"], *rates))
        return Found(points, [document])


def _label_and_work(sizes: dict) -> tuple[str, float]:
    """The name of a product on plots and in tables, and its operations."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    return f"{sizes_text(m, n, k)} {sizes['layout']}", 2.0 * m * n * k


Part = Products | FewRows | Grouped | Scaled | OnCpu


@dataclass(frozen=True)
class Regime:
    """What one plot shows: its title, its parts, and the name of its x axis; `ranges` where many
    cases have one place on it, so that means and ranges are drawn instead of cases."""

    title: str
    parts: tuple[Part, ...]
    axis: str = "operations of a product, 2 M N K"
    devices: tuple[str, ...] = field(default=tuple(CARDS))
    ranges: bool = False


REGIMES: dict[str, Regime] = {
    "large": Regime(
        "large, at the power limit",
        (Products("bf16, large, sustained", "large16_drawn", "bfloat16", "sustained"),),
    ),
    "middle": Regime(
        "middle sizes, cold caches",
        (Products("bf16, middle", "middle16_drawn", "bfloat16"),),
    ),
    "few-rows": Regime(
        "1 to 64 rows, cold caches",
        (FewRows("bf16, 1 to 64 rows", "bfloat16"), FewRows("fp32, 1 to 64 rows", "float32")),
        axis="rows, M",
        ranges=True,
    ),
    "unaligned": Regime(
        "rows that TMA cannot read, cold caches",
        (Products("bf16, unaligned", "unaligned16", "bfloat16"),),
    ),
    "deep": Regime(
        "small C, deep K, cold caches",
        (
            Products("bf16, deep K", "deep", "bfloat16"),
            Products("fp32, deep K", "deep", "float32"),
            Products("fp64, deep K", "deep", "float64"),
        ),
    ),
    "tall": Regime(
        "tall and thin, cold caches",
        (
            Products("bf16, tall and thin", "tall", "bfloat16"),
            Products("fp32, tall and thin", "tall", "float32"),
        ),
    ),
    "fp32": Regime(
        "fp32, cold caches",
        (
            Products("fp32 `ieee`", "ieee_drawn", "float32"),
            Products("fp32 `tf32`, beside torch's tf32", "tf32", "float32"),
        ),
    ),
    "fp16x3": Regime(
        "fp32 by `fp16x3`, cold caches",
        (Products("fp32 `fp16x3`, beside torch's fp32", "fp16x3", "float32"),),
    ),
    "fp64": Regime("fp64, cold caches", (Products("fp64", "fp64_drawn", "float64"),)),
    "complex": Regime(
        "complex numbers, cold caches",
        (
            Products("complex64", "complex", "complex64"),
            Products("complex128", "complex", "complex128"),
        ),
    ),
    "grouped": Regime(
        "a mixture's experts, bf16",
        (
            Grouped("bf16, grouped, forward", ("forward",)),
            Grouped("bf16, grouped, backward", ("dgrad", "wgrad", "main_grad")),
        ),
        axis="tokens",
        ranges=True,
    ),
    "scaled": Regime(
        "fp8 with scales, cold caches",
        (
            Scaled("fp8, 4096 rows", ("tensorwise", "rowwise", "blockwise"), (4096,)),
            Scaled("fp8 tensor-wise, 1 to 16 rows", ("tensorwise",), (1, 2, 16)),
            Scaled("fp8 by rows or blocks, 1 to 16 rows", ("rowwise", "blockwise"), (1, 2, 16)),
        ),
        axis="rows, M",
        ranges=True,
    ),
    "cpu": Regime(
        "squares on CPUs",
        (
            OnCpu("CPU, fp32, squares", ("fp32", "host-fp32")),
            OnCpu("CPU, fp64, squares", ("fp64", "host-fp64")),
            OnCpu("CPU, bf16, squares", ("bf16", "host-bf16")),
        ),
        devices=tuple(CPUS),
    ),
}

HEADLINE = ("large", "middle", "unaligned", "few-rows", "deep", "fp32", "fp16x3", "fp64")


# ---- tables ------------------------------------------------------------------------------------


def rate_of(flops: float) -> str:
    unit, scale = ("TF/s", 1e12) if flops >= 1e11 else ("GF/s", 1e9)
    return f"{flops / scale:.3g} {unit}"


def headline_card(documents: Sequence[dict]) -> str:
    """The card whose figures of the headline's products are the newest."""

    def newest_of(card: str) -> str:
        found = (REGIMES[name].parts[0].find(documents, card) for name in HEADLINE)
        return max((d["environment"]["date"] for f in found if f for d in f.sources), default="")

    return max(CARDS, key=newest_of)


def headline_table(documents: Sequence[dict]) -> str:
    """The first part of each regime that a newcomer asks for, on one card, with the largest product
    of it, and how many products are slower than torch's by more than a twentieth."""
    card = headline_card(documents)
    rows, sources = [], []
    for part in (REGIMES[name].parts[0] for name in HEADLINE):
        found = part.find(documents, card)
        if found is None:
            rows.append([part.what, *("-",) * 6])
            continue
        largest = found.largest
        slower = sum(round(p.ratio, 2) < 0.95 for p in found.points)
        rows.append(
            [
                part.what,
                f"{ratio_number(found.mean)} ({len(found.points)})",
                str(slower),
                ratio_number(found.least.ratio),
                largest.label,
                rate_of(largest.ours),
                rate_of(largest.theirs),
            ]
        )
        sources += found.sources
    header = ["products", "mean ratio (cases)", "below 0.95", "least", "the largest", "ours"]
    header.append("torch.mm's")
    return markdown(header, rows) + "\n\n" + _sub(sources)


def regimes_table(documents: Sequence[dict], devices: Iterable[str] = CARDS) -> str:
    """Every part of every regime: geometric mean, least ratio and where, on each device."""
    devices = list(devices)
    rows, sources = [], []
    for regime in REGIMES.values():
        for part in regime.parts:
            found = [part.find(documents, d) for d in devices]
            if not any(found):
                continue
            row = [part.what]
            for f in found:
                if f is None:
                    row += ["-", "-", "-"]
                    continue
                sources += f.sources
                row += [f"{ratio_number(f.mean)} ({len(f.points)})", ratio_number(f.least.ratio)]
                row.append(f.least.label)
            rows.append(row)
    if not rows:
        return NOT_MEASURED
    header = ["products"]
    for device in devices:
        header += [f"{device}: mean (cases)", "least", "at"]
    return markdown(header, rows) + "\n\n" + _sub(sources)


def _sub(sources: Sequence[dict]) -> str:
    """The machines and versions, with every commit once."""
    by_machine: dict[str, list[str]] = {}
    for document in sources:
        e = document["environment"]
        parts = [device_name(document), f"torch {e['torch']}"]
        parts += [f"cuBLAS {e['cublas']}"] if e["gpu"] else []
        runs = by_machine.setdefault(", ".join(parts), [])
        run = f"{(e['commit'] or '-')[:12]} of {e['date'][:10]}"
        if run not in runs:
            runs.append(run)
    texts = (f"{machine}: {', '.join(sorted(runs))}" for machine, runs in by_machine.items())
    return f"<sub>Commits: {'; '.join(texts)}</sub>"


# These take the documents of every folder, a card's own included.
TABLES: dict[str, Callable[[Sequence[dict]], str]] = {
    "headline": headline_table,
    "regimes": regimes_table,
    "regimes-cpu": lambda documents: regimes_table(documents, CPUS),
}
