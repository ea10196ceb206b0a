"""The losses of one training run in several precisions: a network learns another, its teacher.

Every run begins from the same weights and sees the same data in the same order, so that the curves
differ by their products' rounding alone. How far apart two ways of rounding in fp32 drift is the
measure for the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bench.networks import (
    Arithmetic,
    Network,
    forward,
    make_network,
    tiled_arithmetic,
    torch_arithmetic,
)
from bench.runner import describe

Batch = tuple[Tensor, Tensor]  # x [rows, width] and the teacher's answer [rows, width]


@dataclass(frozen=True)
class Regression:
    """The task: mean squared distance from the teacher, by Adam."""

    rows: int = 4096  # of a batch
    width: int = 2048
    layers: int = 3
    batches: int = 10  # taken in turn
    steps: int = 200
    learning_rate: float = 3e-4
    seed: int = 20

    def to_json(self) -> dict:
        return asdict(self)


def arithmetics(device: torch.device) -> list[Arithmetic]:
    """What is compared; distances are from the first. A CPU has one arithmetic."""
    if device.type == "cpu":
        return [torch_arithmetic("torch fp32"), tiled_arithmetic("ieee")]
    return [
        torch_arithmetic("torch fp32"),
        torch_arithmetic("torch tf32", "tf32"),
        tiled_arithmetic("ieee"),
        tiled_arithmetic("fp16x3"),
    ]


def make_task(task: Regression, device: torch.device) -> tuple[Network, list[Batch]]:
    """The weights that all runs begin from, and all data; the teacher answers in torch's fp32."""
    generator = torch.Generator(device).manual_seed(task.seed)
    teacher, start = (
        make_network(task.layers, task.width, torch.float32, generator, mlp=True) for _ in range(2)
    )
    exact = torch_arithmetic("teacher")
    batches = []
    with torch.no_grad(), exact.precision():
        for _ in range(task.batches):
            x = torch.randn(task.rows, task.width, generator=generator, device=device)
            batches.append((x, forward(teacher, exact.linear, x)[1][-1]))
    return start, batches


def train(
    task: Regression, start: Network, batches: Sequence[Batch], arithmetic: Arithmetic
) -> list[float]:
    """The loss before each step; `start` is left as it is."""
    network = start.copy()
    optimizer = torch.optim.Adam([*network.weights, *network.biases], lr=task.learning_rate)
    losses = []
    with arithmetic.precision():
        for i in range(task.steps):
            x, y = batches[i % len(batches)]
            optimizer.zero_grad()
            loss = functional.mse_loss(forward(network, arithmetic.linear, x)[1][-1], y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).tolist()


def run_curves(task: Regression, device: torch.device) -> list[dict]:
    """One curve of each arithmetic. An error costs its own curve."""
    start, batches = make_task(task, device)
    curves = []
    for arithmetic in arithmetics(device):
        curve = {"name": arithmetic.name, "ours": arithmetic.ours, "error": None, "losses": []}
        try:
            losses = train(task, start, batches, arithmetic)
            finite = [math.isfinite(loss) for loss in losses]
            curve["losses"] = losses if all(finite) else losses[: finite.index(False)]
            if not all(finite):
                curve["error"] = f"the loss of step {finite.index(False) + 1} is not finite"
        except Exception as error:
            curve["error"] = describe(error)
        curves.append(curve)
    return curves
