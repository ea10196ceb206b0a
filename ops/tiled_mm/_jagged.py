"""Linear layers of jagged tensors (torch.nested): of their values, which are rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_OPERATOR = "tiled::linear"
_KEY = "AutogradNestedTensor"


def _linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, /, *args: Any, **options: Any
) -> Tensor:
    """[B, ragged, ..., K] and [N, K] -> [B, ragged, ..., N], of the same lengths."""
    from torch.nested._internal.nested_tensor import nested_view_from_values_offsets

    if x.layout != torch.jagged or any(t is not None and t.is_nested for t in (weight, bias)):
        raise NotImplementedError(
            '"tiled_mm" not implemented for nested tensors but jagged ones (layout=torch.jagged) '
            "as the input of linear"
        )
    if x._ragged_idx != 1 or x.lengths() is not None:
        raise ValueError(
            "tiled_mm: linear expected input to be a contiguous jagged layout NestedTensor"
        )
    values = torch.ops.tiled.linear(x.values(), weight, bias, *args, **options)
    # What torch.nested.nested_tensor_from_jagged ends in, which is not for torch.compile.
    return nested_view_from_values_offsets(
        values, x.offsets(), min_seqlen=x._maybe_min_seqlen, max_seqlen=x._maybe_max_seqlen
    )


def _dispatched(cls: type, func: Any, types: Any, args: tuple, kwargs: dict | None) -> Tensor:
    return _linear(*args, **(kwargs or {}))


def register_jagged_linear() -> None:
    """Register it, if it is not there yet: where gradients are recorded, and for inference mode,
    which leaves that out."""
    try:
        from torch.nested._internal.nested_tensor import NestedTensor
    except ImportError:  # of torch's own parts, which may move
        return
    if torch._C._dispatch_has_kernel_for_dispatch_key(_OPERATOR, _KEY):
        return
    library = torch.library.Library("tiled", "FRAGMENT")
    library.impl(_OPERATOR, _linear, _KEY)
    torch.library.register_torch_dispatch(_OPERATOR, NestedTensor, _dispatched, lib=library)
    _linear.library = library  # what it has registered lasts as long as it does
