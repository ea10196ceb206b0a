"""What bounds each rung of the ladder, by the GPU's own counters.

    python -m bench.bounds ladder --json FILE

Nsight Compute (`ncu`, of the CUDA toolkit) runs one product of each rung and reads how busy the
units were, in percent of what they can do over the kernel's time, and what warps waited for. The
product is run once before; clocks are left as they are.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track

from bench import cli
from bench.arguments import FileOption
from bench.machine import ROOT
from bench.shapes import Shape

console = Console()
app = typer.Typer(add_completion=False, help=__doc__)

# The rungs whose kernel this is about; each is its name's kernel.
RUNGS = {
    "float32": ("naive", "shared_tile_8", "shared_tile_16", "shared_tile_32", "register_tile"),
    "bfloat16": (
        "naive",
        "shared_tile_16",
        "register_tile",
        "mma_tile",
        "tma_wgmma",
        "warp_specialized",
        "hopper",
    ),
}
UNITS = {
    "FMA units": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "tensor cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "issue slots": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "shared memory and L1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")


def parse(report: str) -> dict:
    """Of `ncu --csv --page raw`: {kernel, units: {name: percent}, stalls: {reason: share of a
    warp's time}}. Raises ValueError where the report has no kernel."""
    begin = report.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(report[max(begin, 0) :])))
    if begin < 0 or len(rows) < 2:
        raise ValueError("ncu reported no kernel")
    row = rows[1]  # the first row holds the units
    stalls = {
        found.group(1): float(value.replace(",", ""))
        for name, value in row.items()
        if name and (found := _STALL.fullmatch(name)) and value
    }
    total = sum(stalls.values())
    return {
        "kernel": row["Kernel Name"].split("(")[0],
        "units": {unit: float(row[metric].replace(",", "")) for unit, metric in UNITS.items()},
        "stalls": {reason: value / total for reason, value in stalls.items()} if total else {},
    }


def measure(ncu: str, shape: Shape, algo: str) -> dict:
    """One rung's counters."""
    command = [
        *(ncu, "--clock-control", "none", "--csv", "--page", "raw"),
        *("--section", "WarpStateStats", "--metrics", ",".join(UNITS.values())),
        *("-k", f"regex:{re.sub('_[0-9]+$', '', algo)}", "-s", "1", "-c", "1"),
        *(sys.executable, "-m", "bench.bounds", "run", algo, shape.dtype, str(shape.n)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ)
    try:
        return parse(done.stdout)
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"{algo}: {error}: {(done.stdout + done.stderr)[-500:]}") from error


@app.command()
def run(algo: str, dtype: str, n: int) -> None:
    """What is profiled: the rung's product, twice."""
    import tiled_mm

    a = torch.randn(n, n, device="cuda").to(getattr(torch, dtype))
    for _ in range(2):
        tiled_mm.mm(a, a, algo=algo)
    torch.cuda.synchronize()


@app.command()
def ladder(
    json_path: FileOption = None,
    size: Annotated[int, typer.Option("--size", min=1)] = 4096,
) -> None:
    """Reads the counters of every rung."""
    ncu = shutil.which("ncu")
    if ncu is None or not torch.cuda.is_available():
        sys.exit("this needs a GPU, and ncu on the PATH")
    shapes = [(Shape(size, size, size, dtype=d), r) for d, rungs in RUNGS.items() for r in rungs]
    document = cli.new_document("bounds", torch.device("cuda", 0), {"size": size})
    document["counters"] = []
    for shape, algo in track(shapes, "rungs", console=console):
        try:
            found = measure(ncu, shape, algo)
        except RuntimeError as error:
            console.print(str(error), markup=False)
            continue
        document["counters"].append({"algo": algo, "dtype": shape.dtype, "n": size, **found})
        busiest = max(found["units"], key=found["units"].get)
        console.print(f"{algo} {shape.dtype}: {busiest} {found['units'][busiest]:.0f} %")
        cli.keep(document, json_path)


if __name__ == "__main__":
    app()
