"""Linear layers beside torch's, for bench.models: with their activation, on the CPU, and the host
time of small calls."""

from __future__ import annotations

import contextlib
import gc
import random
import statistics
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from bench import host
from bench.data import OperandSet
from bench.timing import CpuStopwatch, Prepared, Rounds, Stopwatch, interleave

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
# (M, N, K) of linear layers: the first without gradients, with every activation.
FINISHED = (8192, 4096, 14336)
LINEARS = ((8192, 14336, 4096), (1024, 4096, 1024))
CPU_LINEARS = ((1, 2048, 2048), (64, 2048, 2048))
LEAST = 7  # rounds
PLAIN_CALLS = 20  # one after the other in a sample

Work = Callable[[], object]


@contextlib.contextmanager
def tiled() -> Iterator[None]:
    import tiled_mm

    with tiled_mm.override():
        yield


def under_override(work: Work) -> Work:
    def run() -> object:
        with tiled():
            return work()

    return run


def medians(
    stopwatch: Stopwatch, works: dict[str, Work], budget_s: float = 0.3, *, captured: bool = False
) -> dict:
    """Seconds of each work; the operands are its own. `captured`: in a CUDA graph, however long."""
    nothing = torch.empty(0)
    sets = [OperandSet(nothing, nothing, nothing)]

    def prepared(work: Work) -> Prepared:
        more = {"captured": True} if captured else {}
        return stopwatch.prepare(lambda a, b, out: work(), sets, **more)

    ready = {name: prepared(work) for name, work in works.items()}
    found = interleave(stopwatch, ready, Rounds(LEAST, 60, budget_s), random.Random(7))
    del ready
    gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def both(
    stopwatch: Stopwatch, work: Work, budget_s: float = 0.3, *, captured: bool = False
) -> dict:
    """Seconds under the override, and without."""
    works = {"tiled": under_override(work), "torch": work}
    return medians(stopwatch, works, budget_s, captured=captured)


# ---- linear layers -------------------------------------------------------------------------------


def torch_linear(x: Tensor, weight: Tensor, bias: Tensor, activation: str | None) -> Tensor:
    y = functional.linear(x, weight, bias)
    if activation in ("gelu", "gelu_tanh"):
        return functional.gelu(y, approximate="tanh" if activation == "gelu_tanh" else "none")
    return getattr(functional, activation)(y) if activation else y


def linear_operands(shape: tuple, device: torch.device, dtype: torch.dtype) -> tuple:
    m, n, k = shape
    generator = torch.Generator(device).manual_seed(20)
    return tuple(
        (torch.randn(*s, device=device, generator=generator) * scale).to(dtype)
        for s, scale in (((m, k), 1), ((n, k), k**-0.5), ((n,), 1))
    )


def check(y: Tensor, x: Tensor, w: Tensor, b: Tensor, activation: str | None = None) -> None:
    """Ends the run where a result is wrong. Of 64 rows, by the first gate of docs/contract.md: the
    sums' error, which no activation makes more than 1.13 times as large, one rounding, and 1/32 of
    an ulp for a 16-bit result's activation."""
    x, y = x.detach()[:64].double(), y.detach()[:64]
    right = torch_linear(x, w.detach().double(), b.detach().double(), activation)
    k = x.shape[1]
    terms = x.abs() @ w.detach().double().abs().t() + b.detach().double().abs()
    allowed = min(k, 8 * k**0.5) * 2.0**-23 * 1.13 * terms
    ulps = 1 / 2 + (1 / 32 if activation else 0)
    allowed += ulps * torch.finfo(y.dtype).eps * right.abs() + torch.finfo(y.dtype).tiny
    if not bool(((y.double() - right).abs() <= allowed).all()):
        raise RuntimeError(f"a wrong result: {tuple(x.shape)} by {tuple(w.shape)}, {activation}")


