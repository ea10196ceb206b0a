"""What only a GPU can show: streams, graphs, devices, memory, large grids."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import column_major, each
from fp16x3 import LEAST_K
from golden import assert_same_bits

pytestmark = pytest.mark.cuda
parts_rung = pytest.param(rungs.PARTS_RUNG, marks=pytest.mark.tensor_cores)
each_rung = each("algo", (None, *rungs.RUNGS["cuda"], parts_rung))


@pytest.fixture
def no_synchronisation() -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@rungs.each_rung_and(cases.DTYPES, "cuda")
def test_graphs(algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(67, 45, 131, dtype, "cuda")
    out = cases.hole(67, 45, dtype, "cuda")
    tiled_mm.mm(a, b, algo=algo)  # as torch asks: once before it is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = tiled_mm.mm(a, b, algo=algo)
        tiled_mm.mm(a, b, algo=algo, out=out)
    for _ in range(3):
        new_a, new_b = cases.pair(67, 45, 131, dtype, "cuda")
        a.copy_(new_a)
        b.copy_(new_b)
        c.fill_(cases.poison(dtype))
        out.fill_(cases.poison(dtype))
        graph.replay()
        expected = tiled_mm.mm(new_a, new_b, algo=algo)
        assert_same_bits(c, expected)
        assert_same_bits(out, expected)


@each_rung
def test_graphs_of_a_training_step(algo: str | None) -> None:
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, 131, torch.float32, "cuda"))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # torch asks for a warm-up of autograd on a side stream
        tiled_mm.mm(a, b, algo=algo).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    a.grad = b.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tiled_mm.mm(a, b, algo=algo).sum().backward()
    new_a, new_b = cases.pair(67, 45, 131, torch.float32, "cuda")
    with torch.no_grad():
        a.copy_(new_a)
        b.copy_(new_b)
    graph.replay()
    ones = torch.ones(67, 45, device="cuda")
    assert_same_bits(a.grad, tiled_mm.mm(ones, new_b.t(), algo=algo))
    assert_same_bits(b.grad, tiled_mm.mm(new_a.t(), ones, algo=algo))


@each("dtype", (torch.float32, torch.bfloat16))
def test_the_first_call_of_a_process_may_be_captured(dtype: torch.dtype) -> None:
    script = f"""
import torch, tiled_mm
a, b = (torch.randn(size).cuda().to({dtype}) for size in ((167, 131), (131, 245)))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    c = tiled_mm.mm(a, b)
graph.replay()
assert torch.equal(c, tiled_mm.mm(a, b))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@each_rung
def test_the_current_stream_is_used(algo: str | None) -> None:
    product = functools.partial(tiled_mm.mm, algo=algo)
    cases.written_late(product, *cases.pair(67, 45, 131, torch.float32, "cuda"))


@each_rung
def test_the_host_does_not_wait(algo: str | None) -> None:
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, 131, torch.float32, "cuda"))
    out = torch.empty(67, 45, device="cuda")

    def calls() -> None:
        tiled_mm.mm(a, b, algo=algo).sum().backward()
        with torch.no_grad():
            tiled_mm.mm(a, b, algo=algo, out=out)
            tiled_mm.bmm(a[None], b[None], algo=algo)

    cases.assert_the_host_does_not_wait(calls)


@rungs.each_rung_and(cases.DTYPES, "cuda")
def test_no_synchronisation(algo: str | None, dtype: torch.dtype, no_synchronisation: None) -> None:
    a = torch.ones(67, 131, device="cuda").to(dtype)
    b = torch.ones(131, 45, device="cuda").to(dtype)
    tiled_mm.mm(a, b, algo=algo)
    tiled_mm.mm(a, b, algo=algo, out=torch.empty(67, 45, dtype=dtype, device="cuda"))
    tiled_mm.bmm(a[None], b[None], algo=algo)


@rungs.each_rung_and(cases.FLOATS, "cuda")
def test_no_memory_but_the_result_and_what_the_plan_declares(algo: str | None, dtype) -> None:
    a, b = cases.pair(67, 45, 131, dtype, "cuda")
    deep_a, deep_b = cases.pair(67, 45, 36868, dtype, "cuda")  # K is cut

    layouts = {"n": a, "t": a.t().contiguous().t(), "strided": cases.in_a_hole(a, 2, 3)}
    others = []
    if algo == rungs.PARTS_RUNG:
        a[3, 4] = torch.nan  # a row that is computed again
        others = [(column_major(a), column_major(b)), (a[:, :21], b[:21])]
        others += [cases.pair(*size, dtype, "cuda") for size in ((300, 200, 512), (5, 200, 512))]
    for x, y in (*((x, b) for x in layouts.values()), (deep_a, deep_b), *others):
        plan = tiled_mm.plan(x, y, algo=algo)
        workspace = plan.workspace_bytes
        copies = any(step.work == "copy" for step in plan.steps)
        chains_alone = plan.algo == "naive" or plan.algo.startswith("shared_tile")
        keeps_totals = x is deep_a and not chains_alone
        in_place = plan.algo == "mma_tile" or plan.arithmetic == "fma"
        if in_place and not plan.converted and not copies and not keeps_totals:
            assert workspace == 0
        if plan.arithmetic == "fp16x3":
            assert (workspace > 0) == (x.shape[1] >= LEAST_K)
        out = torch.empty(x.shape[0], y.shape[1], dtype=dtype, device="cuda")
        times = 1 if workspace else 0
        found = cases.asked_for(lambda x=x, y=y: tiled_mm.mm(x, y, algo=algo))
        assert found == (1 + times, out.nbytes + workspace), plan.algo
        found = cases.asked_for(lambda x=x, y=y, out=out: tiled_mm.mm(x, y, algo=algo, out=out))
        assert found == (times, workspace), plan.algo


