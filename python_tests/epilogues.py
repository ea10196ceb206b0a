"""The epilogue written again, bit for bit (ops/core/epilogue.h): what a finished sum becomes."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import cases
import numpy as np
import tiled_mm
import torch
from golden import fma32, same_bits

__all__ = ["same_bits"]  # golden's, for those that compare these results

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
        return (fma32 if c.dtype == np.float32 else _fma_float64)(a, b, c)


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


def pre_activation_of(
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
    value = pre_activation_of(total, **asked)
    before = value.to(out_dtype)
    if activation != "none":
        flat = value.reshape(-1, value.shape[-1])
        form = out_dtype if out_dtype in cases.HALVES else value.dtype
        value = activated(flat, activation, to=form).reshape(value.shape)
    return value.to(out_dtype), before


# ---- how far off -------------------------------------------------------------------------------


def every_16_bit_value() -> torch.Tensor:
    """As float32, [512, 256]."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    return torch.stack([bits.view(dtype).float() for dtype in cases.HALVES]).view(512, 256)


def million_values() -> torch.Tensor:
    """A fifth of them of any bits, the others where activations are neither 0 nor x."""
    bits = torch.randint(-(2**31), 2**31, (200, 1000)).to(torch.int32).view(torch.float32)
    spans = [(torch.rand(200, 1000) * 2 - 1) * span for span in (120.0, 16.0, 3.0, 0.1)]
    return torch.cat([bits, *spans])


def ulps(got: torch.Tensor, right: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
    """The error in ulp of `scale`, of the right value if there is none; 0 where both are NaN or
    overflow alike."""
    info = torch.finfo(got.dtype)
    size = (right.abs() if scale is None else scale).clamp(min=info.smallest_normal)
    exponent = torch.frexp(size).exponent - 1
    error = torch.ldexp((got.double() - right).abs(), round(-math.log2(info.eps)) - exponent)
    alike = (got.double() == right) | (got.isnan() & right.isnan())
    return torch.where(alike, 0, error)
