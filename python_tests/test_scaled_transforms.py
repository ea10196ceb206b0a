"""scaled_mm under opcheck, vmap, torch.compile, meta tensors, autograd and FlopCounterMode."""

from __future__ import annotations

import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import RECIPES

pytestmark = pytest.mark.scaled

SCALED = torch.ops.tiled.scaled_mm


# opcheck's test of the schema multiplies tensors, and its comparison of eager and compiled results
# subtracts them, which torch cannot with fp8: int8 stands in for it there.
OF_FP8 = ("test_autograd_registration", "test_faketensor")


@each("recipe", RECIPES)
@each("dtype", (scaled.E4M3, torch.int8))
def test_opcheck(device: str, recipe: str, dtype: torch.dtype) -> None:
    if dtype == torch.int8:
        device = "cpu"  # no GPU has a kernel for it yet
        recipe = "RowWise" if recipe.startswith("Block") else recipe
    options = {"test_utils": OF_FP8} if dtype != torch.int8 else {}

    def opcheck(op: torch._ops.OpOverload, *args, **kwargs) -> None:
        torch.library.opcheck(op, args, kwargs, **options)

    o = scaled.make(20, 30, 300, recipe, recipe, (dtype, dtype), device=device)
    opcheck(SCALED.default, *o.all())
    opcheck(SCALED.default, *o.all(), bias=torch.ones(30, device=device), activation="gelu")
    opcheck(SCALED.out, *o.all(), out=torch.empty(20, 30, dtype=torch.bfloat16, device=device))
    ends = torch.tensor([7, 20], dtype=torch.int32, device=device)
    both = torch.stack([o.b, o.b])
    scales = torch.rand(20, 1, device=device), torch.rand(2, 1, 30, device=device)
    opcheck(SCALED.default, o.a, both, *scales, offs=ends)
    opcheck(torch.ops.tiled._add_scaled_mm.default, torch.zeros(20, 30, device=device), *o.all())


@each("recipe", RECIPES)
def test_meta_says_what_runs(recipe: str) -> None:
    o = scaled.make(20, 30, 300, recipe, recipe)
    c = SCALED(*(t.to("meta") for t in o.all()), out_dtype=torch.float16)
    assert c.shape == (20, 30) and c.dtype == torch.float16 and c.is_meta
    with pytest.raises(RuntimeError, match="Invalid scaling configuration"):
        SCALED(o.a.to("meta"), o.b.to("meta"), torch.ones(3, device="meta"), o.scale_b.to("meta"))


@pytest.mark.usefixtures("no_fallback")
@each("recipe", RECIPES)
def test_vmap(device: str, recipe: str) -> None:
    """Every entry has the bits of its own call."""
    entries = [scaled.make(20, 30, 300, recipe, recipe, device=device, seed=s) for s in range(3)]
    a, b, scale_a, scale_b = (torch.stack(t) for t in zip(*(o.all() for o in entries), strict=True))
    biases = torch.randn(3, 30, device=device)

    def product(a, b, scale_a, scale_b, bias):
        return tiled_mm.scaled_mm(a, b, scale_a, scale_b, bias=bias)

    got = torch.vmap(product)(a, b, scale_a, scale_b, biases)
    of_left = torch.vmap(product, in_dims=(0, None, 0, None, None))(
        a, entries[0].b, scale_a, entries[0].scale_b, None
    )
    for i, o in enumerate(entries):
        assert same_bits(got[i], product(*o.all(), biases[i]))
        left = o.a, entries[0].b, o.scale_a, entries[0].scale_b
        assert same_bits(of_left[i], product(*left, None))
    with pytest.raises(RuntimeError, match="vmap of scaled_mm over no entries"):
        torch.vmap(product)(a[:0], b[:0], scale_a[:0], scale_b[:0], biases[:0])


@each("dynamic", (False, True))
@each("backend", ("aot_eager", "inductor"))
def test_compiled(dynamic: bool, backend: str) -> None:
    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q, p = tiled_mm.quantize(x), tiled_mm.quantize(w, "BlockWise128x128")
        return tiled_mm.scaled_mm(q.data, p.data.mT, q.scale, p.scale.mT)

    compiled = torch.compile(run, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (5, 9, 130):
        x, w = torch.randn(rows, 300), torch.randn(200, 300)
        assert same_bits(compiled(x, w), run(x, w))


def test_gradients_are_refused_as_torch_refuses_them() -> None:
    o = scaled.make(4, 8, 16, "RowWise", "RowWise")
    c = tiled_mm.scaled_mm(o.a, o.b, o.scale_a.requires_grad_(), o.scale_b)
    with pytest.raises(RuntimeError, match="derivative for tiled::scaled_mm is not implemented"):
        c.sum().backward()


def test_autocast_changes_nothing() -> None:
    o = scaled.make(4, 8, 16, "RowWise", "RowWise")
    right = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert same_bits(tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32), right)


def test_flops() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    o = scaled.make(4, 8, 16, "RowWise", "RowWise")
    with FlopCounterMode(display=False) as counter:
        tiled_mm.scaled_mm(*o.all())
    assert counter.get_total_flops() == 2 * 4 * 8 * 16


def test_an_overwritten_sum_is_seen_by_autograd() -> None:
    o = scaled.make(4, 8, 16, "RowWise", "RowWise")
    out = torch.empty(4, 8, dtype=torch.bfloat16)
    before = out._version
    tiled_mm.scaled_mm(*o.all(), out=out)
    assert out._version > before


def test_sparse_and_quantized_tensors_are_refused() -> None:
    o = scaled.make(4, 8, 16, "RowWise", "RowWise")
    with pytest.raises((NotImplementedError, RuntimeError)):
        SCALED(o.a.float().to_sparse(), o.b, o.scale_a, o.scale_b)
