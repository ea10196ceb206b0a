"""Training steps and loss curves beside torch's: `python -m bench.training --json FILE`.

linear-stack  bf16: linear layers without activation or bias, forward and backward, the gradients of
              the input and of every weight
mlp-step      fp32: linear layers with bias and a GELU between them, forward and backward, the
              gradients of every weight and bias; ours in fp16x3, torch in fp32 and in tf32
loss-curves   200 steps of such an MLP in each precision (curves.py)

Steps take turns in shuffled order: sustained ones as they are, after the chip's power has settled;
bursts as replays of a CUDA graph, with pauses. Their rates count the operations of the products
alone; their times hold everything. Every product of what was timed is checked.
"""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import torch
import typer

from bench import cells, cli, results
from bench.arguments import (
    BudgetOption,
    DeviceOption,
    DivideOption,
    FileOption,
    PlotsOption,
    pick_device,
)
from bench.candidates import uses_tensor_cores
from bench.curves import Regression, run_curves
from bench.data import OperandSet
from bench.machine import PowerLog
from bench.networks import (
    Arithmetic,
    Network,
    check_step,
    make_network,
    step,
    tiled_arithmetic,
    torch_arithmetic,
)
from bench.runner import describe, release_memory, warm_up
from bench.shapes import Shape
from bench.timing import (
    CpuStopwatch,
    CudaStopwatch,
    Prepared,
    Rounds,
    Stopwatch,
    interleave,
    record_times,
)
from bench.training_tables import curves_rows

MODES = ("sustained", "burst")
SEED = 20


@dataclass(frozen=True)
class Work:
    """A step to be timed."""

    name: str
    dtype: str
    layers: int
    mlp: bool  # biases and GELUs, and no gradient of the input
    rows: int = 8192
    width: int = 4096

    @property
    def shape(self) -> Shape:
        """The forward product of one layer."""
        return Shape(self.rows, self.width, self.width, "nt", self.dtype)

    @property
    def flops(self) -> int:
        """Operations of all products: three a layer, one less where the input has no gradient."""
        return (3 * self.layers - self.mlp) * self.shape.flops

    def smaller(self, by: int) -> Work:
        return replace(self, rows=self.rows // by, width=self.width // by)


LINEAR_STACK = Work("linear-stack", "bfloat16", layers=4, mlp=False)
MLP_STEP = Work("mlp-step", "float32", layers=3, mlp=True)


def rivals(work: Work, device: torch.device) -> list[Arithmetic]:
    """Ours and torch's; ratios are against the first that is not ours. A CPU has one arithmetic."""
    if work.dtype != "float32":
        return [tiled_arithmetic(), torch_arithmetic("torch.mm")]
    if device.type == "cpu":
        return [tiled_arithmetic("ieee"), torch_arithmetic("torch fp32")]
    return [
        tiled_arithmetic("fp16x3"),
        torch_arithmetic("torch fp32"),
        torch_arithmetic("torch tf32", "tf32"),
    ]


def make_stopwatch(device: torch.device, mode: str) -> Stopwatch:
    if device.type == "cpu":
        return CpuStopwatch()
    if mode == "sustained":
        return CudaStopwatch(device, region_s=5e-3)
    return CudaStopwatch(device, idle_s=5e-3, graph_below_s=math.inf)


def _operands(work: Work, device: torch.device) -> tuple[Network, OperandSet]:
    """The network, and x and the gradient of its output, each [rows, width]."""
    generator = torch.Generator(device).manual_seed(SEED)
    dtype = getattr(torch, work.dtype)
    network = make_network(work.layers, work.width, dtype, generator, mlp=work.mlp)
    x, upstream = (
        torch.randn(work.rows, work.width, dtype=dtype, device=device, generator=generator)
        for _ in range(2)
    )
    return network, OperandSet(x.requires_grad_(not work.mlp), upstream, upstream.new_empty(0))


def _prepare(
    stopwatch: Stopwatch, network: Network, operands: OperandSet, arithmetic: Arithmetic
) -> Prepared:
    def call(x, upstream, out):
        with arithmetic.precision():
            return step(network, arithmetic.linear, x, upstream)

    return stopwatch.prepare(call, [operands])


def _measure(
    case: dict,
    work: Work,
    chosen: list[Arithmetic],
    device: torch.device,
    power: PowerLog,
    rounds: Rounds,
) -> None:
    stopwatch = make_stopwatch(device, case["mode"])
    network, operands = _operands(work, device)
    prepared: dict[str, Prepared] = {}
    records = {a.name: results.candidate(a.name, ours=a.ours) for a in chosen}
    case["candidates"] = list(records.values())
    for a in chosen:
        try:
            prepared[a.name] = _prepare(stopwatch, network, operands, a)
        except Exception as error:
            records[a.name]["error"] = describe(error)
    peer = case["peer"]
    if case["mode"] == "sustained" and prepared:
        warm_up(stopwatch, prepared.get(peer) or next(iter(prepared.values())), power)
    samples = interleave(stopwatch, prepared, rounds, random.Random(f"{SEED} {work.name}"))
    for a in chosen:
        if a.name not in prepared:
            continue
        record, p = records[a.name], prepared[a.name]
        record_times(record, samples[a.name], samples.get(peer))
        record["flops"] = work.flops / record["seconds"]["median"]
        # What was timed: poisoned, and one more sample.
        p.last()[1].poison()
        stopwatch.read(stopwatch.start(p))
        cores = uses_tensor_cores(work.shape, device.type)
        found = check_step(network, p.last()[1], tensor_cores=cores, tf32=a.tf32)
        record["check"] = found.to_json()


def run_step(work: Work, mode: str, device: torch.device, power: PowerLog, rounds: Rounds) -> dict:
    """One case: all ways to compute a step, in one mode. Never raises."""
    cache = cli.cache_state(device)
    case = results.case(work.name, work.shape.to_json(), mode, cache, grad=True)
    try:
        chosen = rivals(work, device)
        case["peer"] = next(a.name for a in chosen if not a.ours)
        _measure(case, work, chosen, device, power, rounds)
    except Exception as error:
        case["error"] = describe(error)
    release_memory(case, device)
    return case


def main(
    json_path: FileOption = None,
    plots: PlotsOption = None,
    device_name: DeviceOption = "cuda",
    budget: BudgetOption = 3.0,
    steps: Annotated[int, typer.Option(min=1, help="of each loss curve")] = 200,
    divide: DivideOption = 1,
) -> None:
    """Times training steps through tiled-mm and through torch, and trains with both."""
    device = pick_device(device_name)
    cli.load_operator()
    works = [work.smaller(divide) for work in (LINEAR_STACK, MLP_STEP)]
    task = Regression(steps=steps)
    task = replace(task, rows=task.rows // divide, width=task.width // divide)
    rounds = Rounds(least=10, most=400, budget_s=budget)
    settings: dict = {work.name: asdict(work) for work in works}
    settings |= {"rounds": asdict(rounds), "loss-curves": task.to_json()}
    document = cli.new_document("training", device, settings)
    with PowerLog(device) as power:
        for work in works:
            for mode in MODES:
                document["cases"].append(run_step(work, mode, device, power, rounds))
                cli.keep(document, json_path)
                title = f"{cells.device_name(document)}, {work.name}, {mode}"
                cli.print_cases(document["cases"][-1:], title, gpu=device.type == "cuda")
    document["curves"] = run_curves(task, device)
    print(cells.markdown(*curves_rows(task.to_json(), document["curves"])))
    cli.finish(document, json_path, plots)


if __name__ == "__main__":
    typer.run(main)
