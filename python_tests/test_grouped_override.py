"""tiled_mm.override() of torch's grouped products, and their gradients, which torch makes of the
same operator."""

from __future__ import annotations

import cases
import groups
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from groups import FORMS

pytestmark = pytest.mark.usefixtures("from_zero")

F = torch.nn.functional


def counted() -> dict:
    counts = tiled_mm.override_counts(reset=True)
    return {name: count for name, count in counts.items() if name == "_grouped_mm"}


@each("form", FORMS)
@each("dtype", (torch.float32, *cases.HALVES))
def test_products_and_gradients_are_ours(device: str, form: str, dtype: torch.dtype) -> None:
    """Each gradient is one more call of the operator; the bits are grouped_mm's."""
    g = groups.make(form, (8, 8, 24, 40), 40, 16, 32, dtype, device)
    a, b = g.a.requires_grad_(), g.b.requires_grad_()
    right = g.run()
    seed = cases.fill(right.numel(), 1, dtype, device).view(right.shape)
    grads = torch.autograd.grad(right, (a, b), seed)
    with tiled_mm.override(device):
        c = F.grouped_mm(a, b, offs=g.offs)
        assert counted() == {"_grouped_mm": {"tiled": 1, "torch": {}}}
        got = torch.autograd.grad(c, (a, b), seed)
        assert counted() == {"_grouped_mm": {"tiled": 2, "torch": {}}}
    assert same_bits(c, right) and c.stride() == right.stride()
    assert all(same_bits(x, y) for x, y in zip(got, grads, strict=True))


def test_what_lies_outside_all_groups_is_zero(device: str) -> None:
    """Torch leaves it as it finds it, gradients too."""
    g = groups.make("rows", (8, 24), 40, 16, 32, torch.bfloat16, device)
    a = g.a.requires_grad_()
    with tiled_mm.override(device):
        c = F.grouped_mm(a, g.b, offs=g.offs)
        (of_a,) = torch.autograd.grad(c, a, torch.ones_like(c))
    assert not c[24:].any() and not of_a[24:].any()


def test_strides_that_torch_refuses(device: str) -> None:
    """Rows that do not begin at multiples of 16 bytes."""
    g = groups.make("rows", (3, 24), 40, 15, 31, torch.bfloat16, device)
    with pytest.raises(RuntimeError, match="multiple of 16 bytes"):
        g.run(F.grouped_mm)
    with tiled_mm.override(device):
        assert same_bits(g.run(F.grouped_mm), g.run())


WRONG = {
    "double": ("dtype", lambda g: (g.a.double(), g.b.double(), g.offs, None, None)),
    "two dtypes": ("dtype", lambda g: (g.a, g.b.half(), g.offs, None, None)),
    "int64 offsets": ("dtype", lambda g: (g.a, g.b, g.offs.long(), None, None)),
    "a bias": ("dtype", lambda g: (g.a, g.b, g.offs, g.b[:, 0], None)),
    "out_dtype": ("dtype", lambda g: (g.a, g.b, g.offs, None, torch.float64)),
    "no offsets": ("shape", lambda g: (g.a, g.b, None, None, None)),
    "too few offsets": ("shape", lambda g: (g.a, g.b, g.offs[:1], None, None)),
    "offsets of two dimensions": ("shape", lambda g: (g.a, g.b, g.offs[None], None, None)),
    "contraction": ("shape", lambda g: (g.a[:, :8], g.b, g.offs, None, None)),
    "a vector": ("shape", lambda g: (g.a[0], g.b, g.offs, None, None)),
}


@each("name", tuple(WRONG))
def test_what_torch_refuses_it_refuses_in_its_words(device: str, name: str) -> None:
    g = groups.make("rows", (8, 24), 24, 16, 32, torch.float32, device)
    reason, arguments = WRONG[name]
    with pytest.raises(RuntimeError) as theirs:
        torch._grouped_mm(*arguments(g))
    with tiled_mm.override(device), pytest.raises(RuntimeError) as ours:
        torch._grouped_mm(*arguments(g))
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
    why = counted()["_grouped_mm"]["torch"]
    assert {r: n for r, n in why.items() if r != "off"} == {reason: 1}
