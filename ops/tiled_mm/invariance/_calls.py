"""The calls of operators that a program makes, seen below autograd."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

# Where lines of code are no user's: torch and this package, as imported and as links lead.
_NOT_USERS = tuple(
    str(folder)
    for file in (__file__, torch.__file__)
    for folder in (Path(file).parent, Path(file).resolve().parent)
)

#: Operators that compute nothing: views that no alias annotation tells, and memory without values.
_NO_WORK = frozenset(
    (
        "_unsafe_view", "_reshape_alias", "_reshape_copy", "lift_fresh", "lift", "detach", "alias",
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
        "resize_", "set_", "record_stream", "_local_scalar_dense", "item", "is_same_size",
        "_efficientzerotensor", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset",
        "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "requires_grad_",
    )
)  # fmt: skip


def name_of(func: Any) -> str:
    """'addmm', 'mean.dim', and with its namespace where that is not aten's: 'tiled::mm'."""
    name = str(getattr(func, "name", lambda: func)())
    name = name.removeprefix("aten::")
    return name.removesuffix(".default")


def computes(func: Any) -> bool:
    """Whether an operator makes values: no view, no memory alone."""
    if getattr(func, "is_view", False):
        return False
    return name_of(func).split(".")[0] not in _NO_WORK


def writes(func: Any) -> bool:
    """Whether it writes into an argument."""
    schema = getattr(func, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def is_random(func: Any) -> bool:
    """Whether it draws random numbers. Fused attention may, and is asked to in training alone."""
    tags = getattr(func, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags and "attention" not in name_of(func)


def tensors_of(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def results_of(func: Any, outputs: Any, args: tuple, kwargs: dict) -> list[Tensor]:
    """The outputs that are values, or what the call has written into where it returns nothing.
    Fused attention returns states of its random numbers and sums with padding beside its result,
    which alone is compared."""
    found = tensors_of(outputs)
    if not found and writes(func):
        given = zip(func._schema.arguments, (*args, *kwargs.values()), strict=False)
        found = tensors_of([x for a, x in given if a.alias_info and a.alias_info.is_write])
    if "attention" in name_of(func) and "backward" not in name_of(func):
        return found[:1]
    return found


class Modules:
    """Which module of a model is running, by its name in the model."""

    def __init__(self, model: Any) -> None:
        self.names: dict[int, str] = {}
        if isinstance(model, torch.nn.Module):
            self.names = {id(m): n or type(m).__name__ for n, m in model.named_modules()}
        self.stack: list[str] = []
        self.of_node: dict[int, str] = {}  # by the number of a node of autograd

    def __enter__(self) -> Modules:
        module = torch.nn.modules.module
        self.handles = [
            module.register_module_forward_pre_hook(self._push),
            module.register_module_forward_hook(self._pop, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()
        self.stack.clear()

    def _push(self, module: torch.nn.Module, args: Any) -> None:
        self.stack.append(self.names.get(id(module), type(module).__name__))

    def _pop(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if self.stack:
            self.stack.pop()

    def now(self) -> str:
        """The innermost module's name; in a backward that of the forward's, with the node's."""
        if self.stack:
            # A node of autograd that is made for a call has the number before the next one.
            self.of_node[torch.autograd._get_sequence_nr() - 1] = self.stack[-1]
            return self.stack[-1]
        node = torch._C._current_autograd_node()
        if node is None:
            return ""
        return f"{self.of_node.get(node._sequence_nr(), '')} ({node.name()})".strip()


def _frames() -> Iterator[Any]:
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def line_of_user() -> str:
    """'model.py:12' of the innermost frame that is not torch's and not this package's."""
    for frame in _frames():
        path = frame.f_code.co_filename
        if not path.startswith((*_NOT_USERS, "<")) and "contextlib" not in path:
            return f"{Path(path).name}:{frame.f_lineno}"
    return ""


class Calls(TorchDispatchMode):
    """Hands every call that computes something to ``seen(func, args, kwargs)``, which returns its
    outputs. A function that ``seen`` calls is not seen again."""

    def __init__(self, seen: Callable[[Any, tuple, dict], Any]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not computes(func):
            return func(*args, **kwargs)
        return self.seen(func, args, kwargs)
