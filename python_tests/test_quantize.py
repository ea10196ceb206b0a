"""quantize: scales by the largest element, rounding to nearest, and what is refused."""

from __future__ import annotations

import math

import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES, spread

LARGEST = {E4M3: 448.0, E5M2: 57344.0, torch.int8: 127.0}
SHAPES = ((1, 1), (3, 300), (257, 129), (128, 256), (64, 1000))


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    spreads = torch.randint(-20, 20, (shape[-1],), generator=generator)
    return (torch.randn(shape, generator=generator) * torch.exp2(spreads)).to(dtype)


@each("recipe", RECIPES)
@each("dtype", (E4M3, E5M2))
@each("source", (torch.float32, torch.bfloat16, torch.float16))
def test_largest_becomes_largest_and_all_are_within_half_a_step(
    device: str, recipe: str, dtype: torch.dtype, source: torch.dtype
) -> None:
    for rows, k in SHAPES:
        x = drawn(rows, k, dtype=source).nan_to_num().to(device)
        q, scale, *_ = tiled_mm.quantize(x, recipe, dtype=dtype)
        assert q.dtype == dtype and q.shape == x.shape and q.is_contiguous()
        assert scale.dtype == torch.float32
        assert scale.shape == scaled.scale_shape(recipe, rows, k)
        each_scale = spread(scale, recipe, rows, k)
        ratio = x.double() / each_scale
        assert ratio.abs().max() <= LARGEST[dtype] * (1 + 2.0**-22)
        assert q.double().abs().max() == LARGEST[dtype]
        # Half a unit in the last place: 2^-4 and 2^-3 of a number, or of the smallest normal one.
        u, least = (2.0**-4, 2.0**-6) if dtype == E4M3 else (2.0**-3, 2.0**-14)
        allowed = (1 + 2.0**-20) * u * ratio.abs().clamp_min(least)
        assert ((q.double() - ratio).abs() <= allowed).all()
        # A row by itself has the same bits, where scales are a row's.
        if recipe in ("RowWise", "BlockWise1x128"):
            alone = tiled_mm.quantize(x[-1:], recipe, dtype=dtype)
            assert same_bits(alone.data.view(torch.int8), q[-1:].view(torch.int8))


def hard_numbers(source: torch.dtype) -> torch.Tensor:
    """[512, 128]: every number of 16 bits, NaN and infinities too."""
    bits = torch.arange(-(2**15), 2**15).to(torch.int16).view(512, 128)
    return bits.view(torch.bfloat16 if source == torch.float32 else source).to(source)


@each("recipe", RECIPES)
@each("dtype", (E4M3, E5M2))
@each("source", (torch.float32, torch.bfloat16, torch.float16))
def test_every_number_is_rounded_as_torch_casts_it(
    device: str, recipe: str, dtype: torch.dtype, source: torch.dtype
) -> None:
    x = hard_numbers(source).to(device)
    x = torch.cat([x[torch.randperm(512, device=device)], x[:77]])[:, :120]
    q, scale, *_ = tiled_mm.quantize(x, recipe, dtype=dtype)
    inverse = spread(scale.reciprocal(), recipe, *x.shape).float()
    right = (x.float() * inverse).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)
    is_nan = right.float().isnan()
    assert torch.equal(q.float().isnan(), is_nan)
    assert torch.equal(q.view(torch.int8)[~is_nan], right.view(torch.int8)[~is_nan])


@each("recipe", RECIPES)
def test_both_orientations(device: str, recipe: str) -> None:
    x = drawn(200, 300).to(device)
    q = tiled_mm.quantize(x, recipe, transposed=True)
    plain, turned = tiled_mm.quantize(x, recipe), tiled_mm.quantize(x.mT, recipe)
    for got, right in ((q.data, plain.data), (q.data_t, turned.data)):
        assert got.is_contiguous() and same_bits(got.view(torch.int8), right.view(torch.int8))
    assert same_bits(q.scale, plain.scale)
    assert same_bits(q.scale_t.contiguous(), turned.scale)
    if recipe in ("TensorWise", "BlockWise128x128"):
        assert same_bits(q.data_t.view(torch.int8).mT.contiguous(), q.data.view(torch.int8))


@each("recipe", RECIPES[:2])
def test_int8(device: str, recipe: str) -> None:
    x = drawn(20, 30).to(device)
    q, scale, *_ = tiled_mm.quantize(x, recipe, dtype=torch.int8)
    assert same_bits(q, (x * (1 / scale)).round().clamp(-127, 127).to(torch.int8))
    with pytest.raises(RuntimeError, match="int8 is scaled TensorWise or RowWise"):
        tiled_mm.quantize(x, "BlockWise1x128", dtype=torch.int8)


def test_batches_are_entries(device: str) -> None:
    x = drawn(3, 130, 140).to(device)
    for recipe in RECIPES:
        q = tiled_mm.quantize(x, recipe)
        for i in range(3):
            one = tiled_mm.quantize(x[i], recipe)
            assert same_bits(q.data[i].view(torch.int8), one.data.view(torch.int8))
            assert torch.equal(q.scale[i].flatten(), one.scale.flatten())


