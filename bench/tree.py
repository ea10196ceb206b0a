"""The tree order of sums beside one chain and torch: `python -m bench.tree`.

A large product with 2, 4 and 8 leaves; few rows with a layer's weight; and small results of a long
K, drawn by the seed, where leaves are what fills the GPU. Every tree is checked: some rows must
have the bits of their leaves' products, added one by one.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import tiled_mm
import torch
import typer
from rich.console import Console
from torch import Tensor

from bench import cli
from bench.arguments import (
    DeviceOption,
    DivideOption,
    FileOption,
    LimitOption,
    OnlyOption,
    pick_device,
)
from bench.candidates import Call
from bench.data import make_sets
from bench.shapes import Shape
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds, Stopwatch, interleave

console = Console()

LARGE = (8192, 4096, 14336)
ORDERS = ("tree:4096", "tree:2048", "tree")  # of 2, 4 and 8 leaves there
ROWS = (1, 16, 64)
SMALL = 40  # that are drawn


@dataclass(frozen=True)
class Case:
    kind: str  # large, rows or small
    dtype: str
    precision: str | None
    m: int
    n: int
    k: int
    orders: tuple[str, ...] = ("tree",)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.precision or self.dtype} {self.m}x{self.n}x{self.k}"

    def options(self, order: str) -> dict:
        asked = {"precision": self.precision, "sum_order": order}
        return {key: value for key, value in asked.items() if value is not None}


def cases(seed: int) -> Iterator[Case]:
    for dtype, precision in (("bfloat16", None), ("float32", "ieee"), ("float32", "fp16x3")):
        yield Case("large", dtype, precision, *LARGE, ORDERS)
        for m in ROWS:
            yield Case("rows", dtype, precision, m, *LARGE[1:])
    rng = random.Random(seed)
    for _ in range(SMALL):
        m, n, k = rng.randint(1, 512), rng.randint(1, 512), rng.randint(4096, 32767)
        for dtype in ("bfloat16", "float32", "float64"):
            yield Case("small", dtype, "ieee" if dtype == "float32" else None, m, n, k)


def parts_of(begin: int, end: int, leaf: int, unit: int) -> list:
    """The tree of docs/contract.md, as nested pairs of parts of K."""
    k = end - begin
    if k < 2 * max(leaf, unit):
        return [begin, end]
    half = begin + unit * -(-k // (2 * unit))
    return [parts_of(begin, half, leaf, unit), parts_of(half, end, leaf, unit)]


def check(case: Case, order: str, a: Tensor, b: Tensor, c: Tensor) -> None:
    """Ends the run where the first rows are not the sums of their leaves' products."""
    rows = a[: min(8, case.m)]
    unit = 64 if case.precision == "fp16x3" and a.is_cuda else 16  # a CPU computes by chains
    leaf = int(order.partition(":")[2] or 1024)
    wide = torch.float32 if case.dtype == "bfloat16" else a.dtype

    def sum_of(part: list) -> Tensor:
        if isinstance(part[0], list):
            return sum_of(part[0]) + sum_of(part[1])
        k = slice(*part)
        return tiled_mm.mm(rows[:, k], b[k], out_dtype=wide, **case.options("chain"))

    if not torch.equal(sum_of(parts_of(0, case.k, leaf, unit)).to(c.dtype), c[: len(rows)]):
        raise RuntimeError(f"a wrong result: {case.name}, {order}")


def calls_of(case: Case) -> dict[str, Call]:
    def ours(order: str) -> Call:
        options = case.options(order)
        return lambda a, b, out: torch.ops.tiled.mm(a, b, **options)

    found = {order: ours(order) for order in ("chain", *case.orders)}
    return found | {"torch": lambda a, b, out: torch.mm(a, b, out=out)}


def measure(case: Case, device: torch.device, seed: int, rounds: Rounds) -> dict:
    """One record: the seconds of every order and of torch's. A layer's weight is [N, K]."""
    stopwatch: Stopwatch = CpuStopwatch() if device.type == "cpu" else CudaStopwatch(device)
    layout = "nn" if case.kind == "small" else "nt"
    shape = Shape(case.m, case.n, case.k, layout, case.dtype)
    sets = make_sets(shape, device, stopwatch.set_count(shape.bytes), seed)
    calls = calls_of(case)
    for order in case.orders:
        first = sets[0]
        check(case, order, first.a, first.b, calls[order](first.a, first.b, first.out))
    prepared = {name: stopwatch.prepare(call, sets) for name, call in calls.items()}
    found = interleave(stopwatch, prepared, rounds, random.Random(seed))
    seconds = {name: statistics.median(times) for name, times in found.items()}
    record = asdict(case) | {"name": case.name, "seed": seed, "seconds": seconds}
    return record | {"orders": list(case.orders)}


def divided(case: Case, by: int) -> Case:
    """A small one, to try the program."""
    if by == 1:
        return case
    return replace(case, m=max(1, case.m // by), n=max(1, case.n // by))


def line_of(record: dict) -> str:
    seconds = record["seconds"]
    parts = [f"torch {seconds['torch'] * 1e6:.1f} µs, chain {seconds['chain'] * 1e6:.1f}"]
    for order in record["orders"]:
        mine = seconds[order]
        parts.append(
            f"{order} {mine * 1e6:.1f}: {seconds['chain'] / mine:.3f} of the chain's speed, "
            f"{seconds['torch'] / mine:.3f} of torch's"
        )
    return f"{record['name']}: {'; '.join(parts)}"


def summary(records: list[dict]) -> Iterator[str]:
    """Geomeans and least ratios of the small results, by dtype."""
    small = [r for r in records if r["kind"] == "small"]
    for dtype in dict.fromkeys(r["dtype"] for r in small):
        parts = []
        for peer in ("chain", "torch"):
            found = [
                r["seconds"][peer] / r["seconds"]["tree"] for r in small if r["dtype"] == dtype
            ]
            mean = statistics.geometric_mean(found)
            parts.append(f"of {peer}'s speed: geomean {mean:.3f}, least {min(found):.3f}")
        yield f"small {dtype}: {'; '.join(parts)}"


def main(
    device_name: DeviceOption = "auto",
    json_path: FileOption = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    divide: DivideOption = 1,
    seed: Annotated[int, typer.Option(help="of sizes and data")] = 7,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each case")] = 0.1,
) -> None:
    """Measures the tree order of sums."""
    device = pick_device(device_name)
    document = cli.new_document("tree", device, {"seed": seed, "divide": divide})
    document["tree"] = []
    for case in cli.cases_within(cases(seed), only, limit, device):
        record = measure(divided(case, divide), device, seed, Rounds(5, 40, budget))
        document["tree"].append(record)
        console.print(line_of(record), highlight=False, markup=False)
        cli.keep(document, json_path)
    for text in summary(document["tree"]):
        console.print(text, highlight=False, markup=False)


if __name__ == "__main__":
    typer.run(main)
