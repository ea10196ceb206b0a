"""Products of groups, as the experts of a mixture have them, beside torch's: `python -m
bench.grouped`.

Each case is a layer of E experts whose rows a router, flat or skewed, has drawn: tokens times the
experts of each. Passes: forward, dgrad, wgrad, and wgrad added into an fp32 main_grad, beside
torch's wgrad and the addition of its result. Beside bf16 stands torch's grouped kernel, beside fp16
and fp32 what torch has for them, a loop over mm; beside sizes that are no multiples of 8, which
torch refuses, our own aligned ones. The results of a few groups must be mm's, bit for bit.

Rates count the multiply-adds of the rows, and the bytes of the rows, of the result and of the
weights of experts that have rows. Beside them stands the time of these by themselves, by rates that
the run measures: of a copy, and, in 16 bits, of one large product; `bound` is the longer of the two
over the time taken.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated

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
from bench.data import OperandSet, random_matrix
from bench.limits import Limits, limits_of
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds, Stopwatch, interleave

console = Console()

# (experts, experts of a token, N, K)
LAYERS = ((8, 2, 14336, 4096), (64, 8, 768, 2048), (128, 8, 1536, 4096), (256, 8, 2048, 7168))
TOKENS = (8192, 4096, 128, 16)
PASSES = ("forward", "dgrad", "wgrad", "main_grad")
ROUTERS = ("flat", "skewed")
SKEW = 1.5  # the spread of the experts' own scores, in units of a token's


@dataclass(frozen=True)
class Case:
    experts: int
    top: int
    tokens: int
    n: int
    k: int
    work: str = "forward"  # one of PASSES
    dtype: str = "bfloat16"
    precision: str | None = None
    router: str = "flat"
    aligned: bool = True

    @property
    def name(self) -> str:
        dtype = self.precision or self.dtype
        return (
            f"E{self.experts} {self.tokens}x{self.top} N{self.n} K{self.k} {self.work} {dtype} "
            f"{self.router}{'' if self.aligned else ' unaligned'}"
        )


def cases() -> Iterator[Case]:
    """The rows of every layer in bf16; then other dtypes and sizes of many tokens."""
    for router in ROUTERS:
        for experts, top, n, k in LAYERS:
            for tokens in TOKENS:
                case = Case(experts, top, tokens, n, k, router=router)
                yield case
                if tokens >= 4096:
                    yield from (replace(case, work=work) for work in PASSES[1:])
    for experts, top, n, k in LAYERS:
        case = Case(experts, top, 8192, n, k)
        for work in PASSES[:3]:
            yield replace(case, dtype="float16", work=work)
            yield replace(case, dtype="float32", precision="fp16x3", work=work)
        for precision in ("ieee", "tf32"):
            yield replace(case, dtype="float32", precision=precision)
        for tokens in (8192, 128):
            yield replace(case, tokens=tokens, n=n - 1, aligned=False)
            yield replace(case, tokens=tokens, k=k - 1, aligned=False)


def drawn_ends(case: Case, seed: int) -> list[int]:
    """The cumulative ends of the experts' rows: of each token's scores the largest `top`."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(case.tokens, case.experts, generator=generator)
    if case.router == "skewed":
        scores += SKEW * torch.randn(case.experts, generator=generator)
    chosen = scores.topk(min(case.top, case.experts)).indices
    return torch.bincount(chosen.flatten(), minlength=case.experts).cumsum(0).tolist()


