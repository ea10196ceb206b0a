"""The rungs, a row each: from the table every test knows what there is to run.

A new rung is one row of TABLE. test_rungs.py gives it the whole matrix (dtypes, layouts, shapes,
error gates, bits beside the other rungs of its arithmetic, out=, batches), test_strides.py its
strides, test_cuda.py its graphs, streams and memory, and test_explain.py looks for it in algos().
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cases
import pytest
import tiled_mm
import torch
from cases import DTYPES, HALVES

DEEP = 9 * 4096 + 8  # K that is cut, into nine segments and a short one
SHARED_K = 32768  # from here on there are several, which blocks may share out
SINGLE, DOUBLE, BYTES = (torch.float32,), (torch.float64,), (torch.int8, torch.uint8)
ALL: dict[str, tuple[torch.dtype, ...]] = {"fma": DTYPES}
TENSOR = {"tensor": HALVES, "tf32": SINGLE}


Way = tuple[str, bool, int, int, bool]


def ways_of(a: torch.Tensor, b: torch.Tensor, algo: str, **asked: Any) -> list[Way]:
    """Every way of a rung with these operands, as tiled_debug's operators take them, the least
    estimate first: the tile, swap_ab, the cluster's two sides, and whether
    split-K or stream-K."""
    ways = tiled_mm.plan(a, b, algo=algo, **asked).ways
    keys = ("tile", "swap_ab", "cluster_p", "cluster_q", "split_k")
    # Some of register_tile's differ in what they copy first alone.
    return list(dict.fromkeys(tuple(w[k] for k in keys) for w in ways if w.algo == algo))


def of_each_tile(ways: list[Way]) -> list[Way]:
    """One way of every tile, another of each."""
    tiles: dict[str, list[Way]] = {}
    for way in sorted(ways):
        tiles.setdefault(way[0], []).append(way)
    return [of_tile[7 * i % len(of_tile)] for i, of_tile in enumerate(tiles.values())]


@dataclass(frozen=True)
class Rung:
    name: str
    device: str
    runs: dict[str, tuple[torch.dtype, ...]]  # arithmetic (ops/core/problem.h) -> inputs
    tensor_cores: bool = False  # needs compute capability 9.0, and its kernels in the build
    mma: bool = False  # of those: needs no more than 8.0
    # False: bases and pitches of whole 16 bytes, as TMA reads them, and tf32 along K alone.
    any_layout: bool = True
    # (M, N, K) beside cases.SHAPES: where its tiles, boxes and steps end.
    edges: tuple[tuple[int, int, int], ...] = ()


# Of those with tiles of 64 to 256: a little more than one, much less, one row, one column, deep.
_WIDE = (
    *((136, 264, 64), (136, 72, 40), (72, 264, 24), (9, 8, 8), (1, 264, 64), (264, 1, 64)),
    *((129, 200, DEEP), (24, 16, DEEP)),
)
# Pitches of every alignment that cp.async knows, and of none.
_ODD = tuple((130, n, k) for n in (258, 260, 263) for k in (66, 68, 71))
# Those of 8 to 64 rows of one operand: each width, one more than it, and rows of the other past the
# last tile of 32 to 64.
_FEW = tuple((m, n, k) for m in (1, 8, 9, 16, 17, 32, 33, 64) for n, k in ((104, 136), (200, 520)))

# Strips of 16 to 64 rows, more of them than warps; columns about those of a tile; rows that begin
# anywhere; a K of a panel, of several, and of a rest.
_TALL = (
    *((70001, 16, 16), (9001, 7, 7), (5003, 33, 40), (3000, 130, 24), (1500, 64, 600)),
    *((16, 9000, 16), (9, 5003, 33), (2049, 17, 1030)),
)

TABLE = (
    Rung("naive", "cpu", ALL),
    Rung("blocked", "cpu", ALL),
    Rung("naive", "cuda", ALL),
    Rung("shared_tile_8", "cuda", ALL),
    Rung("shared_tile_16", "cuda", ALL),
    Rung("shared_tile_32", "cuda", ALL),
    Rung("register_tile", "cuda", ALL),
    Rung("mma_tile", "cuda", TENSOR | {"fma": DOUBLE}, tensor_cores=True, edges=_WIDE),
    Rung("async_mma", "cuda", TENSOR | {"fma": BYTES}, True, mma=True, edges=_WIDE + _ODD),
    Rung("tma_wgmma", "cuda", TENSOR, tensor_cores=True, any_layout=False, edges=_WIDE),
    Rung("warp_specialized", "cuda", TENSOR, tensor_cores=True, any_layout=False, edges=_WIDE),
    Rung("hopper", "cuda", TENSOR | {"fma": BYTES}, tensor_cores=True, edges=_WIDE),
    Rung(
        "few_rows", "cuda", TENSOR | {"fma": SINGLE + DOUBLE}, tensor_cores=True, edges=_WIDE + _FEW
    ),
    Rung("fp16x3", "cuda", {"fp16x3": SINGLE}, tensor_cores=True, edges=_WIDE),
    Rung("tall", "cuda", {"tensor": HALVES, "fma": SINGLE}, True, mma=True, edges=_WIDE + _TALL),
)


def names(
    arithmetic: str, device: str = "cuda", *, dtype: torch.dtype | None = None, **has: Any
) -> tuple[str, ...]:
    """The rungs of an arithmetic, of a dtype if it is given, whose members are these."""
    return tuple(
        rung.name
        for rung in TABLE
        if rung.device == device
        and (arithmetic in rung.runs if dtype is None else dtype in rung.runs.get(arithmetic, ()))
        and all(getattr(rung, name) == value for name, value in has.items())
    )


# The rungs of the fma arithmetic: every dtype, shape and layout, every device.
RUNGS = {device: names("fma", device, runs=ALL) for device in ("cpu", "cuda")}
# A lesson sums K in one chain and knows no tree; every other rung of a GPU is of the engine.
LESSONS = ("naive", *(f"shared_tile_{w}" for w in (8, 16, 32)), "tma_wgmma", "warp_specialized")
ENGINE = tuple(x.name for x in TABLE if x.device == "cuda" and x.name not in LESSONS)
# Those on tensor cores, of 16-bit inputs; all but some take tf32 too.
TENSOR_RUNGS = names("tensor")
ANY_LAYOUT_TENSOR_RUNGS = names("tensor", any_layout=True)
NEED_TMA = names("tensor", any_layout=False)
# fp64 runs the chains of the fma arithmetic on tensor cores.
FP64_RUNGS = names("fma", dtype=torch.float64, tensor_cores=True)
# Those that fp32 runs in tf32 alone.
TF32_ONLY = tuple(x for x in names("tf32") if x not in names("fma", dtype=torch.float32))
# fp32 inputs in two fp16 parts. It decides the precision, where none is asked for.
(PARTS_RUNG,) = names("fp16x3")


MMA_RUNGS = tuple(rung.name for rung in TABLE if rung.mma)


# The GPUs that can be planned for by name, with their compute capabilities.
CAPABILITIES = {
    **{"g80": (1, 0), "gt200": (1, 3), "fermi": (2, 0), "k40": (3, 5), "t4": (7, 5)},
    **{"a100": (8, 0), "a10": (8, 6), "rtx3090": (8, 6), "l40s": (8, 9), "rtx4090": (8, 9)},
    **dict.fromkeys(("h200", "h100", "h100-pcie", "h20", "gh200"), (9, 0)),
    **{"b200": (10, 0), "rtx5090": (12, 0)},
}


def capability() -> tuple[int, int]:
    """Of the GPU that plans are made for: the one that is there, or that of TILED_MM_PLAN_AS."""
    named = os.environ.get("TILED_MM_PLAN_AS")
    return CAPABILITIES[named] if named else torch.cuda.get_device_capability()


def is_served(architectures: str, capability: tuple[int, int]) -> bool:
    """Whether code for one of these, as "8.0 9.0+PTX", runs on a GPU: machine code on the same
    major version, PTX on everything that is not older."""
    for entry in architectures.split():
        major, minor = map(int, entry.removesuffix("+PTX").split("."))
        newer = capability >= (major, minor)
        if newer and (entry.endswith("+PTX") or capability[0] == major):
            return True
    return False


def has_tensor_core_kernels(device: str) -> bool:
    """All of them: for compute capability 9.0, unless the build leaves them out."""
    built = tiled_mm.build_info()["left_out"] is None
    return device == "cuda" and capability() == (9, 0) and built


def has_mma_kernels(device: str) -> bool:
    """For 16-bit inputs, tf32, fp16x3 and bytes: from compute capability 8.0 on, in a build that
    serves it."""
    if device != "cuda" or capability() < (8, 0):
        return False
    built = tiled_mm.build_info()["mma_architectures"]
    return is_served(built, torch.cuda.get_device_capability())


def has_fp16_kernels_of_7_5(device: str) -> bool:
    """That compute capability's own, for fp16 alone."""
    if device != "cuda" or capability() != (7, 5):
        return False
    built = tiled_mm.build_info()["by_8_architectures"]
    return is_served(built, torch.cuda.get_device_capability())


