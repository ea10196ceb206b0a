"""torch.nn.Linear on tiled::linear."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Linear(torch.nn.Linear):
    """torch.nn.Linear with an activation: ``activation(x @ weight.T + bias)`` in one pass.

    Parameters, their initial values, names and ``state_dict`` are torch.nn.Linear's. Errors are
    :func:`tiled_mm.linear`'s.

    Args:
        in_features, out_features, bias, device, dtype: as of torch.nn.Linear.
        activation: as of :func:`tiled_mm.addmm`.
        accumulate_main_grad: backward adds the gradient of ``weight`` to ``weight.main_grad``, a
            float32 tensor of its shape that the caller provides, and leaves ``weight.grad`` alone.
            Each sum is rounded once, to float32. In such a module gradients cannot be
            differentiated again, and it is not for torch.compile.
    """

    # Of the class, so that what torch.nn.Linear has made has them too (convert()).
    activation: str | None = None
    accumulate_main_grad: bool = False

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
        accumulate_main_grad: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation
        self.accumulate_main_grad = accumulate_main_grad

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        weight, bias = self.weight, self.bias
        if self.accumulate_main_grad:
            return torch.ops.tiled._linear_into_main_grad(
                input, weight, bias, weight.main_grad, activation=self.activation
            )
        return torch.ops.tiled.linear(input, weight, bias, activation=self.activation)

    def extra_repr(self) -> str:
        """What torch.nn.Linear says, and what differs from it."""
        text = super().extra_repr()
        if self.activation is not None:
            text += f", activation={self.activation!r}"
        if self.accumulate_main_grad:
            text += ", accumulate_main_grad=True"
        return text
