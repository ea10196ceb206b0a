"""Other ways to batch invariance, on this card: `python -m bench.rivals --json FILE`.

bits    of how many problems rows change their bits with the number of rows: by torch's products as
        they are, by cuBLAS with its workspace cut (CUBLAS_WORKSPACE_CONFIG=:16:8,
        CUBLASLT_WORKSPACE_SIZE=1, as vLLM and Megatron-LM set it), by a Triton product of one tile,
        and by ours
speed   the same four, in turn

cuBLAS reads its settings when it is loaded, so that each has a process of its own for bits; the
speed of cut cuBLAS is measured in a process beside its own torch.mm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor

from bench import cli
from bench.arguments import FileOption, chosen_parts, pick_device

console = Console()

CUT = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUBLASLT_WORKSPACE_SIZE": "1"}
PARTS = ("bits", "speed")
ROWS = (1, 2, 4, 8, 16, 64, 128, 256, 512)  # beside 1,024
BF16 = (  # (N, K) of models' layers
    (4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672), (28672, 8192), (2560, 9728),
    (256, 7168), (7168, 2048), (1536, 7168), (24576, 1536),
)  # fmt: skip
SQUARES = (64, 100, 128, 200, 256, 333, 384, 512, 640, 768, 896, 1000, 1024, 1279, 1536, 2048)
CANDIDATES = ("torch", "cut cuBLAS", "triton", "tiled")
SPEEDS = ((1, 4096, 4096), (16, 4096, 14336), (64, 14336, 4096), (256, 4096, 4096),
          (2048, 4096, 4096), (8192, 4096, 14336))  # fmt: skip

Product = Callable[[Tensor, Tensor], Tensor]


def product_of(candidate: str) -> Product:
    if candidate == "triton":
        from bench.triton_product import product

        return product
    if candidate == "tiled":
        import tiled_mm

        return tiled_mm.mm
    return torch.mm


def problems() -> Iterator[tuple[str, torch.dtype, int, int, int, int]]:
    """(kind, dtype, all rows, rows, N, K)."""
    for n, k in BF16:
        for rows in ROWS:
            yield "bf16", torch.bfloat16, 1024, rows, n, k
        for rows in ROWS[1:]:
            yield "fp32", torch.float32, 1024, rows, n, k
    for size in SQUARES:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for rows in sorted({1, 2, 3, 5, 8, 13, size // 4, size // 3, size // 2, size - 1}):
                yield "squares", dtype, size, rows, size, size


def changed(candidate: str, device: torch.device) -> dict[str, list[int]]:
    """{kind: [problems that change, of]}."""
    product, found = product_of(candidate), {}
    torch.manual_seed(0)
    made: tuple | None = None
    for kind, dtype, total, rows, n, k in problems():
        if made is None or made[0] != (dtype, total, n, k):
            a = torch.randn(total, k, device=device, dtype=dtype)
            b = torch.randn(n, k, device=device, dtype=dtype).t()
            made = (dtype, total, n, k), a, b, product(a, b)
        _, a, b, whole = made
        count = found.setdefault(kind, [0, 0])
        count[0] += int(not torch.equal(product(a[:rows], b), whole[:rows]))
        count[1] += 1
    return found


def speeds(candidates: tuple[str, ...], device: torch.device) -> list[dict]:
    from bench.linears import medians
    from bench.timing import CudaStopwatch

    stopwatch, found = CudaStopwatch(device), []
    for m, n, k in SPEEDS:
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=device, dtype=torch.bfloat16).t()
        works = {}
        for candidate in candidates:
            product = product_of(candidate)
            works[candidate] = lambda product=product, a=a, b=b: product(a, b)
        found.append({"shape": [m, n, k], "seconds": medians(stopwatch, works)})
    return found


def in_a_process(arguments: list[str], environment: dict[str, str]) -> object:
    command = [sys.executable, "-m", "bench.rivals", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main(
    json_path: FileOption = None,
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PARTS)}")] = None,
    device_name: Annotated[str, typer.Option("--device", help="auto or cuda")] = "auto",
    bits_of: Annotated[str | None, typer.Option(hidden=True)] = None,
    speed_of: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compares the bits and the speed of four ways to batch invariance."""
    device = pick_device(device_name)
    if bits_of:
        print(json.dumps(changed(bits_of, device)))
        return
    if speed_of:
        print(json.dumps(speeds(tuple(speed_of.split(",")), device)))
        return
    parts = chosen_parts(only, PARTS)
    document = cli.new_document("rivals", device, {"parts": list(parts), "cut": CUT})
    found = document["models"] = {}
    for candidate in CANDIDATES if "bits" in parts else ():
        environment = CUT if candidate == "cut cuBLAS" else {}
        counts = in_a_process(["--bits-of", candidate], environment)
        for kind, (n, of) in counts.items():
            row = {"candidate": candidate, "kind": kind, "changed": n, "of": of}
            found.setdefault("rivals-bits", []).append(row)
        said = ", ".join(f"{kind} {n} of {of}" for kind, (n, of) in counts.items())
        console.print(f"{candidate}: rows change in {said}", highlight=False, markup=False)
        cli.keep(document, json_path)
    if "speed" in parts:
        rows = in_a_process(["--speed-of", "torch,triton,tiled"], {})
        cut = in_a_process(["--speed-of", "torch,tiled"], CUT)
        for row, other in zip(rows, cut, strict=True):
            row["seconds"]["cut cuBLAS"] = other["seconds"]["torch"]
            row["seconds"]["tiled beside cut cuBLAS"] = other["seconds"]["tiled"]
            said = ", ".join(f"{name} {1e6 * s:.1f} us" for name, s in row["seconds"].items())
            console.print(f"{row['shape']}: {said}", highlight=False, markup=False)
        found["rivals-speed"] = rows
        cli.keep(document, json_path)


if __name__ == "__main__":
    typer.run(main)