def tensor_rungs(dtype: torch.dtype, **has: Any) -> tuple[str, ...]:
    """Those on tensor cores that take 16-bit inputs, or float32 as tf32."""
    return names("tf32" if dtype == torch.float32 else "tensor", **has)


def here(
    tensor_rungs: tuple[str, ...], device: str = "cuda", dtype: torch.dtype | None = None
) -> tuple[str, ...]:
    """Of these on tensor cores those that the device and the build have, for this dtype."""
    if has_tensor_core_kernels(device):
        return tensor_rungs
    if has_mma_kernels(device):
        return tuple(x for x in tensor_rungs if x in MMA_RUNGS)
    of_7_5 = dtype == torch.float16 and has_fp16_kernels_of_7_5(device)
    return tuple(x for x in tensor_rungs if x == "async_mma" and of_7_5)


def fma_rungs(device: str, dtype: torch.dtype) -> tuple[str, ...]:
    """Those that compute this dtype on this machine by the fma arithmetic."""
    portable = names("fma", device, dtype=dtype, tensor_cores=False)
    return portable + here(names("fma", dtype=dtype, tensor_cores=True), device)


def arithmetic_of(
    device: str, dtype: torch.dtype, algo: str | None = None, precision: str | None = None
) -> str:
    """What a call runs, by the library's rule (docs/contract.md, "Arithmetic"), where neither the
    library nor torch is set to tf32: what was asked, else what the rung knows, else tensor cores
    for 16-bit inputs on GPUs that have kernels for them."""
    if dtype == torch.float32:
        asked = precision or (PARTS_RUNG if algo == PARTS_RUNG else "ieee")
        return "fma" if asked == "ieee" or not has_mma_kernels(device) else asked
    fma = precision == "ieee" or algo in RUNGS["cuda"]
    mma = has_mma_kernels(device) or (dtype == torch.float16 and has_fp16_kernels_of_7_5(device))
    return "tensor" if dtype in HALVES and not fma and mma else "fma"


