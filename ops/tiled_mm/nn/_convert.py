"""Modules of a model to the library's and back."""

from __future__ import annotations

import functools
import sys
from typing import TypeVar

import torch

from ._fp8_linear import Fp8Linear
from ._linear import Linear

_Model = TypeVar("_Model", bound=torch.nn.Module)


def convert(
    model: _Model,
    *,
    back: bool = False,
    accumulate_main_grad: bool = False,
    fp8: bool = False,
) -> _Model:
    """Make every torch.nn.Linear of a model a :class:`tiled_mm.nn.Linear`, in place; or a
    :class:`tiled_mm.nn.Fp8Linear`.

    The modules stay the objects that they are, with their parameters, hooks, names and training
    flag; only their class changes. A layer that fully_shard, replicate or parametrize has made its
    own stays so. A model that torch.compile has compiled is compiled anew at its next call. Other
    subclasses of torch.nn.Linear are left alone, since they may compute something else. A
    torch.nn.TransformerEncoderLayer with converted layers calls them in eval too, where torch's has
    a kernel that calls none.

    Args:
        model: a module, itself included; changed.
        back: the other way round, for every :class:`tiled_mm.nn.Linear`.
        accumulate_main_grad: of the modules that are converted; see :class:`tiled_mm.nn.Linear`.
        fp8: :class:`tiled_mm.nn.Fp8Linear` in the place of :class:`tiled_mm.nn.Linear`: products of
            fp8, forward and backward.

    Returns:
        ``model``.

    Raises:
        ValueError: ``back`` of a module that has an activation, which torch.nn.Linear cannot
            express; or a layer's class no longer says what it computes, since it is scripted or
            something has replaced its ``forward``. Nothing has been changed then.
    """
    ours = Fp8Linear if fp8 else Linear
    old, new = (ours, torch.nn.Linear) if back else (torch.nn.Linear, ours)
    layers = [
        (module, changed)
        for name, module in model.named_modules()
        if (changed := _changed(name, module, old, new)) is not type(module)
    ]
    # A Linear has these in its own dictionary, and what goes back has not: torch.compile compares a
    # module's class only once something has changed there.
    own = {"accumulate_main_grad": accumulate_main_grad}
    if not fp8:
        own["activation"] = None
    for module, changed in layers:
        if back:
            for name in own:
                vars(module).pop(name, None)
        else:
            vars(module).update(own)
        module.__class__ = changed
    for module in model.modules():
        _choose_path(module)
    return model


def _changed(name: str, module: torch.nn.Module, old: type, new: type) -> type:
    """The class of a module with `new` for `old`; its own where it is no linear layer of torch's,
    or one of a class that someone has written."""
    if isinstance(module, torch.jit.ScriptModule) and module.original_name == "Linear":
        raise ValueError(f"{name or 'the module'} is scripted: convert before torch.jit.script")
    changed = _with_base(type(module), old, new)
    if changed is not type(module):
        if "forward" in vars(module):
            raise ValueError(
                f"{name or 'the module'} has a forward of its own instead of its class': convert "
                "before it is given one"
            )
        if old is Linear and module.activation not in (None, "none"):
            raise ValueError(f"torch.nn.Linear has no activation: {module} cannot go back")
    return changed


@functools.cache
def _with_base(kind: type, old: type, new: type) -> type:
    """`new` for `old`; and for a class that torch derived from `old` when it was called, to keep
    something beside a layer, the same derived from `new`. No class statement has made such a class:
    it stands in no scope, and its module does not know it."""
    if kind is old:
        return new
    by_name = getattr(sys.modules.get(kind.__module__), kind.__name__, None)
    is_written = by_name is kind or kind.__qualname__ != kind.__name__
    if is_written or not issubclass(kind, old) or kind.forward is not old.forward:
        return kind
    bases = tuple(_with_base(base, old, new) for base in kind.__bases__)
    if bases == kind.__bases__:
        return kind
    members = {k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}
    return type(kind)(kind.__name__, bases, members)


def _choose_path(module: torch.nn.Module) -> None:
    """In eval torch.nn.TransformerEncoderLayer reads its layers' weights and calls none of them,
    and torch.nn.TransformerEncoder makes nested tensors for that. Not where these are converted."""
    if isinstance(module, torch.nn.TransformerEncoderLayer):
        _hold(module, "activation_relu_or_gelu", 0, _has_ours(module))
    elif isinstance(module, torch.nn.TransformerEncoder):
        _hold(module, "use_nested_tensor", False, _has_ours(module))


def _has_ours(module: torch.nn.Module) -> bool:
    return any(isinstance(child, (Linear, Fp8Linear)) for child in module.modules())


def _hold(module: torch.nn.Module, name: str, value: object, holds: bool) -> None:
    """Gives an attribute this value, or again the one that it had."""
    before = f"_{name}_before_convert"
    if holds and not hasattr(module, before):
        setattr(module, before, getattr(module, name))
        setattr(module, name, value)
    elif not holds and hasattr(module, before):
        setattr(module, name, getattr(module, before))
        delattr(module, before)
