"""The products whose bits are recorded (bench/bits.py): always the same list, by a fixed generator.

A product's name says all of it and seeds its operands, so that one more in the list changes none of
the others. The list is for every device: each rung that takes a product runs it.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.data import poison, random_matrix

HALVES = ("float16", "bfloat16")
DTYPES = (
    *("float32", *HALVES, "float64", "complex64", "complex128"),
    *("int8", "uint8", "int16", "int32", "int64"),
)

# How a matrix lies: by rows or by columns, next to each other, with a pitch that TMA can read,
# inside of a larger matrix so that nothing is aligned, or with no stride of 1; and one row for all.
IN_MEMORY = ("n", "t", *(x + y for x in ("padded", "slice", "strided") for y in ("", "_t")))
LAYOUTS = (*IN_MEMORY, "expanded")
OUTPUTS = ("new", *IN_MEMORY)
PLAIN = tuple(itertools.product("nt", repeat=2))
DATA = ("normal", "wide", "special")  # of integers the first alone


@dataclass(frozen=True)
class Product:
    dtype: str
    m: int
    n: int
    k: int
    layout_a: str = "n"
    layout_b: str = "n"
    data: str = "normal"
    precision: str | None = None
    out_dtype: str | None = None
    out: str = "new"
    batch: int = 0  # 0: mm

    @property
    def name(self) -> str:
        size = f"{self.m}x{self.n}x{self.k}"
        words = [self.dtype, f"{self.batch} of {size}" if self.batch else size]
        words += [f"{self.layout_a}/{self.layout_b}", self.data]
        words += [self.precision] if self.precision else []
        words += [f"to {self.out_dtype}"] if self.out_dtype else []
        words += [f"out {self.out}"] if self.out != "new" else []
        return " ".join(words)


# ---- the list -----------------------------------------------------------------------------------

EDGES = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 72, 96)
TILES = (100, 127, 128, 129, 130, 136, 192, 200, 256, 264, 300)
EVERY_K = (
    *(0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 72, 96, 100, 127, 128, 129, 131),
    *(192, 200, 256, 257, 300, 512, 515, 1000),
)
DEEP_K = (4097, 32767, 32768, 32771, 36872)  # below 32768 one chain, from there on several
# Several tiles of every rung, and sizes for which the planner takes other ones.
LARGE = ((264, 520, 200), (520, 264, 131), (1000, 776, 72), (16, 2048, 256), (2048, 9, 256))

# Per dtype: what one more floating type deserves beside one more integer.
DRAWN = {**dict.fromkeys(DTYPES, 45), "float32": 150, **dict.fromkeys(HALVES, 120), "float64": 90}


def ways(dtype: str) -> list[dict]:
    """The precisions and output dtypes that this dtype has."""
    if dtype == "float32":
        return [{"precision": p} for p in ("ieee", "tf32", "fp16x3")]
    if dtype in HALVES:
        return [{}, {"precision": "ieee"}, {"out_dtype": "float32"}]
    return [{}]


def is_float(dtype: str) -> bool:
    return getattr(torch, dtype).is_floating_point or getattr(torch, dtype).is_complex


def products() -> list[Product]:
    """No two of one name."""
    found = itertools.chain(*(_stated(dtype) for dtype in DTYPES), _drawn())
    return list({product.name: product for product in found}.values())


def _stated(dtype: str) -> Iterator[Product]:
    """Every layout and way at a few sizes, deep sums and large results."""
    real = dtype in ("float32", "float64", *HALVES)
    for way in ways(dtype):
        for size in ((64, 128, 256), (65, 131, 67)):
            for layouts in PLAIN:
                yield Product(dtype, *size, *layouts, **way)
        for out in OUTPUTS[1:]:
            yield Product(dtype, 72, 136, 64, out=out, **way)
        yield Product(dtype, 7, 9, 0, out="slice", **way)
        for k in DEEP_K if real else DEEP_K[:1]:
            yield Product(dtype, 24, 8, k, "n", "t", **way)
            yield Product(dtype, 3, 5, k, "t", "n", "wide" if real else "normal", **way)
        for size in LARGE if real else ():
            yield Product(dtype, *size, "n", "t", **way)
            yield Product(dtype, *size, "t", "n", "wide", **way)


def _drawn() -> Iterator[Product]:
    draw = random.Random(18)
    for dtype, count in DRAWN.items():
        for _ in range(count):
            m, n, k = draw.choice(EDGES), draw.choice(EDGES), draw.choice(EVERY_K)
            kind = draw.choice(("small", "tiles", "few rows", "narrow", "batch"))
            if kind == "tiles":
                m, n = draw.choice(TILES), draw.choice(TILES)
            elif kind == "few rows":
                m, n = draw.randint(1, 32), draw.choice(TILES)
            elif kind == "narrow":
                m, n = draw.choice(TILES), draw.randint(1, 32)
            layouts = draw.choice(LAYOUTS), draw.choice(LAYOUTS)
            batch = draw.randint(1, 5) if kind == "batch" else 0
            out = draw.choice(OUTPUTS) if not batch else "new"  # bmm has no out=
            data = draw.choice(DATA if is_float(dtype) else DATA[:1])
            for way in ways(dtype):
                yield Product(dtype, m, n, k, *layouts, data, **way, out=out, batch=batch)


# ---- its tensors --------------------------------------------------------------------------------


def operands(product: Product) -> tuple[Tensor, Tensor]:
    """A and B, on the CPU; the same for every precision and output."""
    source = f"{product.dtype} {product.batch} {product.m} {product.n} {product.k} {product.data}"
    generator = torch.Generator().manual_seed(zlib.crc32(source.encode()))
    entries = (product.batch,) if product.batch else ()
    sizes = ((*entries, product.m, product.k), (*entries, product.k, product.n))
    a, b = (_numbers(size, product, generator) for size in sizes)
    return laid_out(a, product.layout_a), laid_out(b, product.layout_b)


def _numbers(sizes: tuple[int, ...], product: Product, generator: torch.Generator) -> Tensor:
    dtype = getattr(torch, product.dtype)
    if product.data == "normal":
        return random_matrix(sizes, dtype, torch.device("cpu"), generator)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    x = random_matrix(sizes, wide, torch.device("cpu"), generator)
    if product.data == "wide":  # exponents over most of the type's range, subnormals among them
        reach = {"float16": 16, "float64": 500, "complex128": 500}.get(product.dtype, 70)
        exponent = torch.randint(-reach, reach, sizes, generator=generator)
        return (x * 2.0 ** exponent.double()).to(dtype)
    x = x.to(dtype)
    for value in (torch.nan, torch.inf, -torch.inf, -0.0, torch.finfo(dtype).tiny / 4):
        if x.numel() > 64:  # in fewer there would be nothing else
            flat = torch.randint(x.numel(), (1,), generator=generator)
            x.view(-1)[flat] = value
    return x


def memory(
    sizes: tuple[int, ...], layout: str, dtype: torch.dtype, device
) -> tuple[Tensor, Tensor]:
    """Poisoned memory, and the view of it that is a tensor of these sizes laid out so."""
    *entries, rows, cols = sizes
    if layout.endswith("t"):
        of_rows = layout.removesuffix("t").removesuffix("_") or "n"
        whole, view = memory((*entries, cols, rows), of_rows, dtype, device)
        return whole, view.mT
    (down, right), (top, left) = (1, 1), (0, 0)
    sides = [rows, cols]
    if layout == "padded":  # to a pitch of whole 16 bytes
        sides = [rows, (cols + 15) // 8 * 8]
    elif layout != "n":
        (top, left), (down, right) = (1, 3), ((2, 3) if layout == "strided" else (1, 1))
        sides = [rows * down + 2, cols * right + 5]
    whole = torch.empty(*entries, *sides, dtype=dtype, device=device)
    poison(whole)
    return whole, whole[..., top : top + rows * down : down, left : left + cols * right : right]


def laid_out(x: Tensor, layout: str) -> Tensor:
    if layout == "expanded":
        return x[..., :1, :].expand(x.shape)
    return memory(tuple(x.shape), layout, x.dtype, x.device)[1].copy_(x)