# ---- what tests run over ------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A rung, or the planner's choice, on inputs of one dtype; and how to ask for it."""

    device: str
    algo: str | None
    dtype: torch.dtype
    precision: str | None = None
    tensor_cores: bool = False
    any_layout: bool = True
    edges: tuple[tuple[int, int, int], ...] = ()
    mma: bool = False  # tensor cores of 8.0 suffice

    @property
    def id(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        asked = f"-{self.precision}" if self.precision else ""
        return f"{self.device}-{self.algo or 'default'}-{dtype}{asked}"

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.device, self.dtype, self.algo, self.precision)

    def mm(self, a: torch.Tensor, b: torch.Tensor, **keywords: Any) -> torch.Tensor:
        return tiled_mm.mm(a, b, algo=self.algo, precision=self.precision, **keywords)

    def bmm(self, a: torch.Tensor, b: torch.Tensor, **keywords: Any) -> torch.Tensor:
        return tiled_mm.bmm(a, b, algo=self.algo, precision=self.precision, **keywords)

    def reference(self, a: torch.Tensor, b: torch.Tensor, **keywords: Any) -> torch.Tensor:
        """The same bits by another rung, one that takes every layout."""
        assert self.algo != PARTS_RUNG, "no other rung has its arithmetic"
        if self.arithmetic == "fma":
            algo = "naive" if self.algo != "naive" else None
            # A CPU's rungs all sum bf16 by the instructions it has, but for 'ieee'
            # (docs/contract.md); on a GPU a rung by name has the chains that 'ieee' asks for.
            precision = self.precision if self.device == "cpu" else "ieee"
        else:
            takes = here(tensor_rungs(self.dtype, any_layout=True), dtype=self.dtype)
            algo = next((x for x in takes if x != self.algo), None)
            precision = self.precision
            if algo is None:
                return self.other_tile(a, b, **keywords)
        return tiled_mm.mm(a, b, algo=algo, precision=precision, **keywords)

    def other_tile(self, a: torch.Tensor, b: torch.Tensor, **keywords: Any) -> torch.Tensor:
        """The same rung, which has no other beside it, with the tile that it would take last."""
        asked = {"algo": self.algo, "precision": self.precision} | keywords
        return torch.ops.tiled_debug.mm_with_tile(a, b, *ways_of(a, b, **asked)[-1], **asked)

    def takes(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether the rung is offered for these; one of any layout must be for all of them."""
        return self.any_layout or self.algo in tiled_mm.algos(a, b, precision=self.precision)

    def fill(self, rows: int, cols: int) -> torch.Tensor:
        return cases.fill(rows, cols, self.dtype, self.device)

    def size(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """This one, or the next whose row-major operands the rung takes."""
        up = 1 if self.any_layout else 8
        return m, -(-n // up) * up, -(-k // up) * up

    def pair(self, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A [M, K] and B [K, N] of size(): row-major, B by columns where the rung wants that."""
        m, n, k = self.size(m, n, k)
        a, b = self.fill(m, k), self.fill(k, n)
        return a, self.as_b(b)

    def as_b(self, b: torch.Tensor) -> torch.Tensor:
        along_k = not self.any_layout and self.dtype == torch.float32
        return b.t().contiguous().t() if along_k else b


def _runs() -> Iterator[Run]:
    """The planner and every rung of the fma arithmetic with each dtype, then those of some."""
    for dtype in DTYPES:
        for device, of_device in RUNGS.items():
            for algo in (None, *of_device):
                on_tensor_cores = device == "cuda" and algo is None and dtype in HALVES
                yield Run(device, algo, dtype, edges=_WIDE if on_tensor_cores else ())
            if dtype in HALVES:
                yield Run(device, None, dtype, "ieee")
    yield Run("cuda", None, torch.float32, "tf32", tensor_cores=True, edges=_WIDE, mma=True)
    for rung in TABLE:
        for arithmetic, dtypes in rung.runs.items():
            for dtype in dtypes if rung.runs != ALL else ():
                precision = "tf32" if arithmetic == "tf32" else None
                edges = rung.edges
                if dtype == torch.float64:  # whose reference takes long
                    edges = tuple(size for size in edges if size[2] < 4096)
                how = (precision, rung.tensor_cores, rung.any_layout, edges, rung.mma)
                yield Run(rung.device, rung.name, dtype, *how)


def marks(run: Run) -> tuple[pytest.MarkDecorator, ...]:
    needs = (pytest.mark.cuda,) if run.device == "cuda" else ()
    of_tensor_cores = pytest.mark.mma if run.mma else pytest.mark.tensor_cores
    return needs + ((of_tensor_cores,) if run.tensor_cores else ())


def each_run(
    dtypes: tuple[torch.dtype, ...] = DTYPES, where: Callable[[Run], bool] = lambda run: True
) -> pytest.MarkDecorator:
    """Parametrises `run`: every rung with each of these dtypes that it takes."""
    chosen = [run for run in _runs() if run.dtype in dtypes and where(run)]
    return pytest.mark.parametrize(
        "run", [pytest.param(run, marks=marks(run), id=run.id) for run in chosen]
    )


def _rungs() -> Iterator:
    for device, of_device in RUNGS.items():
        cuda = pytest.mark.cuda if device == "cuda" else ()
        for algo in (None, *of_device):
            yield pytest.param(device, algo, marks=cuda, id=f"{device}-{algo or 'default'}")


# Every rung of the fma arithmetic on its device, and the planner's own choice (None).
each_rung = pytest.mark.parametrize(("device", "algo"), list(_rungs()))


def each_rung_and(
    dtypes: tuple[torch.dtype, ...], device: str | None = None, *, finishes: bool = False
):
    """The same with each dtype, and the tensor-core rungs that take any layout, by default.
    `finishes`: without hopper of bytes, which stores sums alone and has no epilogue."""
    sets = [
        pytest.param(run.device, run.algo, run.dtype, marks=marks(run), id=run.id)
        for run in _runs()
        if run.dtype in dtypes and run.any_layout and run.precision is None
        if not (finishes and run.algo == "hopper" and run.dtype in BYTES)
    ]
    if device is None:
        return pytest.mark.parametrize(("device", "algo", "dtype"), sets)
    on_device = [
        pytest.param(*values[1:], marks=marks, id=id)
        for values, marks, id in sets
        if values[0] == device
    ]
    return pytest.mark.parametrize(("algo", "dtype"), on_device)
