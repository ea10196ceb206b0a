"""What the tests run over: dtypes, shapes, memory layouts, and data to fill them (the rungs are in
rungs.py)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from golden import assert_equal

DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda))

REALS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)
FLOATS = REALS + COMPLEX
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
DTYPES = FLOATS + INTEGERS
HALVES = (torch.float16, torch.bfloat16)

# (M, N, K)
SHAPES = (
    (1, 1, 1),
    (1, 1, 257),
    (1, 65, 33),
    (65, 1, 33),
    (65, 33, 1),
    (2, 3, 4),
    (3, 3, 3),
    (8, 8, 8),
    (16, 16, 16),
    (17, 15, 16),
    (31, 33, 32),
    (35, 79, 19),
    (64, 64, 64),
    (65, 63, 9),
    (100, 100, 100),
    (127, 129, 65),
    (129, 130, 7),
    (5, 300, 131),
    (300, 5, 130),
)
EMPTY_SHAPES = ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 4), (0, 4, 0), (1, 1, 0), (0, 0, 0))


def each(name: str, values: tuple, **kwargs) -> pytest.MarkDecorator:
    """Parametrise by values whose text is a good name (dtypes without their prefix)."""
    return pytest.mark.parametrize(
        name, values, ids=lambda v: str(v).removeprefix("torch.").replace(" ", ""), **kwargs
    )


def fill(rows: int, cols: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Zero-mean normal numbers, or integers from the whole range; the same on every device."""
    if dtype in INTEGERS:
        info = torch.iinfo(dtype)
        # randint's end is exclusive, so int64's own end cannot be said.
        end = min(info.max + 1, 2**63 - 1)
        return torch.randint(info.min, end, (rows, cols), dtype=dtype).to(device)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(rows, cols, dtype=wide).to(dtype).to(device)


def factors(dtype: torch.dtype) -> dict[str, complex]:
    """alpha and beta that a result of this dtype may be made with, and no value of them special."""
    if dtype in INTEGERS:
        return {"alpha": -3, "beta": 7}
    if dtype.is_complex:
        return {"alpha": 0.7 - 0.3j, "beta": -1.9 + 0.4j}
    return {"alpha": 0.7, "beta": -1.9}


