"""scaled_mm: within the contract's bound, one answer, and what is refused."""

from __future__ import annotations

import itertools
import math

import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES

pytestmark = pytest.mark.scaled

SIZES = ((1, 1, 1), (130, 257, 300), (3, 600, 128), (200, 17, 1000), (5, 7, 127), (129, 128, 129))
OUT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check(c: torch.Tensor, operands: scaled.Operands) -> None:
    exact, bound = operands.bound(c.dtype)
    assert c.is_contiguous() and c.shape == exact.shape
    assert ((c.double() - exact).abs() <= bound).all()  # NaN fails


@each("recipe_a", RECIPES)
@each("recipe_b", RECIPES)
def test_every_pair_of_recipes_is_within_the_bound(recipe_a: str, recipe_b: str) -> None:
    for (m, n, k), dtype in itertools.product(SIZES, OUT_DTYPES):
        operands = scaled.make(m, n, k, recipe_a, recipe_b)
        check(tiled_mm.scaled_mm(*operands.all(), out_dtype=dtype), operands)


@each("dtypes", tuple(itertools.product(scaled.FP8, scaled.FP8)))
def test_fp8_of_both_kinds(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    for m, n, k in SIZES:
        operands = scaled.make(m, n, k, "BlockWise1x128", "BlockWise128x128", dtypes)
        check(tiled_mm.scaled_mm(*operands.all(), out_dtype=torch.float32), operands)


@each("recipe", RECIPES[:2])
def test_int8(device: str, recipe: str) -> None:
    for (m, n, k), dtype in itertools.product((*SIZES, (40, 50, 3000)), OUT_DTYPES[:2]):
        kinds = (torch.int8, torch.int8)
        operands = scaled.make(m, n, k, recipe, recipe, kinds, device=device)
        a, b, scale_a, scale_b = operands.all()
        c = tiled_mm.scaled_mm(a, b, scale_a, scale_b, out_dtype=dtype)
        # The sum is exact: one rounding to fp32, two of scales, one to the result.
        sums = tiled_mm.mm(a, b, torch.int32).float()
        assert same_bits(c, (scale_a * scale_b * sums).to(dtype))


def test_the_order_of_the_contract() -> None:
    """Step by step in fp64, whose sums of such numbers are exact, rounded to fp32 each time."""
    for recipe, blockwise in (("RowWise", False), ("BlockWise1x128", True)):
        o = scaled.make(9, 11, 700, recipe, recipe)
        scale_a, scale_b = (torch.exp2((8 * s).round() - 4) for s in (o.scale_a, o.scale_b))
        a, b = o.a.double(), o.b.double()
        total = torch.zeros(9, 11, dtype=torch.float32)
        for block in range(scaled.blocks(700)):
            chain = torch.zeros_like(total)
            for k in range(128 * block, min(700, 128 * (block + 1))):
                chain = (chain.double() + a[:, k, None] * b[k]).float()
            scale = scale_a[:, block, None] * scale_b[block] if blockwise else torch.ones(())
            total = (scale.double() * chain.double() + total.double()).float()
        expected = total if blockwise else scale_a * scale_b * total
        c = tiled_mm.scaled_mm(o.a, o.b, scale_a, scale_b, out_dtype=torch.float32)
        assert same_bits(c, expected)


@each("recipe_a", RECIPES)
@each("recipe_b", RECIPES)
def test_one_answer(device: str, recipe_a: str, recipe_b: str) -> None:
    """Rows, columns, layouts and strides of operands and scales, and swap_ab."""
    o = scaled.make(256, 384, 520, recipe_a, recipe_b, (E4M3, E5M2), device=device)
    a, b, scale_a, scale_b = o.all()
    c = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)

    def rows(scale: torch.Tensor, recipe: str, part: slice) -> torch.Tensor:
        if recipe == "TensorWise":
            return scale
        divisor = 128 if recipe == "BlockWise128x128" else 1
        return scale[part.start // divisor : math.ceil(part.stop / divisor)]

    for part in (slice(0, 1), slice(128, 256), slice(0, 130)):
        some = tiled_mm.scaled_mm(
            a[part], b, rows(scale_a, recipe_a, part), scale_b, out_dtype=torch.float32
        )
        assert same_bits(some, c[part])
        other = rows(scale_b.t(), recipe_b, part).t()
        some = tiled_mm.scaled_mm(a, b[:, part], scale_a, other, out_dtype=torch.float32)
        assert same_bits(some, c[:, part].contiguous())
    apart = torch.empty(256, 1040, dtype=a.dtype, device=device)[:, ::2].copy_(a)
    strided = torch.stack([scale_a, scale_a], -1)[..., 0]
    again = tiled_mm.scaled_mm(
        apart, b.contiguous(), strided, scale_b.t().contiguous().t(), out_dtype=torch.float32
    )
    assert same_bits(again, c)
    turned = tiled_mm.scaled_mm(b.t(), a.t(), scale_b.t(), scale_a.t(), out_dtype=torch.float32)
    assert same_bits(turned.t().contiguous(), c)


def test_many_drawn_sizes() -> None:
    generator = torch.Generator().manual_seed(46)
    for seed in range(60):
        m, n, k = (int(x) for x in torch.randint(1, 400, (3,), generator=generator))
        pick = torch.randint(0, 4, (2,), generator=generator).tolist()
        operands = scaled.make(m, n, k, RECIPES[pick[0]], RECIPES[pick[1]], seed=seed)
        c = tiled_mm.scaled_mm(*operands.all(), out_dtype=torch.float32)
        check(c, operands)
        row = int(torch.randint(0, m, (1,), generator=generator))
        if pick[0] in (1, 2):
            one = slice(row, row + 1)
            a, b, scale_a, scale_b = operands.all()
            alone = tiled_mm.scaled_mm(a[one], b, scale_a[one], scale_b, out_dtype=torch.float32)
            assert same_bits(alone, c[one])


@each("threads", (1, 2, 5))
def test_threads_change_no_bit(threads: int) -> None:
    o = scaled.make(300, 700, 400, "BlockWise1x128", "BlockWise128x128")
    c = tiled_mm.scaled_mm(*o.all())
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert same_bits(tiled_mm.scaled_mm(*o.all()), c)
    finally:
        torch.set_num_threads(before)


@each("recipe", RECIPES)
def test_bias_and_activation(device: str, recipe: str) -> None:
    o = scaled.make(70, 90, 260, recipe, recipe, device=device)
    plain = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        bias = torch.randn(90, device=device).to(dtype)
        c = tiled_mm.scaled_mm(*o.all(), bias=bias, out_dtype=torch.float32)
        assert same_bits(c, plain + bias.float())
        relu = tiled_mm.scaled_mm(*o.all(), bias=bias, activation="relu")
        assert same_bits(relu, (plain + bias.float()).relu().bfloat16())


def test_large_blocks_against_small() -> None:
    """Blocks that are 2^40 times as large as others, and blocks that cancel."""
    for recipe in ("BlockWise1x128", "BlockWise128x128"):
        o = scaled.make(64, 64, 1024, recipe, recipe)
        scale_a = o.scale_a * torch.exp2(torch.arange(8) * 5.0)
        wide = scaled.Operands(o.a, o.b, scale_a, o.scale_b, recipe, recipe)
        check(tiled_mm.scaled_mm(*wide.all(), out_dtype=torch.float32), wide)
        signs = torch.tensor([1.0, -1.0]).repeat(4)
        wide = scaled.Operands(o.a, o.b, o.scale_a * signs, o.scale_b, recipe, recipe)
        check(tiled_mm.scaled_mm(*wide.all(), out_dtype=torch.float32), wide)


def test_deep_k_is_one_total() -> None:
    o = scaled.make(3, 5, 40000, "BlockWise1x128", "BlockWise1x128")
    check(tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32), o)


