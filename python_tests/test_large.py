"""Indices beyond 2^31: results, operands, leading dimensions and K."""

from __future__ import annotations

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from rungs import each_rung

BIG = 2**31


def needs(gigabytes: float, device: str) -> None:
    """Skip where the memory is not there."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0] / 2**30
    else:
        with open("/proc/meminfo") as lines:
            info = dict(line.split(":") for line in lines)
        free = int(info["MemAvailable"].split()[0]) / 2**20
    if free < gigabytes:
        pytest.skip(f"needs {gigabytes} GiB of memory on {device}, {free:.1f} are free")


def outer_product(a: torch.Tensor, b: torch.Tensor, rows: slice) -> torch.Tensor:
    """a[rows] b by elementwise operations (K = 2)."""
    return a[rows, :1] * b[:1] + a[rows, 1:] * b[1:]


def check_outer_product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """A piece of c at a time: the reference takes as much memory as its piece."""
    step = max(1, 2**26 // c.shape[1])
    for begin in range(0, c.shape[0], step):
        rows = slice(begin, begin + step)
        assert torch.equal(c[rows], outer_product(a, b, rows)), f"rows from {begin}"


@each_rung
def test_a_leading_dimension_beyond_2_31(device: str, algo: str | None) -> None:
    """Rows 2^31 + 5 elements apart; the memory between them is never touched."""
    if device == "cuda":
        needs(5, device)  # a CPU's memory takes no place before it is touched
    a, b = cases.pair(3, 40, 7, torch.int8, device)
    memory = torch.empty(2 * (BIG + 5) + 40, dtype=torch.int8, device=device)
    far_a = memory.as_strided((3, 7), (BIG + 5, 1)).copy_(a)
    expected = tiled_mm.mm(a, b, algo=algo)
    assert torch.equal(tiled_mm.mm(far_a, b, algo=algo), expected)
    far_out = memory.as_strided((3, 40), (BIG + 5, 1))
    tiled_mm.mm(a, b, algo=algo, out=far_out)
    assert torch.equal(far_out, expected)
    far_b = memory.as_strided((7, 3), (1, BIG + 5)).copy_(a.t())
    assert torch.equal(tiled_mm.mm(b.t(), far_b, algo=algo), expected.t())


@pytest.mark.large
@each("shape", ((46341, 46341), (35783, 65133), (3, BIG // 3 + 11), (BIG // 3 + 11, 3)))
@each_rung
def test_a_result_of_more_than_2_31_elements(device, algo, shape: tuple[int, int]) -> None:
    m, n = shape
    assert m * n > BIG
    needs(7, device)
    a, b = cases.pair(m, n, 2, torch.int8, device)
    check_outer_product(tiled_mm.mm(a, b, algo=algo), a, b)


@pytest.mark.large
@pytest.mark.cuda
@pytest.mark.tensor_cores
@each("algo", rungs.FP64_RUNGS)
@each("shape", ((46341, 46341), (3, BIG // 3 + 11), (BIG // 3 + 11, 3)))
def test_a_result_of_more_than_2_31_elements_in_float64(shape: tuple, algo: str) -> None:
    """The same of fp64's own rungs."""
    m, n = shape
    needs(60, "cuda")
    a, b = (torch.randint(-9, 10, s, device="cuda").double() for s in ((m, 2), (2, n)))
    check_outer_product(tiled_mm.mm(a, b, algo=algo), a, b)


@pytest.mark.large
@pytest.mark.cuda
@pytest.mark.tensor_cores
@each("algo", rungs.FP64_RUNGS)
def test_a_leading_dimension_beyond_2_31_in_float64(algo: str) -> None:
    needs(40, "cuda")
    a, b = cases.pair(3, 40, 70, torch.float64, "cuda")
    memory = torch.empty(2 * (BIG + 5) + 70, dtype=torch.float64, device="cuda")
    expected = tiled_mm.mm(a, b, algo="naive")
    far_a = memory.as_strided((3, 70), (BIG + 5, 1)).copy_(a)
    assert torch.equal(tiled_mm.mm(far_a, b, algo=algo), expected)
    far_b = memory.as_strided((70, 3), (1, BIG + 5)).copy_(a.t())
    assert torch.equal(tiled_mm.mm(b.t(), far_b, algo=algo), expected.t())
    far_out = memory.as_strided((3, 40), (BIG + 5, 1))
    tiled_mm.mm(a, b, algo=algo, out=far_out)
    assert torch.equal(far_out, expected)


@pytest.mark.large
@each("transposed", (False, True))
@each_rung
def test_operands_of_more_than_2_31_elements(device, algo, transposed: bool) -> None:
    """A and B of mostly zeros, with ones that only 64-bit indices find."""
    needs(7, device)
    size = 46341
    assert size * size > BIG
    zeros = torch.zeros(size, size, dtype=torch.int8, device=device)
    big = zeros.t() if transposed else zeros
    at = torch.randint(0, size, (2, 5000), device=device)
    at[:, :3] = size - 1 - torch.arange(3, device=device)
    big[at[0], at[1]] = 1
    left, right = cases.pair(3, 3, size, torch.int8, device)
    entries = torch.unique(at, dim=1)
    expected = torch.zeros(size, 3, dtype=torch.int8, device=device)
    expected.index_add_(0, entries[0], right[entries[1]])
    assert torch.equal(tiled_mm.mm(big, right, algo=algo), expected)
    expected = torch.zeros(3, size, dtype=torch.int8, device=device)
    expected.index_add_(1, entries[1], left[:, entries[0]])
    assert torch.equal(tiled_mm.mm(left, big, algo=algo), expected)


@each("algo", (None, *rungs.RUNGS["cpu"]))
def test_more_than_2_31_terms(algo: str | None) -> None:
    """One element, of 2^31 + 5 terms: on the CPU, since a GPU computes it in one slow block."""
    k = BIG + 5
    two, three = (torch.full((1, 1), v, dtype=torch.int64) for v in (2, 3))
    c = tiled_mm.mm(two.expand(1, k), three.expand(k, 1), algo=algo)
    assert c.item() == 6 * k


@pytest.mark.large
@each_rung
def test_a_batch_of_more_than_2_31_elements(device: str, algo: str | None) -> None:
    needs(7, device)
    a = torch.randint(-100, 100, (3, 30000, 1), device=device, dtype=torch.int8)
    b = torch.randint(-100, 100, (3, 1, 30000), device=device, dtype=torch.int8)
    c = tiled_mm.bmm(a, b, algo=algo)
    assert c.numel() > BIG
    for i in range(3):
        for begin in range(0, 30000, 2000):
            rows = slice(begin, begin + 2000)
            assert torch.equal(c[i, rows], a[i, rows] * b[i])


@pytest.mark.cuda
def test_sums_of_more_than_2_31_rows() -> None:
    """Of ones: each level of the stated order is exact, but the last, which rounds 5 away."""
    needs(1, "cuda")
    rows = torch.ones(1, 1, device="cuda").expand(BIG + 5, 1)
    sums = torch.ops.tiled.activation_backward(rows, None, None, bias_dtype=torch.float32)[1]
    assert sums.tolist() == [BIG]
