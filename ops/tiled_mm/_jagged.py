"""Linear layers of jagged tensors (torch.nested): of their values, which are rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_KEY = "AutogradNestedTensor"


def _by_values(operator: Any) -> Callable:
    """[B, ragged, ..., K] and [N, K] -> [B, ragged, ..., N], of the same lengths."""

    def linear(x: Tensor, *args: Any, **options: Any) -> Tensor:
        from torch.nested._internal.nested_tensor import nested_view_from_values_offsets

        others = [t for t in args if isinstance(t, Tensor)]
        if x.layout != torch.jagged or any(t.is_nested for t in others):
            raise NotImplementedError(
                '"tiled_mm" not implemented for nested tensors but jagged ones '
                "(layout=torch.jagged) as the input of linear"
            )
        if x._ragged_idx != 1 or x.lengths() is not None:
            raise ValueError(
                "tiled_mm: linear expected input to be a contiguous jagged layout NestedTensor"
            )
        values = operator(x.values(), *args, **options)
        # What torch.nested.nested_tensor_from_jagged ends in, which is not for torch.compile.
        return nested_view_from_values_offsets(
            values, x.offsets(), min_seqlen=x._maybe_min_seqlen, max_seqlen=x._maybe_max_seqlen
        )

    return linear


def _dispatched(cls: type, func: Any, types: Any, args: tuple, kwargs: dict | None) -> Tensor:
    return _by_values(func)(*args, **(kwargs or {}))


def register_jagged_linear() -> None:
    """Register it, if it is not there yet: where gradients are recorded, and for inference mode,
    which leaves that out."""
    try:
        from torch.nested._internal.nested_tensor import NestedTensor
    except ImportError:  # of torch's own parts, which may move
        return
    library = torch.library.Library("tiled", "FRAGMENT")
    for name in ("tiled::linear", "tiled::_linear_into_main_grad"):
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, _KEY):
            continue
        linear = _by_values(getattr(torch.ops.tiled, name.removeprefix("tiled::")).default)
        linear.library = library  # what it has registered lasts as long as it does
        library.impl(name, linear, _KEY)
        torch.library.register_torch_dispatch(name, NestedTensor, _dispatched, lib=library)
