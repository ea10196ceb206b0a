"""grouped_mm under opcheck, torch.export, torch.compile, vmap, autocast and FlopCounterMode, and
without data."""

from __future__ import annotations

import groups
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from groups import FORMS, SHARING
from test_compile import opcheck
from test_flops import counted
from torch.func import grad, jvp, vmap

tiled = torch.ops.tiled
ENDS = (0, 2, 2, 5)


def small(form: str, dtype: torch.dtype = torch.float32, device: str = "cpu") -> groups.Groups:
    return groups.make(form, ENDS, 7, 4, 6, dtype, device)


@each("form", FORMS)
def test_opcheck(device: str, form: str) -> None:
    g = small(form, device=device)
    a, b = g.a.requires_grad_(), g.b.requires_grad_()
    opcheck(tiled.grouped_mm.default, (a, b, g.offs), {})
    opcheck(tiled._grouped_mm_with_pre_activation.default, (a, b, g.offs), {"activation": "silu"})
    if form != "columns":
        bias = torch.randn(4, 6, device=device, requires_grad=True)
        opcheck(tiled.grouped_mm.default, (a, b, g.offs, bias), {"activation": "gelu"})
    h = small(form, torch.bfloat16, device)
    opcheck(tiled.grouped_mm.default, (h.a, h.b, h.offs), {"out_dtype": torch.float32})
    out = torch.empty_like(g.run().detach())
    opcheck(tiled.grouped_mm.out, (g.a.detach(), g.b.detach(), g.offs), {"out": out})


def test_opcheck_of_what_is_added_to(device: str) -> None:
    g = small("k", device=device)
    sum = torch.randn(4, 4, 6, device=device)
    opcheck(tiled._add_grouped_weight_grad.default, (sum, g.a.mT, g.b, g.offs), {})


@each("form", FORMS)
def test_without_data(form: str) -> None:
    g = small(form)
    right = g.run(out_dtype=torch.float32)
    meta = [None if t is None else t.to("meta") for t in (g.a, g.b, g.offs)]
    got = tiled.grouped_mm(*meta)
    assert got.shape == right.shape and got.stride() == right.stride() and got.is_meta
    half = [None if t is None else t.bfloat16() for t in meta[:2]]
    assert tiled.grouped_mm(*half, meta[2], out_dtype=torch.float32).dtype == torch.float32
    with pytest.raises(RuntimeError, match="contraction dimension"):
        tiled.grouped_mm(meta[0], meta[1][..., :3, :], meta[2])


@each("form", FORMS)
def test_compile_without_a_break(device: str, form: str) -> None:
    g = small(form, device=device)

    def step(a, b, offs):
        return tiled_mm.grouped_mm(a, b, offs=offs, activation="silu")

    inputs = g.a.requires_grad_(), g.b.requires_grad_(), g.offs
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    got, right = (
        (c, *torch.autograd.grad(c.square().sum(), inputs[:2]))
        for c in (compiled(*inputs), step(*inputs))
    )
    for one, other in zip(got, right, strict=True):
        assert same_bits(one, other)


