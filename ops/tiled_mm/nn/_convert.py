"""Modules of a model to the library's and back."""

from __future__ import annotations

import torch

from ._linear import Linear


def convert(
    model: torch.nn.Module, *, back: bool = False, accumulate_main_grad: bool = False
) -> torch.nn.Module:
    """Make every torch.nn.Linear of a model a :class:`tiled_mm.nn.Linear`, in place.

    The modules stay the objects that they are, with their parameters, hooks, names and training
    flag; only their class changes. Subclasses of torch.nn.Linear are left alone, since they may
    compute something else.

    Args:
        model: a module, itself included; changed.
        back: the other way round, for every :class:`tiled_mm.nn.Linear`.
        accumulate_main_grad: of the modules that are converted; see :class:`tiled_mm.nn.Linear`.

    Returns:
        ``model``.

    Raises:
        ValueError: ``back`` of a module that has an activation, which torch.nn.Linear cannot
            express. Nothing has been changed then.
    """
    if back:
        ours = [module for module in model.modules() if type(module) is Linear]
        for module in ours:
            if module.activation not in (None, "none"):
                raise ValueError(f"torch.nn.Linear has no activation: {module} cannot go back")
        for module in ours:
            for name in ("activation", "accumulate_main_grad"):
                module.__dict__.pop(name, None)
            module.__class__ = torch.nn.Linear
        return model
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = Linear
            if accumulate_main_grad:
                module.accumulate_main_grad = True
    return model