def test_no_k_and_no_elements(device: str) -> None:
    for m, n, k in ((3, 4, 0), (0, 4, 8), (3, 0, 8), (0, 0, 0)):
        for recipe in RECIPES:
            o = scaled.make(m, n, k, recipe, recipe, device=device)
            c = tiled_mm.scaled_mm(*o.all())
            assert c.shape == (m, n) and not c.any()


def test_named_recipes() -> None:
    o = scaled.make(100, 80, 128, "BlockWise1x128", "BlockWise128x128")
    c = tiled_mm.scaled_mm(*o.all())
    names = torch.nn.functional.ScalingType
    for a, b in (
        ("BlockWise1x128", "BlockWise128x128"),
        (names.BlockWise1x128, names.BlockWise128x128),
        (names.RowWise, names.TensorWise),  # as large as a K of one block
    ):
        assert same_bits(tiled_mm.scaled_mm(*o.all(), scale_recipe_a=a, scale_recipe_b=b), c)
    with pytest.raises(RuntimeError, match="scale_a has shape \\[100, 1\\], but expected one of"):
        tiled_mm.scaled_mm(*o.all(), scale_recipe_a="TensorWise")
    for name in (names.BlockWise1x32, names.BlockWise1x16, "rowwise"):
        with pytest.raises(NotImplementedError, match="no kernel scales by recipe"):
            tiled_mm.scaled_mm(*o.all(), scale_recipe_a=name)


