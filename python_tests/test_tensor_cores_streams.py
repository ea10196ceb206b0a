"""The tensor-core rungs and fp16x3 on streams, in graphs and threads, and in memory that others
use."""

from __future__ import annotations

import functools
import itertools

import cases
import fp16x3
import pytest
import tiled_mm
import torch
from cases import column_major, each
from golden import assert_equal
from rungs import DEEP
from tensor_cores import (
    ANY_LAYOUT,
    PARTS,
    Instance,
    each_dtype,
    each_instance,
    each_rung_and_dtype,
    mm,
    ways,
)

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- where the result goes -----------------------------------------------------------------------


@each_instance
def test_nothing_around_a_new_result_is_written(instance: Instance) -> None:
    """Results in a pool of canaries: each is one of many slices of the same memory."""
    a, b = instance.make(200, 72), instance.make(72, 136)
    expected = instance.mm(a, b)
    memory = cases.hole(16, 200 * 136 + 64, instance.dtype, "cuda")
    for i in range(0, 16, 2):
        out = memory[i, 32 : 32 + 200 * 136].view(200, 136)
        instance.mm(a, b, out=out)
        assert_equal(out, expected)
    edges = torch.cat([memory[::2, :32], memory[::2, 32 + 200 * 136 :]], 1)
    assert edges.isnan().all() and memory[1::2].isnan().all()


# ---- streams, graphs, threads --------------------------------------------------------------------


@each(
    "size",
    ((1000, 776, 4608), (333, 515, 1029), (64, 264, DEEP), (1000, 776, DEEP), (5, 1100, 4608)),
)
@each_instance
def test_100_repeats_under_load_from_another_stream(instance: Instance, size: tuple) -> None:
    m, n, k = size
    a, b = instance.make(m, k), instance.make(k, n)
    products = [functools.partial(call, a, b) for call in instance.ways(a, b)]
    cases.under_load(products, instance.mm(a, b))


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


def test_graphs_of_fp16x3() -> None:
    sizes = ((136, 264, 64), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608), (67, 45, 21))
    sizes += ((5, 264, 515), (264, 16, DEEP))
    pairs = [fp16x3.pair(*size) for size in sizes]
    for a, b in pairs:  # as torch asks: once before it is captured
        PARTS.mm(a, b)
        tiled_mm.fp16x3_recomputed(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [(PARTS.mm(a, b), tiled_mm.fp16x3_recomputed(a, b)) for a, b in pairs]
    for special in (0.5, torch.nan, torch.inf):
        for a, b in pairs:
            a.copy_(torch.randn_like(a))
            b.copy_(torch.randn_like(b))
            a[1, 2] = special
        for c, _ in results:
            c.fill_(torch.nan)
        graph.replay()
        for (a, b), (c, count) in zip(pairs, results, strict=True):
            assert_equal(c, PARTS.mm(a, b))
            again = c.shape[1] if special != 0.5 else 0
            assert int(count) == (again if a.shape[1] >= fp16x3.LEAST_K else c.numel())


@each_rung_and_dtype
def test_the_current_stream_is_used(dtype: torch.dtype, algo: str | None) -> None:
    a, b = cases.pair(136, 264, DEEP, dtype, "cuda")
    cases.written_late(functools.partial(mm, algo=algo), a, column_major(b))


@each("size", ((136, 264, DEEP), (300, 200, 512), (67, 45, 21), (7, 264, 4608), (264, 1, DEEP)))
def test_the_current_stream_is_used_by_fp16x3(size: tuple) -> None:
    cases.written_late(PARTS.mm, *fp16x3.pair(*size))


# (rows, K of one product and N of the other, the other way round)
CHAINS = ((136, 136, 136), (131, 131, 131), (4608, 4608, 4608), (72, DEEP, 72))


@each("size", (*CHAINS, (500, 4608, 2048), (7, 300, 500)))
@each_instance
def test_a_chain_of_products(instance: Instance, size: tuple[int, int, int]) -> None:
    rows, k, n = size
    x, there, back = (
        (torch.randn(*s, device="cuda") / terms**0.5).to(instance.dtype)
        for s, terms in (((rows, k), k), ((k, n), k), ((n, k), n))
    )
    if instance is PARTS:
        x[3, 5] = 1e20  # a row that is computed again, with all that follow from it
    cases.chain_of_products(instance.mm, x, there, back)


@each_instance
def test_several_streams_and_threads_at_once(instance: Instance) -> None:
    sizes = ((200, 152, 300), (67, 45, 131), (5, 450, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [(instance.make(m, k), instance.make(k, n)) for m, n, k in sizes]
    expected = [instance.mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: instance.mm(*pairs[i]), expected)


@each_instance
def test_threads_that_have_not_used_the_gpu_before(instance: Instance) -> None:
    a, b = instance.make(136, 64), column_major(instance.make(64, 264))
    for algo in (None, *instance.rungs_for(a, b)):
        cases.in_a_fresh_thread(functools.partial(instance.mm, algo=algo), a, b)


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


def test_the_host_does_not_wait_for_fp16x3() -> None:
    a, b = (x.requires_grad_() for x in fp16x3.pair(67, 72, DEEP - 4))
    out = torch.empty(67, 72, device="cuda")

    def calls() -> None:
        PARTS.mm(a, b).sum().backward()
        with torch.no_grad():
            PARTS.mm(a, b, out=out)
            tiled_mm.bmm(a[None], b[None], precision="fp16x3")
            tiled_mm.fp16x3_recomputed(a, b)

    cases.assert_the_host_does_not_wait(calls)
