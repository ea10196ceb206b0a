"""scaled_mm of groups: each has the bits of scaled_mm of its own part, in every form and recipe."""

from __future__ import annotations

import groups
import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES

pytestmark = pytest.mark.scaled

ENDS = (40, 40, 170, 300)  # an empty group, groups in no multiple of anything, rows behind the last
TOTAL = 310
ALIGNED = (128, 128, 384, 512)


def operands(
    form: str, ends: tuple[int, ...], total: int, device: str, k: int = 200
) -> groups.Groups:
    """Operands of fp8, and of int32 ends."""
    generator = torch.Generator().manual_seed(5)

    def matrix(dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    count = len(ends)
    shapes = {
        "rows": ((total, k), (count, k, 72)),
        "columns": ((count, 60, k), (k, total)),
        "k": ((60, total), (total, 72)),
        "batch": ((count, 60, k), (count, k, 72)),
    }[form]
    offs = None if form == "batch" else torch.tensor(ends, dtype=torch.int32, device=device)
    return groups.Groups(
        form,
        matrix(E4M3, *shapes[0]),
        matrix(E5M2, *shapes[1]),
        None if offs is None else ends,
        offs,
    )


def scales(shape: tuple[int, ...], seed: int, device: str) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(device) + 0.1


def along_rows(recipe: str, rows: int, k: int, is_b: bool) -> tuple[int, int]:
    shape = scaled.scale_shape(recipe, rows, k)
    shape = (1, 1) if recipe == "TensorWise" else shape
    return shape[::-1] if is_b else shape


def check(g: groups.Groups, scale_a, scale_b, of_a, of_b) -> None:
    """`of_a` and `of_b` take a group's scales: by number, begin and end."""
    c = tiled_mm.scaled_mm(g.a, g.b, scale_a, scale_b, offs=g.offs, out_dtype=torch.float32)
    spans = g.spans() or [(0, 0)] * len(g.a)
    for i, (part, (a, b), span) in enumerate(zip(g.parts(c), g.each(), spans, strict=True)):
        one = tiled_mm.scaled_mm(a, b, of_a(i, *span), of_b(i, *span), out_dtype=torch.float32)
        assert same_bits(part.contiguous(), one)
    assert not g.beyond(c).any()


@each("recipe_a", RECIPES[:3])
@each("recipe_b", RECIPES)
@each("form", ("rows", "columns"))
def test_rows_or_columns_shared_out(device: str, form: str, recipe_a: str, recipe_b: str) -> None:
    g = operands(form, ENDS, TOTAL, device)
    entries = len(ENDS)
    if form == "rows":
        shared = scales(along_rows(recipe_a, TOTAL, 200, False), 1, device)
        own = scales((entries, *along_rows(recipe_b, 72, 200, True)), 2, device)
        check(
            g,
            shared,
            own,
            lambda _, begin, end: shared if recipe_a == "TensorWise" else shared[begin:end],
            lambda i, *_: own[i],
        )
    else:
        own = scales((entries, *along_rows(recipe_b, 60, 200, False)), 1, device)
        shared = scales(along_rows(recipe_a, TOTAL, 200, True), 2, device)
        check(
            g,
            own,
            shared,
            lambda i, *_: own[i],
            lambda _, begin, end: shared if recipe_a == "TensorWise" else shared[:, begin:end],
        )


@each("recipe", RECIPES)
def test_batches(device: str, recipe: str) -> None:
    g = operands("batch", ENDS, TOTAL, device)
    own_a = scales((4, *along_rows(recipe, 60, 200, False)), 1, device)
    own_b = scales((4, *along_rows(recipe, 72, 200, True)), 2, device)
    check(g, own_a, own_b, lambda i, *_: own_a[i], lambda i, *_: own_b[i])


def test_scales_as_torch_has_them_for_groups(device: str) -> None:
    """[T] of rows that are shared out, [E, N] of batches, [E * M] where K is."""
    g = operands("rows", ENDS, TOTAL, device)
    rows, own = scales((TOTAL,), 1, device), scales((4, 72), 2, device)
    check(g, rows, own, lambda _, begin, end: rows[begin:end, None], lambda i, *_: own[i, None])
    g = operands("k", ENDS, TOTAL, device)
    a, b = scales((4, 60), 1, device), scales((4, 72), 2, device)
    check(g, a.view(-1), b.view(-1), lambda i, *_: a[i, :, None], lambda i, *_: b[i, None])
    check(g, a[..., None], b[:, None], lambda i, *_: a[i, :, None], lambda i, *_: b[i, None])
    one = a[0, :, None]
    check(g, one, b[0, None], lambda *_: one, lambda *_: b[0, None])


@each("recipe_a", RECIPES[2:])
@each("recipe_b", RECIPES[2:])
def test_k_shared_out_in_blocks(device: str, recipe_a: str, recipe_b: str) -> None:
    """Groups that begin at multiples of 128, and groups that begin anywhere."""
    for ends, total, spaced in ((ALIGNED, 520, False), (ENDS, TOTAL, True)):
        g = operands("k", ends, total, device)
        blocks = total // 128 + len(ends) if spaced else scaled.blocks(total)
        scale_a = scales((along_rows(recipe_a, 60, 1, False)[0], blocks), 1, device)
        scale_b = scales((blocks, along_rows(recipe_b, 72, 1, True)[1]), 2, device)

        def part(i: int, begin: int, end: int, spaced: bool = spaced) -> slice:
            first = begin // 128 + (i if spaced else 0)
            return slice(first, first + scaled.blocks(end - begin))

        check(
            g,
            scale_a,
            scale_b,
            lambda *at, scale=scale_a, part=part: scale[:, part(*at)],
            lambda *at, scale=scale_b, part=part: scale[part(*at)],
        )


def test_groups_that_share_a_block(device: str) -> None:
    """They are refused where the host knows them. A GPU's kernels count blocks from that one on."""
    g = operands("k", ENDS, TOTAL, device)
    scale_a, scale_b = scales((60, 3), 1, device), scales((3, 72), 2, device)
    if device == "cpu":
        with pytest.raises(RuntimeError, match="begin at multiples of 128"):
            tiled_mm.scaled_mm(g.a, g.b, scale_a, scale_b, offs=g.offs)
    else:

        def part(begin: int, end: int) -> slice:
            return slice(begin // 128, begin // 128 + scaled.blocks(end - begin))

        check(
            g,
            scale_a,
            scale_b,
            lambda _, begin, end: scale_a[:, part(begin, end)],
            lambda _, begin, end: scale_b[part(begin, end)],
        )
    with pytest.raises(RuntimeError, match="not each in another way"):
        tiled_mm.scaled_mm(
            g.a, g.b, scales((60, 3), 1, device), scales((6, 72), 2, device), offs=g.offs
        )


@each("lies", ("along K", "across K"))
@pytest.mark.cuda
@pytest.mark.tensor_cores
def test_k_shared_out_in_a_graph(lies: str) -> None:
    """The kernels read the ends; those that are none are taken as the nearest that are."""
    many = {
        (40, 40, 170, 300): (40, 40, 170, 300),
        (310, 310, 310, 310): (310, 310, 310, 310),
        (0, 0, 0, 0): (0, 0, 0, 0),
        (1, 2, 300, 301): (1, 2, 300, 301),
        (200, 100, -5, 1000): (200, 200, 200, 310),
    }
    g = operands("k", ENDS, TOTAL, "cuda")
    g = g.on(g.a, g.b.t().contiguous().t())
    if lies == "across K":
        g = g.on(g.a.t().contiguous().t(), g.b.contiguous())
    blocks = TOTAL // 128 + len(ENDS)
    scale_a, scale_b = scales((60, blocks), 1, "cuda"), scales((blocks, 72), 2, "cuda")

    def run() -> torch.Tensor:
        return tiled_mm.scaled_mm(g.a, g.b, scale_a, scale_b, offs=g.offs)

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = run()
    for ends, taken in many.items():
        g.offs.copy_(torch.tensor(ends, dtype=torch.int32))
        c.fill_(77)
        graph.replay()
        for i, (begin, end) in enumerate(zip((0, *taken), taken, strict=False)):
            at = slice(begin // 128 + i, begin // 128 + i + scaled.blocks(end - begin))
            one = tiled_mm.scaled_mm(g.a[:, begin:end], g.b[begin:end], scale_a[:, at], scale_b[at])
            assert same_bits(c[i], one)


@each("dtype", (E4M3, torch.int8))
@pytest.mark.cuda
@pytest.mark.tensor_cores
def test_neighbours_enter_no_sum_over_k(dtype: torch.dtype) -> None:
    """A group has the same bits beside groups of NaN (of int8: of anything), in every tile's size;
    beside a main_grad too."""
    generator = torch.Generator().manual_seed(6)
    for rows, columns in ((256, 384), (60, 72)):
        ends = torch.tensor((100, 333, 1000, 1311), dtype=torch.int32, device="cuda")
        a = torch.randn(rows, 1311, generator=generator).mul(9).to(dtype).cuda()
        b = torch.randn(columns, 1311, generator=generator).mul(9).to(dtype).cuda()
        poisoned = []
        for x in (a, b):
            y = x.clone()
            y[:, :100] = float("nan") if dtype == E4M3 else -128
            y[:, 333:] = float("nan") if dtype == E4M3 else 127
            poisoned.append(y)
        scale_a, scale_b = scales((4, rows, 1), 1, "cuda"), scales((4, 1, columns), 2, "cuda")
        c = tiled_mm.scaled_mm(a, b.t(), scale_a, scale_b, offs=ends)
        d = tiled_mm.scaled_mm(poisoned[0], poisoned[1].t(), scale_a, scale_b, offs=ends)
        assert same_bits(c[1], d[1])
        assert not same_bits(c[0], d[0])
        assert not same_bits(c[2], d[2])
        before = torch.randn(4, rows, columns, generator=generator).cuda()
        grads = []
        for x, y in ((a, b), poisoned):
            grad = before.clone()
            torch.ops.tiled._add_scaled_mm(grad, x, y.t(), scale_a, scale_b, offs=ends)
            grads.append(grad)
        assert same_bits(grads[0][1], grads[1][1])
        assert not same_bits(grads[0][1], before[1])


def test_bias_and_int8(device: str) -> None:
    g = operands("rows", ENDS, TOTAL, device)
    rows, own, bias = (
        scales((TOTAL, 1), 1, device),
        scales((4, 1, 72), 2, device),
        scales((4, 72), 3, device),
    )
    a, b = g.a.view(torch.int8), g.b.view(torch.int8)
    c = tiled_mm.scaled_mm(a, b, rows, own, offs=g.offs, bias=bias, activation="relu")
    for i, (begin, end) in enumerate(g.spans()):
        one = tiled_mm.scaled_mm(
            a[begin:end], b[i], rows[begin:end], own[i], bias=bias[i], activation="relu"
        )
        assert same_bits(c[begin:end], one)


def test_bad_offsets_and_scales() -> None:
    g = operands("rows", ENDS, TOTAL, "cpu")
    rows, own = scales((TOTAL, 1), 1, "cpu"), scales((4, 1, 72), 2, "cpu")
    with pytest.raises(RuntimeError, match="offs must not decrease"):
        tiled_mm.scaled_mm(g.a, g.b, rows, own, offs=g.offs.flip(0).contiguous())
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        tiled_mm.scaled_mm(g.a, g.b, rows, own)
    with pytest.raises(RuntimeError, match="Offsets have to be int32 or int64"):
        tiled_mm.scaled_mm(g.a, g.b, rows, own, offs=g.offs.float())
    with pytest.raises(RuntimeError, match="Invalid scaling configuration"):
        blocks = scales((3, 2), 1, "cpu")  # 128x128 of rows that groups share out
        tiled_mm.scaled_mm(g.a, g.b, blocks, own, offs=g.offs)
