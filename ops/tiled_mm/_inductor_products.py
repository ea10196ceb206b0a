"""Products in Inductor's graphs: it takes some apart, into a multiplication and a sum. Where the
options of _inductor.py are on they stay products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _mv(self: Tensor, vec: Tensor) -> Tensor:
    """Its bits are those of the one column of a matrix, and so for the others."""
    return torch.mm(self, vec.unsqueeze(1)).squeeze(1)


def _dot(self: Tensor, tensor: Tensor) -> Tensor:
    return torch.mm(self.unsqueeze(0), tensor.unsqueeze(1)).reshape(())


def _addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    column = self.expand(mat.shape[0]).unsqueeze(1)
    return torch.addmm(column, mat, vec.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


def _as_it_is(*_: Any, **__: Any) -> Any:
    return NotImplemented


#: What a product becomes where the options are on.
_KEPT: dict[Any, Callable] = {
    aten.mv.default: _mv,
    aten.addmv.default: _addmv,
    aten.dot.default: _dot,
    aten.mm.default: _as_it_is,
    aten.mm.dtype: _as_it_is,
    aten.bmm.default: _as_it_is,
    aten.bmm.dtype: _as_it_is,
    aten.addmm.default: _as_it_is,
    aten.addmm.dtype: _as_it_is,
}


@functools.cache
def keep_products(are_on: Callable[[], bool]) -> None:
    """Exchange Inductor's decompositions of products, and its lowering of products of one row on a
    CPU, for some that leave them as they are where the options are on."""
    from torch._inductor import lowering
    from torch._inductor.decomposition import decompositions, fast_random_decomps

    for table in (decompositions, fast_random_decomps()):
        for op, kept in _KEPT.items():
            if op in table:
                table[op] = _either(are_on, kept, table[op])
    lower = lowering.lowerings[aten.bmm.default]
    call = lowering.fallback_handler(aten.bmm.default, add_to_fallback_set=False)

    @functools.wraps(lower)
    def bmm(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        thin = not args and not kwargs and (_is_one(a.get_size()[1]) or _is_one(b.get_size()[2]))
        on_cpu = a.get_device().type == "cpu"
        return call(a, b) if thin and on_cpu and are_on() else lower(a, b, *args, **kwargs)

    lowering.lowerings[aten.bmm.default] = bmm


def _is_one(size: Any) -> bool:
    from torch._inductor.virtualized import V

    return V.graph.sizevars.statically_known_equals(size, 1)


def _either(are_on: Callable[[], bool], kept: Callable, torchs: Callable) -> Callable:
    @functools.wraps(torchs)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        return (kept if are_on() else torchs)(*args, **kwargs)

    return decomposition
