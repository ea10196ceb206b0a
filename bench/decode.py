"""One to 64 rows with a layer's weight, as token-by-token work has them: `python -m bench.decode`.

Every problem is timed beside torch.mm by graph replays over rotated weights of more than twice the
L2 cache, in an order shuffled in every round. And its rows are looked at: have they the bits that
the same rows have among 1,024? With --no-split-k torch runs as those do who want it to keep bits
(CUBLAS_WORKSPACE_CONFIG=:16:8, CUBLASLT_WORKSPACE_SIZE=1: no room for split sums). cuBLAS reads
both when it starts, so that is a run of its own. Of fp32, `--dtype tf32` and `--dtype fp16x3` are
these precisions; torch.mm is in tf32 beside the first.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track

from bench import cli
from bench.arguments import FileOption, pick_device
from bench.candidates import fp32_precision
from bench.check import check_result
from bench.data import OperandSet, poison, random_matrix
from bench.shapes import FLOATS
from bench.timing import CudaStopwatch, Rounds, interleave

console = Console()

ROWS = (1, 2, 3, 4, 8, 16, 32, 48, 64)
# (N, K): layers of models of 8 and 70 billion parameters, a vocabulary, and small ones.
NAMED = (
    *((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (57344, 8192)),
    *((8192, 28672), (128256, 4096), (2560, 9728), (1536, 1536), (1024, 5120), (256, 7168)),
)
FULL = 1024  # rows of the product that others are compared with
PRECISIONS = ("tf32", "fp16x3")  # of float32, by which they are named here


def drawn(seed: int = 20, count: int = 20) -> tuple[tuple[int, int], ...]:
    """Log-uniform multiples of 64, between 1,024 and 32,768, of weights of at most 2^28 elements:
    nobody chose a tile for them."""
    rng = random.Random(seed)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        n, k = (64 * round(2 ** rng.uniform(4, 9)) for _ in range(2))
        if n * k <= 2**28:
            found.append((n, k))
    return tuple(found)


def weights_of(stopwatch: CudaStopwatch, n: int, k: int, layout: str, dtype: torch.dtype) -> list:
    """Copies of [K, N], contiguous along k ("nt") or along n ("nn"): enough to miss the cache."""
    generator = torch.Generator(stopwatch.device).manual_seed(20)
    count = max(2, stopwatch.set_count(n * k * dtype.itemsize))
    sizes = (n, k) if layout == "nt" else (k, n)
    made = [random_matrix(sizes, dtype, stopwatch.device, generator) for _ in range(count)]
    return [w.t() if layout == "nt" else w for w in made]


def torch_dtype(name: str) -> torch.dtype:
    return torch.float32 if name in PRECISIONS else getattr(torch, name)


def check(operands: OperandSet, c: torch.Tensor, name: str) -> None:
    """Ends the run where a result is wrong. The reference of fp64 would take long: there another
    rung must have the same bits."""
    if c.dtype == torch.float64:
        good = torch.equal(c, torch.ops.tiled.mm(operands.a, operands.b, algo="mma_tile"))
    else:
        tensor_cores = name not in ("float32", "fp16x3")
        good = check_result(
            c, operands.a, operands.b, tensor_cores=tensor_cores, tf32=name == "tf32"
        ).ok
    if not good:
        raise RuntimeError(f"a wrong result: {tuple(operands.a.shape)} by {tuple(c.shape)}")


def measure(stopwatch: CudaStopwatch, weights: list, m: int, rng: random.Random, name: str) -> dict:
    """Seconds of ours and torch's, and whether rows changed their bits."""
    precision = name if name in PRECISIONS else None
    k, n = weights[0].shape
    dtype, device = weights[0].dtype, stopwatch.device
    generator = torch.Generator(device).manual_seed(m)
    full = random_matrix((FULL, k), dtype, device, generator)
    sets = []
    for b in weights:
        out = torch.empty(m, n, dtype=dtype, device=device)
        poison(out)
        sets.append(OperandSet(full[:m].clone(), b, out))

    def ours(a, b, out):
        torch.ops.tiled.mm.out(a, b, precision=precision, out=out)
        return out

    def whole(a, b):
        return torch.ops.tiled.mm(a, b, precision=precision)

    calls = {"tiled": ours, "torch": lambda a, b, out: torch.mm(a, b, out=out)}
    changed = {}
    for who, product in (("tiled", whole), ("torch", torch.mm)):
        same = torch.equal(product(sets[0].a, sets[0].b), product(full, sets[0].b)[:m])
        changed[who] = not same
    prepared = {name: stopwatch.prepare(call, sets) for name, call in calls.items()}
    seconds = interleave(stopwatch, prepared, Rounds(7, 40, 0.03), rng)
    check(sets[0], ours(sets[0].a, sets[0].b, sets[0].out), name)
    return {
        "seconds": {name: statistics.median(found) for name, found in seconds.items()},
        "changed": changed,
    }


def main(
    json_path: FileOption = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="of the inputs, or a precision; may be repeated")
    ] = None,
    most_rows: Annotated[int, typer.Option(min=1, help="leave out more rows than that")] = 64,
    only_named: Annotated[bool, typer.Option(help="the named layers alone")] = False,
    no_split_k: Annotated[bool, typer.Option(help="torch without split-K")] = False,
) -> None:
    """Measures the products of few rows on this GPU."""
    device = pick_device("cuda")
    if unknown := set(dtype or ()) - {*FLOATS, *PRECISIONS}:
        raise typer.BadParameter(f"no dtype {', '.join(sorted(unknown))}")
    if no_split_k:
        os.environ |= {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUBLASLT_WORKSPACE_SIZE": "1"}
    import tiled_mm  # noqa: F401, registers the operators

    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True  # torch's default
    stopwatch = CudaStopwatch(device)
    rng = random.Random(7)
    document = cli.new_document("decode", device, {"split_k": not no_split_k})
    document["decode"] = []
    layers = [(n, k, False) for n, k in NAMED]
    layers += [] if only_named else [(n, k, True) for n, k in drawn()]
    for name in dtype or ("bfloat16",):
        for n, k, is_drawn in track(layers, name, console=console):
            for layout in ("nt", "nn"):
                weights = weights_of(stopwatch, n, k, layout, torch_dtype(name))
                for m in (m for m in ROWS if m <= most_rows):
                    with fp32_precision("tf32" if name == "tf32" else "ieee"):
                        found = measure(stopwatch, weights, m, rng, name)
                    place = {"dtype": name, "layout": layout, "m": m, "n": n, "k": k}
                    document["decode"].append(place | {"drawn": is_drawn} | found)
                del weights
                gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
                torch.cuda.empty_cache()
            cli.keep(document, json_path)
    from bench.decode_table import TABLES

    for name in ("decode", "decode-bits"):
        console.print(TABLES[name]([document]), highlight=False, markup=False)


if __name__ == "__main__":
    typer.run(main)
