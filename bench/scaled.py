"""Products of fp8 with scales, and the quantizing before them, beside torch's: `python -m
bench.scaled`.

Layers are those of models that the seed draws: N and K of the projections of attention and of the
MLP. Each has 4096 rows and then 16, 2 and 1, scaled tensor-wise, row-wise and by blocks (1 x 128 of
A, 128 x 128 of B). Beside them stand torch's of the same recipe, of rows also with fast
accumulation, and, at few rows, a copy that moves as many bytes as the product reads and writes.
Grouped products stand beside torch's where it has them, which is row-wise; their weight gradients
too. A tensor that is quantized stands beside a copy of as many bytes.

Every result must be within the contract's bound where it is looked at, and its rows must have the
bits that they have by themselves.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, NamedTuple

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
from bench.data import OperandSet
from bench.limits import Limits, limits_of
from bench.scaled_table import TABLES
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds, Stopwatch, interleave

console = Console()

E4M3 = torch.float8_e4m3fn
RECIPES = ("tensorwise", "rowwise", "blockwise")
BLOCK = 128
MODELS = 3  # that are drawn, with four layers each
ROWS = (4096, 16, 1, 2)
FEW = 16
# (experts, rows, N, K)
GROUPS = ((8, 32768, 2048, 7168), (8, 16384, 14336, 4096), (64, 32768, 768, 2048))
GROUPS += ((128, 1024, 1536, 4096),)
QUANTIZED = ((16384, 4096), (4096, 14336), (128, 4096))


@dataclass(frozen=True)
class Case:
    work: str  # product, groups, weight_grad or quantize
    recipe: str  # one of RECIPES; of quantize 1x128, 128x128 or both, which is with the transpose
    m: int  # rows, of groups all of them; of quantize those of the tensor, and `k` its columns
    n: int
    k: int
    experts: int = 0

    @property
    def name(self) -> str:
        experts = f" E{self.experts}" if self.experts else ""
        return f"{self.work} {self.recipe}{experts} {self.m}x{self.n}x{self.k}"


def drawn_layers(seed: int) -> list[tuple[int, int]]:
    """(N, K) of queries, keys and values; of what follows attention; and of an MLP's two."""
    rng = random.Random(seed)
    layers = []
    for _ in range(MODELS):
        width = rng.randrange(2048, 8193, 512)
        keys = rng.choice((width, 1024, 2048))
        inner = rng.randrange(int(2.5 * width), 4 * width + 1) // 256 * 256
        layers += [(width + 2 * keys, width), (width, width), (inner, width), (width, inner)]
    return layers


def cases(seed: int) -> Iterator[Case]:
    for experts, rows, n, k in GROUPS:
        for recipe in RECIPES[1:]:
            yield Case("groups", recipe, rows, n, k, experts)
    for experts, rows, n, k in GROUPS[::2]:
        yield Case("weight_grad", "rowwise", rows, n, k, experts)
    for rows, columns in QUANTIZED:
        for recipe in ("1x128", "128x128", "both"):
            yield Case("quantize", recipe, rows, 0, columns)
    for m in ROWS:
        for n, k in drawn_layers(seed):
            for recipe in RECIPES:
                yield Case("product", recipe, m, n, k)


class Scaled(NamedTuple):
    """An operand of a call."""

    data: Tensor
    scale: Tensor


