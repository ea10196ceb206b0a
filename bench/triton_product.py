"""A product in Triton whose rows keep their bits, for bench.rivals: one tile for every size, and K
in steps of one width, in one chain. Few rows are paid as a whole tile.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, m, n, k, am, ak, bk, bn, cm,
           M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    across, down = tl.cdiv(n, N), tl.cdiv(m, M)
    group = block // (GROUP * across)
    first = group * GROUP
    height = min(down - first, GROUP)
    row = first + (block % (GROUP * across)) % height
    column = (block % (GROUP * across)) // height
    rows, columns = row * M + tl.arange(0, M), column * N + tl.arange(0, N)
    steps = tl.arange(0, K)
    a = a_ptr + rows[:, None].to(tl.int64) * am + steps[None, :] * ak
    b = b_ptr + steps[:, None] * bk + columns[None, :].to(tl.int64) * bn
    total = tl.zeros((M, N), tl.float32)
    for begin in range(0, k, K):
        inside = steps < k - begin
        x = tl.load(a, mask=(rows[:, None] < m) & inside[None, :], other=0.0)
        y = tl.load(b, mask=inside[:, None] & (columns[None, :] < n), other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        a += K * ak
        b += K * bk
    c = c_ptr + rows[:, None].to(tl.int64) * cm + columns[None, :]
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=mask)


def product(a: Tensor, b: Tensor) -> Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    wide = a.dtype == torch.float32
    tile, step = (64, 32) if wide else (128, 64)
    grid = (triton.cdiv(m, tile) * triton.cdiv(n, tile),)
    kernel[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), c.stride(0), tile, tile, step, 8,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return c
