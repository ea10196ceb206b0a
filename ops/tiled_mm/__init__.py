"""Tiled matrix multiplication as a PyTorch operator: ``torch.ops.tiled.mm(a, b)``.

Importing this package loads ``libtiled_mm.so``, which registers the operators for CPU and CUDA with
their gradients, and the batching rules of ``torch.vmap``. DTensor's sharding rules follow when
``torch.distributed.tensor`` is imported too, and what FlopCounterMode counts with
``torch.utils.flop_counter``. Nothing touches CUDA at import.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ._load import build_info, load

load()

from . import compat  # noqa: E402
from ._grouped import grouped_mm  # noqa: E402
from ._inductor import inductor_options  # noqa: E402
from ._inspect import Plan, algos, devices, explain, occupancy, plan, roofline  # noqa: E402
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
from ._scale import (  # noqa: E402
    Progress,
    explain_out_of_core,
    out_of_core,
    plan_out_of_core,
)
from ._scaled import scaled_mm  # noqa: E402
from ._sum_order import get_sum_order, set_sum_order, sum_order  # noqa: E402
from ._tune import Tuned, load_rules, save_rules, tune, tuning  # noqa: E402
from ._vmap import register_batching_rules  # noqa: E402

register_batching_rules()

from ._flops import register_flop_formulas  # noqa: E402

register_flop_formulas()

from ._jagged import register_jagged_linear  # noqa: E402

register_jagged_linear()

from .distributed import register_when_imported  # noqa: E402

register_when_imported()

from . import _plain  # noqa: E402

_plain.register_when_imported()

from . import nn  # noqa: E402
from .nn import convert  # noqa: E402

if TYPE_CHECKING:
    from . import invariance
    from .invariance import assert_batch_invariant, check_invariance


def __getattr__(name: str) -> object:
    """The checker, which few programs use, is imported when it is asked for."""
    if name not in ("invariance", "assert_batch_invariant", "check_invariance"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    checker = importlib.import_module(f"{__name__}.invariance")
    return checker if name == "invariance" else getattr(checker, name)


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