class Layer:
    """The operands of a case, in as many copies as the stopwatch wants."""

    def __init__(self, case: Case, device: torch.device, stopwatch: Stopwatch, seed: int) -> None:
        self.case, self.ends = case, drawn_ends(case, seed)
        torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"  # torch's peer
        self.offs = torch.tensor(self.ends, dtype=torch.int32, device=device)
        self.rows = self.ends[-1]
        lengths = [e - b for b, e in zip([0, *self.ends], self.ends, strict=False)]
        self.hit = sum(length > 0 for length in lengths)
        dtype = getattr(torch, case.dtype)
        generator = torch.Generator(device).manual_seed(seed)
        sizes = {
            "x": (self.rows, case.k),
            "y": (self.rows, case.n),
            "weight": (case.experts, case.n, case.k),
        }
        self.main_grad = None
        if case.work == "main_grad":
            self.main_grad = torch.zeros(*sizes["weight"], device=device)
        # Two of the three are the operands of a pass, and the third is its result.
        a, b = {
            "forward": ("x", "weight"),
            "dgrad": ("y", "weight"),
            "wgrad": ("y", "x"),
            "main_grad": ("y", "x"),
        }[case.work]
        (c,) = {"x", "y", "weight"} - {a, b}
        count = {name: float(torch.Size(size).numel()) for name, size in sizes.items()}
        count["weight"] *= self.hit / case.experts
        self.flops = 2.0 * self.rows * case.n * case.k
        self.bytes = dtype.itemsize * (count[a] + count[b])
        self.bytes += count[c] * (8 if case.work == "main_grad" else dtype.itemsize)
        per_set = dtype.itemsize * (torch.Size(sizes[a]).numel() + torch.Size(sizes[b]).numel())
        self.sets = []
        for _ in range(stopwatch.set_count(max(per_set, 1))):
            one, two = (random_matrix(sizes[t], dtype, device, generator) for t in (a, b))
            self.sets.append(OperandSet(one, two, one[:0]))

    def operands(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """The operands as grouped_mm takes them."""
        if self.case.work == "forward":
            return a, b.mT
        return (a, b) if self.case.work == "dgrad" else (a.mT, b)

    def ours(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        precision = self.case.precision
        if self.main_grad is not None:
            torch.ops.tiled._add_grouped_weight_grad(
                self.main_grad, a, b, self.offs, precision=precision
            )
            return self.main_grad
        return torch.ops.tiled.grouped_mm(*self.operands(a, b), self.offs, precision=precision)

    def torchs(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        c = torch._grouped_mm(*self.operands(a, b), offs=self.offs)
        return c if self.main_grad is None else self.main_grad.add_(c)

    def check(self) -> None:
        """Ends the run where a group has other bits than mm."""
        a, b = self.sets[0].a, self.sets[0].b
        if self.main_grad is not None:
            self.main_grad.zero_()
        c = self.ours(a, b, a)
        wide = None if self.main_grad is None else torch.float32
        spans = list(zip([0, *self.ends], self.ends, strict=False))
        longest = max(range(len(spans)), key=lambda g: spans[g][1] - spans[g][0])
        for g in {0, len(spans) // 2, len(spans) - 1, longest}:
            rows = slice(*spans[g])
            if self.case.work in ("forward", "dgrad"):
                one, two, got = a[rows], b[g].mT if self.case.work == "forward" else b[g], c[rows]
            else:
                one, two, got = a[rows].mT, b[rows], c[g]
            right = torch.ops.tiled.mm(one, two, precision=self.case.precision, out_dtype=wide)
            if not torch.equal(got, right):
                raise RuntimeError(f"a wrong result: {self.case.name}, group {g}")


def measure(case: Case, device: torch.device, seed: int, rounds: Rounds, limits: Limits) -> dict:
    """One record: seconds of ours and of what stands beside it."""
    stopwatch: Stopwatch
    if device.type == "cpu":
        stopwatch = CpuStopwatch()
    elif case.dtype == "bfloat16":
        stopwatch = CudaStopwatch(device)
    else:  # torch's loop waits for the device, which no graph can
        stopwatch = CudaStopwatch(device, graph_below_s=0)
    layer = Layer(case, device, stopwatch, seed)
    layer.check()
    prepared = {"tiled": stopwatch.prepare(layer.ours, layer.sets)}
    if case.aligned:
        prepared["torch"] = stopwatch.prepare(layer.torchs, layer.sets)
    else:
        whole = replace(case, n=-(-case.n // 8) * 8, k=-(-case.k // 8) * 8, aligned=True)
        neighbour = Layer(whole, device, stopwatch, seed)
        prepared["aligned"] = stopwatch.prepare(neighbour.ours, neighbour.sets)
    found = interleave(stopwatch, prepared, rounds, random.Random(seed))
    seconds = {name: statistics.median(times) for name, times in found.items()}
    ours = seconds["tiled"]
    is_16_bit = case.dtype != "float32"
    beside = next(s for name, s in seconds.items() if name != "tiled")
    return asdict(case) | {
        "name": case.name,
        "seed": seed,
        "rows": layer.rows,
        "hit": layer.hit,
        "seconds": seconds,
        "ratio": beside / ours,
        "tflops": layer.flops / ours / 1e12,
        "gbs": layer.bytes / ours / 1e9,
        "bound": limits.share(ours, layer.bytes, layer.flops if is_16_bit else 0),
    }


def divided(case: Case, by: int) -> Case:
    """A small one, to try the program."""
    if by == 1:
        return case

    return replace(
        case,
        experts=max(2, case.experts // by),
        top=min(case.top, max(2, case.experts // by)),
        tokens=max(2, case.tokens // by),
        n=max(16, case.n // by // 8 * 8) - (case.n % 8 != 0),
        k=max(16, case.k // by // 8 * 8) - (case.k % 8 != 0),
    )


def main(
    device_name: DeviceOption = "auto",
    json_path: FileOption = None,
    only: OnlyOption = None,
    limit: LimitOption = None,
    divide: DivideOption = 1,
    seed: Annotated[int, typer.Option(help="of routers and data")] = 7,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each case")] = 0.3,
) -> None:
    """Measures products of groups."""
    device = pick_device(device_name)
    import tiled_mm  # noqa: F401, registers the operators

    document = cli.new_document("grouped", device, {"seed": seed, "divide": divide})
    limits = limits_of(device)
    document["grouped"] = []
    for case in cli.cases_within(cases(), only, limit, device):
        record = measure(divided(case, divide), device, seed, Rounds(5, 40, budget), limits)
        document["grouped"].append(record)
        console.print(line_of(record), highlight=False, markup=False)
        cli.keep(document, json_path)
    for text in summary(document["grouped"]):
        console.print(text, highlight=False, markup=False)


def line_of(record: dict) -> str:
    beside = "torch" if "torch" in record["seconds"] else "aligned"
    return (
        f"{record['name']}: {record['seconds']['tiled'] * 1e6:.1f} µs, {record['tflops']:.0f} "
        f"TF/s, {record['gbs']:.0f} GB/s, {record['bound']:.2f} of the bound, "
        f"{record['ratio']:.3f} of {beside}'s speed; "
        f"{record['rows']} rows, {record['hit']} experts hit"
    )


def kind_of(r: dict) -> tuple[str, ...]:
    size = "many" if r["tokens"] >= 4096 else "few"
    what = r["precision"] or r["dtype"]
    return r["work"], what, r["router"], size, "" if r["aligned"] else "unaligned"


def summary(records: list[dict]) -> Iterator[str]:
    """Geomean and least ratio of every kind of case."""
    kinds: dict[tuple, list[float]] = {}
    for r in records:
        kinds.setdefault(kind_of(r), []).append(r["ratio"])
    for kind, ratios in kinds.items():
        mean = statistics.geometric_mean(ratios)
        least = min(r["bound"] for r in records if kind_of(r) == kind)
        yield (
            f"{' '.join(filter(None, kind))}: geomean {mean:.3f}, least {min(ratios):.3f}; "
            f"{least:.2f} of the bound at least"
        )


if __name__ == "__main__":
    typer.run(main)
