"""PyTorch's own samples of its products (torch.testing's op_db), run under tiled_mm.override(): the
results that torch gives, in value and gradient, within torch's own tolerances; errors in the same
words; and dtypes that are refused without the override are refused with it."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tiled_mm
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

if importlib.util.find_spec("expecttest") is None:
    # torch.testing derives its own tests' class from this package's; the samples need neither.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

# What is overridden, and what is made of it.
NAMES = {
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "matmul", "__rmatmul__"),
    *("einsum", "inner", "tensordot", "linalg.multi_dot"),
    *("nn.functional.linear", "nn.functional.bilinear"),
}
OPERATORS = {op.full_name: op for op in op_db if op.name in NAMES}
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.uint8),
]
# Of these, torch's own generator raises before there is any product: it asks for whole numbers from
# 1 up to 1. The operator is torch.bmm in another name, whose integers are sampled under its own.
NO_SAMPLES = {("bmm.triton_optimized", dtype) for dtype in (torch.int64, torch.uint8)}


def results(op: OpInfo, sample: Any, prepare: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The result, and the gradients of whatever asks for one, of a sample whose tensors are
    prepared, and so is the gradient that goes in."""

    def own(t: Tensor) -> Tensor:
        return prepare(t.detach().clone()).requires_grad_(t.requires_grad)

    inputs = tree_map_only(Tensor, own, ([sample.input, *sample.args], sample.kwargs))
    result = op(*inputs[0], **inputs[1])
    leaves = [t for t in tree_leaves(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not leaves or not result.requires_grad:
        return [result]
    gradient = torch.linspace(-1, 1, result.numel() + 1, device=result.device)[1:]
    gradient = prepare(gradient.view(result.shape).to(result.dtype))
    return [result, *torch.autograd.grad(result, leaves, gradient)]


def outcome(op: OpInfo, sample: Any) -> list[Tensor] | str:
    """The results, or the error as its class and text."""
    try:
        return results(op, sample, lambda t: t)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def sizes(op: OpInfo, sample: Any) -> list[Tensor]:
    """How large the terms are that the results are sums of: all of them are linear in each input,
    so these are the results of the inputs' absolute values."""
    factors = {k: abs(v) if k in ("alpha", "beta") else v for k, v in sample.kwargs.items()}
    sample = type(sample)(sample.input, args=sample.args, kwargs=factors)
    wide = torch.complex128 if sample_dtype(sample).is_complex else torch.float64
    return [t.detach().abs() for t in results(op, sample, lambda t: t.abs().to(wide))]


def sample_dtype(sample: Any) -> torch.dtype:
    return next(t.dtype for t in tree_leaves(sample.input) if isinstance(t, Tensor))


def samples(op: OpInfo, device: str, dtype: torch.dtype) -> Iterator[Any]:
    needs_grad = dtype.is_floating_point or dtype.is_complex
    return op.sample_inputs(device, dtype, requires_grad=needs_grad)


def products_in_turn(op: OpInfo, sample: Any) -> int:
    """How many products an element goes through: of n factors n - 1, in the gradients too, where
    the gradient takes the place of one. Each but the last is rounded to the dtype on the way."""
    if op.name == "nn.functional.bilinear":
        return 2  # of the first input, the weight and the second input
    factors = len(sample.input) if isinstance(sample.input, (list, tuple)) else 2
    return max(1, factors - 1)


def check_close(found: Tensor, expected: Tensor, size: Tensor, products: int) -> None:
    """Within torch's tolerances for the dtype, relative to what is summed: of a sum whose terms
    cancel, each kernel's order leaves another small rest. They are made for one rounding on either
    side (fp16's 0.001 is two of its unit roundoffs), and so count once for each product: one that
    is off by a share of its size makes what follows off by that share of its own."""
    relative, absolute = default_tolerances(found.dtype)
    allowed = absolute + products * relative * size
    same = found == expected  # an infinity too, whose difference from itself is NaN
    assert bool((same | ((found - expected).abs() <= allowed)).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_samples(name: str, dtype: torch.dtype, device: str) -> None:
    if (name, dtype) in NO_SAMPLES:
        pytest.skip("torch's generator of these samples fails by itself")
    op = OPERATORS[name]
    count = 0
    for sample in samples(op, device, dtype):
        expected = outcome(op, sample)
        with tiled_mm.override():
            found = outcome(op, sample)
        count += 1
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
            continue
        if dtype.is_floating_point or dtype.is_complex:
            scales = sizes(op, sample)
        else:
            scales = [torch.zeros((), device=device)]  # whole numbers are exact
        for ours, theirs, size in zip(found, expected, scales, strict=True):
            assert ours.shape == theirs.shape and ours.stride() == theirs.stride()
            assert ours.dtype == theirs.dtype
            check_close(ours, theirs, size, products_in_turn(op, sample))
    assert count > 0 or dtype not in op.supported_dtypes(device)


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if op.error_inputs_func])
def test_errors(name: str, device: str) -> None:
    op = OPERATORS[name]
    for wrong in op.error_inputs(device):
        with tiled_mm.override(), pytest.raises(wrong.error_type, match=wrong.error_regex):
            results(op, wrong.sample_input, lambda t: t)


def test_samples_are_computed_by_tiled(device: str) -> None:
    """Or the comparisons would be of torch with itself."""
    tiled_mm.override_counts(reset=True)
    with tiled_mm.override():
        for name, op in OPERATORS.items():
            for sample in samples(op, device, torch.float32):
                results(op, sample, lambda t: t)
            counts = tiled_mm.override_counts(reset=True).values()
            assert sum(count["tiled"] for count in counts) > 0, name
            assert sum(sum(count["torch"].values()) for count in counts) == 0, name
