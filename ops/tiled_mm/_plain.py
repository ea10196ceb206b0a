"""The products without options, as torch's binding has them: what a call costs least from Python,
where it costs a small product more time than the product takes (ops/torch/plain.cpp)."""

from __future__ import annotations

import torch

_OPERATORS = ("mm", "bmm", "addmm", "baddbmm", "linear")

mm, bmm, addmm, baddbmm, linear = (getattr(torch.ops.tiled, f"_{name}").op for name in _OPERATORS)


def register_replacements() -> None:
    """torch.compile, which does not know the binding's functions, meets the operators."""
    from torch._dynamo import substitute_in_graph

    for name in _OPERATORS:
        operator = getattr(torch.ops.tiled, name)
        try:
            substitute_in_graph(globals()[name], skip_signature_check=True)(_called(operator))
        except ValueError:  # it is there already
            return


def _called(operator: torch._ops.OpOverloadPacket) -> object:
    def plain(*tensors: torch.Tensor | None) -> torch.Tensor:
        return operator(*tensors)

    return plain
