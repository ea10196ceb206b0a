"""Errors of sums beside torch.mm's, by K: `python -m bench.errors --json FILE`.

Ours have one chain below K = 32768 and chains of 4096 from there on, whatever M and N are;
torch.mm's libraries choose by M, N and K. So both are measured over K, at three sizes of C, on
normal data and on positive; and beside our chain our tree, sum_order="tree".

What is compared is the sums: 16-bit operands come with out_dtype=float32, since the rounding to 16
bits would hide them, and the operands for tf32 are tf32 numbers already, since rounding them costs
both the same. fp8 is e4m3 with one scale of 1, so that nothing but its sums is off; its peer is
torch._scaled_mm, also with fast accumulation. The reference is fp64, a chunk of K after the other.
With u = 2^-24:

    frobenius   ||C - R|| / ||R||
    largest     the largest |C - R| / (u |A||B|) of an element
    bias        the mean of sign(R) (C - R) / (K u |A||B|): below 0 towards zero

A result of ours fails that is further off than the certain bound of its arithmetic, or of its tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import typer
from rich.progress import track
from torch import Tensor

from bench import cli
from bench.arguments import DeviceOption, DivideOption, FileOption, pick_device
from bench.candidates import fp32_precision
from bench.check import any_data_gate
from bench.errors_table import TABLES, U
from bench.runner import describe
from bench.tree import parts_of

CHUNK = 8192  # of K, for the reference: fp64 copies of all of the largest operands take 4 GiB
SEED = 20

SIZES = (64, 256, 2048)  # M = N
DEPTHS = (1024, 4096, 8192, 16384, 24576, 32767, 32768, 65536, 131072)  # K
LEAF = 1024  # of the tree
DATA: dict[str, Callable[..., Tensor]] = {"normal": torch.randn, "uniform": torch.rand}


@dataclass(frozen=True)
class Sums:
    """An arithmetic of ours, and what it stands beside."""

    dtype: torch.dtype
    precision: str | None = None  # ours, of float32
    peer: str = "ieee"  # torch's setting, of float32
    fast: bool = False  # the peer's accumulation, of fp8

    @property
    def is_fp8(self) -> bool:
        return self.dtype == torch.float8_e4m3fn

    @property
    def unit(self) -> int:
        """What a tree cuts K at multiples of."""
        return 64 if self.precision == "fp16x3" else 16

    def certain_of_tree(self, k: int) -> float:
        """The same of a tree: the bound of its longest leaf, and a rounding each level."""
        longest, depth = _shape_of(parts_of(0, k, LEAF, self.unit))
        return self.certain(longest) + depth

    def certain(self, k: int) -> float:
        """What `largest` may be on any data: a rounding each term, of twice u where sums are
        truncated, and one of the result. Of fp16x3 it is what it promises."""
        if self.precision == "fp16x3":
            return 1 + any_data_gate(k)
        if self.is_fp8:  # docs/contract.md, "fp8"
            return 1 + 136 * 2**11 + -(-k // 128) + 3
        return 1 + (k if self.precision == "ieee" else 2 * k)


def _shape_of(parts: list) -> tuple[int, int]:
    """A tree's longest leaf, and how many levels are above it."""
    if not isinstance(parts[0], list):
        return parts[1] - parts[0], 0
    lengths, depths = zip(*map(_shape_of, parts), strict=True)
    return max(lengths), 1 + max(depths)


SUMS = {
    "bfloat16": Sums(torch.bfloat16),
    "float16": Sums(torch.float16),
    "tf32": Sums(torch.float32, "tf32", "tf32"),
    "ieee": Sums(torch.float32, "ieee"),
    "fp16x3": Sums(torch.float32, "fp16x3"),
    "fp8": Sums(torch.float8_e4m3fn),
    "fp8, torch's fast": Sums(torch.float8_e4m3fn, fast=True),
}


def to_tf32(x: Tensor) -> Tensor:
    """fp32 numbers, far below the largest, rounded to 11 bits: to nearest, ties to even."""
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def operands(sums: Sums, data: str, size: int, k: int, device: torch.device) -> tuple[Tensor, ...]:
    """A [size, k] and B [k, size], contiguous along K for fp8's instructions."""
    generator = torch.Generator(device).manual_seed(SEED)
    made = [DATA[data](*s, device=device, generator=generator) for s in ((size, k), (k, size))]
    if sums.is_fp8:
        made = [made[0], made[1].t().contiguous().t()]
    return tuple(to_tf32(x) if sums.precision == "tf32" else x.to(sums.dtype) for x in made)