def blocks(size: int) -> int:
    return -(-size // BLOCK)


class Work:
    """The operands of a case in as many copies as the stopwatch wants, and what is timed."""

    def __init__(self, case: Case, device: torch.device, stopwatch: Stopwatch, seed: int) -> None:
        self.case = case
        self.generator = torch.Generator(device).manual_seed(seed)
        self.device = device
        m, n, k = case.m, case.n, case.k
        self.flops = 2.0 * m * n * k
        weights = max(case.experts, 1)
        if case.work == "quantize":
            # Of bf16, and a byte or two of each element are written, with a scale for 128.
            written = 2 if case.recipe == "both" else 1
            self.bytes = m * k * (2 + written)
        elif case.work == "weight_grad":
            self.bytes = m * (n + k) + 2 * weights * n * k
        else:
            self.bytes = m * k + weights * n * k + 2 * m * n
        if case.experts:
            ends = torch.randint(0, m + 1, (case.experts - 1,), generator=self.generator, **self.on)
            if case.work == "weight_grad":  # torch's begin there
                ends = ends // 16 * 16
            self.offs = torch.cat([ends.sort().values, ends.new_tensor([m])]).int()
        self.copied = case.m <= FEW or case.work == "quantize"
        self.sets = [self.operands() for _ in range(stopwatch.set_count(max(self.bytes, 1)))]

    @property
    def on(self) -> dict:
        return {"device": self.device}

    def fp8(self, *sizes: int) -> Tensor:
        x = torch.randn(sizes, dtype=torch.bfloat16, generator=self.generator, **self.on)
        return x.to(E4M3)

    def scale(self, *sizes: int) -> Tensor:
        return torch.rand(sizes, generator=self.generator, **self.on) + 0.5

    def operands(self) -> OperandSet:
        """Its tensors are Scaled; `out` is where a copy goes, from the bytes of `b`."""
        case, m, n, k = self.case, self.case.m, self.case.n, self.case.k
        half = torch.empty(self.bytes // 2 if self.copied else 0, dtype=torch.uint8, **self.on)
        if case.work == "quantize":
            x = torch.randn(m, k, dtype=torch.bfloat16, generator=self.generator, **self.on)
            return OperandSet(x, x, half)
        if case.work == "weight_grad":
            a = Scaled(self.fp8(n, m), self.scale(case.experts * n))
            b = Scaled(self.fp8(k, m).t(), self.scale(case.experts * k))
            return OperandSet(a, b, half)  # type: ignore[arg-type]
        entries = (case.experts,) if case.experts else ()
        weight = self.fp8(*entries, n, k).mT
        scales = {
            "tensorwise": lambda: (self.scale(1), self.scale(*entries or (1,))),
            "rowwise": lambda: (self.scale(m, 1), self.scale(*entries, n, 1).mT),
            "blockwise": lambda: (
                self.scale(blocks(k), m).t(),
                self.scale(*entries, blocks(n), blocks(k)).mT,
            ),
        }[case.recipe]()
        a, b = Scaled(self.fp8(m, k), scales[0]), Scaled(weight, scales[1])
        return OperandSet(a, b, half)  # type: ignore[arg-type]

    def ours(self, a: Scaled, b: Scaled, out: Tensor) -> Tensor:
        case = self.case
        if case.work == "quantize":
            recipe = "BlockWise128x128" if case.recipe == "128x128" else "BlockWise1x128"
            return tiled_mm.quantize(a, recipe, transposed=case.recipe == "both").data  # type: ignore[arg-type]
        offs = self.offs if case.experts else None
        return torch.ops.tiled.scaled_mm(a.data, b.data, a.scale, b.scale, offs=offs)

    def torchs(self, a: Scaled, b: Scaled, out: Tensor, fast: bool = False) -> Tensor:
        options = {"out_dtype": torch.bfloat16, "use_fast_accum": fast}
        if not self.case.experts:
            return torch._scaled_mm(a.data, b.data, a.scale, b.scale, **options)
        scale_a, scale_b = a.scale.flatten(), b.scale
        if self.case.work == "groups":
            scale_b = scale_b.flatten(1)
        return torch._scaled_grouped_mm(a.data, b.data, scale_a, scale_b, self.offs, **options)

    def copy(self, a: Scaled, b: Scaled, out: Tensor) -> Tensor:
        source = b if isinstance(b, Tensor) else b.data.mT
        return out.copy_(source.reshape(-1).view(torch.uint8)[: out.numel()])

    def calls(self) -> dict[str, Call]:
        """By name; torch has no groups by blocks."""
        found: dict[str, Callable] = {"tiled": self.ours}
        if self.case.work == "quantize":
            return found | {"copy": self.copy}
        if not self.case.experts or self.case.recipe == "rowwise":
            found["torch"] = self.torchs
        if self.case.recipe == "rowwise" and self.case.m > FEW:
            found["fast"] = lambda a, b, out: self.torchs(a, b, out, fast=True)
        if self.copied and self.case.work == "product":
            found["copy"] = self.copy
        return found

    def check(self) -> None:
        """Ends the run where a result is beyond the bound, or a row has other bits alone."""
        a, b, _ = self.sets[0].a, self.sets[0].b, self.sets[0].out
        if self.case.work in ("quantize", "weight_grad"):
            return
        c = self.ours(a, b, a)  # type: ignore[arg-type]
        begin, weight, scale = 0, b.data, b.scale
        if self.case.experts:
            ends = [0, *self.offs.tolist()]
            lengths = [e - s for s, e in itertools.pairwise(ends)]
            g = max(range(len(lengths)), key=lengths.__getitem__)
            begin, weight = ends[g], weight[g]
            scale = scale[g] if scale.dim() > 1 else scale[g : g + 1]
        rows = slice(begin, begin + min(8, self.case.m))
        scale_a = a.scale if a.scale.numel() == 1 else a.scale[rows]
        alone = torch.ops.tiled.scaled_mm(a.data[rows], weight, scale_a, scale)
        columns = slice(0, min(BLOCK, self.case.n))
        if not torch.equal(alone, c[rows]) or self.beyond(
            a.data[rows], weight[:, columns], scale_a, scale, alone[:, columns]
        ):
            raise RuntimeError(f"a wrong result: {self.case.name}")

    def beyond(self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, c: Tensor) -> bool:
        """Whether an element is further off than docs/contract.md allows, of any data; in columns
        of one block."""
        k = a.shape[1]
        if self.case.recipe == "blockwise":
            scale_a = scale_a.repeat_interleave(BLOCK, 1)[:, :k]
            scale_b = scale_b[:, :1].repeat_interleave(BLOCK, 0)[:k]
        elif self.case.recipe == "rowwise":
            scale_b = scale_b[..., : b.shape[1]]
        left, right = a.double() * scale_a, b.double() * scale_b
        exact, size = left @ right, left.abs() @ right.abs()
        sums = 136 * 2.0**-13 + (blocks(k) + 3) * 2.0**-24
        return not bool(((c - exact).abs() <= 2.0**-8 * exact.abs() + sums * size).all())


def measure(case: Case, device: torch.device, seed: int, rounds: Rounds, limits: Limits) -> dict:
    """One record: seconds of ours and of what stands beside it; what torch refuses has none."""
    stopwatch: Stopwatch = CpuStopwatch() if device.type == "cpu" else CudaStopwatch(device)
    work = Work(case, device, stopwatch, seed)
    work.check()
    prepared, refused = {}, ""
    for name, call in work.calls().items():
        try:
            prepared[name] = stopwatch.prepare(call, work.sets)
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if name not in ("torch", "fast"):
                raise
            refused = str(error).splitlines()[0][:120]
    found = interleave(stopwatch, prepared, rounds, random.Random(seed))
    seconds = {name: statistics.median(times) for name, times in found.items()}
    ours = seconds["tiled"]
    return asdict(case) | {
        "name": case.name,
        "seed": seed,
        "seconds": seconds,
        "refused": refused,
        "ratio": seconds["torch"] / ours if "torch" in seconds else None,
        "beside_copy": seconds["copy"] / ours if "copy" in seconds else None,
        "tflops": work.flops / ours / 1e12,
        "gbs": work.bytes / ours / 1e9,
        "of_copy": limits.share(ours, work.bytes, 0),
    }


def divided(case: Case, by: int) -> Case:
    """A small one, to try the program."""
    if by == 1:
        return case

    def part(size: int) -> int:
        return max(32, size // by // 32 * 32)

    m = case.m if case.m <= FEW else part(case.m)
    n = part(case.n) if case.n else 0
    return replace(case, m=m, n=n, k=part(case.k), experts=min(case.experts, 4))


def main(
    device_name: DeviceOption = "auto",
    json_path: FileOption = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    divide: DivideOption = 1,
    seed: Annotated[int, typer.Option(help="of layers and data")] = 7,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each case")] = 0.1,
) -> None:
    """Measures products of fp8 with scales."""
    device = pick_device(device_name)
    document = cli.new_document("scaled", device, {"seed": seed, "divide": divide})
    limits = limits_of(device)
    document["scaled"] = []
    for case in cli.cases_within(cases(seed), only, limit, device):
        record = measure(divided(case, divide), device, seed, Rounds(5, 40, budget), limits)
        document["scaled"].append(record)
        console.print(line_of(record), highlight=False, markup=False)
        cli.keep(document, json_path)
    for table in TABLES.values():
        print(table([document]))


def line_of(record: dict) -> str:
    parts = [f"{record['seconds']['tiled'] * 1e6:.1f} µs", f"{record['tflops']:.0f} TF/s"]
    parts += [f"{record['gbs']:.0f} GB/s, {record['of_copy']:.2f} of a large copy's"]
    if record["ratio"] is not None:
        parts.append(f"{record['ratio']:.3f} of torch's speed")
    if record["beside_copy"] is not None:
        parts.append(f"{record['beside_copy']:.3f} of the copy's")
    if "fast" in record["seconds"]:
        fast = record["seconds"]["fast"] / record["seconds"]["tiled"]
        parts.append(f"{fast:.3f} of torch's with fast accumulation")
    return f"{record['name']}: {', '.join(parts)}"


if __name__ == "__main__":
    typer.run(main)
