"""tiled_mm.compat.batch_invariant_ops: the mode, its nesting, and sums of one order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import tiled_mm
import torch
from tiled_mm.compat import batch_invariant_ops as ops
from torch import Tensor

F = torch.nn.functional
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    ops.disable_batch_invariant_mode()
    with pytest.raises(RuntimeError, match="not enabled"):
        tiled_mm.disable_override("cpu")


def computes() -> bool:
    """Whether tiled computes a product now."""
    tiled_mm.override_counts(reset=True)
    torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    return bool(tiled_mm.override_counts().get("mm", {}).get("tiled"))


def test_the_mode_nests() -> None:
    assert not ops.is_batch_invariant_mode_enabled()
    with ops.set_batch_invariant_mode():
        assert ops.is_batch_invariant_mode_enabled() and computes()
        with ops.set_batch_invariant_mode(True):
            assert computes()
        assert ops.is_batch_invariant_mode_enabled() and computes()
        with ops.set_batch_invariant_mode(False):
            assert not ops.is_batch_invariant_mode_enabled() and not computes()
        assert computes()
        with pytest.raises(KeyError), ops.set_batch_invariant_mode(False):
            raise KeyError
        assert computes()
    assert not ops.is_batch_invariant_mode_enabled() and not computes()


def test_enable_and_disable_are_no_counts() -> None:
    ops.enable_batch_invariant_mode()
    ops.enable_batch_invariant_mode()
    assert computes()
    ops.disable_batch_invariant_mode()
    assert not computes()
    ops.disable_batch_invariant_mode()


def test_an_override_of_ones_own_stays() -> None:
    with tiled_mm.override():
        with ops.set_batch_invariant_mode():
            assert computes()
        assert computes()


def test_torchs_kernels_come_back() -> None:
    x = torch.randn(7, 1001)
    before = x.log_softmax(-1), x.mean(1)
    with ops.set_batch_invariant_mode():
        inside = x.log_softmax(-1), x.mean(1)
        assert torch.equal(inside[0], ops.log_softmax(x)) and torch.equal(
            inside[1], ops.mean_dim(x, 1)
        )
    after = x.log_softmax(-1), x.mean(1)
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_no_warning() -> None:
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from tiled_mm.compat import batch_invariant_ops as ops\n"
        "for _ in range(2):\n"
        "    with ops.set_batch_invariant_mode(): pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 96, 1001, 4097])
def test_log_softmax_and_mean(count: int, dtype: torch.dtype, device: str) -> None:
    """Nearer to fp64's than the dtype's rounding and some of the sum's, and with one row's bits in
    every batch."""
    x = (3 * torch.randn(64, 5, count, device=device)).to(dtype)
    with ops.set_batch_invariant_mode():
        found, mean = x.log_softmax(-1), x.mean(-1)
        for rows in (1, 2, 7, 16):
            assert torch.equal(x[:rows].log_softmax(-1), found[:rows])
            assert torch.equal(x[:rows].mean(-1), mean[:rows])
    assert found.dtype == mean.dtype == dtype
    exact, unit, step = x.double(), torch.finfo(dtype).eps, torch.finfo(_wide(dtype)).eps
    # Terms of size 1 to the largest element are added up in log2(count) steps.
    steps = 4 + count.bit_length()
    right = exact.log_softmax(-1)
    size = exact.abs().amax(-1, keepdim=True) + right.abs()
    assert bool(((found.double() - right).abs() <= unit * size + steps * step * size).all())
    size = exact.abs().mean(-1)
    assert bool(((mean.double() - exact.mean(-1)).abs() <= (unit + steps * step) * size).all())


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize == 2 else dtype


MEANS = {
    "one": lambda x: x.mean(1),
    "several, kept": lambda x: x.mean((0, -1), keepdim=True),
    "all": lambda x: x.mean(),
    "none named": lambda x: torch.mean(x, dim=()),
    "another dtype": lambda x: torch.mean(x, 1, dtype=torch.float64),
    "of integers": lambda x: torch.mean(x.long(), 1, dtype=torch.float32),
    "of nothing": lambda x: x[:, :0].mean(1),
    "of a number": lambda x: x[0, 0, 0].mean(),
    "of complex numbers": lambda x: torch.complex(x, x).mean(0),
    "log_softmax of the middle": lambda x: x.log_softmax(1),
    "log_softmax of nothing": lambda x: x[:0].log_softmax(0),
    "log_softmax of a number": lambda x: x[0, 0, 0].log_softmax(0),
    "log_softmax of infinities": lambda x: torch.full_like(x, -torch.inf).log_softmax(-1),
}


@pytest.mark.parametrize("name", MEANS)
def test_shapes_dtypes_and_values_are_torchs(name: str, device: str) -> None:
    x = torch.randint(-3, 4, (3, 4, 5), device=device).float()
    expected = MEANS[name](x)
    with ops.set_batch_invariant_mode():
        found = MEANS[name](x)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    torch.testing.assert_close(found, expected, equal_nan=True)


WRONG = {
    "dimension": lambda x: x.mean(3),
    "twice": lambda x: x.mean((0, 0)),
    "integers": lambda x: x.long().mean(0),
    "dimension of log_softmax": lambda x: x.log_softmax(3),
    "log_softmax of integers": lambda x: x.long().log_softmax(0),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_torchs(name: str) -> None:
    x = torch.ones(2, 3, 4)
    with pytest.raises(Exception) as theirs:
        WRONG[name](x)
    with ops.set_batch_invariant_mode(), pytest.raises(Exception) as ours:
        WRONG[name](x)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]


def test_gradients(device: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    with ops.set_batch_invariant_mode():
        assert torch.autograd.gradcheck(lambda x: x.log_softmax(-1), x)
        assert torch.autograd.gradcheck(lambda x: x.mean(0), x)


def test_a_model_keeps_its_rows(device: str) -> None:
    head = torch.nn.Linear(24, 101, device=device)

    def logprobs(x: Tensor) -> Tensor:
        norm = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return F.log_softmax(head(norm), -1)

    with ops.set_batch_invariant_mode():
        tiled_mm.assert_batch_invariant(logprobs, torch.randn(64, 24, device=device))


def test_matmul_persistent() -> None:
    a, b, bias = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
    assert torch.equal(ops.matmul_persistent(a, b), tiled_mm.mm(a, b))
    assert torch.equal(ops.matmul_persistent(a, b, bias), tiled_mm.addmm(bias, a, b))
    assert ops.get_batch_invariant_attention_block_size() == (16, 16)
