"""A small GPT trained in fp8 beside bf16, and what a step takes: `python -m bench.fp8_training`.

loss  A byte-level model of the Python standard library's sources, trained from five seeds, each
      once with torch's bf16 products and once with `tiled_mm.convert(fp8=True)` in every block.
      Weights and optimizer are fp32, under autocast. The seed draws the weights and the order of
      the data; the loss is that of text which no run is trained on.
step  Forward, backward and AdamW of wide blocks, in turn: torch's bf16, the same under the
      override, and fp8.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import tiled_mm
import torch
import typer
from rich.console import Console
from torch import Tensor
from torch.nn import functional

from bench import cli
from bench.arguments import DeviceOption, DivideOption, FileOption, pick_device
from bench.fp8_training_table import TABLES
from bench.linears import medians, under_override
from bench.networks_in_parallel import GPT
from bench.timing import CpuStopwatch, CudaStopwatch

console = Console()

Work = Callable[[], object]
KINDS = ("bf16", "fp8")
BYTES = 256  # what a byte can be
TEXT_BYTES = 8_000_000  # of the sources, the first by name


@dataclass(frozen=True)
class Sizes:
    depth: int
    width: int
    heads: int
    sequences: int
    length: int

    def smaller(self, by: int) -> Sizes:
        """A small one, to try the program."""
        if by == 1:
            return self
        return replace(self, width=64, heads=2, sequences=2, length=max(16, self.length // by))


TRAINED = Sizes(depth=6, width=512, heads=8, sequences=32, length=256)
TIMED = Sizes(depth=2, width=4096, heads=32, sequences=8, length=1024)
RATE = 1e-3
WARM = 20  # steps in which the learning rate rises
EVERY = 50  # steps between two looks at the text that is kept apart
KEPT = 8  # batches of that


def sources() -> Tensor:
    """Bytes of the standard library's modules, joined by name."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = bytearray()
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("[a-z]*/*.py")):
        text += path.read_bytes()
        if len(text) >= TEXT_BYTES:
            break
    return torch.frombuffer(text[:TEXT_BYTES], dtype=torch.uint8)


def batch(text: Tensor, sizes: Sizes, generator: torch.Generator) -> Tensor:
    """[sequences, length + 1] pieces of the text that begin anywhere."""
    begins = torch.randint(
        len(text) - sizes.length, (sizes.sequences, 1), generator=generator, device=text.device
    )
    return text[begins + torch.arange(sizes.length + 1, device=text.device)].long()


def make_model(sizes: Sizes, kind: str, seed: int, device: torch.device) -> GPT:
    torch.manual_seed(seed)
    with device:
        model = GPT(sizes.depth, sizes.width, sizes.heads, BYTES)
    if kind == "fp8":
        tiled_mm.convert(model.blocks, fp8=True)
    return model


def loss_of(model: GPT, tokens: Tensor) -> Tensor:
    with torch.autocast(tokens.device.type, torch.bfloat16):
        logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def optimizer_of(model: GPT) -> torch.optim.AdamW:
    fused = next(model.parameters()).device.type == "cuda"
    return torch.optim.AdamW(model.parameters(), lr=RATE, fused=fused)


def train(text: Tensor, sizes: Sizes, kind: str, seed: int, steps: int) -> list[float]:
    """The loss of text that is kept apart, before the first step and then after every EVERY."""
    device = text.device
    model = make_model(sizes, kind, seed, device)
    optimizer = optimizer_of(model)
    shown, apart = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    same = torch.Generator(device).manual_seed(0)
    kept = [batch(apart, sizes, same) for _ in range(KEPT)]
    generator = torch.Generator(device).manual_seed(seed)

    @torch.no_grad()
    def look() -> Tensor:
        return torch.stack([loss_of(model, tokens) for tokens in kept]).mean()

    losses = [look()]
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARM)
        optimizer.zero_grad()
        loss_of(model, batch(shown, sizes, generator)).backward()
        optimizer.step()
        if (step + 1) % EVERY == 0 or step + 1 == steps:
            losses.append(look())
    return torch.stack(losses).tolist()


def step_of(sizes: Sizes, kind: str, device: torch.device) -> Work:
    model = make_model(sizes, kind, 0, device)
    optimizer = optimizer_of(model)
    generator = torch.Generator(device).manual_seed(0)
    tokens = torch.randint(
        BYTES, (sizes.sequences, sizes.length + 1), generator=generator, device=device
    )

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model, tokens).backward()
        optimizer.step()

    return step


def time_steps(sizes: Sizes, device: torch.device, budget: float) -> dict[str, float]:
    """Seconds of a step, by kind."""
    cuda = device.type == "cuda"
    stopwatch = CudaStopwatch(device, region_s=5e-3) if cuda else CpuStopwatch()
    bf16, fp8 = (step_of(sizes, kind, device) for kind in KINDS)
    works = {"torch": bf16, "tiled": under_override(bf16), "fp8": fp8}
    return medians(stopwatch, works, budget)


def main(
    device_name: DeviceOption = "auto",
    json_path: FileOption = None,
    steps: Annotated[int, typer.Option(min=1, help="of each run")] = 300,
    seeds: Annotated[int, typer.Option(min=1, help="how many")] = 5,
    divide: DivideOption = 1,
    budget: Annotated[float, typer.Option(help="seconds of rounds for the step")] = 2.0,
) -> None:
    """Trains in bf16 and in fp8, and times a step of both."""
    device = pick_device(device_name)
    trained, timed = (sizes.smaller(divide) for sizes in (TRAINED, TIMED))
    settings = {"trained": asdict(trained), "timed": asdict(timed), "steps": steps, "every": EVERY}
    document = cli.new_document("fp8_training", device, settings)
    found = document["fp8_training"] = {"runs": [], "step": {}}
    text = sources().to(device)
    runs = [(kind, seed) for seed in range(seeds) for kind in KINDS]
    random.Random(0).shuffle(runs)  # no kind always meets the warmer chip
    for kind, seed in runs:
        losses = train(text, trained, kind, seed, steps)
        found["runs"].append({"kind": kind, "seed": seed, "losses": losses})
        console.print(f"{kind} seed {seed}: {losses[-1]:.4f}", highlight=False)
    cli.keep(document, json_path)
    found["step"] = time_steps(timed, device, budget)
    cli.keep(document, json_path)
    for table in TABLES.values():
        console.print(table([document]), highlight=False, markup=False)


if __name__ == "__main__":
    typer.run(main)
