"""Hopper's fp8 instructions in software: what a chain of wgmma keeps of its sums.

One step takes 32 products and what was summed so far. All 33 are cut off, towards zero, at 2^-13 of
the largest power of two among them; their sum is exact, and is cut off at 2^-13 of its own. Of a
product that power is that of its factors' exponents added. This is a model, fitted to relative
errors that were measured on an H100 (docs/contract.md, "fp8"): its errors are the machine's, its
bits need not be.
"""

from __future__ import annotations

import numpy as np
import scaled

STEP = 32
KEPT = 13  # bits behind the first
_NONE = -10_000


def _exponents(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, _NONE, np.frexp(x)[1] - 1)


def _cut(x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """x without what is below 2^(exponent - KEPT)."""
    unit = np.exp2(np.where(exponent == _NONE, 0, exponent) - float(KEPT))
    return np.trunc(x / unit) * unit


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A chain of steps over all of K, from 0: [M, K] x [K, N] of finite numbers, float64."""
    sums = np.zeros((len(a), b.shape[1]))
    exponents_a, exponents_b = _exponents(a), _exponents(b)
    for k in range(0, a.shape[1], STEP):
        part = slice(k, k + STEP)
        products = a[:, part, None] * b[None, part]
        exponents = exponents_a[:, part, None] + exponents_b[None, part]
        exponents = np.where(products == 0, _NONE, exponents)
        largest = np.maximum(exponents.max(1), _exponents(sums))
        sums = _cut(products, largest[:, None]).sum(1) + _cut(sums, largest)
        sums = _cut(sums, _exponents(sums))
    return sums


def scaled_mm(o: scaled.Operands) -> np.ndarray:
    """The contract's order around such chains, float32."""
    a, b = (t.double().numpy() for t in (o.a, o.b))
    (m, k), n = a.shape, b.shape[1]
    scale_a = scaled.spread(o.scale_a, o.recipe_a, m, k).float().numpy()
    scale_b = scaled.spread(o.scale_b.t(), o.recipe_b, n, k).float().numpy()
    blockwise = "Block" in o.recipe_a + o.recipe_b
    total = np.zeros((m, n), np.float32)
    for begin in range(0, k, scaled.BLOCK):
        sums = chain(a[:, begin : begin + scaled.BLOCK], b[begin : begin + scaled.BLOCK])
        scale = scale_a[:, begin, None] * scale_b[None, :, begin] if blockwise else np.float32(1)
        total = (scale.astype(np.float64) * sums + total).astype(np.float32)
    return total if blockwise or not k else scale_a[:, :1] * scale_b[:, 0] * total
