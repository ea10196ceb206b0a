"""The activations that a product takes along, by name or as torch's modules."""

from __future__ import annotations

from typing import get_args

import torch

from .._names import Activation

NAMES: tuple[str, ...] = get_args(Activation)


def name_of(activation: str | torch.nn.Module | None) -> str | None:
    """The name of an activation: itself, or of a torch.nn.ReLU, GELU or SiLU.

    Raises:
        ValueError: another name.
        TypeError: another module, or something else.
    """
    if activation is None or (isinstance(activation, str) and activation in NAMES):
        return activation
    known = ", ".join(map(repr, NAMES))
    if isinstance(activation, str):
        raise ValueError(f"unknown activation {activation!r}; expected one of: {known}")
    # By their exact classes: a subclass may compute something else.
    if type(activation) is torch.nn.ReLU:
        return "relu"
    if type(activation) is torch.nn.SiLU:
        return "silu"
    if type(activation) is torch.nn.GELU and activation.approximate in ("none", "tanh"):
        return "gelu" if activation.approximate == "none" else "gelu_tanh"
    raise TypeError(
        f"activation must be one of {known}, or a torch.nn.ReLU, GELU or SiLU, not {activation!r}"
    )
