"""The functions of the package batch_invariant_ops, with tiled's products, on the CPU too.

::

    from tiled_mm.compat.batch_invariant_ops import set_batch_invariant_mode

    with set_batch_invariant_mode():
        logits = model(tokens)

While the mode is on, :func:`tiled_mm.enable_override` is, and ``log_softmax`` and ``mean`` over
dimensions are computed here, by elementwise operations of torch in an order that follows from the
number of terms alone. Gradients are torch's formulas.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .._load import build_info
from .._ops import addmm, mm
from .._override import disable_override, enable_override

__all__ = [
    "AttentionBlockSize",
    "disable_batch_invariant_mode",
    "enable_batch_invariant_mode",
    "get_batch_invariant_attention_block_size",
    "is_batch_invariant_mode_enabled",
    "log_softmax",
    "matmul_persistent",
    "mean_dim",
    "set_batch_invariant_mode",
]


class AttentionBlockSize(NamedTuple):
    """The tile of attention kernels that ask for one."""

    block_m: int
    block_n: int


def get_batch_invariant_attention_block_size() -> AttentionBlockSize:
    return AttentionBlockSize(block_m=16, block_n=16)


# ---- sums in one order ---------------------------------------------------------------------------


def _wide(x: Tensor) -> torch.dtype:
    """The dtype that sums of ``x`` are made in."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _sum_of_halves(x: Tensor) -> Tensor:
    """The sum over the last dimension: the second half is added to the first one, elementwise,
    until one element is left. Each addition is rounded for itself, so that only the number of terms
    decides the bits, and errors grow with its logarithm."""
    count = x.shape[-1]
    if count == 0:
        return x.new_zeros(x.shape[:-1])
    while count > 1:
        half = (count + 1) // 2
        left, right = x[..., :half], x[..., half:count]
        if right.shape[-1] < half:  # the middle one of an odd number stays as it is
            x = torch.cat([left[..., :-1] + right, left[..., -1:]], -1)
        else:
            x = left + right
        count = half
    return x[..., 0]


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    """``torch.log_softmax(input, dim)`` with one order of sums; ``input`` of any shape and floating
    dtype, the result of the same. 16-bit inputs are summed in fp32 and rounded once.

    Raises:
        IndexError: ``dim`` is no dimension of ``input``.
    """
    return _log_softmax(input, dim, input.dtype)


def _log_softmax(input: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    if input.numel() == 0:
        return torch.empty_like(input, dtype=dtype)
    if input.dim() == 0:
        return _log_softmax(input[None], dim, dtype)[0]
    x = input.to(_wide(input)).movedim(dim, -1)
    x = x - x.amax(-1, keepdim=True)
    x = x - torch.log(_sum_of_halves(torch.exp(x)))[..., None]
    return x.movedim(-1, dim).to(dtype).contiguous()


def mean_dim(
    input: Tensor, dim: int | Sequence[int], keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    """``torch.mean(input, dim, keepdim, dtype=dtype)`` with one order of sums; no dimensions are
    all. 16-bit inputs are summed in fp32 and rounded once.

    Raises:
        IndexError: ``dim`` is no dimension of ``input``.
        RuntimeError: a dimension is named twice.
    """
    x = input if dtype is None else input.to(dtype)
    dtype = x.dtype
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if x.dim() == 0:
        return x.to(dtype, copy=True)
    axes = [_axis(d, x.dim()) for d in dims] or list(range(x.dim()))
    if len(set(axes)) < len(axes):
        twice = next(a for a in axes if axes.count(a) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    axes.sort()
    kept = [a for a in range(x.dim()) if a not in axes]
    terms = x.to(_wide(x)).permute(*kept, *axes).flatten(len(kept))  # [..., terms]
    mean = (_sum_of_halves(terms) / terms.shape[-1]).to(dtype)
    for axis in axes if keepdim else ():
        mean = mean.unsqueeze(axis)
    return mean


def _axis(dim: int, count: int) -> int:
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return dim % count


def matmul_persistent(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``a`` [M, K] times ``b`` [K, N], plus ``bias`` [N]: :func:`tiled_mm.mm` or ``addmm``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch's words.
    """
    return mm(a, b) if bias is None else addmm(bias, a, b)


# ---- the mode ------------------------------------------------------------------------------------

_lock = threading.RLock()
_libraries: list[torch.library.Library] = []
_enabled = False


def _kernels(key: str) -> dict[str, Callable]:
    """For an operator's name the kernel that stands there in the mode; what it does not compute
    goes on to the kernel that was there."""
    was_log_softmax = torch.library.get_kernel("aten::_log_softmax", key)
    was_mean = torch.library.get_kernel("aten::mean.dim", key)

    def of_log_softmax(keys, input: Tensor, dim: int, half_to_float: bool) -> Tensor:
        count = max(1, input.dim())
        if not input.is_floating_point() or not -count <= dim < count:
            return was_log_softmax.call_boxed(keys, input, dim, half_to_float)
        dtype = torch.float32 if half_to_float else input.dtype
        return _log_softmax(input, dim, dtype)

    def of_mean(keys, input: Tensor, dim, keepdim: bool = False, *, dtype=None) -> Tensor:
        result = dtype or input.dtype
        if not (result.is_floating_point or result.is_complex):
            return was_mean.call_boxed(keys, input, dim, keepdim, dtype=dtype)
        return mean_dim(input, dim or (), keepdim, dtype)

    return {"_log_softmax": of_log_softmax, "mean.dim": of_mean}


def _turn(on: bool) -> None:
    global _enabled
    with _lock:
        if on == _enabled:
            return
        if not on:
            while _libraries:
                _libraries.pop()._destroy()
            disable_override()
            _enabled = False
            return
        enable_override()
        for key in ("CPU", "CUDA") if build_info()["cuda"] else ("CPU",):
            library = torch.library.Library("aten", "IMPL")
            _libraries.append(library)
            with warnings.catch_warnings():  # it is what was asked for
                warnings.filterwarnings("ignore", message="(?s).*[Oo]verriding a previously")
                for name, kernel in _kernels(key).items():
                    library.impl(name, kernel, key, with_keyset=True)
        _enabled = True


def enable_batch_invariant_mode() -> None:
    """Turn the mode on, for all threads; nothing where it is on."""
    _turn(True)


def disable_batch_invariant_mode() -> None:
    """Turn the mode off; nothing where it is off."""
    _turn(False)


def is_batch_invariant_mode_enabled() -> bool:
    return _enabled


@contextlib.contextmanager
def set_batch_invariant_mode(enabled: bool = True) -> Iterator[None]:
    """The mode on, or off, inside of a with block; afterwards it is as it was, errors or not.
    Blocks may be nested."""
    before = _enabled
    _turn(enabled)
    try:
        yield
    finally:
        _turn(before)
