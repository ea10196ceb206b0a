"""The products of a layer that processes share out, and their gradients, in the order of a tree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._on_rank import on_rank
from ._tree_pieces import Pieces, linear_in_pieces, pieces_of, sum_dtype
from ._tree_reduce import gather, passed_back, reduced


class ColumnLinear(torch.autograd.Function):
    """linear of this process's columns; x's gradient is the tree of all processes'."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        name: str,
        count: int,
        gather_dim: int | None,
        activation: str | None,
        precision: str | None,
        order: str,
    ) -> Tensor:
        options = {"precision": precision, "sum_order": order}
        if gather_dim is not None:
            x = gather(x, gather_dim, name)
        if activation is None:
            y = value = torch.ops.tiled.linear(x, weight, bias, **options)
        else:
            y, value = torch.ops.tiled._linear_with_pre_activation(
                x, weight, bias, activation=activation, **options
            )
            value = y if activation == "relu" else value
        ctx.save_for_backward(x, weight, None if activation is None else value)
        ctx.asked = name, count, gather_dim, activation
        ctx.options = options
        ctx.bias_dtype = None if bias is None else bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        name, count, gather_dim, activation = ctx.asked
        x, weight, value = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        passed, sums = passed_back(gradient, value, activation, ctx.bias_dtype if of_bias else None)
        grads: list[Tensor | None] = [None, None, sums]
        if of_x:
            with on_rank("ColwiseParallel", name):
                grads[0] = _sum_of_all(passed, weight.mT, name, count, gather_dim, ctx.options)
        if of_weight:
            grads[1] = torch.ops.tiled._linear_weight_grad(passed, x, **ctx.options)
        return (*grads, *[None] * 6)


def _sum_of_all(
    x: Tensor,
    weight: Tensor,
    name: str,
    count: int,
    scatter_dim: int | None,
    options: dict[str, str | None],
) -> Tensor:
    """x weight^T of all processes' parts of K."""
    if pieces := pieces_of(x, weight.shape[0], name, count, scatter_dim, None):
        return linear_in_pieces(x, weight, None, pieces, None, options)[0]
    partial = torch.ops.tiled.linear(x, weight, out_dtype=sum_dtype(x.dtype), **options)
    return reduced(partial, None, name, count, scatter_dim, x.dtype, None)[0]


class RowLinear(torch.autograd.Function):
    """linear of this process's part of K and the tree of all processes', in pieces of rows."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        name: str,
        pieces: Pieces,
        activation: str | None,
        precision: str | None,
        order: str,
    ) -> Tensor:
        ctx.options = {"precision": precision, "sum_order": order}
        y, value = linear_in_pieces(x, weight, bias, pieces, activation, ctx.options)
        ctx.save_for_backward(x, weight, None if activation is None else value)
        ctx.asked = name, pieces.scatter_dim, activation
        ctx.bias_dtype = None if bias is None else bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        name, scatter_dim, activation = ctx.asked
        x, weight, value = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        if scatter_dim is not None:
            with on_rank("RowwiseParallel", name):
                gradient = gather(gradient, scatter_dim, name)
                value = None if value is None else gather(value, scatter_dim, name)
        passed, sums = passed_back(gradient, value, activation, ctx.bias_dtype if of_bias else None)
        grads: list[Tensor | None] = [None, None, sums]
        if of_x:
            grads[0] = torch.ops.tiled.linear(passed, weight.mT, **ctx.options)
        if of_weight:
            grads[1] = torch.ops.tiled._linear_weight_grad(passed, x, **ctx.options)
        return (*grads, *[None] * 5)
