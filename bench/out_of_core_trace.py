"""Where a streamed product's time goes: `python -m bench.out_of_core_trace --m M --n N --k K`.

Kineto records every copy and kernel of one product, and each moment is counted once:

    products     a kernel runs, whatever the link does
    link in      no kernel runs, and data come
    link out     neither, and results go back
    idle         nothing is under way

Beside that, how long each of the three was busy and at which rate, when the first product began,
and the two bounds: the product of the same operands in the GPU's memory, and what was moved at the
rate of one piece.

A and B are pinned. C is pinned, or ordinary memory: `touched` has been written before, `fresh` has
not, as a call without `out` has it, and `huge` is fresh memory that may have pages of 2 MiB.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench import cli
from bench.out_of_core import GIB, Host, Product, fill, seconds_of

Interval = tuple[float, float]
STAGES = ("products", "link in", "link out")


def stage_of(event: dict) -> str | None:
    """Of an event of a Chrome trace; None for what is none of the GPU's."""
    if event.get("cat") == "kernel":
        return "products"
    if event.get("cat") == "gpu_memcpy":
        return {"HtoD": "link in", "DtoH": "link out"}.get(event["name"].split()[1], "products")
    return None


def union(intervals: list[Interval]) -> list[Interval]:
    """The same moments, in ascending order and apart from each other."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(intervals: list[Interval]) -> float:
    return sum(end - begin for begin, end in union(intervals))


def split(events: list[dict]) -> dict:
    """Seconds of one product, from the events of its trace: `total` from the first to the last;
    `once`, where each moment is counted for the first stage that is busy; and for each stage its
    busy seconds, bytes, events and first begin."""
    of: dict[str, list[dict]] = {stage: [] for stage in STAGES}
    for event in events:
        if stage := stage_of(event):
            of[stage].append(event)
    spans = {
        stage: [(e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in found]
        for stage, found in of.items()
    }
    everything = [span for found in spans.values() for span in found]
    begin, end = min(b for b, _ in everything), max(e for _, e in everything)
    once, seen = {}, []
    for stage in STAGES:
        before = length(seen)
        seen += spans[stage]
        once[stage] = length(seen) - before
    once["idle"] = end - begin - length(seen)
    stages = {
        stage: {
            "busy": length(spans[stage]),
            "bytes": sum(e.get("args", {}).get("bytes", 0) for e in of[stage]),
            "events": len(of[stage]),
            "first": min((b for b, _ in spans[stage]), default=begin) - begin,
        }
        for stage in STAGES
    }
    kernels: dict[str, list[float]] = defaultdict(list)
    for event in of["products"]:
        kernels[event["name"]].append(event["dur"] / 1e6)
    return {"total": end - begin, "once": once, "stages": stages, "kernels": dict(kernels)}


def fresh(like: torch.Tensor, huge: bool = False) -> torch.Tensor:
    """Ordinary memory that nobody has written yet."""
    made = torch.empty(like.shape, dtype=like.dtype)
    if huge:
        page = 2**21
        begin = -(-made.data_ptr() // page) * page
        size = (made.data_ptr() + made.nbytes) // page * page - begin
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE):
            raise OSError(ctypes.get_errno(), "madvise")
    return made


def traced(run: Callable[[], object]) -> dict:
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return split(json.loads(path.read_text())["traceEvents"])


def show(found: dict, flops: float) -> None:
    total = found["total"]
    print(f"traced: {total * 1e3:.1f} ms; each moment once:")
    for name, seconds in found["once"].items():
        print(f"  {name:<10} {seconds * 1e3:8.1f} ms  {seconds / total:6.1%}")
    print("each by itself:")
    for name, s in found["stages"].items():
        work = f"{flops / 1e12:.0f} Tflop" if name == "products" else f"{s['bytes'] / 1e9:.2f} GB"
        rate = flops / 1e12 if name == "products" else s["bytes"] / 1e9
        unit = "TF/s" if name == "products" else "GB/s"
        rate = rate / s["busy"] if s["busy"] else 0.0
        print(
            f"  {name:<10} {s['busy'] * 1e3:8.1f} ms busy, {s['events']} of them, {work} at "
            f"{rate:.1f} {unit}, from {s['first'] * 1e3:.1f} ms on"
        )
    print("kernels:")
    for name, times in sorted(found["kernels"].items(), key=lambda item: -sum(item[1])):
        median = statistics.median(times) * 1e3
        print(f"  {sum(times) * 1e3:8.1f} ms in {len(times)}, median {median:.2f} ms: {name[:70]}")


def main(
    m: int = 45000,
    n: int = 40000,
    k: int = 36000,
    dtype: str = "bfloat16",
    memory: Annotated[float, typer.Option(help="GiB of the GPU")] = 6,
) -> None:
    """Shows where the time of one product streamed from pinned memory goes."""
    if not torch.cuda.is_available():
        raise typer.BadParameter("this machine has no GPU that torch can use")
    cli.load_operator()
    import tiled_mm

    device = torch.device("cuda", torch.cuda.current_device())
    p = Product("trace", m, n, k, getattr(torch, dtype), memory=int(memory * GIB))
    a, b, c = Host(p.bytes).pinned(p)
    fill(a, device)
    fill(b, device)
    print(tiled_mm.explain_out_of_core(a, b, memory=p.memory))

    touched = c.clone()
    outs: dict[str, Callable[[], torch.Tensor]] = {
        "pinned": lambda: c,
        "touched": lambda: touched,
        "fresh": lambda: fresh(c),
        "huge": lambda: fresh(c, huge=True),
    }

    def run(kind: str) -> None:
        tiled_mm.out_of_core(a, b, outs[kind](), memory=p.memory, progress=False)

    print(f"first call {seconds_of(lambda: run('pinned'), 1) * 1e3:.1f} ms")
    torch.cuda.empty_cache()
    again = seconds_of(lambda: run("pinned"), 1)
    print(f"with an empty allocator {again * 1e3:.1f} ms")
    times = {kind: seconds_of(lambda kind=kind: run(kind)) for kind in outs}
    for kind, seconds in times.items():
        print(f"C {kind:<8} {seconds * 1e3:8.1f} ms")
    for kind in ("pinned", "fresh"):
        print(f"\nC {kind}")
        show(traced(lambda kind=kind: run(kind)), p.flops)

    there = torch.empty(GIB, dtype=torch.uint8, device=device)
    here = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    in_rate = GIB / seconds_of(lambda: there.copy_(here, non_blocking=True))
    out_rate = GIB / seconds_of(lambda: here.copy_(there, non_blocking=True))
    plan = tiled_mm.plan_out_of_core(a, b, memory=p.memory)
    link = max(plan.bytes_in / in_rate, plan.bytes_out / out_rate)
    left, right = a.to(device), b.to(device)

    def in_memory() -> None:
        tiled_mm.mm(left, right)

    in_memory()
    torch.cuda.synchronize()
    product = statistics.median(seconds_of(in_memory, 1) for _ in range(5))
    tile_m, tile_n = min(plan.tile.m, m), min(plan.tile.n, n)
    one = seconds_of(lambda: tiled_mm.mm(left[:tile_m], right[:, :tile_n]), 5)
    print(
        f"\nlink {in_rate / 1e9:.1f} GB/s in, {out_rate / 1e9:.1f} out, as one piece: "
        f"{link * 1e3:.1f} ms\nproduct in the GPU's memory: {product * 1e3:.1f} ms, "
        f"{p.flops / product / 1e12:.0f} TF/s; one tile's by itself: "
        f"{2 * tile_m * tile_n * k / one / 1e12:.0f} TF/s\n"
        f"{max(link, product) / times['pinned']:.1%} of the larger with C pinned"
    )


if __name__ == "__main__":
    typer.run(main)