def linears(stopwatch: Stopwatch, device: torch.device, *, small: bool) -> Iterator[dict]:
    import tiled_mm

    def shrunk(shape: tuple) -> tuple:
        return tuple(size // 64 for size in shape) if small else shape

    x, w, b = linear_operands(shrunk(FINISHED), device, torch.bfloat16)
    works: dict[str, Work] = {
        "mm": lambda: tiled_mm.mm(x, w.t()),
        "torch.mm": lambda: torch.mm(x, w.t()),
        "bias": lambda: tiled_mm.linear(x, w, b),
    }
    for activation in ACTIVATIONS:
        works[activation] = lambda a=activation: tiled_mm.linear(x, w, b, activation=a)
    seconds = medians(stopwatch, works, 3.0)
    for activation in (None, *ACTIVATIONS):
        check(works[activation or "bias"](), x, w, b, activation)
    yield {"what": "forward without gradients", "shape": [*shrunk(FINISHED)], "seconds": seconds}

    for shape in LINEARS:
        x, w, b = (
            t.requires_grad_() for t in linear_operands(shrunk(shape), device, torch.bfloat16)
        )
        upstream = torch.randn(x.shape[0], w.shape[0], device=device, dtype=torch.bfloat16)

        def ours(x: Tensor = x, w: Tensor = w, b: Tensor = b) -> Tensor:
            return tiled_mm.linear(x, w, b, activation="gelu")

        def theirs(x: Tensor = x, w: Tensor = w, b: Tensor = b) -> Tensor:
            return torch_linear(x, w, b, "gelu")

        def backward(forward: Work, leaves=(x, w, b), upstream: Tensor = upstream) -> Work:
            return lambda: torch.autograd.grad(forward(), leaves, upstream)

        both_ways = {"tiled": backward(ours), "torch": backward(theirs)}
        found = {
            "gelu forward": medians(stopwatch, {"tiled": ours, "torch": theirs}, 1.0),
            "gelu forward and backward": medians(stopwatch, both_ways, 1.5),
            # Small layers leave the GPU waiting for the host, which the times above do not show.
            "gelu forward and backward, call after call": host_seconds(
                device, both_ways, calls=PLAIN_CALLS, to_the_end=True
            ),
        }
        before = functional.linear(x, w, b).detach()
        passes: dict[str, Work] = {
            "tiled": lambda g=upstream, y=before: torch.ops.tiled.activation_backward(
                g, y, "gelu", bias_dtype=torch.bfloat16
            ),
            "torch": lambda g=upstream, y=before: (
                (d := torch.ops.aten.gelu_backward(g, y)),
                d.sum(0),
            ),
        }
        found["gelu's gradient and the bias'"] = medians(stopwatch, passes, 0.5)
        check(ours(), x, w, b, "gelu")
        for what, seconds in found.items():
            yield {"what": what, "shape": [*shape], "seconds": seconds}


def cpu_linears() -> Iterator[dict]:
    import tiled_mm

    device = torch.device("cpu")
    for dtype in (torch.float16, torch.bfloat16):
        for shape in CPU_LINEARS:
            x, w, b = linear_operands(shape, device, dtype)
            works: dict[str, Work] = {
                "tiled": lambda x=x, w=w, b=b: tiled_mm.linear(x, w, b),
                "torch": lambda x=x, w=w, b=b: functional.linear(x, w, b),
            }
            seconds = medians(CpuStopwatch(), works, 0.5)
            check(works["tiled"](), x, w, b)
            yield {"what": str(dtype).split(".")[1], "shape": [*shape], "seconds": seconds}


# ---- host time -----------------------------------------------------------------------------------


def host_seconds(
    device: torch.device,
    works: dict[str, Work],
    *,
    calls: int = host.CALLS,
    to_the_end: bool = False,
) -> dict:
    def run(work: Work) -> Callable[[], None]:
        def many() -> None:
            for _ in range(calls):
                work()

        return many

    ready = {n: Prepared((), calls, "host clock", 0.0, run(w)) for n, w in works.items()}
    for prepared in ready.values():
        prepared.run()
    stopwatch = host.HostStopwatch(device, to_the_end)
    found = interleave(stopwatch, ready, Rounds(LEAST, 400, 1.5), random.Random(7))
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def host_times(device: torch.device) -> Iterator[dict]:
    """torch.mm's own first: from the first override on, a call passes the switch."""
    import tiled_mm

    a, b = (torch.randn(16, 16, device=device) for _ in range(2))
    plain = host_seconds(device, {"torch": lambda: torch.mm(a, b)})
    with tiled():
        ours = host_seconds(device, {"tiled": lambda: torch.mm(a, b)})
    yield {"what": "torch.mm under the override", "grad": False, "seconds": ours | plain}
    off = host_seconds(device, {"tiled": lambda: torch.mm(a, b)})
    yield {"what": "torch.mm, overridden and off", "grad": False, "seconds": off | plain}
    for grad in (False, True):
        x, w, bias = (
            torch.randn(*s, device=device, requires_grad=grad) for s in ((16, 16), (16, 16), (16,))
        )
        works: dict[str, Work] = {
            "tiled": lambda x=x, w=w, b=bias: torch.ops.tiled.linear(x, w, b),
            "tiled_mm.linear": lambda x=x, w=w, b=bias: tiled_mm.linear(x, w, b),
            "torch": lambda x=x, w=w, b=bias: functional.linear(x, w, b),
        }
        yield {"what": "linear", "grad": grad, "seconds": host_seconds(device, works)}
