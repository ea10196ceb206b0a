"""tiled_mm.override() of torch's products of fp8 and of int8's sums."""

from __future__ import annotations

import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES

pytestmark = [pytest.mark.scaled, pytest.mark.usefixtures("from_zero")]

F = torch.nn.functional
TYPES = F.ScalingType


def counted(name: str) -> dict:
    return tiled_mm.override_counts(reset=True)[name]


@each("recipes", (("TensorWise",) * 2, ("RowWise",) * 2, RECIPES[2:], (RECIPES[2],) * 2))
@each("fast", (False, True))
def test_scaled_mm(device: str, recipes: tuple[str, str], fast: bool) -> None:
    """Of any sizes, and of two matrices of e5m2."""
    for dtypes in ((E4M3, E4M3), (E5M2, E5M2)):
        o = scaled.make(33, 50, 300, *recipes, dtypes, device=device)
        bias = torch.randn(50, dtype=torch.bfloat16, device=device)
        right = tiled_mm.scaled_mm(*o.all(), bias=bias)
        with tiled_mm.override(device):
            c = torch._scaled_mm(*o.all(), bias=bias, out_dtype=torch.bfloat16, use_fast_accum=fast)
            assert counted("_scaled_mm") == {"tiled": 1, "torch": {}}
            out = torch.empty(3, dtype=torch.bfloat16, device=device)
            torch._scaled_mm(*o.all(), bias=bias, out_dtype=torch.bfloat16, out=out.resize_(0))
            assert counted("_scaled_mm.out") == {"tiled": 1, "torch": {}}
        assert same_bits(c, right) and same_bits(out, right)


def test_what_goes_on_to_torch() -> None:
    o = scaled.make(16, 32, 64, "TensorWise", "TensorWise")
    right = torch._scaled_mm(*o.all())  # of fp8
    tiled_mm.override_counts(reset=True)
    with tiled_mm.override("cpu"):
        assert same_bits(torch._scaled_mm(*o.all()).view(torch.int8), right.view(torch.int8))
        assert counted("_scaled_mm") == {"tiled": 0, "torch": {"dtype": 1}}
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch._scaled_mm(o.a, o.b.t(), o.scale_a, o.scale_b, out_dtype=torch.bfloat16)
        assert counted("_scaled_mm") == {"tiled": 0, "torch": {"shape": 1}}
    torch._scaled_mm(*o.all(), out_dtype=torch.bfloat16)
    assert counted("_scaled_mm") == {"tiled": 0, "torch": {"off": 1}}


def test_int_mm(device: str) -> None:
    """Of any sizes, where torch has its own on a GPU of some alone."""
    for m, n, k in ((32, 32, 64), (1, 7, 5), (17, 33, 129)):
        a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device=device)
        b = torch.randint(-128, 128, (k, n), dtype=torch.int8, device=device)
        right = (a.long().cpu() @ b.long().cpu()).int().to(device)
        with tiled_mm.override(device):
            assert torch.equal(torch._int_mm(a, b), right)
            assert counted("_int_mm") == {"tiled": 1, "torch": {}}
            out = torch.empty_like(right)
            torch._int_mm(a, b, out=out)
            assert torch.equal(out, right)
            assert counted("_int_mm.out") == {"tiled": 1, "torch": {}}


@pytest.mark.cuda
@each("recipes", ((0, 0), (1, 1), (2, 3), (3, 2), (2, 2)))
def test_scaled_mm_by_recipes(recipes: tuple[int, int]) -> None:
    """F.scaled_mm with scales as it takes them."""
    names = [RECIPES[i] for i in recipes]
    o = scaled.make(256, 384, 640, *names, device="cuda")
    right = tiled_mm.scaled_mm(*o.all())

    def as_torch_has_it(scale: torch.Tensor, recipe: str, is_b: bool) -> torch.Tensor:
        if recipe == "BlockWise1x128":  # [rows, K / 128], along the rows
            rows = scale.t() if is_b else scale
            return rows.t().contiguous().t()
        if recipe == "BlockWise128x128":  # [K / 128 up to a multiple of 4, rows / 128]
            blocks = scale if is_b else scale.t()
            return F.pad(blocks.t(), (0, -blocks.shape[0] % 4)).contiguous().t()
        return scale

    with tiled_mm.override("cuda"):
        c = F.scaled_mm(
            o.a,
            o.b,
            as_torch_has_it(o.scale_a, names[0], False),
            getattr(TYPES, names[0]),
            as_torch_has_it(o.scale_b, names[1], True),
            getattr(TYPES, names[1]),
        )
        assert counted("_scaled_mm_v2") == {"tiled": 1, "torch": {}}
    assert same_bits(c, right)


@pytest.mark.cuda
def test_scaled_grouped_mm() -> None:
    ends = torch.tensor([64, 64, 256], dtype=torch.int32, device="cuda")
    a = torch.randn(256, 128, device="cuda").to(E4M3)
    b = torch.randn(3, 96, 128, device="cuda").to(E4M3).mT
    rows, own = torch.rand(256, device="cuda"), torch.rand(3, 96, device="cuda")
    right = tiled_mm.scaled_mm(a, b, rows, own, offs=ends)
    with tiled_mm.override("cuda"):
        c = torch._scaled_grouped_mm(a, b, rows, own, offs=ends, out_dtype=torch.bfloat16)
        assert counted("_scaled_grouped_mm") == {"tiled": 1, "torch": {}}
        by_recipe = F.scaled_grouped_mm(a, b, rows, TYPES.RowWise, own, TYPES.RowWise, offs=ends)
        assert counted("_scaled_grouped_mm_v2") == {"tiled": 1, "torch": {}}
    assert same_bits(c, right) and same_bits(by_recipe, right)
