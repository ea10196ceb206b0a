"""Tiled matrix multiplication as a PyTorch operator: ``torch.ops.tiled.mm(a, b)``.

Importing this package loads ``libtiled_mm.so``, which registers the operators for CPU and CUDA with
their gradients, and the batching rules of ``torch.vmap``. DTensor's sharding rules follow when
``torch.distributed.tensor`` is imported too, and what FlopCounterMode counts with
``torch.utils.flop_counter``. Modules that few programs use are imported when they are asked for.
Nothing touches CUDA at import.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ._load import build_info, load

load()

from ._after_import import when_imported  # noqa: E402
from ._grouped import grouped_mm  # noqa: E402
from ._linear import linear  # noqa: E402
from ._ops import addmm, addmm_, baddbmm, bmm, fp16x3_recomputed, mm  # noqa: E402
from ._override import (  # noqa: E402
    disable_override,
    enable_override,
    override,
    override_counts,
)
from ._precision import (  # noqa: E402
    float32_precision,
    get_float32_precision,
    set_float32_precision,
)
from ._quantize import Quantized, quantize  # noqa: E402
from ._scaled import scaled_mm  # noqa: E402
from ._sum_order import get_sum_order, set_sum_order, sum_order  # noqa: E402
from ._vmap import register_batching_rules  # noqa: E402

register_batching_rules()

from ._jagged import register_jagged_linear  # noqa: E402

register_jagged_linear()


def _register_later(name: str, module: str, function: str) -> None:
    """Calls the function of our module once torch's module `name` is imported. Until then neither
    is, since both take time that a program without them need not spend."""
    when_imported(name, lambda: getattr(importlib.import_module(module, __name__), function)())


_register_later("torch.utils.flop_counter", "._flops", "register_flop_formulas")
_register_later("torch._dynamo", "._plain", "register_replacements")
_register_later("torch.distributed.tensor", ".distributed", "register_sharding_rules")

if TYPE_CHECKING:
    from . import compat, distributed, invariance, nn
    from ._inductor import inductor_options
    from ._inspect import Plan, algos, devices, explain, occupancy, plan, roofline
    from ._scale import Progress, explain_out_of_core, out_of_core, plan_out_of_core
    from ._tune import Tuned, load_rules, save_rules, tune, tuning
    from .invariance import assert_batch_invariant, check_invariance
    from .nn import convert

#: What is imported when it is asked for: the module of each name, or None if it is one.
_LATER: dict[str, str | None] = {
    **dict.fromkeys(("compat", "distributed", "invariance", "nn")),
    "inductor_options": "_inductor",
    **dict.fromkeys(
        ("Plan", "algos", "devices", "explain", "occupancy", "plan", "roofline"), "_inspect"
    ),
    **dict.fromkeys(
        ("Progress", "explain_out_of_core", "out_of_core", "plan_out_of_core"), "_scale"
    ),
    **dict.fromkeys(("Tuned", "load_rules", "save_rules", "tune", "tuning"), "_tune"),
    **dict.fromkeys(("assert_batch_invariant", "check_invariance"), "invariance"),
    "convert": "nn",
}


if not TYPE_CHECKING:  # a checker that saw it would take any name for an attribute

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"{__name__}.{_LATER[name] or name}")
        return getattr(module, name) if _LATER[name] else module


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


#: Where CMake finds the package ``TiledMM``: ``-DCMAKE_PREFIX_PATH=<this>``.
cmake_prefix_path: str = str(Path(__file__).parent / "share" / "cmake")

__version__: str = build_info()["version"]

__all__ = [
    "Plan",
    "Progress",
    "Quantized",
    "Tuned",
    "addmm",
    "addmm_",
    "algos",
    "assert_batch_invariant",
    "baddbmm",
    "bmm",
    "build_info",
    "check_invariance",
    "cmake_prefix_path",
    "compat",
    "convert",
    "devices",
    "disable_override",
    "distributed",
    "enable_override",
    "explain",
    "explain_out_of_core",
    "float32_precision",
    "fp16x3_recomputed",
    "get_float32_precision",
    "get_sum_order",
    "grouped_mm",
    "inductor_options",
    "invariance",
    "linear",
    "load_rules",
    "mm",
    "nn",
    "occupancy",
    "out_of_core",
    "override",
    "override_counts",
    "plan",
    "plan_out_of_core",
    "quantize",
    "roofline",
    "save_rules",
    "scaled_mm",
    "set_float32_precision",
    "set_sum_order",
    "sum_order",
    "tune",
    "tuning",
]
