"""Operators that write into a DTensor: out=, and what is added to main_grad.

DTensor itself redistributes what is written as it does operands, into a copy, and takes no operator
that returns nothing. Here what is written stays where it is, and operands come to it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from ._placements import is_reachable, options_of, rules_of
from ._sum_order import sums_in_one_chain


@functools.lru_cache(maxsize=4096)
def _placed_for(
    operator: Any, name: str, out: Any, operands: tuple, options: tuple, may_be_partial: bool
) -> tuple[Any, ...]:
    """For every operand the specs that it goes through, from its own to one with which the local
    product is what is stored of `out`: those that are cheapest to get. It may be a part of a sum,
    or no product is.

    Raises:
        RuntimeError: in the operator's own words, where shapes or dtypes do not fit; or there is no
            such placement.
    """
    from torch.distributed.tensor._collective_utils import redistribute_cost
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    if out != DTensorSpec(out.mesh, out.placements, tensor_meta=out.tensor_meta):
        raise RuntimeError(f"{operator}: out is sharded in an order of its own: {out}")
    on_meta = [
        None if t is None else torch.empty(t.shape, dtype=t.tensor_meta.dtype, device="meta")
        for t in (out, *operands)
    ]
    _call(operator, on_meta[0], on_meta[1:], dict(options))
    if on_meta[0].shape != out.shape:
        raise RuntimeError(
            f"{operator}: a DTensor is not resized: out has shape {list(out.shape)}, which does "
            f"not match the required output shape {list(on_meta[0].shape)}"
        )
    tensors = [t for t in operands if t is not None]
    given = [p for t in (out, *tensors) for p in t.placements]
    chosen = {k: v for k, v in options if k == "activation"}
    rules = rules_of(name, given, may_be_partial, *operands, **chosen)
    fitting = [[ways for (c,), ways in rules if c == wanted] for wanted in out.placements]
    best = None
    for ways in itertools.product(*fitting):
        specs = [
            DTensorSpec(out.mesh, placements, tensor_meta=t.tensor_meta)
            for placements, t in zip(zip(*ways, strict=True), tensors, strict=True)
        ]
        routes = [_route(t, s) for t, s in zip(tensors, specs, strict=True)]
        cost = sum(
            redistribute_cost(a, b) for route in routes for a, b in itertools.pairwise(route)
        )
        if best is None or cost < best[0]:
            best = cost, routes
    if best is None:
        raise RuntimeError(
            f"{operator}: no placement of the operands gives an out that is placed as "
            f"{out.placements} on {out.mesh}; use the form that returns its result"
            + ("" if may_be_partial else ", or tiled_mm.distributed.tree_reduce, under a tree")
        )
    found = iter(best[1])
    return tuple(None if t is None else next(found) for t in operands)


def _route(source: Any, target: Any) -> list:
    """The specs from one to the other, by way of the whole tensor where DTensor takes no step."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    if source == target:
        return [source]
    if is_reachable([source], [target]):
        return [source, target]
    everywhere = (Replicate(),) * source.mesh.ndim
    return [source, DTensorSpec(source.mesh, everywhere, tensor_meta=source.tensor_meta), target]


def _led(local: torch.Tensor, route: list) -> torch.Tensor:
    from torch.distributed.tensor._redistribute import redistribute_local_tensor

    for source, target in itertools.pairwise(route):
        local = redistribute_local_tensor(local, source, target)
    return local


def _call(operator: Any, out: Any, operands: list, options: dict) -> None:
    if operator._schema.arguments[0].is_write:
        operator(out, *operands, **options)
    else:
        operator(*operands, **options, out=out)


def _as_dtensor(operator: Any, t: Any, out: Any) -> Any:
    """An operand on out's mesh; a tensor of one element is the same everywhere, as DTensor has it.

    Raises:
        RuntimeError: another tensor that is none, or one of another mesh.
    """
    from torch.distributed.tensor import DTensor, Replicate

    if t is None:
        return None
    if not isinstance(out, DTensor) or not (isinstance(t, DTensor) or t.numel() == 1):
        raise RuntimeError(
            f"{operator}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
            "DTensor before calling distributed operators!"
        )
    mesh = out.device_mesh
    if not isinstance(t, DTensor):
        return DTensor.from_local(t, mesh, [Replicate()] * mesh.ndim, run_check=False)
    if t.device_mesh != mesh:
        raise RuntimeError(
            f"{operator}: DTensor does not support cross-mesh operation! Got meshes: {mesh} "
            f"{t.device_mesh}. Please make sure all the arguments have the same DeviceMesh."
        )
    return t


def written(operator: Any, name: str) -> Callable:
    """DTensor's handler for such an operator, by the rules `name` of the form that returns."""
    known = frozenset(options_of(operator))

    def handler(_: Any, args: tuple, kwargs: dict) -> None:
        options = dict(kwargs)
        out, *operands = args if "out" not in kwargs else (options.pop("out"), *args)
        operands = [_as_dtensor(operator, t, out) for t in operands]
        asked = tuple((k, v) for k, v in options.items() if k in known)
        specs = tuple(None if t is None else t._spec for t in operands)
        may_be_partial = sums_in_one_chain(options.get("sum_order"))
        routes = _placed_for(operator, name, out._spec, specs, asked, may_be_partial)
        if out.device_mesh.get_coordinate() is None:  # a process outside the mesh
            return
        local = [
            t if t is None else _led(t._local_tensor, route)
            for t, route in zip(operands, routes, strict=True)
        ]
        _call(operator, out._local_tensor, local, options)

    return handler
