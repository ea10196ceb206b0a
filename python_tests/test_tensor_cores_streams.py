"""The tensor-core rungs on streams, in graphs and threads, and in memory that others use."""

from __future__ import annotations

import functools
import itertools

import cases
import pytest
import tiled_mm
import torch
from cases import column_major, each
from golden import assert_equal
from rungs import DEEP
from tensor_cores import (
    ANY_LAYOUT,
    each_dtype,
    each_rung_and_dtype,
    mm,
    normal,
    rungs_for,
    ways,
)

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- where the result goes -----------------------------------------------------------------------


@each_dtype
def test_nothing_around_a_new_result_is_written(dtype: torch.dtype) -> None:
    """Results in a pool of canaries: each is one of many slices of the same memory."""
    a, b = cases.pair(200, 136, 72, dtype, "cuda")
    expected = mm(a, b)
    memory = cases.hole(16, 200 * 136 + 64, dtype, "cuda")
    for i in range(0, 16, 2):
        out = memory[i, 32 : 32 + 200 * 136].view(200, 136)
        mm(a, b, out=out)
        assert_equal(out, expected)
    edges = torch.cat([memory[::2, :32], memory[::2, 32 + 200 * 136 :]], 1)
    assert edges.isnan().all() and memory[1::2].isnan().all()


# ---- streams, graphs, threads --------------------------------------------------------------------


@each("size", ((1000, 776, 4608), (333, 515, 1029), (64, 264, DEEP), (1000, 776, DEEP)))
@each_dtype
def test_100_repeats_under_load_from_another_stream(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    products = [functools.partial(call, a, b) for call in ways(a, b)]
    cases.under_load(products, mm(a, b))


@each_dtype
def test_graphs(dtype: torch.dtype) -> None:
    """Aligned, repacked, and with segments shared out or totals in the workspace."""
    sizes = ((136, 264, 64), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [cases.pair(*size, dtype, "cuda") for size in sizes]
    calls = [ways(a, b) for a, b in pairs]
    for (a, b), called in zip(pairs, calls, strict=True):
        for call in called:  # as torch asks: once before it is captured
            call(a, b)
    graph = torch.cuda.CUDAGraph()
    results = []
    with torch.cuda.graph(graph):
        for (a, b), called in zip(pairs, calls, strict=True):
            results.append([call(a, b) for call in called])
    for _ in range(3):
        for a, b in pairs:
            a.copy_(torch.randn_like(a))
            b.copy_(torch.randn_like(b))
        for c in itertools.chain(*results):
            c.fill_(torch.nan)
        graph.replay()
        for (a, b), found in zip(pairs, results, strict=True):
            for c in found:
                assert_equal(c, mm(a, b, "mma_tile"))


@each_rung_and_dtype
def test_the_current_stream_is_used(dtype: torch.dtype, algo: str | None) -> None:
    a, b = cases.pair(136, 264, DEEP, dtype, "cuda")
    cases.written_late(functools.partial(mm, algo=algo), a, column_major(b))


@each("size", ((136, 136), (131, 131), (4608, 4608), (DEEP, 72)))
@each_dtype
def test_a_chain_of_products(dtype: torch.dtype, size: tuple[int, int]) -> None:
    k, n = size
    x = normal(n, k, dtype=dtype) / k**0.5
    there, back = normal(k, n, dtype=dtype) / k**0.5, normal(n, k, dtype=dtype) / n**0.5
    cases.chain_of_products(mm, x, there, back)


@each_dtype
def test_several_streams_and_threads_at_once(dtype: torch.dtype) -> None:
    sizes = ((200, 152, 300), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [cases.pair(*size, dtype, "cuda") for size in sizes]
    expected = [mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: mm(*pairs[i]), expected)


@each_dtype
def test_threads_that_have_not_used_the_gpu_before(dtype: torch.dtype) -> None:
    a, b = cases.pair(136, 264, 64, dtype, "cuda")
    b = column_major(b)
    for algo in (None, *rungs_for(a, b)):
        cases.in_a_fresh_thread(functools.partial(mm, algo=algo), a, b)


def test_the_host_does_not_wait() -> None:
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, DEEP - 4, torch.bfloat16, "cuda"))
    out = torch.empty(67, 45, device="cuda", dtype=torch.bfloat16)

    def calls() -> None:
        for algo in ANY_LAYOUT:
            tiled_mm.mm(a, b, algo=algo).sum().backward()
            with torch.no_grad():
                tiled_mm.mm(a, b, algo=algo, out=out)
                tiled_mm.bmm(a[None], b[None], algo=algo)

    cases.assert_the_host_does_not_wait(calls)
