"""One answer under attack, for as long as you like:

    python python_tests/attack_bits.py [--order tree:64] [--seconds 60] [--seed 0] [--json FILE]

Every round draws a product (dtype, precision, sizes, layouts, the order of its sums) and computes
it once; then parts of it, more than it, and all of it by other ways. docs/contract.md promises that
no element has other bits in any of them. The closing table counts; the exit status tells.

A round is reproducible by its number: --seed S --round R runs that one alone. --device cpu
rehearses the attack without a GPU, by the library's CPU kernels.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import cases
import rungs
import tiled_mm
import torch
import trees
import typer
from golden import same_bits
from torch import Tensor

SIZES = (*range(1, 34), 40, 63, 64, 65, 96, 100, 127, 128, 129, 200, 256, 264, 300)
WIDE = (512, 700, 1030, 2100)
DEPTHS = (1, 7, 32, 33, 64, 100, 127, 128, 257, 640, 1000, 1024, 1500, 2048, 3001, 4096, 6000)
DEEP = (20000, 32767, 32768, 40001)
LEAVES = (16, 64, 512, 1024)
# How many cases.laid_out and cases.outputs have.
LAYOUTS, OUTPUTS = 14, 16
# What is multiplied, and whether a CPU has it.
ARITHMETICS: dict[tuple[torch.dtype, str | None], bool] = {
    (torch.bfloat16, None): True,
    (torch.float16, None): True,
    (torch.float32, "ieee"): True,
    (torch.float32, "tf32"): False,
    (torch.float32, "fp16x3"): False,
    (torch.float64, None): True,
    (torch.bfloat16, "ieee"): True,
    (torch.complex64, None): True,
}

Other = tuple[str, Tensor, Tensor]  # how it was computed, its bits, and those that are expected


@dataclass
class Product:
    """A product that was drawn, and what it is asked with."""

    a: Tensor
    b: Tensor
    asked: dict[str, Any]

    def mm(self, a: Tensor, b: Tensor, **more: Any) -> Tensor:
        return tiled_mm.mm(a, b, **self.asked, **more)


@dataclass
class Tally:
    rounds: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    reports: list[str] = field(default_factory=list)


def draw_product(draw: random.Random, device: torch.device, order: str | None) -> Product:
    on_gpu = device.type == "cuda"
    kinds = [kind for kind, on_cpu in ARITHMETICS.items() if on_gpu or on_cpu]
    dtype, precision = draw.choice(kinds)
    m, n = draw.choice(SIZES), draw.choice(SIZES)
    if on_gpu and draw.random() < 0.3:
        m, n = draw.choice(((m, draw.choice(WIDE)), (draw.choice(WIDE), n)))
    deep = on_gpu and m * n < 20_000 and draw.random() < 0.1
    k = draw.choice(DEEP if deep else DEPTHS if on_gpu else DEPTHS[:9])
    generator = torch.Generator(device).manual_seed(draw.randrange(2**62))
    a, b = numbers(draw, generator, (m, k), dtype), numbers(draw, generator, (k, n), dtype)
    a, b = (laid_out(draw, x)[1] for x in (a, b))
    tree = f"tree:{draw.choice(LEAVES)}"
    asked: dict[str, Any] = {"sum_order": order or draw.choice(("chain", tree))}
    if precision:
        asked["precision"] = precision
    if dtype in cases.HALVES and draw.random() < 0.7:
        asked["out_dtype"] = torch.float32  # whose bits a rounding to 16 does not hide
    return Product(a, b, asked)


def numbers(
    draw: random.Random, generator: torch.Generator, size: tuple[int, int], dtype: torch.dtype
) -> Tensor:
    """Normal or positive numbers, of one size or of many, so that the order of sums shows."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    on_device = {"generator": generator, "device": generator.device}
    x = torch.randn(size, dtype=wide, **on_device)
    if draw.random() < 0.3:
        x = x.abs().to(wide)
    if draw.random() < 0.5:
        x *= torch.exp2(torch.randint(-6, 7, size, **on_device))
    return x.to(dtype)


def laid_out(draw: random.Random, x: Tensor) -> tuple[str, Tensor]:
    """The same matrix in another place, and which."""
    return next(itertools.islice(cases.laid_out(x), draw.randrange(LAYOUTS), None))