def test_compile_with_sizes_from_data(device: str) -> None:
    """The rows that were chosen are as many as the data says."""
    torch._dynamo.reset()

    def layer(x, weight, keep, offs):
        rows = x[keep.nonzero().squeeze(1)]
        return tiled_mm.grouped_mm(rows, weight, offs=offs)

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for rows in (9, 5, 30):
            x = torch.randn(rows, 4, device=device)
            weight = torch.randn(2, 4, 6, device=device)
            keep = torch.arange(rows, device=device) % 2 == 0
            offs = torch.tensor([1, (rows + 1) // 2], device=device)
            args = x, weight, keep, offs
            assert same_bits(compiled(*args), layer(*args))


@each("form", SHARING)
def test_export(device: str, form: str) -> None:
    class Layer(torch.nn.Module):
        def forward(self, a, b, offs):
            return tiled_mm.grouped_mm(a, b, offs=offs)

    g = small(form, device=device)
    dim = torch.export.Dim("total", min=2)
    shapes = {
        "rows": ({0: dim}, None, None),
        "columns": (None, {1: dim}, None),
        "k": ({1: dim}, {0: dim}, None),
    }[form]
    program = torch.export.export(Layer(), (g.a, g.b, g.offs), dynamic_shapes=shapes)
    other = groups.make(form, (1, 1, 10, 12), 13, 4, 6, torch.float32, device)
    for one in (g, other):
        assert same_bits(program.module()(one.a, one.b, one.offs), one.run())


@pytest.mark.usefixtures("no_fallback")
@each("form", FORMS)
def test_vmap(device: str, form: str) -> None:
    """Every entry has the bits of its own call."""
    entries = [small(form, device=device) for _ in range(3)]
    if form != "batch":
        entries[1] = groups.make(form, (1, 1, 6, 7), 7, 4, 6, torch.float32, device)
    columns = list(zip(*((g.a, g.b, g.offs) for g in entries), strict=True))
    a, b = torch.stack(columns[0]), torch.stack(columns[1], dim=-1)

    def product(a, b, offs):
        return tiled_mm.grouped_mm(a, b, offs=offs)

    if form == "batch":
        got = vmap(lambda a, b: product(a, b, None), in_dims=(0, -1))(a, b)
    else:
        got = vmap(product, in_dims=(0, -1, 0))(a, b, torch.stack(columns[2]))
    for one, g in zip(got, entries, strict=True):
        assert same_bits(one, g.run())
    shared = vmap(lambda a: product(a, entries[0].b, entries[0].offs))(a)
    for one, x in zip(shared, a, strict=True):
        assert same_bits(one, entries[0].on(x, entries[0].b).run())
    of_each = vmap(grad(lambda a: product(a, entries[0].b, entries[0].offs).sum()))(a)
    for one, x in zip(of_each, a, strict=True):
        x = x.clone().requires_grad_()
        (right,) = torch.autograd.grad(entries[0].on(x, entries[0].b).run().sum(), x)
        assert same_bits(one, right)


def test_vmap_over_no_entries(device: str) -> None:
    g = small("rows", device=device)
    with pytest.raises(RuntimeError, match="over no entries"):
        vmap(lambda a: tiled_mm.grouped_mm(a, g.b, offs=g.offs))(g.a.new_empty(0, *g.a.shape))


def test_tangents_of_a_bias_alone(device: str) -> None:
    for form in ("rows", "k", "batch"):
        g = small(form, torch.float64, device)
        bias = torch.randn(4, 6, device=device, dtype=torch.float64)
        _, tangent = jvp(lambda bias, g=g: g.run(bias=bias), (bias,), (bias + 1,))
        right = g.run(bias=bias + 1) - g.run()
        torch.testing.assert_close(tangent, right)


@each("dtype", (torch.bfloat16, torch.float16))
def test_autocast(device: str, dtype: torch.dtype) -> None:
    g = small("rows", device=device)
    bias = torch.randn(4, 6, device=device)
    right = g.on(g.a.to(dtype), g.b.to(dtype))
    into = tiled._grouped_mm_into_main_grad
    with torch.autocast(device, dtype=dtype):
        assert same_bits(g.run(), right.run())
        assert same_bits(g.run(bias=bias), right.run(bias=bias.to(dtype)))
        kept = g.run(bias=bias, out_dtype=torch.float32)
        assert same_bits(kept, right.run(bias=bias, out_dtype=torch.float32))
        assert g.run(precision="ieee").dtype == torch.float32
        assert same_bits(into(g.a, g.b, g.offs, None, None), right.run())


def test_flops(device: str) -> None:
    """Everything that is shared out counts, as in torch's own."""
    for form, flops in (("rows", 7 * 4 * 6), ("columns", 7 * 4 * 6), ("k", 7 * 4 * 6)):
        assert counted(small(form, device=device).run) == 2 * flops
    assert counted(small("batch", device=device).run) == 2 * 4 * 4 * 7 * 6
    g = small("k", device=device)
    add = tiled._add_grouped_weight_grad
    sum = torch.zeros(4, 4, 6, device=device)
    assert counted(add, sum, g.a.mT, g.b, g.offs) == 2 * 7 * 4 * 6
