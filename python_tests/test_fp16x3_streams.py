"""precision='fp16x3' on streams, in graphs and threads, and its memory."""

from __future__ import annotations

import cases
import pytest
import tiled_mm
import torch
from cases import column_major, each
from fp16x3 import (
    DATA,
    INF,
    LEAST_K,
    NAN,
    mm,
    normal,
    pair,
)
from golden import assert_equal
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


@each(
    "size",
    ((1000, 776, 4608), (333, 515, 1029), (64, 264, DEEP), (1000, 776, DEEP), (5, 1100, 4608)),
)
def test_100_repeats_under_load_from_another_stream(size: tuple) -> None:
    m, n, k = size
    a, b = DATA["hard"](m, k), DATA["hard"](k, n)
    cases.under_load([lambda: mm(a, b)], mm(a, b))


def test_graphs() -> None:
    sizes = ((136, 264, 64), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608), (67, 45, 21))
    sizes += ((5, 264, 515), (264, 16, DEEP))
    pairs = [pair(*size) for size in sizes]
    for a, b in pairs:  # as torch asks: once before it is captured
        mm(a, b)
        tiled_mm.fp16x3_recomputed(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [(mm(a, b), tiled_mm.fp16x3_recomputed(a, b)) for a, b in pairs]
    for special in (0.5, NAN, INF):
        for a, b in pairs:
            a.copy_(torch.randn_like(a))
            b.copy_(torch.randn_like(b))
            a[1, 2] = special
        for c, _ in results:
            c.fill_(NAN)
        graph.replay()
        for (a, b), (c, count) in zip(pairs, results, strict=True):
            assert_equal(c, mm(a, b))
            again = c.shape[1] if special != 0.5 else 0
            assert int(count) == (again if a.shape[1] >= LEAST_K else c.numel())


@each("size", ((136, 264, DEEP), (300, 200, 512), (67, 45, 21), (7, 264, 4608), (264, 1, DEEP)))
def test_the_current_stream_is_used(size: tuple) -> None:
    cases.written_late(mm, *pair(*size))


# (rows, K of one product and N of the other, the other way round)
@each("size", ((136, 136, 136), (131, 131, 131), (500, 4608, 2048), (72, DEEP, 72), (7, 300, 500)))
def test_a_chain_of_products(size: tuple) -> None:
    rows, k, n = size
    x = normal(rows, k) / k**0.5
    x[3, 5] = 1e20  # a row that is computed again, with all that follow from it
    cases.chain_of_products(mm, x, normal(k, n) / k**0.5, normal(n, k) / n**0.5)


def test_several_streams_and_threads_at_once() -> None:
    sizes = ((200, 152, 300), (5, 450, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [(DATA["hard"](m, k), DATA["hard"](k, n)) for m, n, k in sizes]
    expected = [mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: mm(*pairs[i]), expected)


def test_threads_that_have_not_used_the_gpu_before() -> None:
    cases.in_a_fresh_thread(mm, *pair(136, 264, 64))


def test_the_host_does_not_wait() -> None:
    a, b = (x.requires_grad_() for x in pair(67, 72, DEEP - 4))
    out = torch.empty(67, 72, device="cuda")

    def calls() -> None:
        mm(a, b).sum().backward()
        with torch.no_grad():
            mm(a, b, out=out)
            tiled_mm.bmm(a[None], b[None], precision="fp16x3")
            tiled_mm.fp16x3_recomputed(a, b)

    cases.assert_the_host_does_not_wait(calls)


def test_no_memory_but_the_result_and_the_workspace() -> None:
    def asked_for(call) -> tuple[int, int]:
        """How often memory was asked for, and bytes of it."""
        names = ("allocation.all.allocated", "requested_bytes.all.allocated")
        before = torch.cuda.memory_stats()
        kept = call()
        after = torch.cuda.memory_stats()
        del kept
        return tuple(after[name] - before[name] for name in names)

    for m, n, k in ((67, 45, 131), (300, 200, 512), (67, 45, DEEP), (67, 45, 21), (5, 200, 512)):
        a, b = pair(m, n, k)
        a[3, 4] = NAN
        for x, y in ((a, b), (column_major(a), b), (cases.in_a_hole(a, 2, 3), column_major(b))):
            workspace = tiled_mm.plan(x, y, precision="fp16x3").workspace_bytes
            assert (workspace > 0) == (k >= LEAST_K)
            times = 1 if workspace else 0
            out = torch.empty(m, n, device="cuda")
            found = asked_for(lambda x=x, y=y: mm(x, y))
            assert found == (1 + times, out.nbytes + workspace)
            found = asked_for(lambda x=x, y=y, out=out: mm(x, y, out=out))
            assert found == (times, workspace)
