"""The epilogue written again, bit for bit (ops/core/epilogue.h): what a finished sum becomes."""

from __future__ import annotations

import re
from fractions import Fraction

import cases
import numpy as np
import tiled_mm
import torch

operator = torch.ops.tiled_debug.mm_with_epilogue


def _activations() -> tuple[str, ...]:
    """Those that the library has, by its refusal of another."""
    one = torch.ones(1, 1)
    try:
        tiled_mm.addmm(one, one, one, activation="nonsense")
    except RuntimeError as refusal:
        return tuple(re.findall(r"expected one of: ([\w, ]+)", str(refusal))[0].split(", "))
    raise AssertionError("an activation of no name was not refused")


ACTIVATIONS = _activations()


def _fma_float32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b is exact in float64; the sum is rounded there to odd, from where rounding to float32
    gives what one rounding would (Boldo and Melquiond, 2008)."""
    product, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)  # exact: Knuth's two-sum
    even = total.view(np.int64) & 1 == 0
    away = np.where(error > 0, np.inf, -np.inf)
    odd = np.isfinite(total) & even & (error != 0)
    return np.where(odd, np.nextafter(total, away), total).astype(np.float32)


def _fma_float64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    def one(x: float, y: float, z: float) -> float:
        if not np.isfinite((x, y, z)).all():
            return x * y + z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        return float(exact) if exact else x * y + z  # the sign of a zero

    a, b, c = (x.astype(np.float64) for x in np.broadcast_arrays(a, b, c))
    return np.array([one(*x) for x in zip(a.flat, b.flat, c.flat, strict=True)]).reshape(c.shape)


def fma(a, b, c) -> np.ndarray:
    """One rounding, in the dtype of c."""
    a, b = (np.asarray(x, dtype=c.dtype) for x in (a, b))
    with np.errstate(all="ignore"):
        return (_fma_float32 if c.dtype == np.float32 else _fma_float64)(a, b, c)


def scaled(factor: complex | int, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """factor * x + c, all in the type of sums."""
    if x.dtype in cases.INTEGERS:
        return x * factor + c
    if not x.is_complex():
        return torch.from_numpy(fma(factor, x.numpy(), c.numpy()))
    factor = complex(factor)
    xr, xi, re, im = (t.contiguous().numpy() for t in (x.real, x.imag, c.real, c.imag))
    if factor.real != 0 or factor.imag == 0:
        re, im = fma(factor.real, xr, re), fma(factor.real, xi, im)
    if factor.imag != 0:
        re, im = fma(-factor.imag, xi, re), fma(factor.imag, xr, im)
    return torch.complex(torch.from_numpy(re), torch.from_numpy(im))


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in cases.HALVES else dtype


def sums(a: torch.Tensor, b: torch.Tensor, **options) -> torch.Tensor:
    """The contract's sums, on the CPU."""
    product = torch.ops.tiled.bmm if a.dim() == 3 else torch.ops.tiled.mm
    return product(a, b, out_dtype=sum_dtype(a.dtype), **options).cpu()


def before_activation(
    total: torch.Tensor, *, bias=None, bias_along="n", input=None, alpha=1, beta=1
) -> torch.Tensor:
    """Unrounded."""
    dtype = total.dtype
    shift = torch.zeros((), dtype=dtype)
    if bias is not None:
        shift = bias.cpu().to(dtype)
        shift = shift.unsqueeze(-1 if bias_along == "m" else -2)
    value = scaled(alpha, total, shift.expand(total.shape).contiguous())
    if input is not None and beta != 0:
        value = scaled(beta, input.cpu().to(dtype).expand(total.shape).contiguous(), value)
    return value


def activated(
    x: torch.Tensor,
    activation: str,
    device: str = "cpu",
    to: torch.dtype | None = None,
    k: int = 0,
    **options,
) -> torch.Tensor:
    """The library's own activation of a float32 or float64 matrix, for a C of type `to`, by an
    epilogue that leaves all values as they are: 1 x + (-1 * sum + -0), the sum, of k zeros, being
    +0."""
    shapes = (x.shape[0], k), (k, x.shape[1])
    a, b = (x.new_zeros(s, dtype=to or x.dtype, device=device) for s in shapes)
    bias = torch.full((x.shape[1],), -0.0, dtype=x.dtype, device=device)
    c, _ = operator(a, b, bias=bias, alpha=-1, input=x.to(device), activation=activation, **options)
    return c.cpu()


def expected(
    total: torch.Tensor, out_dtype: torch.dtype, activation: str = "none", **asked
) -> tuple[torch.Tensor, torch.Tensor]:
    """(C, the pre-activation), rounded."""
    value = before_activation(total, **asked)
    before = value.to(out_dtype)
    if activation != "none":
        flat = value.reshape(-1, value.shape[-1])
        form = out_dtype if out_dtype in cases.HALVES else value.dtype
        value = activated(flat, activation, to=form).reshape(value.shape)
    return value.to(out_dtype), before


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """A NaN is a NaN, whatever its payload, and -0 is not +0."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.is_complex():
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    x, y = x.cpu(), y.cpu()
    if not x.is_floating_point():
        return torch.equal(x, y)
    sign = torch.signbit(x) == torch.signbit(y)
    return bool((((x == y) & sign) | (x.isnan() & y.isnan())).all())