def others(draw: random.Random, product: Product, c: Tensor) -> Iterator[Other]:
    """The elements of C computed otherwise."""
    a, b = product.a, product.b
    (m, k), n = a.shape, b.shape[1]

    def part(size: int) -> slice:
        length = min(size, draw.choice((1, 2, 8, 17, 64, size)))
        begin = draw.randrange(size - length + 1)
        return slice(begin, begin + length)

    rows, columns = part(m), part(n)
    yield "some rows", product.mm(a[rows], b), c[rows]
    yield "some columns", product.mm(a, b[:, columns]), c[:, columns]
    yield "a part", product.mm(a[rows], b[:, columns]), c[rows, columns]
    order = torch.tensor(draw.sample(range(m), m), device=a.device)
    yield "rows in another order", product.mm(a[order], b), c[order]
    more = draw.choice((1, 40, 128, 300))
    neighbours = torch.full((more, k), draw.choice((1.0, torch.inf, torch.nan)), dtype=a.dtype)
    below = torch.cat((a, neighbours.to(a.device)))
    yield "more rows", product.mm(below, b)[:m], c
    yield "more columns", product.mm(a, torch.cat((b, below[-1:].t().expand(k, more)), 1))[:, :n], c
    if product.asked.get("precision") != "fp16x3":  # which is not promised there
        yield "swap_ab", product.mm(b.t(), a.t()).t(), c
    for _ in range(2):
        (name_a, x), (name_b, y) = laid_out(draw, a), laid_out(draw, b)
        yield f"layouts: {name_a}, {name_b}", product.mm(x, y), c
    entries = draw.choice((2, 3, 7))
    batch = torch.stack([a] + [a.flip(0)] * (entries - 1))
    weights = draw.choice((b.expand(entries, k, n), torch.stack([b] * entries)))
    whole = tiled_mm.bmm(batch, weights, **product.asked)
    yield "an entry of a batch", whole[0], c
    yield "its last entry", whole[-1], c.flip(0)
    outputs = cases.outputs(m, n, c.dtype, str(a.device))
    name, _, out = next(itertools.islice(outputs, draw.randrange(OUTPUTS), None))
    yield f"out: {name}", product.mm(a, b, out=out), c
    yield "linear", tiled_mm.linear(a, b.t(), **product.asked), c
    if a.is_cuda:
        yield "again", product.mm(a, b), c
        yield "in a graph", replayed(lambda: product.mm(a, b)), c
        yield from by_tiles(draw, product, c)


def replayed(call: Callable[[], Tensor]) -> Tensor:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    graph.replay()
    return result


def by_tiles(draw: random.Random, product: Product, c: Tensor) -> Iterator[Other]:
    """Some ways of some rungs, by name, where they have the arithmetic of the planner's choice."""
    a, b = product.a, product.b
    arithmetic = tiled_mm.plan(a, b, **product.asked).arithmetic
    for algo in draw.sample(rungs.ENGINE, 3):
        asked = {"algo": algo, **product.asked}
        try:
            plan = tiled_mm.plan(a, b, **asked)
        except (RuntimeError, ValueError):  # not for these inputs
            continue
        # Of a tree whose leaves are separate products it is the plan of one.
        if plan.k < a.shape[1] or plan.arithmetic != arithmetic:
            continue
        ways = rungs.ways_of(a, b, **asked)
        for way in draw.sample(ways, min(2, len(ways))):
            got = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked)
            yield f"tile: {algo} {way}", got, c


def run_round(tally: Tally, seed: int, number: int, device: str, order: str | None) -> None:
    draw = random.Random(f"{seed} {number}")
    product = draw_product(draw, torch.device(device), order)
    c = product.mm(product.a, product.b)
    tally.rounds += 1
    (m, k), n = product.a.shape, product.b.shape[1]
    what = f"round {number}: {m} x {n} x {k} of {product.a.dtype}, {product.asked}"
    for other in (*by_hand(product, c), *others(draw, product, c)):
        count(tally, other, what)


def by_hand(product: Product, c: Tensor) -> Iterator[Other]:
    """A tree by its leaves, which are products by one chain, and their sums."""
    order, precision = product.asked["sum_order"], product.asked.get("precision")
    if order != "chain" and precision is None and c.dtype == trees.sum_dtype(product.a.dtype):
        leaf = int(order.removeprefix("tree:"))
        yield "a tree by hand", c, trees.by_hand(product.a, product.b, leaf)


def count(tally: Tally, other: Other, what: str) -> None:
    name, got, expected = other
    kind = name.partition(":")[0]
    tally.compared[kind] += 1
    if not same_bits(got, expected):
        tally.different[kind] += 1
        tally.reports.append(f"{what}: {name}")


def attack(
    device: str,
    seed: int = 0,
    *,
    order: str | None = None,
    seconds: float = float("inf"),
    rounds: float = float("inf"),
    first: int = 0,
) -> Tally:
    tally, begin, number = Tally(), time.monotonic(), first
    while time.monotonic() - begin < seconds and number - first < rounds:
        run_round(tally, seed, number, device, order)
        number += 1
    return tally


def main(
    seconds: float = 60,
    seed: int = 0,
    order: Annotated[str | None, typer.Option(help="of all sums: chain, or tree:L")] = None,
    number: Annotated[int | None, typer.Option("--round", help="this one alone")] = None,
    device: str = "cuda",
    json_path: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Looks for an element whose bits change."""
    alone = {} if number is None else {"rounds": 1, "first": number}
    tally = attack(device, seed, order=order, seconds=seconds, **alone)
    for name in sorted(tally.compared):
        print(f"{name:<28} {tally.compared[name]:>8} {tally.different[name]:>6}")
    print(
        f"{tally.rounds} products, {tally.compared.total()} compared, "
        f"{tally.different.total()} with other bits"
    )
    print(*tally.reports[:20], sep="\n")
    if json_path:
        sys.path.append(str(Path(__file__).resolve().parent.parent))
        from bench import machine

        document = {
            "environment": machine.environment(torch.device(device)),
            "settings": {"seed": seed, "order": order},
            "products": tally.rounds,
            "compared": dict(tally.compared),
            "different": dict(tally.different),
        }
        json_path.write_text(json.dumps(document, indent=1) + "\n")
    raise SystemExit(tally.different.total() > 0)


if __name__ == "__main__":
    typer.run(main)
