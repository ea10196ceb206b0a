"""The experts of Hugging Face's transformers by grouped products.

::

    from tiled_mm.compat.transformers import register_experts

    register_experts()
    model = AutoModelForCausalLM.from_pretrained(name, experts_implementation="tiled")
    model.set_experts_implementation("tiled")  # or of a model that is there

Of every dtype that :func:`tiled_mm.grouped_mm` has, with gradients. A token's bits do not depend on
the tokens beside it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .._grouped import grouped_mm
from ..nn._experts import back_in_order, by_expert, combined

__all__ = ["experts_forward", "register_experts"]


def register_experts(name: str = "tiled") -> str:
    """Makes :func:`experts_forward` known to transformers as an implementation of experts.

    Args:
        name: what ``experts_implementation`` is to be.

    Returns:
        The name.

    Raises:
        ImportError: transformers is not installed, or has no such registry (it is older than 5.0).
    """
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError as error:
        raise ImportError(
            "tiled_mm: transformers has no registry of experts here: it needs transformers 5.0 or "
            f"later ({error})"
        ) from error
    ALL_EXPERTS_FUNCTIONS.register(name, experts_forward)
    return name


def experts_forward(
    self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """Transformers calls this in place of an experts module's ``forward``.

    Args:
        self: the module: ``gate_up_proj`` or ``up_proj``, and ``down_proj``, of all experts.
        hidden_states: [T, hidden].
        top_k_index: [T, top], the experts of each token; ``num_experts`` is none, which counts as
            zero: transformers' expert parallelism marks the experts of other processes so. On a GPU
            a number below 0 or above that counts as zero too, since the host does not wait to see
            it.
        top_k_weights: [T, top].

    Returns:
        [T, hidden], of the dtype of ``hidden_states``.

    Raises:
        IndexError: on the CPU a number is below 0 or above ``num_experts``, before any work.
    """
    tokens, top = top_k_index.shape
    order, offs = by_expert(top_k_index, self.num_experts)

    def layer(x: Tensor, name: str) -> Tensor:
        weight = getattr(self, name)
        bias = getattr(self, f"{name}_bias") if self.has_bias else None
        weight_b = weight if self.is_transposed else weight.mT
        return grouped_mm(x.to(weight.dtype), weight_b, offs=offs, bias=bias)

    rows = layer(hidden_states[order // top], "gate_up_proj" if self.has_gate else "up_proj")
    rows = layer(self._apply_gate(rows) if self.has_gate else self.act_fn(rows), "down_proj")
    if getattr(self, "has_post_expert_norm", False):
        rows = self.post_expert_norm(rows)
    rows = back_in_order(rows, order).view(tokens, top, rows.shape[-1])
    return combined(rows, top_k_weights).to(hidden_states.dtype)
