"""Arguments that no operator takes. They are looked at once a call has failed, so that calls that
are good pay nothing."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import torch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# By the annotations of the public functions.
_KINDS: dict[str, tuple[type, ...]] = {
    "Tensor": (torch.Tensor,),
    "str": (str,),
    "torch.dtype": (torch.dtype,),
    "float": (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool),
    "int": (int, torch.SymInt),
    "bool": (bool,),
    # The names that _names.py has for static checkers are strings like others here: which of them
    # there are is the library's to say.
    **dict.fromkeys(
        ("Activation", "Algo", "Peak", "Precision", "Reduction", "SumOrder", "Tree"), (str,)
    ),
}
# What the errors call a kind, where torch has another name for it.
_SAID = {"float": "Number"} | {name: "str" for name, kind in _KINDS.items() if kind == (str,)}


def check_types(function: Callable, arguments: dict[str, Any]) -> None:
    """Refuses what has not the type of its parameter, as torch's functions do. Arguments that are
    left out are not looked at. Where one is a DTensor, the error that is being handled is told
    the function and the process, which torch's own do not name.

    Raises:
        TypeError: in torch's words, on one line.
    """
    for position, parameter in enumerate(inspect.signature(function).parameters.values(), 1):
        kind, *others = parameter.annotation.split(" | ")
        if kind not in _KINDS or parameter.name not in arguments:
            continue
        given = arguments[parameter.name]
        if isinstance(given, _KINDS[kind]) or (given is None and others):
            continue
        where = f" (position {position})" if parameter.kind is not parameter.KEYWORD_ONLY else ""
        kind = _SAID.get(kind, kind)
        raise TypeError(
            f"{function.__name__}(): argument '{parameter.name}'{where} must be {kind}, "
            f"not {_name(type(given))}"
        ) from None
    _name_process(f"{function.__name__}()", sys.exc_info()[1], arguments.values())


def with_numbers(function: Callable, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The function's arguments with the numbers that torch's functions see in a scalar of numpy's
    and in a tensor of no dimensions that requires no gradient, for ``beta`` and ``alpha``; None
    where these are as they should be."""
    numbers = {name: _number(arguments[name]) for name in ("beta", "alpha")}
    is_new = any(number is not arguments[name] for name, number in numbers.items())
    given = {name: arguments[name] for name in inspect.signature(function).parameters}
    return given | numbers if is_new else None


def with_types_checked(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """The function with :func:`check_types` where it fails, for those whose calls are rare."""

    @functools.wraps(function)
    def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except (RuntimeError, AttributeError):
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            check_types(function, bound.arguments)
            raise

    return checked


def _name_process(call: str, error: BaseException | None, arguments: Iterable[Any]) -> None:
    """Adds to an error which call of which process met it, if an argument is a DTensor."""
    meshes = [t.device_mesh for t in arguments if hasattr(t, "device_mesh")]
    if error is None or not meshes or not torch.distributed.is_initialized():
        return
    rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
    error.args = (f"{error}\n\ntiled_mm.{call} on rank {rank} of {count}, {meshes[0]}",)


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _number(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if isinstance(value, torch.Tensor):
        is_number = value.dim() == 0 and not value.requires_grad
    else:
        is_number = numpy is not None and isinstance(value, (numpy.number, numpy.bool_))
    return value.item() if is_number else value
