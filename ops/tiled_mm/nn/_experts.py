"""Experts of a mixture: gated layers, each for the rows that a router sends to it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._grouped import grouped_mm
from .._names import Activation
from ._activation import name_of
from ._linear import main_grad_of


def by_expert(index: Tensor, experts: int) -> tuple[Tensor, Tensor]:
    """How to sort rows by their experts.

    Args:
        index: [...], integers: the expert of every row, or ``experts``, which is none: such rows
            come last. Any other number is an error on the CPU, and none on a GPU, where the host
            does not wait for it.
        experts: how many there are.

    Returns:
        ``(order, offs)``: the rows in the order of their experts, a permutation of the flattened
        index that keeps the order of each expert's rows, int64; and the cumulative ends of the
        experts' rows, int32 [experts].

    Raises:
        IndexError: "index out of range in self", torch's, on the CPU; a RuntimeError in code that
            Inductor compiles and under vmap.
    """
    index = index.flatten().to(torch.promote_types(index.dtype, torch.int32))
    index = torch.where(index < 0, experts + 1, index)  # no look-up may count it from the end
    if index.device.type == "cpu":
        numbers = torch.arange(experts + 1, device=index.device, dtype=index.dtype)
        index = numbers.index_select(0, index)
    in_order, order = torch.sort(index, stable=True)
    numbers = torch.arange(experts, device=index.device, dtype=in_order.dtype)
    return order, torch.searchsorted(in_order, numbers, right=True, out_int32=True)


def back_in_order(rows: Tensor, order: Tensor) -> Tensor:
    """Rows [T, ...] that were taken in this order, where they were before."""
    places = torch.arange(len(order), device=order.device)
    return rows[torch.empty_like(order).scatter_(0, order, places)]


def combined(rows: Tensor, weights: Tensor) -> Tensor:
    """The weighted sums of every token's rows, added in their order, in float32 at least, so that
    a token's bits do not depend on the tokens beside it.

    Args:
        rows: [T, top, N].
        weights: [T, top].

    Returns:
        [T, N], in the type that the sums have.
    """
    wide = torch.promote_types(rows.dtype, torch.float32)
    total = rows[:, 0].to(wide) * weights[:, 0, None].to(wide)
    for i in range(1, rows.shape[1]):
        total = total + rows[:, i].to(wide) * weights[:, i, None].to(wide)
    return total


class Experts(torch.nn.Module):
    """``down(activation(gate(x)) * up(x))`` of E experts, as grouped products: a row has the bits
    of its expert's layers alone, whatever rows stand beside it.

    The parameters are ``gate`` and ``up`` [E, hidden_features, in_features] and ``down``
    [E, out_features, hidden_features], with torch.nn.Linear's initial values.

    Args:
        experts: E.
        in_features: of the input and, unless ``out_features`` says otherwise, of the result.
        hidden_features: between the layers.
        out_features: of the result.
        activation: as of :class:`Linear`; it is part of the gate's product.
        accumulate_main_grad: backward adds the gradient of each parameter to its ``main_grad``, as
            of :class:`Linear`.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        experts: int,
        in_features: int,
        hidden_features: int,
        out_features: int | None = None,
        *,
        activation: Activation | torch.nn.Module | None = "silu",
        accumulate_main_grad: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        out_features = in_features if out_features is None else out_features
        self.experts = experts
        self.activation = name_of(activation)
        self.accumulate_main_grad = accumulate_main_grad

        def weights(rows: int, columns: int) -> torch.nn.Parameter:
            empty = torch.empty(experts, rows, columns, device=device, dtype=dtype)
            return torch.nn.Parameter(empty)

        self.gate = weights(hidden_features, in_features)
        self.up = weights(hidden_features, in_features)
        self.down = weights(out_features, hidden_features)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each expert's as torch.nn.Linear's."""
        for weight in self.parameters():
            bound = 1 / math.sqrt(weight.shape[-1]) if weight.shape[-1] > 0 else 0
            torch.nn.init.uniform_(weight, -bound, bound)

    def forward(self, input: Tensor, offs: Tensor) -> Tensor:
        """[T, in_features], sorted by expert, and the experts' cumulative ends [E], as of
        :func:`tiled_mm.grouped_mm` -> [T, out_features]; rows behind the last end are zero."""
        hidden = self._layer(input, self.gate, offs, self.activation)
        return self._layer(hidden * self._layer(input, self.up, offs), self.down, offs)

    def routed(self, input: Tensor, index: Tensor, weights: Tensor | None = None) -> Tensor:
        """Each token's results of its experts, weighted and added up.

        Args:
            input: [T, in_features].
            index: [T, top], integers: the experts of each token, at least one. The number
                ``experts`` is none, which adds zero. On a GPU a number below 0 or above that adds
                zero too, since the host does not wait to see it.
            weights: [T, top]: what each counts; 1 if there are none.

        Returns:
            [T, out_features], of the input's dtype. The sums are in float32 at least, in the order
            of ``index``.

        Raises:
            RuntimeError: the shapes do not fit, before any work.
            IndexError: on the CPU a number is below 0 or above ``experts``, before any work; a
                RuntimeError in code that Inductor compiles and under vmap.
        """
        shape = index.shape if weights is None else weights.shape
        torch._check(
            index.dim() == 2 and index.shape[0] == input.shape[0] and index.shape[1] > 0,
            lambda: "tiled_mm: index has shape [T, top], T the rows of input, and top is not 0",
        )
        torch._check(shape == index.shape, lambda: "tiled_mm: weights have the shape of index")
        tokens, top = index.shape
        order, offs = by_expert(index, self.experts)
        rows = self(input[order // top], offs)
        rows = back_in_order(rows, order).view(tokens, top, rows.shape[-1])
        if weights is None:
            weights = rows.new_ones(tokens, top)
        return combined(rows, weights).to(input.dtype)

    def _layer(
        self, x: Tensor, weight: Tensor, offs: Tensor, activation: str | None = None
    ) -> Tensor:
        if not self.accumulate_main_grad:
            return grouped_mm(x, weight.mT, offs=offs, activation=activation)
        return torch.ops.tiled._grouped_mm_into_main_grad(
            x, weight.mT, offs, None, main_grad_of(weight).mT, activation=activation
        )

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        hidden, features = self.gate.shape[1:]
        text = f"experts={self.experts}, in_features={features}, hidden_features={hidden}"
        text += f", out_features={self.down.shape[1]}, activation={self.activation!r}"
        return text + (", accumulate_main_grad=True" if self.accumulate_main_grad else "")
