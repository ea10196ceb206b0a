"""torch's own products by tiled's kernels, without a change to the program."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

import torch

from ._arguments import with_types_checked

_Function = TypeVar("_Function", bound=Callable[..., Any])

Counts = dict[str, dict[str, int | dict[str, int] | str]]


class override(ContextDecorator):
    """While it is on, tiled computes the products of torch, for all threads and their backward.

    ::

        with tiled_mm.override():
            loss = model(x).sum()
            loss.backward()

        @tiled_mm.override("cpu")
        def step(x): ...

    It takes the kernels of ``mm``, ``addmm``, ``bmm``, ``baddbmm``, ``addmv``, ``dot``,
    ``_addmm_activation``, ``_grouped_mm``, ``_scaled_mm``, ``_scaled_grouped_mm`` (and their
    ``_v2``) and ``_int_mm`` with their in-place, ``out=`` and ``out_dtype`` forms, and so all that
    is made of them: ``linear``, ``matmul``, ``einsum``, ``mv``, ``addbmm``, ``grouped_mm``,
    ``scaled_mm``. What tiled does not compute goes on to the kernel that was there;
    :func:`override_counts` says what went where. It may be nested; what was on before is on
    afterwards, errors or not.

    Args:
        device: ``'cpu'``, ``'cuda'``, which is all GPUs together, or ``None`` for both.

    Raises:
        RuntimeError: the device is another one, or one GPU of them, or a compiled function enters
            it.
        NotImplementedError: ``'cuda'``, and the library was built without.
        TypeError: it decorates a class, or a generator or a coroutine, whose call ends before its
            first step.
    """

    def __init__(self, device: str | torch.device | None = None) -> None:
        self.device = _kind(device)

    def __call__(self, function: _Function) -> _Function:
        if inspect.isclass(function):
            raise TypeError(
                f"tiled_mm: {function.__qualname__} is a class, of which a decorator would make a "
                "function; decorate its methods"
            )
        for has_steps in (
            inspect.isgeneratorfunction,
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
        ):
            if has_steps(function):
                raise TypeError(
                    f"tiled_mm: {function.__qualname__} would run after its call has ended; "
                    "use a with block inside of it"
                )
        return super().__call__(function)

    def __enter__(self) -> None:
        enable_override(self.device)

    def __exit__(self, *exception: object) -> None:
        disable_override(self.device)


def enable_override(device: str | torch.device | None = None) -> None:
    """Turn :class:`override` on until :func:`disable_override`; each call needs one of those.

    The first call for a device registers the kernels, which stay, with a switch, to the end of the
    process: make it before other threads compute.

    Raises:
        As :class:`override`.
    """
    torch.ops.tiled.enable_override(_name(device))


def disable_override(device: str | torch.device | None = None) -> None:
    """Take back one :func:`enable_override` of the same device.

    Raises:
        RuntimeError: it is not on there; or as :class:`override`.
    """
    torch.ops.tiled.disable_override(_name(device))


@with_types_checked
def override_counts(reset: bool = False) -> Counts:
    """Who computed the calls of torch's products since the last reset, on both devices together.

    Args:
        reset: whether to begin again from zero.

    Returns:
        For each operator that was called ``{"tiled": n, "torch": {reason: n}}``. The reasons:
        ``off`` (nothing overrode the device), ``dtype`` (no kernel, or dtypes that do not fit),
        ``shape`` (shapes that do not fit), ``device``, ``scalar`` (alpha or beta), ``layout`` (of
        ``out``), ``names`` and ``memory``. ``"replaced_by"`` names a kernel that came later:
        calls go there, and are not counted.
    """
    return json.loads(torch.ops.tiled.override_counts(reset))


def _kind(device: str | torch.device | None) -> str | None:
    """'cpu' or 'cuda': the switch of a kind of device is one for all of them."""
    if device is None:
        return None
    device = torch.device(device)
    if device.type != "cpu" and device.index is not None:
        raise RuntimeError(
            f"tiled_mm: override is for all devices of a kind together: '{device.type}', not "
            f"'{device}'"
        )
    return device.type


def _name(device: str | torch.device | None) -> str | None:
    if torch.compiler.is_compiling():
        raise RuntimeError("tiled_mm: override outside of the compiled function")
    return _kind(device)
