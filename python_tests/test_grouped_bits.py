"""Drawn groupings beside mm of every group, bit for bit; what must not change a group's bits; and
CUDA graphs.

TILED_MM_GROUPINGS says how many groupings are drawn (200)."""

from __future__ import annotations

import os
import random

import cases
import groups
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from groups import SHARING

DRAWN = int(os.environ.get("TILED_MM_GROUPINGS", "200"))
SIZES = (8, 16, 24, 56, 64, 72, 100, 120, 128, 136, 192, 200, 256, 320)
UNALIGNED = (1, 3, 7, 33, 63, 65, 127, 129, 201)


def drawn(rng: random.Random, device: str) -> groups.Groups:
    dtype = rng.choice((*cases.HALVES, *cases.HALVES, torch.float32))
    form = rng.choice(("rows", "rows", *SHARING))
    ends, total = groups.draw(rng, 600)
    p, q = (rng.choice(UNALIGNED if rng.random() < 0.3 else SIZES) for _ in range(2))
    g = groups.make(form, ends, total, p, q, dtype, device, rng.choice((torch.int32, torch.int64)))
    a, b = (t.mT.contiguous().mT if rng.random() < 0.5 else t for t in (g.a, g.b))
    return g.on(a, b)


@each("part", range(4))
def test_drawn_groupings(device: str, part: int) -> None:
    rng = random.Random(part)
    for i in range(DRAWN // 4):
        g = drawn(rng, device)
        c = g.run()
        where = f"part {part}, number {i}: {g.form} {g.a.dtype} {g.ends} {g.a.shape} {g.b.shape}"
        for n, (one, right) in enumerate(zip(g.parts(c), g.expected(), strict=True)):
            assert same_bits(one, right), f"{where}: group {n}"
        assert not g.beyond(c).any(), where


@each("form", SHARING)
@each("dtype", (torch.bfloat16, torch.float32))
def test_the_order_of_groups_changes_nothing(device: str, form: str, dtype: torch.dtype) -> None:
    g = groups.make(form, (5, 5, 77, 140, 141), 141, 64, 72, dtype, device)
    order = [3, 0, 4, 2, 1]
    lengths = [end - begin for begin, end in g.spans()]
    ends = torch.tensor([lengths[i] for i in order]).cumsum(0).tolist()

    def turned(t: torch.Tensor, along: int | None) -> torch.Tensor:
        if along is None:
            return t[order]
        return torch.cat([t.split(lengths, along)[i] for i in order], along)

    a = turned(g.a, {"rows": 0, "k": 1}.get(form))
    b = turned(g.b, {"columns": 1, "k": 0}.get(form))
    offs = torch.tensor(ends, dtype=torch.int32, device=device)
    other = groups.Groups(form, a, b, tuple(ends), offs)
    here, there = g.parts(g.run()), other.parts(other.run())
    for place, i in enumerate(order):
        assert same_bits(there[place], here[i])


@each("form", SHARING)
def test_sums_of_every_group_are_cut_by_its_own_k(device: str, form: str) -> None:
    """Where K is from data, each group's decides where chains end (ops/core/segments.h)."""
    if form == "k":
        ends, total = (40000, 40016, 40016, 72784), 72800
        g = groups.make(form, ends, total, 24, 40, torch.bfloat16, device)
    else:
        sizes = {"rows": (33000, 40), "columns": (40, 33000)}[form]
        g = groups.make(form, (3, 20), 24, *sizes, torch.bfloat16, device)
    for one, right in zip(g.parts(g.run()), g.expected(), strict=True):
        assert same_bits(one, right)


@each("form", SHARING)
@each("dtype", cases.HALVES)
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_a_graph_reads_new_offsets(form: str, dtype: torch.dtype) -> None:
    """The ends are written in place between replays."""
    many = (0, 100, 228, 229, 500), (500, 500, 500, 500, 500), (0, 0, 0, 0, 0), (1, 2, 3, 4, 5)
    g = groups.make(form, many[0], 512, 128, 192, dtype, "cuda")
    g.run()  # plans and allocates
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = g.run()
    for ends in many:
        now = groups.Groups(
            form, g.a, g.b, ends, torch.tensor(ends, dtype=torch.int32, device="cuda")
        )
        g.offs.copy_(now.offs)
        c.fill_(float("nan"))
        graph.replay()
        for one, right in zip(now.parts(c), now.expected(), strict=True):
            assert same_bits(one, right)
        assert not now.beyond(c).any()


@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_the_host_does_not_wait() -> None:
    g = groups.make("rows", (100, 300), 300, 128, 192, torch.bfloat16, "cuda")
    x, weight = g.a.requires_grad_(), g.b.requires_grad_()

    def calls() -> None:
        y = tiled_mm.grouped_mm(x, weight, offs=g.offs)
        torch.autograd.grad(y, (x, weight), y)

    calls()
    cases.assert_the_host_does_not_wait(calls)


@pytest.mark.cuda
def test_a_capture_of_what_waits_says_why() -> None:
    g = groups.make("rows", (10, 30), 30, 16, 24, torch.float64, "cuda")
    g.run()
    refused = pytest.raises(RuntimeError, match="offsets on the device, so that they are copied")
    with refused, torch.cuda.graph(torch.cuda.CUDAGraph()):
        g.run()
    torch.cuda.synchronize()
    assert same_bits(g.parts(g.run())[0], g.expected()[0])
