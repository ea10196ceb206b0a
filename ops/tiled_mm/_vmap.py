"""Batching rules of ``torch.vmap`` for the products.

A batch of left matrices is folded into the rows of one larger product; a batch of right matrices
becomes a batched product. Since the bits of an element do not depend on how many rows or columns
stand beside it, every entry equals its unbatched call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _check_rank(tensor: Tensor, batched: bool, rank: int, message: str) -> None:
    """torch.mm's own refusal, which would otherwise speak of the folded tensors."""
    if tensor.dim() - batched != rank:
        raise RuntimeError(message)


def _mm_rule(
    info: Any, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, **options: Any
) -> tuple[Tensor, int]:
    """[M, K] x [K, N] with a further dimension in ``a``, in ``b`` or in both."""
    a_dim, b_dim = in_dims[:2]
    _check_rank(a, a_dim is not None, 2, "self must be a matrix")
    _check_rank(b, b_dim is not None, 2, "mat2 must be a matrix")
    batch = info.batch_size
    if b_dim is None:
        a = a.movedim(a_dim, 0)  # [batch, M, K]
        m, k = a.shape[1:]
        rows = torch.ops.tiled.mm(a.reshape(batch * m, k), b, **options)
        return rows.reshape(batch, m, b.shape[1]), 0
    # The kernels take a batch stride of 0, so a matrix that all entries share is not copied.
    a = a.expand(batch, *a.shape) if a_dim is None else a.movedim(a_dim, 0)
    return torch.ops.tiled.bmm(a, b.movedim(b_dim, 0), **options), 0


def _bmm_rule(
    info: Any, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, **options: Any
) -> tuple[Tensor, int]:
    """[B, M, K] x [B, K, N] with a further dimension in ``a``, in ``b`` or in both."""
    a_dim, b_dim = in_dims[:2]
    _check_rank(a, a_dim is not None, 3, "batch1 must be a 3D tensor")
    _check_rank(b, b_dim is not None, 3, "batch2 must be a 3D tensor")
    batch = info.batch_size
    if a_dim is not None and b_dim is not None:
        a, b = a.movedim(a_dim, 0), b.movedim(b_dim, 0)  # [batch, B, M, K], [batch, B, K, N]
        entries = torch.ops.tiled.bmm(a.flatten(0, 1), b.flatten(0, 1), **options)
        return entries.unflatten(0, (batch, a.shape[1])), 0
    if a_dim is not None:
        a = a.movedim(a_dim, 1)  # [B, batch, M, K]
        rows = torch.ops.tiled.bmm(a.flatten(1, 2), b, **options)
        return rows.unflatten(1, (batch, a.shape[2])), 1
    b = b.movedim(b_dim, 2)  # [B, K, batch, N]
    columns = torch.ops.tiled.bmm(a, b.flatten(2, 3), **options)
    return columns.unflatten(2, (batch, b.shape[3])), 2


def _each(function: Callable[[Tensor], Any], result: Any) -> Any:
    """Of the result, or of C and the pre-activation."""
    return function(result) if isinstance(result, Tensor) else tuple(map(function, result))