def swallowed_ones(
    m: int, n: int, k: int, dtype: torch.dtype, device: str
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """(A, B, what each sum of products must be, in fp32 at least.)

    The first product is so large that each 1 added to it is lost, and a step of tensor cores cuts
    it off: so a chain of ones that begins with that product ends with it. The sums of other chains
    are not lost. The K where they begin are multiples of 4096, if K is at least 32768.
    """
    root = 2**30 if dtype in (torch.float64, torch.complex128) else 2**15
    a, b = (torch.ones(*size, dtype=dtype, device=device) for size in ((m, k), (k, n)))
    a[:, 0], b[0] = root, root
    first_chain = 4096 if k >= 32768 else k
    return a, b, root**2 + k - first_chain


def hole(rows: int, cols: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Memory that no kernel may let into a result: NaN, or for integers a pattern."""
    return torch.full((rows, cols), poison(dtype), dtype=dtype, device=device)


def poison(dtype: torch.dtype) -> float | int:
    return 0x5A if dtype in INTEGERS else float("nan")


def leave_garbage(m: int, n: int, dtype: torch.dtype, device: str) -> set[int]:
    """Free poisoned memory for a result of this size; the addresses of where it was."""
    garbage = [hole(m, n, dtype, device) for _ in range(4)]
    return {x.data_ptr() for x in garbage}


def in_a_hole(inner: torch.Tensor, step_rows: int = 1, step_cols: int = 1) -> torch.Tensor:
    """A copy of a matrix as a view of poisoned memory, two to four elements from its edges."""
    rows, cols = inner.shape
    outer = hole(rows * step_rows + 5, cols * step_cols + 7, inner.dtype, inner.device)
    view = outer[2 : 2 + rows * step_rows : step_rows, 3 : 3 + cols * step_cols : step_cols]
    assert view.shape == inner.shape
    return view.copy_(inner)


def column_major(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t()


def laid_out(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The same matrix in many places."""
    rows, cols = x.shape
    yield "n", x.contiguous()
    yield "t", column_major(x)
    for name, view in (("", x), ("_t", x.t())):
        lay = (lambda t: t.t()) if name else (lambda t: t)
        yield "slice" + name, lay(in_a_hole(view))
        yield "strided" + name, lay(in_a_hole(view, 2, 3))
        # A pitch of whole 16 bytes, as the rows of a padded matrix have.
        pitch = (view.shape[1] + 15) // 8 * 8
        padded = hole(view.shape[0], pitch, x.dtype, x.device)[:, : view.shape[1]]
        yield "padded" + name, lay(padded.copy_(view))
        for offset in (1, 2, 3):
            memory = hole(1, rows * cols + offset, x.dtype, x.device)[0, offset:]
            yield f"misaligned{name} by {offset}", lay(memory.view(view.shape).copy_(view))


def outputs(
    m: int, n: int, dtype: torch.dtype, device: str = "cuda"
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """(name, all the memory, the view of it to write), everything poisoned."""

    def memory(rows: int, cols: int) -> torch.Tensor:
        return hole(rows, cols, dtype, device)

    for name, rows, cols in (("", m, n), ("_t", n, m)):
        lay = (lambda t: t.t()) if name else (lambda t: t)
        whole = memory(rows, cols)
        yield "n" + name, whole, lay(whole)
        pitch = (cols + 15) // 8 * 8
        whole = memory(rows + 2, pitch)
        yield "padded" + name, whole, lay(whole[1 : rows + 1, :cols])
        whole = memory(rows + 2, pitch + 8)
        yield "aligned slice" + name, whole, lay(whole[1 : rows + 1, 8 : cols + 8])
        for offset in (1, 2, 3):
            whole = memory(rows + 2, cols + 6)
            inner = whole[1 : rows + 1, offset : cols + offset]
            yield f"slice{name} at {offset}", whole, lay(inner)
        whole = memory(2 * rows + 1, 3 * cols + 2)
        yield "strided" + name, whole, lay(whole[1::2, 2::3])
        whole = memory(1, rows * cols + 1)
        yield "misaligned" + name, whole, lay(whole[0, 1:].view(rows, cols))


def is_untouched_outside(whole: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether poisoned memory is as it was but for the view `out` of it."""
    written = torch.zeros_like(whole, dtype=torch.bool)
    written.as_strided(out.shape, out.stride(), out.storage_offset()).fill_(True)
    outside = whole[~written]
    return bool((outside == 0x5A if whole.dtype in INTEGERS else outside.isnan()).all())


def _misaligned(rows: int, cols: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    outer = hole(1, rows * cols + 1, dtype, device)
    return outer[0, 1:].view(rows, cols).copy_(fill(rows, cols, dtype, device))


def _hankel(rows: int, cols: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Element (i, j) and element (i + 1, j - 1) are the same memory."""
    return fill(1, max(rows + cols - 1, 0), dtype, device).as_strided((rows, cols), (1, 1))


def _odd_strides_of_ones(rows: int, cols: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Strides of dimensions of size 1 mean nothing, and may be anything."""
    strides = (cols if rows > 1 else 7777, 1 if cols > 1 else 5555)
    return fill(rows, cols, dtype, device).as_strided((rows, cols), strides)


# name -> function of (rows, cols, dtype, device) that makes a matrix laid out so
LAYOUTS: dict[str, Callable[[int, int, torch.dtype, str], torch.Tensor]] = {
    "n": fill,
    "t": lambda r, c, *where: fill(c, r, *where).t(),
    "slice": lambda r, c, *where: in_a_hole(fill(r, c, *where)),
    "slice_t": lambda r, c, *where: in_a_hole(fill(c, r, *where)).t(),
    "misaligned": _misaligned,
    "strided": lambda r, c, *where: in_a_hole(fill(r, c, *where), 2, 3),
    "strided_t": lambda r, c, *where: in_a_hole(fill(c, r, *where), 3, 2).t(),
    "row_expanded": lambda r, c, *where: fill(1, c, *where).expand(r, c),
    "col_expanded": lambda r, c, *where: fill(r, 1, *where).expand(r, c),
    "all_expanded": lambda r, c, *where: fill(1, 1, *where).expand(r, c),
    "overlapping": _hankel,
    "odd_strides_of_ones": _odd_strides_of_ones,
}
# Views whose elements are not what the memory holds.
LAZY_LAYOUTS: dict[str, Callable[[int, int, torch.dtype, str], torch.Tensor]] = {
    "neg": lambda r, c, *where: torch._neg_view(fill(r, c, *where)),
    "neg_t": lambda r, c, *where: torch._neg_view(fill(c, r, *where)).t(),
}
CONJ_LAYOUTS: dict[str, Callable[[int, int, torch.dtype, str], torch.Tensor]] = {
    "conj": lambda r, c, *where: fill(r, c, *where).conj(),
    "conj_t": lambda r, c, *where: fill(c, r, *where).mH,
    "conj_slice": lambda r, c, *where: in_a_hole(fill(r, c, *where)).conj(),
    "conj_neg": lambda r, c, *where: torch._neg_view(fill(r, c, *where)).conj(),
}


def layouts_of(dtype: torch.dtype) -> dict[str, Callable]:
    """The layouts that exist for a dtype."""
    lazy = {} if dtype in INTEGERS else LAZY_LAYOUTS
    return LAYOUTS | lazy | (CONJ_LAYOUTS if dtype.is_complex else {})


def pair(m: int, n: int, k: int, dtype: torch.dtype, device: str = "cpu"):
    """Row-major A [M, K] and B [K, N]."""
    return fill(m, k, dtype, device), fill(k, n, dtype, device)


def meta(m: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """A and B without memory, to plan for."""
    return (
        torch.empty(m, k, dtype=dtype, device="meta"),
        torch.empty(k, n, dtype=dtype, device="meta"),
    )


SLEEP = 500_000_000  # clock cycles of the GPU: a quarter of a second or more


def assert_the_host_does_not_wait(calls: Callable[[], None]) -> None:
    """That calls() returns while the GPU still sleeps."""
    calls()  # modules are loaded at their first use,
    calls()  # the sum of two gradients' among them
    torch.cuda.synchronize()
    asleep = torch.cuda.Event()
    torch.cuda._sleep(SLEEP)
    asleep.record()
    calls()
    assert not asleep.query(), "the calls returned only after the GPU had caught up"


def in_threads_and_streams(product: Callable[[int], torch.Tensor], expected: list) -> None:
    """product(i) 50 times in a thread and a stream of its own for every i, all side by side."""

    def work(i: int) -> int:
        with torch.cuda.stream(torch.cuda.Stream()):
            results = [product(i) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
        return sum(not torch.equal(c, expected[i]) for c in results)

    with ThreadPoolExecutor(len(expected)) as pool:  # map() raises what a thread raised
        wrong = list(pool.map(work, range(len(expected))))
    assert not any(wrong), f"{wrong} wrong results of 50 each"


def under_load(products: list[Callable[[], torch.Tensor]], expected: torch.Tensor) -> None:
    """100 products, these in turn, while another stream keeps the GPU busy."""
    load = torch.randn(4096, 4096, device="cuda").bfloat16()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(60):
            torch.mm(load, load)
    for c in [products[i % len(products)]() for i in range(100)]:
        assert_equal(c, expected)


def beside_another_stream(
    product: Callable, a: torch.Tensor, b: torch.Tensor, expected: torch.Tensor, times: int
) -> None:
    """Products, while another stream takes multiprocessors at random."""
    beside = torch.cuda.Stream()
    noise = torch.randn(1536, 1536, device="cuda").bfloat16()
    for _ in range(times):
        with torch.cuda.stream(beside):
            noise @ noise
        assert_equal(product(a, b), expected)


def written_late(product: Callable, a: torch.Tensor, b: torch.Tensor) -> None:
    """Operands that are written late on a side stream: kernels that start early, in the shadow of
    the one before, must wait for it before they read or write."""
    expected = product(a, b)
    late_a, late_b = a.clone(), b.clone()
    out = torch.zeros_like(expected)
    a.fill_(torch.nan)
    b.fill_(torch.nan)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP // 10)
        a.copy_(late_a)
        b.copy_(late_b)
        c = product(a, b)
        product(a, b, out=out)
    side.synchronize()
    assert_equal(c, expected)
    assert_equal(out, expected)


def chain_of_products(
    product: Callable, x: torch.Tensor, there: torch.Tensor, back: torch.Tensor
) -> None:
    """Each reads what the one before wrote, and writes what the one before read. Workspaces are
    handed on from call to call."""
    expected = x
    for _ in range(3):
        for weight in (there, back):
            expected = product(expected, weight)
            torch.cuda.synchronize()
    for _ in range(5):
        y, z = x.clone(), x.new_empty(x.shape[0], there.shape[1])
        for _ in range(3):
            product(y, there, out=z)
            product(z, back, out=y)
        assert_equal(y, expected)


def in_a_fresh_thread(product: Callable, a: torch.Tensor, b: torch.Tensor) -> None:
    """A thread that has not used the GPU before has no CUDA context yet, which the encoding of a
    tensor map asks for."""
    expected = product(a, b)
    out = torch.empty_like(expected)
    torch.cuda.synchronize()
    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(lambda: product(a, b, out=out)).result()
    torch.cuda.synchronize()
    assert_equal(out, expected)


def asked_for(call: Callable) -> tuple[int, int]:
    """How often a call asks for memory of the GPU, and how many bytes of it."""
    names = ("allocation.all.allocated", "requested_bytes.all.allocated")
    before = torch.cuda.memory_stats()
    kept = call()
    after = torch.cuda.memory_stats()
    del kept
    return tuple(after[name] - before[name] for name in names)


# fp16x3's tiles: of planes of both operands, and with the larger one as it lies.
PLANE_TILES = ("X3Tile128x128", "X3Tile64x64")
DIRECT_TILES = ("X3Direct64x64", "X3Direct64x32")
CUT_TILES = ((PLANE_TILES[0], 128, 1), (PLANE_TILES[1], 64, 2))  # side, blocks a multiprocessor
# By mma.sync, from compute capability 8.0 on; on 9.0 by name.
ASYNC_TILES = ("X3Async128x128", "X3Async128x64", "X3Async64x64")


def tma_reads(x: torch.Tensor) -> bool:
    """Whether TMA can read a matrix, of more than one row and column, where it lies."""
    along, across = sorted(x.stride())
    return along == 1 and across * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0


def parts_ways(a: torch.Tensor, b: torch.Tensor) -> list[tuple[str, bool, int, int]]:
    """fp16x3's ways to multiply: tile, swap_ab, the cluster's two sides."""
    ways = []
    for swap_ab, p in ((False, a), (True, b)):
        direct = DIRECT_TILES if min(p.shape) > 1 and tma_reads(p) else ()
        for tile in (*PLANE_TILES, *direct):
            ways += [(tile, swap_ab, *cluster) for cluster in ((1, 1), (2, 1), (1, 2))]
    return ways + [(tile, False, 1, 1) for tile in ASYNC_TILES]


def parts_cut_ways(m: int, n: int, batch: int = 1) -> list[tuple[str, bool, int, int]]:
    """The ways by stream-K: tiles do not divide among the clusters that run at once, and K has one
    segment."""
    chip = torch.cuda.get_device_properties(0).multi_processor_count
    ways = []
    for (tile, side, resident), swap_ab in itertools.product(CUT_TILES, (False, True)):
        for cluster in ((1, 1), (2, 1), (1, 2)):
            p, q = (n, m) if swap_ab else (m, n)
            clusters = chip * resident // (cluster[0] * cluster[1])
            units = math.ceil(p / (side * cluster[0])) * math.ceil(q / (side * cluster[1])) * batch
            if units > clusters and units % clusters:
                ways.append((tile, swap_ab, *cluster))
    return ways


def parts_cut_size() -> int:
    """The first multiple of 128 where each tile is cut, in every cluster."""
    every = 2 * 3 * len(CUT_TILES)
    return next(s for s in range(128, 10000, 128) if len(parts_cut_ways(s, s)) == every)