@each("recipe", ("RowWise", "BlockWise1x128"))
def test_zeros_subnormals_nan_and_infinities(device: str, recipe: str) -> None:
    x = torch.zeros(5, 128, device=device)
    x[1] = 2.0**-149
    x[1, 0] = 2.0**-140
    x[2, 3] = math.nan
    x[3, 3] = math.inf
    x[4, 0], x[4, 1] = 3.0e38, -3.0e38
    q, scale, *_ = tiled_mm.quantize(x, recipe)
    assert scale[0] == 1 and not q[0].float().any()
    assert scale[1] == 2.0**-126 and q[1].float().isfinite().all()
    assert scale[2].isnan() and scale[3].isinf()
    assert q[4, :2].float().tolist() == [448, -448]
    if recipe != "RowWise":
        return
    unit = torch.ones(128, 1, device=device).to(E4M3)
    c = tiled_mm.scaled_mm(q, unit, scale, torch.ones(1, device=device), out_dtype=torch.float32)
    assert c[2].isnan() and not c[3].isfinite() and c[4].isfinite()


def test_no_elements(device: str) -> None:
    for shape in ((0, 5), (5, 0), (0, 0)):
        for recipe in RECIPES:
            q = tiled_mm.quantize(torch.zeros(shape, device=device), recipe)
            assert q.data.shape == shape
            assert q.scale.shape == scaled.scale_shape(recipe, *shape)


def test_a_product_of_quantized_tensors(device: str) -> None:
    x, w = drawn(70, 300).to(device), drawn(50, 300).to(device)
    for recipe_x, recipe_w in (("BlockWise1x128", "BlockWise128x128"), ("RowWise", "RowWise")):
        q, p = tiled_mm.quantize(x, recipe_x), tiled_mm.quantize(w, recipe_w)
        c = tiled_mm.scaled_mm(q.data, p.data.mT, q.scale, p.scale.mT, out_dtype=torch.float32)
        exact = x.double() @ w.double().T
        assert (c - exact).norm() < 0.06 * exact.norm()


def test_bad_input() -> None:
    for text, *args in (
        ("takes a matrix or a batch", torch.ones(3)),
        ("takes float32, float16 or bfloat16", torch.ones(3, 3, dtype=torch.float64)),
        ("unknown recipe 'rows'", torch.ones(3, 3), "rows"),
        ("unknown recipe '3'", torch.ones(3, 3), 3),
    ):
        with pytest.raises(RuntimeError, match=text):
            tiled_mm.quantize(*args)
    with pytest.raises(RuntimeError, match=r"not torch\.float16"):
        tiled_mm.quantize(torch.ones(3, 3), dtype=torch.float16)
    with pytest.raises(TypeError, match=r"argument 'x' \(position 1\) must be Tensor, not list"):
        tiled_mm.quantize([1.0])


def test_torchs_names_of_recipes() -> None:
    x = drawn(5, 200)
    q = tiled_mm.quantize(x, torch.nn.functional.ScalingType.RowWise)
    assert q.scale.shape == (5, 1)


def test_vmap_runs_entry_by_entry() -> None:
    x = drawn(3, 130, 140)
    made = torch.vmap(lambda t: tuple(tiled_mm.quantize(t, transposed=True)))(x)
    for i, entry in enumerate(x):
        for got, right in zip(made, tiled_mm.quantize(entry, transposed=True), strict=True):
            bits = torch.int8 if got.dtype == E4M3 else torch.int32
            assert torch.equal(got[i].contiguous().view(bits), right.contiguous().view(bits))


def test_no_gradient_flows() -> None:
    q = tiled_mm.quantize(torch.ones(3, 3, requires_grad=True))
    assert not q.scale.requires_grad and not q.data.requires_grad


@pytest.mark.cuda
@each("recipe", RECIPES)
@each("dtype", (E4M3, E5M2))
@each("source", (torch.float32, torch.bfloat16, torch.float16))
def test_a_gpu_has_the_bits_of_the_cpu(
    recipe: str, dtype: torch.dtype, source: torch.dtype
) -> None:
    for shape in (*SHAPES, (3, 130, 140), (2, 128, 256)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(source)
        x.view(-1)[::7] *= 1e-3
        for view in (x, x.mT.contiguous().mT, torch.nn.functional.pad(x, (1, 2))[..., 1:-2]):
            right = tiled_mm.quantize(view, recipe, dtype=dtype, transposed=True)
            made = tiled_mm.quantize(view.cuda(), recipe, dtype=dtype, transposed=True)
            for got, one in zip(made, right, strict=True):
                as_bits = torch.int8 if got.dtype == dtype else torch.int32
                assert torch.equal(
                    got.cpu().contiguous().view(as_bits), one.contiguous().view(as_bits)
                )
            plain = tiled_mm.quantize(view.cuda(), recipe, dtype=dtype)
            assert torch.equal(plain.data.view(torch.int8), made.data.view(torch.int8))


@pytest.mark.cuda
@each("recipe", ("BlockWise1x128", "BlockWise128x128"))
@each("source", (torch.float32, torch.bfloat16))
@each("skip", (0, 1))
def test_whole_tiles_and_edges(recipe: str, source: torch.dtype, skip: int) -> None:
    """Tiles that are whole have code of their own, unless rows begin anywhere; the bits are the
    CPU's."""
    x = drawn(1288, 604, dtype=source).nan_to_num()
    got = tiled_mm.quantize(x.cuda()[:, skip:], recipe, transposed=True)
    expected = tiled_mm.quantize(x[:, skip:], recipe, transposed=True)
    for name, mine, right in zip(got._fields, got, expected, strict=True):
        mine, right = (x.contiguous().view(torch.uint8) for x in (mine.cpu(), right))
        assert torch.equal(mine, right), name