def _in_front(t: Tensor, dim: int | None, batch: int, rank: int) -> Tensor:
    """[batch, ...] with `rank` further dimensions, those that an entry lacks being 1. The kernels
    take a batch stride of 0, so what all entries share is not copied."""
    t = t.expand(batch, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.reshape(batch, *[1] * (rank + 1 - t.dim()), *t.shape[1:])


def _in_its_own_words(operator: Any, rule: Callable) -> Callable:
    """The rule; where it fails because an entry's call would, with the error of that call."""

    @functools.wraps(rule)
    def checked(info: Any, in_dims: tuple, *args: Any, **options: Any) -> Any:
        try:
            result = rule(info, in_dims, *args, **options)
        except (RuntimeError, IndexError):
            dims = (*in_dims, *[None] * len(args))
            if info.batch_size > 0:
                operator(
                    *(
                        t if t is None or dim is None else t.select(dim, 0)
                        for t, dim in zip(args, dims, strict=False)
                    ),
                    **options,
                )
            raise
        return result, _each(lambda t: 0, result)

    return checked


def _addmm_rule(of_matrices: Any, of_batches: Any) -> Callable:
    """[M, K] x [K, N] and an input that expands to [M, N], each with a further dimension or not."""

    def rule(info: Any, in_dims: tuple, input: Tensor, a: Tensor, b: Tensor, **options: Any) -> Any:
        batch = info.batch_size
        input_dim, a_dim, b_dim = in_dims[:3]
        a, input = _in_front(a, a_dim, batch, 2), _in_front(input, input_dim, batch, 2)
        if b_dim is not None or a_dim is None:
            return of_batches(input, a, _in_front(b, b_dim, batch, 2), **options)
        sizes = (batch, a.shape[1], b.shape[1])
        result = of_matrices(input.expand(sizes).flatten(0, 1), a.flatten(0, 1), b, **options)
        return _each(lambda t: t.reshape(sizes), result)

    return _in_its_own_words(of_matrices, rule)


def _baddbmm_rule(operator: Any) -> Callable:
    """[B, M, K] x [B, K, N] and an input that expands to [B, M, N], likewise."""

    def rule(info: Any, in_dims: tuple, input: Tensor, a: Tensor, b: Tensor, **options: Any) -> Any:
        batch = info.batch_size
        input, a, b = (
            _in_front(t, dim, batch, 3) for t, dim in zip((input, a, b), in_dims, strict=False)
        )
        sizes = (batch, a.shape[1], a.shape[2], b.shape[3])
        if b.shape[1] != sizes[1]:
            raise RuntimeError("the batches differ")
        result = operator(
            input.expand(sizes).flatten(0, 1), a.flatten(0, 1), b.flatten(0, 1), **options
        )
        return _each(lambda t: t.reshape(sizes), result)

    return _in_its_own_words(operator, rule)


def _addmm_with_pre_activation_rule(
    info: Any, in_dims: tuple, input: Tensor, a: Tensor, b: Tensor, **options: Any
) -> Any:
    """Of matrices or of batches."""
    operator = torch.ops.tiled._addmm_with_pre_activation
    of_matrices = a.dim() - (in_dims[1] is not None) == 2
    rule = _addmm_rule(operator, operator) if of_matrices else _baddbmm_rule(operator)
    return rule(info, in_dims, input, a, b, **options)


def _linear_rule(linear: Any, of_batches: Any) -> Callable:
    """A further dimension of x alone is one more leading dimension; with one of weight or bias it
    is a batch of products, to which the bias is the input."""

    def rule(
        info: Any,
        in_dims: tuple,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        **options: Any,
    ) -> Any:
        x_dim, weight_dim, bias_dim = (*in_dims, None)[:3]
        if weight_dim is None and bias_dim is None:
            return linear(x.movedim(x_dim, 0), weight, bias, **options)
        batch = info.batch_size
        x, weight = _in_front(x, x_dim, batch, 1), _in_front(weight, weight_dim, batch, 1)
        is_vector = weight.dim() == 2
        if is_vector and bias is not None:
            raise RuntimeError("a weight of one dimension takes no bias")
        sizes = (*x.shape[:-1], *([] if is_vector else [weight.shape[1]]))
        rows = math.prod(x.shape[1:-1])  # and not -1, which nothing can tell where K is 0
        matrices = (
            x.reshape(batch, rows, x.shape[-1]),
            (weight.unsqueeze(1) if is_vector else weight).mT,
        )
        if bias is None:
            result = of_batches(x.new_zeros(()), *matrices, beta=0, **options)
        else:
            bias = _in_front(bias, bias_dim, batch, len(sizes) - 1).expand(sizes)
            result = of_batches(bias.reshape(batch, rows, sizes[-1]), *matrices, **options)
        return _each(lambda t: t.reshape(sizes), result)

    return _in_its_own_words(linear, rule)


def _linear_weight_grad_rule(
    info: Any, in_dims: tuple[int | None, ...], grad: Tensor, x: Tensor, **options: Any
) -> tuple[Tensor, int]:
    """[..., N] and [..., K] -> [N, K], each with a further dimension or not."""
    grad, x = (
        t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
        for t, dim in zip((grad, x), in_dims, strict=False)
    )
    rows = math.prod(x.shape[1:-1])  # and not -1, which nothing can tell where a size is 0
    grad, x = (t.reshape(info.batch_size, rows, t.shape[-1]) for t in (grad, x))
    return torch.ops.tiled.bmm(grad.mT, x, **options), 0


def _rule_by_entries(operator: Any) -> Callable:
    """Every entry by itself: of groups each may have offsets of its own, which are data, and of
    scaled products each tensor has scales of another shape."""
    name = operator._qualified_op_name.split("::")[1].removeprefix("_")

    def rule(info: Any, in_dims: tuple, *args: Any, **options: Any) -> Any:
        def entry(i: int) -> Any:
            tensors = (
                t if dim is None else t.select(dim, i) for t, dim in zip(args, in_dims, strict=True)
            )
            return operator(*tensors, **options)

        if info.batch_size == 0:
            raise RuntimeError(f"tiled_mm: torch.vmap of {name} over no entries")
        results = [entry(i) for i in range(info.batch_size)]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])

    return rule


