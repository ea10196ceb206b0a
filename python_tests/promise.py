"""What precision='fp16x3' promises of every element, on any data, as checks of many products at
once, on the device on which they lie. With u = 2^-24 and g = min(K, 8 sqrt(K)):

    bound     |C - AB| <= u |AB| + g u |A||B| + 2^-149
    specials  NaN and Inf as IEEE has them for the exact product: NaN where AB is NaN and nowhere
              else, Inf where AB is
    overflow  a finite AB becomes Inf only where it, give or take K 2^-53 |A||B|, rounds to that: no
              sum overflows on the way
    zeros     a zero is +0
    bits      those of an element are the same whatever stands beside it

The reference is fp64's product. Its sums are off by at most K 2^-53 |A||B|, nothing beside g u;
that much is allowed for, so that no right C fails.

A NaN in a bound or a ratio would pass a comparison unseen, so all of them are written to be true
only of what is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

U = 2.0**-24
BEYOND = 2.0**128 - 2.0**103  # from here on a number rounds to fp32's infinity
KINDS = ("bound", "specials", "overflow", "zeros")


def growth(k: int) -> float:
    return min(k, 8 * math.sqrt(k))


@dataclass
class Reference:
    """Of products [..., M, N], in fp64."""

    value: Tensor  # AB
    bound: Tensor  # without what fp64 may be off
    slack: Tensor  # that


def reference(a: Tensor, b: Tensor) -> Reference:
    """Of fp32 matrices, or batches of them."""
    a, b = a.double(), b.double()
    k = a.shape[-1]
    value, magnitude = a @ b, a.abs() @ b.abs()
    bound = U * value.abs() + growth(k) * U * magnitude + 2.0**-149
    # |A||B| is off by as much, relatively; so is the bound, by a millionth.
    return Reference(value, bound, (k + 2) * 2.0**-53 * magnitude)


@dataclass
class Found:
    """Which elements are wrong, by kind, and how far each is off, in bounds."""

    wrong: dict[str, Tensor]
    ratio: Tensor

    def counts(self) -> dict[str, int]:
        return {kind: int(mask.sum()) for kind, mask in self.wrong.items()}

    def any(self) -> bool:
        return any(self.counts().values())


def check(c: Tensor, to: Reference) -> Found:
    """All of the promises but the bits."""
    assert c.dtype == torch.float32 and c.shape == to.value.shape
    value, wide = to.value, c.double()
    finite = value.isfinite()
    off = (wide - value).abs() - to.slack
    within = off <= to.bound
    right_special = torch.where(
        finite, ~c.isnan(), torch.where(value.isnan(), c.isnan(), wide == value)
    )
    may_be_infinite = value * wide.sign() + 2 * to.slack >= BEYOND  # C's slack and the reference's
    both = finite & c.isfinite()
    wrong = {
        "bound": both & ~within,
        "specials": ~right_special,
        "overflow": finite & c.isinf() & ~may_be_infinite,
        "zeros": (c == 0) & c.signbit(),
    }
    return Found(wrong, torch.where(both, off / to.bound, 0.0))


def different(x: Tensor, y: Tensor) -> Tensor:
    """Where the bits of two results differ; of a NaN they are no part of the promise."""
    assert x.dtype == y.dtype == torch.float32 and x.shape == y.shape
    bits = x.contiguous().view(torch.int32) != y.contiguous().view(torch.int32)
    return bits & ~(x.isnan() & y.isnan())


def correctly_summed(a: Tensor, b: Tensor, product_in_fp64) -> Tensor:
    """What a chain in fp64, rounded once, gives; a zero is +0."""
    return product_in_fp64(a.double(), b.double()).float() + 0
