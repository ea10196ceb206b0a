"""torch.nn.Linear on tiled::linear."""

# Annotations are values here and no text: TorchScript reads those of the class.
import functools
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import _plain
from .._arguments import check_types
from .._linear import linear
from .._names import Activation
from ._activation import name_of


def main_grad_of(weight: Tensor) -> Tensor:
    """Where a backward adds a weight's gradient."""
    main_grad = getattr(weight, "main_grad", None)
    if not isinstance(main_grad, Tensor):
        raise AttributeError(
            "accumulate_main_grad: the weight has no main_grad; set weight.main_grad = "
            "torch.zeros_like(weight, dtype=torch.float32) before the first forward. FSDP2 "
            "(fully_shard) computes with a weight of its own, which keeps none: leave "
            "accumulate_main_grad off there, and have it add gradients in float32 by "
            "MixedPrecisionPolicy(reduce_dtype=torch.float32)"
        )
    return main_grad


class Linear(torch.nn.Linear):
    """torch.nn.Linear with an activation: ``activation(x @ weight.T + bias)`` in one pass.

    Parameters, their initial values, names and ``state_dict`` are torch.nn.Linear's. Errors are
    :func:`tiled_mm.linear`'s.

    Args:
        in_features, out_features, bias, device, dtype: as of torch.nn.Linear.
        activation: a name, as of :func:`tiled_mm.addmm`; or a torch.nn.ReLU, GELU or SiLU, which is
            kept as its name. It may be set later too.
        accumulate_main_grad: backward adds the gradient of ``weight`` to ``weight.main_grad``, a
            float32 tensor of its shape that the caller provides, and leaves ``weight.grad`` alone.
            Each sum is rounded once, to float32. In such a module gradients cannot be
            differentiated again, and it is not for torch.compile, torch.jit.script or FSDP2; under
            tensor parallelism ``main_grad`` is a DTensor placed as ``weight`` is.

    Raises:
        ValueError, TypeError: the activation is none of these.
    """

    __constants__: ClassVar[list[str]] = [
        *torch.nn.Linear.__constants__,
        "activation",
        "accumulate_main_grad",
    ]

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
        activation: Activation | torch.nn.Module | None = None,
        accumulate_main_grad: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation
        self.accumulate_main_grad = accumulate_main_grad

    def __setattr__(self, name: str, value: Any) -> None:
        # As a module an activation would become a child that nothing calls.
        super().__setattr__(name, name_of(value) if name == "activation" else value)

    def _scripted(self, input: Tensor) -> Tensor:
        """forward() for torch.jit.script, which knows no `try`."""
        if self.accumulate_main_grad:
            return self._into_main_grad(input)
        return torch.ops.tiled.linear(input, self.weight, self.bias, activation=self.activation)

    @functools.wraps(_scripted, assigned=(), updated=())  # torch.jit.script reads the text of that
    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        try:
            if self.accumulate_main_grad:
                return self._into_main_grad(input)
            if self.activation is None:
                return _plain.linear(input, self.weight, self.bias)
            return torch.ops.tiled.linear(input, self.weight, self.bias, activation=self.activation)
        except RuntimeError:
            check_types(linear, {"input": input, "weight": self.weight, "bias": self.bias})
            raise

    def _into_main_grad(self, input: Tensor) -> Tensor:
        return torch.ops.tiled._linear_into_main_grad(
            input, self.weight, self.bias, main_grad_of(self.weight), activation=self.activation
        )

    def extra_repr(self) -> str:
        """What torch.nn.Linear says, and what differs from it."""
        text = super().extra_repr()
        if self.activation is not None:
            text += f", activation={self.activation!r}"
        if self.accumulate_main_grad:
            text += ", accumulate_main_grad=True"
        return text