def _activation_backward_rule(
    info: Any,
    in_dims: tuple,
    grad: Tensor,
    before: Tensor | None,
    activation: str | None,
    **options: Any,
) -> Any:
    """[..., N]: the entries' columns side by side: the sum of one does not know the others."""
    batch = info.batch_size

    def side_by_side(t: Tensor | None, dim: int | None) -> Tensor | None:
        if t is None:
            return None
        t = t.expand(batch, *t.shape) if dim is None else t.movedim(dim, 0)
        return t.movedim(0, -2).flatten(-2)

    columns = grad.movedim(in_dims[0], -1).shape[-2] if in_dims[0] is not None else grad.shape[-1]
    result = torch.ops.tiled.activation_backward(
        side_by_side(grad, in_dims[0]), side_by_side(before, in_dims[1]), activation, **options
    )
    # What is not asked for has no elements, in an entry as in all of them.
    asked = (activation not in (None, "none"), options.get("bias_dtype") is not None)
    apart = [
        t.unflatten(-1, (batch, columns)).movedim(-2, 0) if is_asked else t.expand(batch, 0)
        for t, is_asked in zip(result, asked, strict=True)
    ]
    return tuple(apart), (0, 0)


def register_batching_rules() -> None:
    """Register the rules above, if they are not there yet: a package that is loaded anew finds
    those of its first load, which call the same operators."""
    tiled = torch.ops.tiled
    rules = {
        "mm": _mm_rule,
        "bmm": _bmm_rule,
        "addmm": _addmm_rule(tiled.addmm, tiled.baddbmm),
        "baddbmm": _baddbmm_rule(tiled.baddbmm),
        "_addmm_with_pre_activation": _addmm_with_pre_activation_rule,
        "linear": _linear_rule(tiled.linear, tiled.baddbmm),
        "_linear_with_pre_activation": _linear_rule(
            tiled._linear_with_pre_activation, tiled._addmm_with_pre_activation
        ),
        "_linear_weight_grad": _linear_weight_grad_rule,
        "grouped_mm": _rule_by_entries(tiled.grouped_mm),
        "_grouped_mm_with_pre_activation": _rule_by_entries(tiled._grouped_mm_with_pre_activation),
        "scaled_mm": _rule_by_entries(tiled.scaled_mm),
        "_quantize_blocks": _rule_by_entries(tiled._quantize_blocks),
        "activation_backward": _activation_backward_rule,
    }
    for name, rule in rules.items():
        operator = f"tiled::{name}"
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator, "FuncTorchBatched"):
            torch.library.register_vmap(operator, rule)