def test_bad_input_in_torchs_words(device: str) -> None:
    a, b, scale_a, scale_b = scaled.make(8, 16, 32, "RowWise", "RowWise", device=device).all()

    def refused(text: str, *args, error: type[Exception] = RuntimeError, **options) -> None:
        with pytest.raises(error, match=text):
            tiled_mm.scaled_mm(*args, **options)

    refused(
        "mat1 and mat2 shapes cannot be multiplied \\(8x32 and 16x32\\)",
        *(a, b.t(), scale_a, scale_b),
    )
    refused("mat_a has to be 2 or 3d", a[0], b, scale_a, scale_b)
    refused("Expected mat_a to be Float8", a.float(), b, scale_a, scale_b)
    refused("Expected mat_b to be Float8 matrix", a, b.float(), scale_a, scale_b)
    refused("Expected mat_b to be Char matrix", a.view(torch.int8), b, scale_a, scale_b)
    refused("scale_a must be a float", a, b, scale_a.double(), scale_b)
    refused("scale_b must be a float", a, b, scale_a, scale_b.half())
    refused("Invalid scaling configuration", a, b, scale_a[:3], scale_b)
    refused("Invalid scaling configuration", a, b, scale_a, scale_b.t())
    refused(
        "Bias must be size 16 but got \\[15\\]",
        a,
        b,
        scale_a,
        scale_b,
        bias=torch.ones(15, device=device),
    )
    refused(
        "Bias must be BFloat16", a, b, scale_a, scale_b, bias=torch.ones(16, device=device).double()
    )
    refused("Only bf16, fp16, and fp32", a, b, scale_a, scale_b, out_dtype=E4M3)
    refused("unknown activation", a, b, scale_a, scale_b, activation="tanh")
    blocks = torch.ones(8, 2, device=device)
    wide = torch.ones(8, 256, dtype=torch.int8, device=device)
    refused("int8 is scaled", wide, wide.t(), blocks, scale_a[:1].t())
    refused(
        "out has shape",
        a,
        b,
        scale_a,
        scale_b,
        out=torch.empty(4, 4, dtype=torch.bfloat16, device=device),
    )
    refused(
        "out tensor to have dtype", a, b, scale_a, scale_b, out=torch.empty(8, 16, device=device)
    )
    refused("must be Tensor", a, b, 1.0, scale_b, error=TypeError)


def test_out(device: str) -> None:
    o = scaled.make(40, 50, 300, "BlockWise1x128", "BlockWise128x128", device=device)
    c = tiled_mm.scaled_mm(*o.all())
    out = torch.empty(50, 40, dtype=torch.bfloat16, device=device).t()
    assert tiled_mm.scaled_mm(*o.all(), out=out) is out and same_bits(out.contiguous(), c)
    out = torch.empty(0, dtype=torch.bfloat16, device=device)
    assert same_bits(tiled_mm.scaled_mm(*o.all(), out=out), c)
    scales = torch.full((40, 50), 0.5, device=device)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        scale_a = scales.view(-1)[:120].view(40, 3)
        tiled_mm.scaled_mm(*o.all()[:2], scale_a, o.scale_b, out_dtype=torch.float32, out=scales)


def test_added_to_a_sum(device: str) -> None:
    o = scaled.make(40, 50, 300, "BlockWise1x128", "BlockWise1x128", device=device)
    c = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)
    sums = torch.randn(40, 50, device=device)
    expected = sums + c
    torch.ops.tiled._add_scaled_mm(sums, *o.all())
    assert same_bits(sums, expected)


def test_the_modes_of_a_thread_are_not_seen() -> None:
    o = scaled.make(8, 8, 64, "TensorWise", "TensorWise")
    tiny = torch.full((1,), 2.0**-70)
    c = tiled_mm.scaled_mm(o.a, o.b, tiny, tiny, out_dtype=torch.float32)
    assert c.abs().max() > 0  # subnormals
    torch.set_flush_denormal(True)
    try:
        again = tiled_mm.scaled_mm(o.a, o.b, tiny, tiny, out_dtype=torch.float32)
    finally:
        torch.set_flush_denormal(False)
    assert same_bits(again, c)
