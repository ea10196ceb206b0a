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


OTHERS = (torch.float64, torch.int8, torch.int32, torch.int64, torch.complex64, torch.complex128)
PRECISIONS = ("ieee", "tf32", "fp16x3")  # of fp32, on a GPU


def drawn(rng: random.Random, device: str) -> tuple[groups.Groups, dict[str, str]]:
    """A grouping, and the options of its product."""
    dtype = rng.choice((*cases.HALVES * 3, *(torch.float32,) * 4, *OTHERS))
    options = {}
    if dtype == torch.float32 and device == "cuda":
        options["precision"] = rng.choice(PRECISIONS)
    form = rng.choice(("rows", "rows", *SHARING))
    ends, total = groups.draw(rng, 600)
    p, q = (rng.choice(UNALIGNED if rng.random() < 0.3 else SIZES) for _ in range(2))
    g = groups.make(form, ends, total, p, q, dtype, device, rng.choice((torch.int32, torch.int64)))
    a, b = (t.mT.contiguous().mT if rng.random() < 0.5 else t for t in (g.a, g.b))
    if options.get("precision") == "fp16x3" and rng.random() < 0.5:
        spread(rng, a, b)
    return g.on(a, b), options


def spread(rng: random.Random, *operands: torch.Tensor) -> None:
    """What two fp16 parts cannot hold: elements far above and far below others, infinity, NaN."""
    for t in operands:
        for value in (1e30, 1e-30, float("inf"), float("nan"), 3e38)[: rng.randint(1, 5)]:
            if t.numel() > 0:
                t[tuple(rng.randrange(size) for size in t.shape)] = value


@each("part", range(4))
def test_drawn_groupings(device: str, part: int) -> None:
    rng = random.Random(part)
    for i in range(DRAWN // 4):
        g, options = drawn(rng, device)
        c = g.run(**options)
        where = f"part {part}, number {i}: {g.form} {g.a.dtype} {g.ends} {g.a.shape} {g.b.shape}"
        for n, (one, right) in enumerate(zip(g.parts(c), g.expected(**options), strict=True)):
            assert same_bits(one, right), f"{where} {options}: group {n}"
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


# Of every kernel for groups: hopper, register_tile with cp.async, async_mma, fp16x3, mma_tile in
# fp64, async_mma of bytes, register_tile.
KINDS = (
    (torch.float16, None),
    (torch.bfloat16, None),
    (torch.float32, "ieee"),
    (torch.float32, "tf32"),
    (torch.float32, "fp16x3"),
    (torch.float64, None),
    (torch.int8, None),
    (torch.complex64, None),
)


@each("form", SHARING)
@each("kind", [kind for kind in KINDS if kind[0].is_floating_point])
def test_sums_of_every_group_are_cut_by_its_own_k(
    device: str, form: str, kind: tuple[torch.dtype, str | None]
) -> None:
    """Where K is from data, each group's decides where chains end (ops/core/segments.h)."""
    dtype, precision = kind
    if device == "cpu":
        precision = None
    if form == "k":
        ends, total = (40000, 40016, 40016, 72784), 72800
        g = groups.make(form, ends, total, 24, 40, dtype, device)
    else:
        sizes = {"rows": (33000, 40), "columns": (40, 33000)}[form]
        g = groups.make(form, (3, 20), 24, *sizes, dtype, device)
    parts = g.parts(g.run(precision=precision))
    for one, right in zip(parts, g.expected(precision=precision), strict=True):
        assert same_bits(one, right)


@pytest.mark.cuda
@pytest.mark.tensor_cores
@each("form", ("rows", "columns"))
@each("total", (1024, 4096))
def test_groups_of_many_steps(form: str, total: int) -> None:
    """Stages of the ring are filled many times for each tile of a group: of small tiles, and of
    tiles that consumers take in turn."""
    ends = tuple(total * part // 8 for part in (1, 3, 3, 8))
    sizes = (4096, 1024) if form == "rows" else (1024, 4096)  # K is 4096
    g = groups.make(form, ends, total, *sizes, torch.bfloat16, "cuda")
    expected = g.expected()
    for _ in range(10):
        for one, right in zip(g.parts(g.run()), expected, strict=True):
            assert same_bits(one, right)


@each("form", SHARING)
@each("kind", KINDS)
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_a_graph_reads_new_offsets(form: str, kind: tuple[torch.dtype, str | None]) -> None:
    """The ends are written in place between replays."""
    dtype, precision = kind
    many = (0, 100, 228, 229, 500), (500, 500, 500, 500, 500), (0, 0, 0, 0, 0), (1, 2, 3, 4, 5)
    g = groups.make(form, many[0], 512, 128, 192, dtype, "cuda")
    g.run(precision=precision)  # plans and allocates
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = g.run(precision=precision)
    for ends in many:
        now = groups.Groups(
            form, g.a, g.b, ends, torch.tensor(ends, dtype=torch.int32, device="cuda")
        )
        g.offs.copy_(now.offs)
        c.fill_(77)
        graph.replay()
        for one, right in zip(now.parts(c), now.expected(precision=precision), strict=True):
            assert same_bits(one, right)
        assert not now.beyond(c).any()


@each("form", SHARING)
@each("kind", [kind for kind in KINDS if kind[0].is_floating_point])
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_neighbours_enter_no_sum(form: str, kind: tuple[torch.dtype, str | None]) -> None:
    """NaN and infinity in one group, and behind the last, leave the others as they are."""
    dtype, precision = kind
    ends = (3, 70, 70, 200, 331)
    g = groups.make(form, ends, 400, 72, 88, dtype, "cuda")
    right = g.expected(precision=precision)
    a, b = g.a.clone(), g.b.clone()
    for t, along in ((a, {"rows": 0, "k": 1}.get(form)), (b, {"columns": 1, "k": 0}.get(form))):
        if along is not None:
            t.narrow(along, 70, 130).fill_(float("nan"))
            t.narrow(along, 331, 69).fill_(float("inf"))
    c = g.on(a, b).run(precision=precision)
    for n, (one, other) in enumerate(zip(g.parts(c), right, strict=True)):
        assert n == 3 or same_bits(one, other), n
    assert not g.beyond(c).any()


@each("kind", KINDS)
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_the_host_does_not_wait(kind: tuple[torch.dtype, str | None]) -> None:
    dtype, precision = kind
    g = groups.make("rows", (100, 300), 300, 128, 192, dtype, "cuda")
    differs = dtype.is_floating_point or dtype.is_complex
    x, weight = g.a.requires_grad_(differs), g.b.requires_grad_(differs)

    def calls() -> None:
        y = tiled_mm.grouped_mm(x, weight, offs=g.offs, precision=precision)
        if differs:
            torch.autograd.grad(y, (x, weight), y)

    calls()
    cases.assert_the_host_does_not_wait(calls)
