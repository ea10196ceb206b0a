"""What a document holds. Programs of the benchmark write one each, and tables are made from them.

Times are in seconds and rates in operations or bytes a second, unless a name says otherwise. What
was not measured is None, and `error` says why. A key that is NotRequired may be missing.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from typing_extensions import NotRequired, TypedDict  # pydantic wants these before Python 3.12

SCHEMA = 2

Free = dict[str, Any]


def record(name: str, /, **fields: Any) -> type:
    """A dict with these keys alone, without conversions and without NaN."""
    made = TypedDict(name, fields)
    made.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return made


SIZES = {"m": int, "n": int, "k": int}
Shape = record("Shape", **SIZES, layout=str, dtype=str, batch=int, data=NotRequired[str])

# The median and quartiles over the rounds. Files keep the quartiles of ratios alone.
Spread = record("Spread", median=float, q1=NotRequired[float], q3=NotRequired[float])

# The relative Frobenius error, and the verdict of all gates of bench.check.
Check = record(
    "Check",
    frobenius=float | None,
    ok=bool,
    componentwise=NotRequired[float | None],
    gate=NotRequired[float],
    nan_count=NotRequired[int],
)

# `ratio` is the first peer's time over this candidate's, above 1 where the candidate is the faster.
# `above_floor` is there for host times only. `recomputed` is the share of C that fp16x3 computed
# again.
Candidate = record(
    "Candidate",
    name=str,
    ours=bool,
    note=str,
    error=str | None,
    seconds=Spread | None,
    ratio=Spread | None,
    above_floor=Spread | None,
    flops=float | None,
    bandwidth=float | None,
    intensity=float | None,
    check=Check | None,
    recomputed=NotRequired[float | None],
)

# One problem in one mode, with all its candidates.
Case = record(
    "Case",
    set=str,
    shape=Shape,
    mode=str,
    cache=str,
    grad=bool,
    peer=str | None,
    note=str,
    error=str | None,
    candidates=list[Candidate],
)

# The loss of every step of a training run.
Curve = record("Curve", name=str, ours=bool, error=str | None, losses=list[float])

# A kernel under Nsight Compute: how busy units were, in percent of their peak, and the shares of a
# warp's time that it waited, by reason.
Counters = record("Counters", algo=str, dtype=str, n=int, kernel=str, units=Free, stalls=Free)

# bench.cpu_table's.
Goal = record("Goal", geomean=float, least=float)
CpuGroup = record("CpuGroup", group=str, geomean=float, least=float, where=str, met=bool, goal=Goal)
Cpu = record(
    "Cpu",
    threads=int,
    peak_gflops=dict[str, float],
    summary=list[CpuGroup],
    cases=list[Free],
    tiny=NotRequired[Free],
)

# bench.errors's of one problem: ours, by our tree, and torch.mm's on the same operands.
OneError = record(
    "OneError",
    frobenius=float | None,
    largest=float | None,
    bias=float | None,
    error=str | None,
)
Errors = record(
    "Errors",
    arithmetic=str,
    data=str,
    **SIZES,
    tiled=OneError,
    tree=NotRequired[OneError],
    torch=OneError,
)

# bench.decode's, one problem of few rows; `changed`: rows had other bits among 1,024 rows.
Decode = record(
    "Decode",
    dtype=str,
    layout=str,
    **SIZES,
    drawn=bool,
    seconds=record("Both", tiled=float, torch=float),
    changed=record("Changed", tiled=bool, torch=bool),
)

# bench.grouped's, one case. `ratio` is the time of torch's, or of the aligned neighbour, over ours,
# and `hit` counts the experts that have rows.
Grouped = record(
    "Grouped",
    **dict.fromkeys(("name", "work", "dtype", "router"), str),
    **dict.fromkeys(("experts", "top", "tokens", "n", "k", "seed", "rows", "hit"), int),
    precision=str | None,
    aligned=bool,
    seconds=record(
        "GroupedTimes", tiled=float, torch=NotRequired[float], aligned=NotRequired[float]
    ),
    **dict.fromkeys(("ratio", "tflops", "gbs", "bound"), float),
)

# bench.scaled's, one case; `fast` is torch's with fast accumulation. `ratio` is torch's time over
# ours, `beside_copy` the copy's.
Scaled = record(
    "Scaled",
    **dict.fromkeys(("name", "work", "recipe", "refused"), str),
    **SIZES,
    experts=int,
    seed=int,
    seconds=record(
        "ScaledTimes",
        tiled=float,
        **dict.fromkeys(("torch", "fast", "copy"), NotRequired[float]),
    ),
    ratio=float | None,
    beside_copy=float | None,
    **dict.fromkeys(("tflops", "gbs", "of_copy"), float),
)

# bench.tree's, one case. `seconds` are those of the chain, of every order of `orders` and of torch.
Tree = record(
    "Tree",
    **dict.fromkeys(("name", "kind", "dtype"), str),
    precision=str | None,
    **SIZES,
    orders=list[str],
    seed=int,
    seconds=Free,
)

# bench.fp8_training's: runs with their losses at every look, and the seconds of a step by name.
Fp8Run = record("Fp8Run", kind=str, seed=int, losses=list[float])
Fp8Training = record("Fp8Training", runs=list[Fp8Run], step=Free)

# bench.scale's, of so many processes; `values` are what a part counts.
ScaleRow = record(
    "ScaleRow",
    **dict.fromkeys(("part", "what", "mode"), str),
    tokens=NotRequired[int],
    seconds=NotRequired[Free],
    values=NotRequired[Free],
)
Scale = record("Scale", processes=int, rows=list[ScaleRow])

# bench.models', bench.compiled's, bench.eager's and bench.rivals', by part. Times are by name, the
# library's as `tiled`.
_COUNTS = {"model": str, "batch": int, "differ": int, "of": int, "largest": float}
_SPEED = record("Speed", model=str, what=str, tokens=int, seconds=Free)
_LINEAR = record("Linear", what=str, shape=list[int], seconds=Free)
_CALLS = record("Calls", what=str, grad=bool, seconds=Free)
MODELS = {
    "bits": record("Bits", arithmetic=str, **_COUNTS),
    **dict.fromkeys(("speed", "compiled-speed", "compiled-epilogues"), _SPEED),
    **dict.fromkeys(("linear", "cpu"), _LINEAR),
    "host": _CALLS,
    **{f"eager-{part}": _CALLS for part in ("calls", "decode", "prompt", "training")},
    "compiled-rows": record(
        "CompiledRows",
        **_COUNTS,
        setting=str,
        eager=int,
        kernels=int,
        seconds=float,
        first=NotRequired[str],
    ),
    "rivals-bits": record("RivalBits", candidate=str, kind=str, changed=int, of=int),
    "rivals-speed": record("RivalSpeed", shape=list[int], seconds=Free),
}
Models = record("Models", **{part: NotRequired[list[row]] for part, row in MODELS.items()})

# bench.out_of_core's: the rates that bound products streamed from host memory, and the products.
Streamed = record(
    "Streamed",
    **dict.fromkeys(("name", "dtype", "host"), str),
    **SIZES,
    overlap=bool,
    devices=int,
    **dict.fromkeys(("memory", "tiles", "bytes_in", "bytes_out"), int | None),
    **dict.fromkeys(("seconds", "arithmetic_s", "link_s", "share"), float | None),
    equal=bool | None,
    error=str | None,
)
OutOfCore = record("OutOfCore", link=Free, arithmetic=Free, products=list[Streamed])

# bench.share's: what the library was built for, and what the device says of itself. `refused` says
# why, by precision; `plan` is as explain has it.
SelfTest = record("SelfTest", ok=bool, seconds=float, output=list[str])
SharedPlan = record(
    "SharedPlan", shape=Shape, precision=str | None, plan=Free | None, error=str | None
)
Share = record(
    "Share",
    build=Free,
    device=Free | None,
    copy_bytes_per_s=float | None,
    refused=Free,
    self_test=SelfTest | None,
    plans=list[SharedPlan],
)

Environment = record(
    "Environment",
    date=str,
    commit=str | None,
    dirty=bool | None,
    tiled_mm=str | None,
    python=str,
    torch=str,
    cuda=str | None,
    cublas=str | None,
    cpu=Free,
    gpu=Free | None,
)

Document = record(
    "Document",
    schema=int,
    run=str,
    environment=Environment,
    settings=Free,
    ceilings=Free | None,
    cases=list[Case],
    curves=NotRequired[list[Curve]],
    counters=NotRequired[list[Counters]],
    cpu=NotRequired[Cpu],
    errors=NotRequired[list[Errors]],
    decode=NotRequired[list[Decode]],
    grouped=NotRequired[list[Grouped]],
    scaled=NotRequired[list[Scaled]],
    tree=NotRequired[list[Tree]],
    fp8_training=NotRequired[Fp8Training],
    models=NotRequired[Models],
    scale=NotRequired[Scale],
    out_of_core=NotRequired[OutOfCore],
    share=NotRequired[Share],
)
