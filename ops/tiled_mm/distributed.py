"""DTensor for the products, so that `parallelize_module` splits a :class:`tiled_mm.nn.Linear` as it
splits torch's, at the same cost. What gives what is in _placements.py.

:func:`tree_reduce`, the styles :class:`RowwiseParallel`, :class:`ColwiseParallel` and
:class:`ExpertParallel`, :func:`cross_entropy`, :func:`use_tree_reduce_scatter` and
:class:`GradientTree`: their bits do not depend on how many processes there are.

The rules are registered when `torch.distributed.tensor` is imported, before or after this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from ._dtensor_out import written
from ._placements import is_reachable, options_of, rules_of
from ._sum_order import sums_in_one_chain
from ._tree_reduce import tree_reduce

if TYPE_CHECKING:
    from ._expert_parallel import ExpertParallel
    from ._tree_gradients import GradientTree, use_tree_reduce_scatter
    from ._tree_loss import cross_entropy
    from ._tree_parallel import ColwiseParallel, RowwiseParallel

#: Modules that few programs use, by what is asked of them.
_LATER = {
    "ColwiseParallel": "_tree_parallel",
    "ExpertParallel": "_expert_parallel",
    "GradientTree": "_tree_gradients",
    "RowwiseParallel": "_tree_parallel",
    "cross_entropy": "_tree_loss",
    "use_tree_reduce_scatter": "_tree_gradients",
}

__all__ = [
    "ColwiseParallel",
    "ExpertParallel",
    "GradientTree",
    "RowwiseParallel",
    "cross_entropy",
    "tree_reduce",
    "use_tree_reduce_scatter",
]

if not TYPE_CHECKING:  # a checker that saw it would take any name for an attribute

    def __getattr__(name: str) -> Any:
        """The styles need torch.distributed.tensor, which takes long to import."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{_LATER[name]}", __package__), name)


def _spec(strategy: Any) -> Any:
    """How an argument is placed, if it is a tensor."""
    strategies = getattr(strategy, "strategies", None)
    return strategies[0].output_spec if strategies else strategy


def _schema_info(operator: Any) -> Any:
    """What DTensor's choice for a call depends on.

    DTensor keeps what it has chosen, by thread, and tells calls apart by their tensors and by the
    arguments that are named here. Without a pytree it keeps it in C++, which takes less than half
    of the host's time. The library's order of sums is an argument only where gradients are
    recorded, and a choice that was made under a chain may leave parts of a sum. So this says that
    there is a pytree while the setting is a tree: DTensor looks here at every call, and then keeps
    its choices in Python, apart from a chain's, in all threads.
    """
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo

    arguments, options = operator._schema.arguments, options_of(operator)
    others = [
        i for i, a in enumerate(arguments) if not a.kwarg_only and "Tensor" not in str(a.type)
    ]
    has_order = "sum_order" in options

    class Info(RuntimeSchemaInfo):
        def __init__(self) -> None:  # in place of the dataclass', which would set what is read
            self.static_argnum = min(others, default=100)
            self.static_kwargkey = options or None

        @property
        def needs_pytree(self) -> bool:
            return has_order and not sums_in_one_chain()

    return Info()


def _register(operator: Any, name: str, **fixed: Any) -> None:
    """The rules `name` for an operator."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy

    results = len(operator._schema.returns)
    has_order = "sum_order" in options_of(operator)

    def strategy(schema: Any) -> Any:
        mesh = schema.get_mesh_from_args()
        args = [_spec(a) for a in schema.args_schema]
        given = [p for a in args for p in getattr(a, "placements", ())]
        options = schema.kwargs_schema
        may_be_partial = not has_order or sums_in_one_chain(options.get("sum_order"))
        rules = rules_of(name, given, may_be_partial, *args, **options, **fixed)
        found = expand_to_full_mesh_op_strategy(
            mesh,
            schema,
            [[*c, *operands] for c, operands in rules],
            input_index=results,
            allow_unbacked_sharding=True,
        )
        specs = [a for a in args if hasattr(a, "placements")]
        found.strategies = [s for s in found.strategies if is_reachable(specs, s.input_specs)]
        return found

    DTensor._op_dispatcher.sharding_propagator.register_op_strategy(
        operator, strategy, _schema_info(operator)
    )


def _register_by_public_function(operator: Any, name: str, **fixed: Any) -> None:
    """On a torch whose own parts have moved. Calls that differ in an activation or an order of sums
    alone cannot be told apart there, so no rule shares out a sum."""
    from torch.distributed.tensor.experimental import register_sharding

    def rule(*args: Any, **options: Any) -> list:
        return rules_of(name, (), False, *args, **options, **fixed)

    register_sharding(operator)(rule)


def _without_main_grad(operator: Any, args: tuple, kwargs: dict) -> Any:
    """Where no gradient is recorded it is linear; elsewhere autograd has called that."""
    x, weight, bias, _ = args
    return torch.ops.tiled.linear(x, weight, bias, **kwargs)


def _grouped_without_main_grad(operator: Any, args: tuple, kwargs: dict) -> Any:
    """Likewise of groups."""
    a, b, offs, bias, _ = args
    return torch.ops.tiled.grouped_mm(a, b, offs, bias, **kwargs)


def register_sharding_rules() -> None:
    """Register all of this, once torch.distributed.tensor is imported, in place of any that is
    there."""
    tiled = torch.ops.tiled
    rules = {
        tiled.mm.default: ("mm", {}),
        tiled.bmm.default: ("mm", {}),
        tiled.addmm.default: ("addmm", {}),
        tiled.baddbmm.default: ("addmm", {}),
        tiled._addmm_with_pre_activation.default: ("addmm", {"results": 2}),
        tiled.linear.default: ("linear", {}),
        tiled._linear_with_pre_activation.default: ("linear", {"results": 2}),
        tiled._linear_weight_grad.default: ("linear_weight_grad", {}),
        tiled.grouped_mm.default: ("grouped", {}),
        tiled._grouped_mm_with_pre_activation.default: ("grouped", {"results": 2}),
        tiled.scaled_mm.default: ("scaled", {}),
        tiled._quantize_blocks.default: ("quantize_blocks", {}),
        tiled.activation_backward.default: ("activation_backward", {}),
    }
    writing = {
        tiled.mm.out: "mm",
        tiled.bmm.out: "mm",
        tiled.addmm.out: "addmm",
        tiled.baddbmm.out: "addmm",
        tiled.linear.out: "linear",
        tiled._add_linear_weight_grad.default: "linear_weight_grad",
        tiled.grouped_mm.out: "grouped",
        tiled._add_grouped_weight_grad.default: "grouped_weight_grad",
        tiled.scaled_mm.out: "scaled",
        tiled._add_scaled_mm.default: "scaled",
    }
    try:
        for operator, (name, fixed) in rules.items():
            _register(operator, name, **fixed)
    except (ImportError, AttributeError, TypeError):
        try:
            for operator, (name, fixed) in rules.items():
                _register_by_public_function(operator, name, **fixed)
        except ImportError:  # an experimental function of torch's, which may move too
            return
    try:
        from torch.distributed.tensor import DTensor

        handlers = DTensor._op_dispatcher._custom_op_handlers
    except AttributeError:
        return
    for operator, name in writing.items():
        handlers[operator] = written(operator, name)
    handlers[tiled._linear_into_main_grad.default] = _without_main_grad
    handlers[tiled._grouped_mm_into_main_grad.default] = _grouped_without_main_grad
