"""What every timed result must satisfy.

Rows and columns are sampled, one of each stratum and always the first and the last; the block of C
they span is compared with a product in higher precision: fp64 for types up to fp32, the CPU's
extended precision for fp64, wrapping int64 for integers. NaN is looked for in all of C.

The gate, for zero-mean normal data: (|C - R| - u_out |R|) / (u_acc (|A||B|)) <= 16 for each
sampled element, u being the unit roundoff of the result and of the accumulator. For other data 16
becomes any_data_gate(K): where few terms of a sum are large, every later one costs a rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GATE = 16.0
SAMPLES = 256  # rows, and columns, of the sampled block
SAMPLES_EXACT = 48  # the same where the reference is slow (extended precision, integers)

# Significant bits, the hidden one included.
_PRECISION_BITS = {
    torch.float64: 53,
    torch.complex128: 53,
    torch.float32: 24,
    torch.complex64: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
}
_TF32_BITS = 11


@dataclass(frozen=True)
class Check:
    """The outcome. Errors are NaN where they cannot be computed; a NaN never passes."""

    frobenius: float  # ||C - R|| / ||R|| over the sampled block
    componentwise: float  # the largest left-hand side of the gate
    nan_count: int  # in all of C
    ok: bool
    gate: float = GATE

    def to_json(self) -> dict:
        def finite(x: float) -> float | None:
            return x if math.isfinite(x) else None

        return {
            "frobenius": finite(self.frobenius),
            "componentwise": finite(self.componentwise),
            "gate": self.gate,
            "nan_count": self.nan_count,
            "ok": self.ok,
        }


def any_data_gate(k: int) -> float:
    """What the chains of fp32 keep to on any data: min(K, 8 sqrt K)."""
    return min(float(k), 8 * math.sqrt(k))


def sample_indices(count: int, samples: int, generator: torch.Generator) -> Tensor:
    """Up to `samples` ascending indices below `count`: one of each of as many equal strata, the
    first and the last index always among them."""
    if count <= samples:
        return torch.arange(count)
    edges = torch.arange(samples + 1) * count // samples
    width = edges[1:] - edges[:-1]
    offset = (torch.rand(samples, generator=generator, dtype=torch.float64) * width).long()
    indices = edges[:-1] + offset
    indices[0], indices[-1] = 0, count - 1
    return indices


def unit_roundoff(dtype: torch.dtype) -> float:
    return 2.0 ** -_PRECISION_BITS[dtype]


def accumulator_roundoff(dtype: torch.dtype, *, tensor_cores: bool, tf32: bool) -> float:
    """Of the arithmetic that sums. Tensor cores truncate, which doubles it; TF32 rounds the
    operands, which outweighs the rest."""
    if tf32:
        return 2.0**-_TF32_BITS
    wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    return unit_roundoff(wide) * (2 if tensor_cores else 1)


def _extended(a: Tensor, b: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Reference and |A||B| of fp64 (or complex128) blocks in the CPU's extended precision."""
    wide = np.clongdouble if a.dtype.is_complex else np.longdouble
    x, y = a.cpu().numpy().astype(wide), b.cpu().numpy().astype(wide)
    return x @ y, np.abs(x) @ np.abs(y)


def _errors(c: Tensor, a: Tensor, b: Tensor, u_acc: float) -> tuple[float, float, float]:
    """(sum |C - R|^2, sum |R|^2, largest left-hand side of the gate) of one sampled block."""
    u_out = unit_roundoff(c.dtype)
    if a.dtype in (torch.float64, torch.complex128):
        reference, scale = _extended(a, b)
        error = np.abs(c.cpu().numpy().astype(reference.dtype) - reference).astype(np.float64)
        size = np.abs(reference).astype(np.float64)
        scale = scale.astype(np.float64)
    else:
        wide = torch.complex128 if a.dtype.is_complex else torch.float64
        x, y = a.to(wide), b.to(wide)
        product = x @ y
        error = (c.to(wide) - product).abs().cpu().numpy()
        size = product.abs().cpu().numpy()
        scale = (x.abs() @ y.abs()).cpu().numpy()
    excess = np.maximum(error - u_out * size, 0.0)  # keeps NaN
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where |A||B| is zero the result must be exact, not merely close: x / 0 is inf, 0 / 0 is 0.
        relative = np.where((excess == 0) & (scale == 0), 0.0, excess / (u_acc * scale))
    return float((error**2).sum()), float((size**2).sum()), float(relative.max())


def _integers_equal(c: Tensor, a: Tensor, b: Tensor) -> bool:
    """Products of integers wrap; the low bits of a wrapped int64 sum are those of any narrower
    type."""
    reference = a.cpu().long() @ b.cpu().long()
    return torch.equal(c.cpu(), reference.to(c.dtype))


def check_result(
    c: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    tensor_cores: bool,
    tf32: bool = False,
    gate: float = GATE,
) -> Check:
    """Checks c = a @ b (matrices, or equal batches of them)."""
    if c.shape != (*a.shape[:-1], b.shape[-1]):
        raise ValueError(f"result has shape {tuple(c.shape)}")
    generator = torch.Generator().manual_seed(0)
    if a.dim() == 2:
        a, b, c = a[None], b[None], c[None]
    exact = not (a.dtype.is_floating_point or a.dtype.is_complex)
    slow = exact or a.dtype in (torch.float64, torch.complex128)
    samples = SAMPLES_EXACT if slow else SAMPLES

    blocks = []
    for entry in sorted({0, a.shape[0] - 1}):
        rows = sample_indices(a.shape[1], samples, generator).to(a.device)
        cols = sample_indices(b.shape[2], samples, generator).to(a.device)
        blocks.append((c[entry][rows][:, cols], a[entry][rows], b[entry][:, cols]))

    if exact:
        equal = all(_integers_equal(*block) for block in blocks)
        return Check(0.0 if equal else math.nan, 0.0 if equal else math.nan, 0, equal)

    nan_count = int(torch.isnan(c).sum())
    u_acc = accumulator_roundoff(a.dtype, tensor_cores=tensor_cores, tf32=tf32)
    errors = [_errors(*block, u_acc) for block in blocks]
    reference = sum(e[1] for e in errors)
    frobenius = math.sqrt(sum(e[0] for e in errors) / reference) if reference > 0 else math.nan
    # max() of a list may drop a NaN; a NaN anywhere must fail.
    worst = [e[2] for e in errors]
    componentwise = math.nan if any(math.isnan(w) for w in worst) else max(worst)
    ok = nan_count == 0 and componentwise <= gate
    return Check(frobenius, componentwise, nan_count, ok, gate)
