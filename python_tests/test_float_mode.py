"""The mode in which a thread computes, such as torch.set_flush_denormal(True) gives it, is not seen
in a product, whichever thread computes it, and stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cases
import pytest
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits


@pytest.fixture
def flush() -> Iterator[None]:
    """The calling thread takes subnormals for zeros, and torch has two threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot take subnormals for zeros")
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)


def is_flushing() -> bool:
    return (torch.tensor([1e-30]) * torch.tensor([1e-10])).item() == 0


@each("algo", (None, "naive"))
@each("size", ((3, 3, 1), (200, 200, 1), (300, 310, 40), (257, 64, 32768)))
@each("dtype", (torch.float32, torch.complex64))
def test_equal_elements_are_equal(flush: None, algo: str | None, dtype: torch.dtype, size) -> None:
    m, n, k = size
    a, b = torch.zeros(m, k, dtype=dtype), torch.zeros(k, n, dtype=dtype)
    a[:, -1], b[-1] = 1e-30, 1e-10
    c = tiled_mm.mm(a, b, algo=algo)
    assert is_flushing()
    torch.set_flush_denormal(False)
    expected = torch.tensor(1e-30) * torch.tensor(1e-10)
    assert expected != 0
    assert torch.equal(c, expected.to(dtype).expand(m, n))


def products() -> dict[str, Callable[[], torch.Tensor]]:
    a, b = (1e-20 * x for x in cases.pair(257, 129, 64, torch.float32))
    bias = 1e-40 * cases.fill(1, 129, torch.float32)[0]
    gradient = 1e-40 * cases.fill(257, 129, torch.float32)
    tiny = 1e-39 * cases.fill(257, 129, torch.float32)
    backward = torch.ops.tiled.activation_backward
    return {
        "mm": lambda: tiled_mm.mm(a, b),
        "bmm": lambda: tiled_mm.bmm(a.expand(9, -1, -1), b.expand(9, -1, -1)),
        "linear": lambda: tiled_mm.linear(a, b.t(), bias, activation="gelu"),
        "addmm": lambda: tiled_mm.addmm(tiny, a, b, alpha=0.3, beta=0.7),
        "gradient": lambda: backward(gradient, tiny, "silu")[0],
        "its sums": lambda: backward(gradient, tiny, "silu", bias_dtype=torch.float32)[1],
    }


@each("name", tuple(products()))
def test_subnormals_count_everywhere(flush: None, name: str) -> None:
    torch.set_flush_denormal(False)
    product = products()[name]
    expected = product()
    torch.set_flush_denormal(True)
    found = product()
    assert is_flushing()
    torch.set_flush_denormal(False)
    assert ((expected != 0) & (expected.abs() < 1e-38)).any()
    assert_same_bits(found, expected)