@each("size", ((2044, 2052, 132), (2043, 2051, 131)))
def test_operands_that_are_transposed_first(size: tuple) -> None:
    """In squares and what is left of them, by vectors where they are aligned."""
    m, n, k = size
    for a, b in (
        cases.pair(m, n, k, torch.float32, "cuda"),
        [column_major(x) for x in cases.pair(m, n, k, torch.float32, "cuda")],
    ):
        ways = [way for way in rungs.ways_of(a, b, "register_tile") if "copied" in way[0]]
        assert ways or not rungs.has_tensor_core_kernels("cuda")
        expected = tiled_mm.mm(a, b, algo="naive")
        for way in ways:
            c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, algo="register_tile")
            assert_same_bits(c, expected, str(way))
        batch = [
            torch.stack((x.t(), -x.t())).mT if x.stride(0) == 1 else torch.stack((x, -x))
            for x in (a, b)
        ]
        assert_same_bits(tiled_mm.bmm(*batch), tiled_mm.bmm(*batch, algo="naive"))


def test_several_streams_and_threads_at_once() -> None:
    pairs = [cases.pair(200, 150, 300 + i, torch.float32, "cuda") for i in range(4)]
    expected = [tiled_mm.mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: tiled_mm.mm(*pairs[i]), expected)


@pytest.mark.tensor_cores
def test_threads_whose_blocks_differ_in_size() -> None:
    """Few rows take shared memory by K, of one kernel: what one thread launches it with, or asks
    for its attributes, may not lower what another is about to launch it with."""
    pairs = [cases.pair(16, 512, 1280 + 256 * i, torch.float32, "cuda") for i in range(16)]
    asked = {"algo": rungs.PARTS_RUNG}
    way = ("FewRows512", True, 1, 1, False)

    def with_way(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked)

    expected = [with_way(a, b) for a, b in pairs]
    torch.cuda.synchronize()

    def product(i: int) -> torch.Tensor:
        torch.ops.tiled_debug.kernel_attributes(*pairs[i], **asked)
        for _ in range(10):
            c = with_way(*pairs[i])
        return c

    cases.in_threads_and_streams(product, expected)


def test_the_bits_under_load_from_another_stream() -> None:
    a, b = cases.pair(500, 300, 5000, torch.float32, "cuda")
    cases.under_load([lambda: tiled_mm.mm(a, b)], tiled_mm.mm(a, b))


def test_a_batch_invariant_layer() -> None:
    """1 to 256 rows of a batch of 2048, through a weight of a language model's size."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        a, b = cases.pair(2048, 4096, 4096, dtype, "cuda")
        c = tiled_mm.mm(a, b)
        for rows in (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128, 129, 255, 256):
            for begin in (0, 1001):
                part = slice(begin, begin + rows)
                assert torch.equal(tiled_mm.mm(a[part], b), c[part]), f"{dtype}, {part}"


@each_rung
def test_more_tiles_than_a_grid_dimension_holds(algo: str | None) -> None:
    """A grid has at most 65,535 blocks along y and z."""
    for m, n, k in ((8_500_000, 1, 2), (1, 8_500_000, 2)):
        a, b = cases.pair(m, n, k, torch.float32, "cuda")
        gates.check_elements(tiled_mm.mm(a, b, algo=algo), a, b)


@each_rung
def test_more_batch_entries_than_a_grid_dimension_holds(algo: str | None) -> None:
    a = torch.randint(-9, 10, (70_001, 3, 5), device="cuda").float()
    b = torch.randint(-9, 10, (70_001, 5, 2), device="cuda").float()
    assert torch.equal(tiled_mm.bmm(a, b, algo=algo), (a[:, :, :, None] * b[:, None]).sum(2))


def test_a_second_device() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    a, b = cases.pair(67, 45, 131, torch.float32)
    expected = tiled_mm.mm(a, b)
    for current, index in ((0, 1), (1, 0)):
        device = torch.device("cuda", index)
        with torch.cuda.device(current):
            for algo in rungs.RUNGS["cuda"]:
                x, y = a.to(device).requires_grad_(), b.to(device)
                c = tiled_mm.mm(x, y, algo=algo)
                c.sum().backward()
                assert c.device == device and torch.cuda.current_device() == current
                assert_same_bits(c, expected)
                out = torch.empty(67, 45, device=device)
                tiled_mm.mm(x.detach(), y, algo=algo, out=out)
                assert_same_bits(out, expected)
        with torch.cuda.device(index), torch.cuda.stream(torch.cuda.Stream(device)):
            assert_same_bits(tiled_mm.mm(a.to(device), b.to(device)), expected)
    with pytest.raises(RuntimeError, match="same device"):
        tiled_mm.mm(a.to("cuda:0"), b.to("cuda:1"))
