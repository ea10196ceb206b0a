"""What precision='fp16x3' computes again: NaN and Inf, and all that two parts cannot vouch for."""

from __future__ import annotations

import gates
import pytest
import tiled_mm
import torch
from cases import each
from fp16x3 import (
    INF,
    NAN,
    again,
    drop,
    hard,
    mm,
    normal,
    pair,
    recomputed,
)
from golden import assert_equal, assert_same_bits
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


@each("size", ((136, 72, 100), (72, 264, 64), (300, 333, 515), (24, 16, DEEP), (5, 72, 4200)))
def test_nan_and_infinity(size: tuple) -> None:
    """As IEEE has them; other rows and columns keep their bits."""
    m, n, k = size
    a, b = pair(m, n, k)
    b[k - 1, 1] = 0
    clean = mm(a, b)
    for special in (NAN, INF, -INF):
        x, y = a.clone(), b.clone()
        x[m - 1, k - 1] = special
        y[0, n - 1] = special
        c = mm(x, y)
        gates.check_elements(c, x, y, "fp16x3")
        assert c[m - 1, 1].isnan(), "0 Inf"
        exact = again(x, y)
        assert_equal(c[:-1, :-1], clean[:-1, :-1])
        assert_same_bits(c[-1], exact[-1])
        assert_same_bits(c[:, -1], exact[:, -1])
        assert recomputed(x, y) == m + n - 1
        # One row of many.
        x, row = a.clone(), m // 2
        x[row, k // 2] = special
        c = mm(x, b)
        assert_equal(drop(c, row), drop(clean, row))
        assert_same_bits(c[row], again(x, b)[row])
        assert recomputed(x, b) == n
    x = a.clone()
    x[:, 0] = INF
    x[:, 1] = -INF
    assert_same_bits(mm(x, b), again(x, b))
    assert recomputed(x, b) == m * n


def test_infinite_and_nan_everywhere() -> None:
    for special in (NAN, INF):
        a, b = pair(70, 90, 100)
        a[:, 17] = special
        c = mm(a, b)
        assert_same_bits(c, again(a, b))
    a, b = torch.full((70, 64), INF, device="cuda"), torch.ones(64, 90, device="cuda")
    assert (mm(a, b) == INF).all() and (mm(-a, b) == -INF).all()
    assert mm(a, 0 * b).isnan().all()


def test_elements_computed_again_have_the_bits_of_fp64_and_their_neighbours_keep_theirs() -> None:
    """Rows and columns of every tile and square that lose all beside one huge element."""
    for m, n, k in ((136, 72, 300), (300, 333, 515), (257, 130, DEEP), (300, 9, 515)):
        a, b = pair(m, n, k)
        b[5] = 0
        rows = torch.arange(m, device="cuda") % 37 == 11
        without = mm(a, b)
        x = torch.where(rows[:, None] & (torch.arange(k, device="cuda") == 5), 1e30, a)
        c = mm(x, b)
        assert_same_bits(c[rows], again(x, b)[rows])
        assert_same_bits(c[~rows], without[~rows])
        assert recomputed(x, b) == int(rows.sum()) * n
        # The other way round: columns, computed again for all rows.
        c = mm(b.t(), x.t())
        assert_same_bits(c[:, rows], again(b.t(), x.t())[:, rows])
        assert_same_bits(c[:, ~rows], mm(b.t(), a.t())[:, ~rows])


def test_an_element_that_cancels_is_computed_again_alone() -> None:
    """Lost parts are measured by the element itself: they are seen where it is small."""
    m, n, k = 130, 140, 256
    a, b = pair(m, n, k)
    a[:, 0] = 2.0**12  # so that the elements below 2^-16 lose something
    a[3, 1:] *= 2.0**-19
    c = mm(a, b)
    assert recomputed(a, b) == 0
    # Column 8 makes a zero of row 3's large element.
    b[0, 8] = 0
    found = mm(a, b)
    assert recomputed(a, b) == 1
    assert_same_bits(found[3, 8], again(a, b)[3, 8])
    assert_same_bits(drop(found.t(), 8), drop(c.t(), 8))
    gates.check_elements(found, a, b, "fp16x3")


def test_the_share_that_is_computed_again() -> None:
    """None of normal data, and next to none of what networks have; the host does not wait for the
    count."""
    a, b = normal(4096, 4096), normal(4096, 4096)
    assert recomputed(a, b) == 0
    for name in ("softmax", "gelu"):
        x, y = hard(name, 1024, 1024), hard("normal", 512, 1024).t()
        assert recomputed(x, y) < 1e-5 * 1024 * 512, name
    count = tiled_mm.fp16x3_recomputed(a, b)
    assert count.dtype == torch.int64 and count.shape == () and count.device == a.device
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        counts = [tiled_mm.fp16x3_recomputed(a[:i], b) for i in (1, 100, 1000)]
        counts.append(tiled_mm.fp16x3_recomputed(a[:, :5], b[:5]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [int(count) for count in counts] == [0, 0, 0, 4096**2]


def test_the_count_of_a_batch_and_of_nothing() -> None:
    a, b = normal(5, 70, 100), normal(5, 100, 90)
    a[2, 3, 4] = NAN
    b[4, 0] = INF
    assert recomputed(a, b) == 90 + 70 * 90
    assert recomputed(a[:0], b[:0]) == 0
    assert recomputed(a[0, :0], b[0]) == 0
    with pytest.raises(RuntimeError, match="for float32 inputs"):
        tiled_mm.fp16x3_recomputed(a.double(), b.double())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tiled_mm.fp16x3_recomputed(a[0], b[0, 1:])
