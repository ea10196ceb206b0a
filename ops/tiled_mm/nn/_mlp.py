"""Two linear layers around an activation, plain or gated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._names import Activation
from ._linear import Linear


class MLP(torch.nn.Module):
    """``down(activation(up(x)))``, or gated ``down(activation(gate(x)) * up(x))``.

    The activation is part of its layer's product, and no pass of its own.

    Args:
        in_features: of the input and, unless ``out_features`` says otherwise, of the result.
        hidden_features: between the layers.
        out_features: of the result.
        activation: as of :class:`Linear`.
        gated: with a third layer, ``gate``.
        bias: of every layer.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int | None = None,
        *,
        activation: Activation | torch.nn.Module | None = "gelu",
        gated: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        out_features = in_features if out_features is None else out_features
        where = {"bias": bias, "device": device, "dtype": dtype}
        self.gate = (
            Linear(in_features, hidden_features, activation=activation, **where) if gated else None
        )
        self.up = Linear(
            in_features, hidden_features, activation=None if gated else activation, **where
        )
        self.down = Linear(hidden_features, out_features, **where)

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        hidden = self.up(input)
        if self.gate is not None:
            hidden = self.gate(input) * hidden
        return self.down(hidden)
