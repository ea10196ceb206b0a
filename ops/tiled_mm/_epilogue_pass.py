"""A linear layer, or a product of a matrix, and the activation behind it, in one call of a compiled
graph.

The pass sees the program's own calls, before autograd: so the layer's backward is tiled's too, with
the activation's derivative in the pass over the gradient.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.nn import functional

from ._load import build_info

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _given(node: torch.fx.Node, *names: str) -> tuple:
    """The node's arguments of these names, of which it may give some by position."""
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return tuple(given.get(name) for name in names)


def _linear(node: torch.fx.Node) -> torch.fx.Node:
    operands = _given(node, "input", "weight", "bias")
    return node.graph.call_function(torch.ops.tiled.linear.default, operands)


def _addmm(node: torch.fx.Node) -> torch.fx.Node | None:
    """Without out= and out_dtype."""
    names = ("input", "mat1", "mat2")
    if len(node.args) > 3 or not set(node.kwargs) <= {*names, "beta", "alpha"}:
        return None
    numbers = {name: node.kwargs[name] for name in ("beta", "alpha") if name in node.kwargs}
    operands = _given(node, *names)
    return node.graph.call_function(torch.ops.tiled.addmm.default, operands, numbers)


def _matmul(node: torch.fx.Node) -> torch.fx.Node | None:
    """Of x [..., K] and a matrix [K, N] alone: a linear layer of its transpose."""
    if len(node.args) != 2 or node.kwargs or _value(node.args[1]).dim() != 2:
        return None
    x, matrix = node.args
    weight = node.graph.call_method("t", (matrix,))
    return node.graph.call_function(torch.ops.tiled.linear.default, (x, weight, None))


def _value(node: Any) -> torch.Tensor:
    """The fake tensor that a node gives; one of no dimensions where it is none."""
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else torch.empty((), dtype=torch.bool)


#: The functions that are a layer, and what inserts tiled's in front of one; none where it is not.
_LAYERS: dict[Any, Callable[[torch.fx.Node], torch.fx.Node | None]] = {
    functional.linear: _linear,
    torch._C._nn.linear: _linear,
    torch.addmm: _addmm,
    torch.mm: _matmul,
    torch.matmul: _matmul,
    operator.matmul: _matmul,
}


def _gelu(node: torch.fx.Node) -> str | None:
    approximate = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none")
    return {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)


#: The functions that are an activation of tiled's, and its name.
_ACTIVATIONS: dict[Any, Callable[[torch.fx.Node], str | None]] = {
    torch.relu: lambda node: "relu",
    functional.relu: lambda node: "relu",
    functional.silu: lambda node: "silu",
    torch._C._nn.silu: lambda node: "silu",
    functional.gelu: _gelu,
    torch._C._nn.gelu: _gelu,
}


class EpiloguePass(CustomGraphPass):
    """For Inductor's ``pre_grad_custom_pass``."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            activation = self._activation(node)
            layer = node.args[0] if activation and node.args else None
            if not isinstance(layer, torch.fx.Node) or not self._is_layer(layer):
                continue
            with graph.inserting_before(node):
                new = _LAYERS[layer.target](layer)
            if new is None:
                continue
            new.kwargs = {**new.kwargs, "activation": activation}
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
            graph.erase_node(layer)

    def uuid(self) -> bytes:
        """Inductor's caches know a graph by this."""
        return get_hash_for_files((__file__,))

    @staticmethod
    def _activation(node: torch.fx.Node) -> str | None:
        if node.op == "call_method" and node.target == "relu":
            return "relu"
        name = _ACTIVATIONS.get(node.target) if node.op == "call_function" else None
        return name(node) if name else None

    @staticmethod
    def _is_layer(node: torch.fx.Node) -> bool:
        """Whether it is such a layer that nothing else reads, of what tiled computes."""
        if node.op != "call_function" or node.target not in _LAYERS or len(node.users) != 1:
            return False
        value = _value(node)
        if value.dtype not in _FLOATS:
            return False
        return value.device.type == "cpu" or bool(value.is_cuda and build_info()["cuda"])
