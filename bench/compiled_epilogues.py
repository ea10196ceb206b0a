"""What epilogues gain in compiled layers: `python -m bench.compiled_epilogues --json FILE`.

A perceptron in bf16, 4096 - 14336 - 4096, compiled: forward, and loss and gradients. In turn

torch         torch's products, Inductor's own options
max-autotune  the same with its Triton products chosen by time, which have epilogues of their own
tiled         under the override, with tiled_mm.inductor_options()
epilogues     the same with epilogues=True: a linear layer and its activation in one call
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import typer
from rich.console import Console
from torch import Tensor, nn

from bench import cli
from bench.arguments import DeviceOption, FileOption, SmallOption, pick_device
from bench.linears import medians, under_override
from bench.timing import CpuStopwatch, CudaStopwatch, Stopwatch

console = Console()

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}
TOKENS = (8192, 64)
OURS = ("tiled", "epilogues")

Work = Callable[[], object]


def settings() -> dict[str, dict]:
    """What each candidate gives to torch.compile."""
    import tiled_mm

    return {
        "torch": {},
        "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
        "tiled": {"options": tiled_mm.inductor_options()},
        "epilogues": {"options": tiled_mm.inductor_options(epilogues=True)},
    }


def works_of(net: nn.Module, x: Tensor, *, gradients: bool) -> dict[str, Work]:
    torch._dynamo.reset()  # once: it forgets what the others have compiled

    def made(more: dict, *, ours: bool) -> Work:
        compiled = torch.compile(net, dynamic=False, **more)

        def work() -> object:
            if not gradients:
                with torch.no_grad():
                    return compiled(x)
            return torch.autograd.grad(compiled(x).sum(), list(net.parameters()))

        work = under_override(work) if ours else work
        work()  # compiles, and chooses by time
        return work

    return {name: made(more, ours=name in OURS) for name, more in settings().items()}


def rows(device: torch.device, stopwatch: Stopwatch, *, small: bool) -> Iterator[dict]:
    width, hidden = (32, 64) if small else (4096, 14336)
    kind = {"device": device, "dtype": torch.bfloat16}
    for name, activation in ACTIVATIONS.items():
        torch.manual_seed(4)
        net = nn.Sequential(
            nn.Linear(width, hidden, **kind), activation(), nn.Linear(hidden, width, **kind)
        )
        for tokens in (16,) if small else TOKENS:
            x = torch.randn(tokens, width, **kind)
            for what, gradients in (("forward", False), ("loss and gradients", True)):
                seconds = medians(stopwatch, works_of(net, x, gradients=gradients))
                yield {"model": name, "what": what, "tokens": tokens, "seconds": seconds}


def main(
    json_path: FileOption = None,
    device_name: DeviceOption = "auto",
    small: SmallOption = False,
) -> None:
    """Times compiled perceptrons with and without epilogues."""
    device = pick_device(device_name)
    stopwatch = CudaStopwatch(device, region_s=2e-3) if device.type == "cuda" else CpuStopwatch()
    document = cli.new_document("compiled_epilogues", device, {"small": small})
    found = document["models"] = {"compiled-epilogues": []}
    for row in rows(device, stopwatch, small=small):
        found["compiled-epilogues"].append(row)
        console.print(row, highlight=False, markup=False)
        cli.keep(document, json_path)


if __name__ == "__main__":
    typer.run(main)