def tiled(sums: Sums, a: Tensor, b: Tensor, order: str = "chain") -> Tensor:
    import tiled_mm

    if sums.is_fp8:
        one = torch.ones(1, device=a.device)
        return tiled_mm.scaled_mm(a, b, one, one, out_dtype=torch.float32)
    asked = {"precision": sums.precision, "out_dtype": torch.float32, "sum_order": order}
    return tiled_mm.mm(a, b, **asked)


def tree(sums: Sums, a: Tensor, b: Tensor) -> Tensor:
    return tiled(sums, a, b, f"tree:{LEAF}")


def peer(sums: Sums, a: Tensor, b: Tensor) -> Tensor:
    if sums.dtype == torch.float32:
        with fp32_precision(sums.peer):
            return torch.mm(a, b)
    if sums.is_fp8:
        one = torch.ones(1, device=a.device)
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.float32, use_fast_accum=sums.fast)
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.mm(a.float(), b.float())  # torch.mm has no out_dtype on the CPU


def reference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A B and |A| |B| in fp64."""
    product = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
    magnitude = torch.zeros_like(product)
    for x, y in zip(a.split(CHUNK, 1), b.split(CHUNK, 0), strict=True):
        x, y = x.double(), y.double()
        product.addmm_(x, y)
        magnitude.addmm_(x.abs_(), y.abs_())
    return product, magnitude


def compare(c: Tensor, product: Tensor, magnitude: Tensor, k: int) -> dict:
    """The three errors. Raises where they are no numbers."""
    error = c.double() - product
    found = {
        "frobenius": float(error.norm() / product.norm()),
        "largest": float((error.abs() / magnitude).max() / U),  # max() keeps NaN
        "bias": float((product.sign() * error / magnitude).mean() / (k * U)),
    }
    if not all(math.isfinite(x) for x in found.values()):
        raise ArithmeticError("the result is not finite")
    return found


def measure(name: str, data: str, size: int, k: int, device: torch.device) -> dict:
    """One record of the document: ours, by our tree, and torch.mm's on the same operands. Never
    raises."""
    sums = SUMS[name]
    record: dict = {"arithmetic": name, "data": data, "m": size, "n": size, "k": k}
    nothing = {"frobenius": None, "largest": None, "bias": None}
    sides = {"tiled": tiled, "torch": peer}
    if not sums.is_fp8:
        sides["tree"] = tree
    bounds = {"tiled": sums.certain, "tree": sums.certain_of_tree}
    try:
        a, b = operands(sums, data, size, k, device)
        exact = reference(a, b)
    except Exception as error:
        failed = {**nothing, "error": describe(error)}
        return {**record, **dict.fromkeys(sides, failed)}
    for side, product in sides.items():
        try:
            found = {**compare(product(sums, a, b), *exact, k), "error": None}
        except Exception as error:
            found = {**nothing, "error": describe(error)}
        bound = bounds[side](k) if side in bounds else math.inf
        if found["error"] is None and found["largest"] > bound:
            found["error"] = f"beyond the certain bound, {bound:g} u |A||B|"
        record[side] = found
    return record


def main(
    json_path: FileOption = None,
    device_name: DeviceOption = "cuda",
    divide: DivideOption = 1,
) -> None:
    """Measures the errors of sums, ours and torch.mm's, over K."""
    device = pick_device(device_name)
    cli.load_operator()
    sizes, depths = ([x // divide for x in values] for values in (SIZES, DEPTHS))
    settings = {"sizes": sizes, "depths": depths, "seed": SEED}
    document = cli.new_document("errors", device, settings)
    document["errors"] = []
    sums = [s for s in SUMS if device.type != "cpu" or SUMS[s].precision in (None, "ieee")]
    problems = [(s, d, n, k) for s in sums for d in DATA for n in sizes for k in depths]
    for problem in track(problems, "errors", console=cli.console):
        document["errors"].append(measure(*problem, device))
    for table in TABLES.values():
        print(table([document], gpu=device.type == "cuda"))
    cli.finish(document, json_path, None)


if __name__ == "__main__":
    typer.run(main)
