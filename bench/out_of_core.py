"""Products streamed from host memory: `python -m bench.out_of_core --json FILE`.

First the link, in the same run: pinned memory each way and both ways at once, ordinary memory as
torch copies it, and the host's own copy into pinned memory, which ordinary memory has to go
through.
Then products, each beside what bounds it:

    arithmetic   flops / the rate of tiled.mm on operands in the GPU's memory, sustained
    link         bytes moved to the device / the link's rate, or the same of the way back

A product's `share` is the larger of the two over its time. Bits are compared with tiled.mm's of
whole rows of C, in the GPU's memory. Operands are random, made on the GPU.

`--sizes` chooses: square-float32, square-bfloat16 (K = M = N = 65536 with 8 GiB of the GPU), deep,
tall, few-rows, and sweep (squares over N, with overlap and without). `--devices 2` runs the
products on two GPUs. `--divide` makes everything smaller, to try the program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
import typer
from torch import Tensor

from bench import cli
from bench.arguments import DivideOption, FileOption, PlotsOption, pick_device
from bench.out_of_core_table import TABLES
from bench.runner import describe

GIB = 2**30
BLOCK = 64 * 2**20  # elements made at a time
CHECKED_ROWS = 512  # at the begin, in the middle and at the end of C
SUSTAINED_S = 0.6


@dataclass(frozen=True)
class Product:
    """One product of the list."""

    name: str
    m: int
    n: int
    k: int
    dtype: torch.dtype
    host: str = "pinned"  # "pinned", "pageable", or "mapped": read by the kernels where it is
    memory: int | None = None  # bytes of each GPU
    overlap: bool = True  # else copied there as a whole, multiplied, copied back

    @property
    def bytes(self) -> int:
        """Of A, B and C."""
        return (self.m * self.k + self.k * self.n + self.m * self.n) * self.dtype.itemsize

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


def products(divide: int) -> dict[str, list[Product]]:
    """By the name that --sizes knows."""
    f32, bf16 = torch.float32, torch.bfloat16
    side, deep = 65536 // divide, 262144 // divide
    memory = 8 * GIB // divide**2

    def both(name: str, m: int, n: int, k: int, dtype: torch.dtype, memory: int | None = None):
        return [Product(name, m, n, k, dtype, host, memory) for host in ("pinned", "pageable")]

    few = Product("few-rows", 16, 16384 // divide, 16384 // divide, bf16)
    sweep = [
        Product("sweep", n, n, n, f32, host, None, overlap)
        for n in (size // divide for size in (1024, 2048, 4096, 8192, 16384))
        for host, overlap in (
            ("pageable", False),
            ("pinned", False),
            ("pageable", True),
            ("pinned", True),
            ("mapped", True),
        )
        if host != "mapped" or n <= 4096
    ]
    return {
        "square-float32": both("square-float32", side, side, side, f32, memory)[:1],
        "square-bfloat16": both("square-bfloat16", side, side, side, bf16, memory),
        "deep": both("deep", 8192 // divide, 8192 // divide, deep, bf16),
        "tall": both("tall", side, 64, side, f32),
        "few-rows": [
            few,
            Product("few-rows", few.m, few.n, few.k, bf16, "pageable"),
            Product("few-rows", few.m, few.n, few.k, bf16, "mapped"),
            Product("few-rows", few.m, few.n, few.k, bf16, "pinned", None, False),
        ],
        "sweep": sweep,
    }


# ---- host memory --------------------------------------------------------------------------------


class Host:
    """Host memory for A, B and C, pinned once: tens of GB take longer to pin than to multiply."""

    def __init__(self, nbytes: int) -> None:
        self._pinned = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def pinned(self, p: Product) -> tuple[Tensor, Tensor, Tensor]:
        """A [M, K], B [K, N] and C [M, N], one after the other."""
        made, begin = [], 0
        for shape in ((p.m, p.k), (p.k, p.n), (p.m, p.n)):
            nbytes = shape[0] * shape[1] * p.dtype.itemsize
            made.append(self._pinned[begin : begin + nbytes].view(p.dtype).view(shape))
            begin += nbytes
        return tuple(made)


def fill(x: Tensor, device: torch.device) -> None:
    """Normal numbers, made on the GPU."""
    flat = x.view(-1)
    generator = torch.Generator(device).manual_seed(23)
    for begin in range(0, flat.numel(), BLOCK):
        part = flat[begin : begin + BLOCK]
        part.copy_(torch.randn(part.numel(), device=device, generator=generator).to(x.dtype))


# ---- the link ----------------------------------------------------------------------------------


def seconds_of(run: Callable[[], object], repeats: int = 3) -> float:
    """The least of some runs, of which each ends with the GPU idle."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def link_rates(host: Host, device: torch.device, nbytes: int) -> dict[str, float]:
    """Bytes/s: see the module's text."""
    here = host._pinned[: 2 * nbytes].view(2, nbytes)
    there = torch.empty(2, nbytes, dtype=torch.uint8, device=device)
    ordinary = torch.ones(nbytes, dtype=torch.uint8)
    streams = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def both() -> None:
        with torch.cuda.stream(streams[0]):
            there[0].copy_(here[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            here[1].copy_(there[1], non_blocking=True)

    runs: dict[str, Callable[[], object]] = {
        "to_device": lambda: there[0].copy_(here[0], non_blocking=True),
        "to_host": lambda: here[1].copy_(there[1], non_blocking=True),
        "both_ways_each": both,
        "pageable_to_device": lambda: there[0].copy_(ordinary),
        "pageable_to_host": lambda: ordinary.copy_(there[1]),
        "host_copy": lambda: here[0].copy_(ordinary),
    }
    return {name: nbytes / seconds_of(run) for name, run in runs.items()}


def arithmetic_rate(dtype: torch.dtype, device: torch.device, divide: int) -> float:
    """flop/s of tiled.mm in the GPU's memory, after so long that the clocks have settled."""
    n = 8192 // divide
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def for_a_while() -> int:
        calls, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < SUSTAINED_S / min(divide, 4):
            torch.ops.tiled.mm.out(a, b, out=out)
            torch.cuda.synchronize()
            calls += 1
        return calls

    for_a_while()
    begin = time.perf_counter()
    calls = for_a_while()
    return 2.0 * n**3 * calls / (time.perf_counter() - begin)


# ---- products ----------------------------------------------------------------------------------


def warm_up(dtype: torch.dtype, devices: list[int]) -> None:
    """What is done once on each GPU: its context, the kernels' code, pinned buffers."""
    import tiled_mm

    for index in devices:
        x = torch.randn(1024, 40000).to(dtype)
        tiled_mm.out_of_core(x, x.t(), devices=[index], memory=GIB)


def checked_rows(m: int) -> Iterator[slice]:
    rows = min(CHECKED_ROWS, m)
    for begin in sorted({0, (m - rows) // 2, m - rows}):
        yield slice(begin, begin + rows)


def equal_bits(a: Tensor, b: Tensor, c: Tensor, device: torch.device) -> bool:
    """Some rows of C beside tiled.mm's in the GPU's memory, where B is a block of columns."""
    import tiled_mm

    columns = max(1, 8 * GIB // (b.shape[0] * b.element_size()))
    for begin in range(0, b.shape[1], columns):
        part = slice(begin, begin + columns)
        right = b[:, part].to(device)
        for rows in checked_rows(c.shape[0]):
            expected = tiled_mm.mm(a[rows].to(device), right)
            if not torch.equal(c[rows, part].to(device), expected):
                return False
    return True


def measure(
    p: Product, host: Host, rates: dict[str, float], link: dict[str, float], devices: list[int]
) -> dict:
    """One record of the document."""
    import tiled_mm

    device = torch.device("cuda", devices[0])
    record = {
        **{"name": p.name, "m": p.m, "n": p.n, "k": p.k, "host": p.host, "overlap": p.overlap},
        **{"dtype": str(p.dtype).removeprefix("torch."), "memory": p.memory},
        **{"devices": len(devices), "tiles": None, "bytes_in": None, "bytes_out": None},
        **dict.fromkeys(("seconds", "arithmetic_s", "link_s", "share", "equal", "error")),
    }
    try:
        a, b, c = host.pinned(p)
        fill(a, device)
        fill(b, device)
        c.zero_()
        if p.host == "pageable":
            a, b, c = a.clone(), b.clone(), c.clone()
        seen: list[tiled_mm.Progress] = []

        def run() -> None:
            if p.overlap:
                options = {"devices": devices, "memory": p.memory, "copy": p.host != "mapped"}
                tiled_mm.out_of_core(a, b, c, progress=seen.append, **options)
            else:
                c.copy_(tiled_mm.mm(a.to(device), b.to(device)))

        if p.flops < 1e14:
            run()  # what is done once, and clocks
        record["seconds"] = seconds_of(run, 1 if p.flops > 1e14 else 3)
        record["equal"] = equal_bits(a, b, c, device)
        last = seen[-1] if seen else None
        record["tiles"] = last.tiles if last else 1
        record["bytes_in"] = last.bytes_in if last else a.nbytes + b.nbytes
        record["bytes_out"] = c.nbytes
        # Ordinary memory is copied by the host first.
        in_rate, out_rate = link["to_device"], link["to_host"]
        if p.host == "pageable":
            in_rate, out_rate = (min(r, link["host_copy"]) for r in (in_rate, out_rate))
        record["arithmetic_s"] = p.flops / rates[record["dtype"]] / len(devices)
        moved = max(record["bytes_in"] / in_rate, record["bytes_out"] / out_rate)
        record["link_s"] = moved / len(devices)
        record["share"] = max(record["arithmetic_s"], record["link_s"]) / record["seconds"]
    except Exception as error:
        record["error"] = describe(error)
    torch.cuda.empty_cache()
    return record


def main(
    json_path: FileOption = None,
    plots: PlotsOption = None,
    sizes: Annotated[str, typer.Option(help="names, with commas; all if empty")] = "",
    devices: Annotated[int, typer.Option(min=1, help="GPUs that share the products")] = 1,
    divide: DivideOption = 1,
) -> None:
    """Measures products streamed from host memory beside the link's rate and the arithmetic's."""
    device = pick_device("cuda")
    cli.load_operator()
    known = products(divide)
    names = [name for name in sizes.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        raise typer.BadParameter(f"unknown {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [p for name in names for p in known[name]]
    settings = {"sizes": names, "devices": devices, "divide": divide}
    document = cli.new_document("out_of_core", device, settings)
    link_bytes = GIB // divide
    host = Host(max(2 * link_bytes, *(p.bytes for p in chosen)))
    link = link_rates(host, device, link_bytes)
    rates = {
        str(dtype).removeprefix("torch."): arithmetic_rate(dtype, device, divide)
        for dtype in dict.fromkeys(p.dtype for p in chosen)
    }
    for dtype in dict.fromkeys(p.dtype for p in chosen):
        warm_up(dtype, list(range(devices)))
    document["out_of_core"] = {"link": link, "arithmetic": rates, "products": []}
    for name, rate in link.items():
        cli.console.print(f"link {name}: {rate / 1e9:.1f} GB/s")
    for p in chosen:
        record = measure(p, host, rates, link, list(range(devices)))
        document["out_of_core"]["products"].append(record)
        cli.console.print(
            f"{p.name} {p.m}x{p.n}x{p.k} {record['dtype']} {p.host}"
            f"{'' if p.overlap else ', no overlap'}: "
            + (record["error"] or f"{record['seconds']:.3g} s, {record['share']:.1%} of the bound")
        )
        cli.keep(document, json_path)
    for table in TABLES.values():
        print(table([document], gpu=True))
    cli.finish(document, json_path, plots)


if __name__ == "__main__":
    typer.run(main)
