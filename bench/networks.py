"""Two small networks, one training step of each, and the check of every product in it.

A step is forward and backward and nothing else. It keeps what lies between its products, so that
each of them can be compared with a reference made from its own operands: an error gate for one
product holds there, and would not for a chain of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bench.candidates import fp32_precision
from bench.check import Check, check_result
from bench.data import poison

Linear = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]


@dataclass(frozen=True)
class Arithmetic:
    """A way to compute the products of a step."""

    name: str
    linear: Linear  # x [rows, in], weight [out, in], bias [out] or None -> [rows, out]
    precision: Callable[[], AbstractContextManager[None]]  # around forward and backward
    ours: bool = False
    tf32: bool = False


def tiled_arithmetic(precision: str | None = None) -> Arithmetic:
    """Ours. `precision` is that of float32; None for other dtypes."""
    import tiled_mm

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = tiled_mm.mm(x, weight.t())
        return y if bias is None else y + bias

    def setting() -> AbstractContextManager[None]:
        return tiled_mm.float32_precision(precision) if precision else contextlib.nullcontext()

    name = f"tiled.mm {precision}" if precision else "tiled.mm"
    return Arithmetic(name, linear, setting, ours=True, tf32=precision == "tf32")


def torch_arithmetic(name: str, precision: str = "ieee") -> Arithmetic:
    """torch.mm, or its linear layer where there is a bias, which it adds in the product's kernel.
    `precision` is torch's own setting: "ieee" or "tf32"."""

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return torch.mm(x, weight.t()) if bias is None else functional.linear(x, weight, bias)

    return Arithmetic(name, linear, lambda: fp32_precision(precision), tf32=precision == "tf32")


@dataclass(frozen=True)
class Network:
    """Linear layers of one width; an MLP if it has biases, with a GELU between its layers."""

    weights: tuple[Tensor, ...]  # each [width, width], [out, in]
    biases: tuple[Tensor, ...] = ()  # each [width]

    def copy(self) -> Network:
        """Leaves of their own, with the same values."""

        def leaves(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return tuple(t.detach().clone().requires_grad_() for t in tensors)

        return Network(leaves(self.weights), leaves(self.biases))


def make_network(
    layers: int, width: int, dtype: torch.dtype, generator: torch.Generator, *, mlp: bool
) -> Network:
    """Random, scaled so that no layer changes the size of what passes through."""

    def normal(*sizes: int, scale: float) -> Tensor:
        x = torch.randn(*sizes, generator=generator, device=generator.device) * scale
        return x.to(dtype).requires_grad_()

    scale = math.sqrt((2 if mlp else 1) / width)
    weights = tuple(normal(width, width, scale=scale) for _ in range(layers))
    biases = tuple(normal(width, scale=scale) for _ in range(layers if mlp else 0))
    return Network(weights, biases)


def forward(network: Network, linear: Linear, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs of every layer, each [rows, width]; the last output is the network's."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for i, weight in enumerate(network.weights):
        inputs.append(functional.gelu(x) if i and network.biases else x)
        x = linear(inputs[-1], weight, network.biases[i] if network.biases else None)
        outputs.append(x)
    return inputs, outputs


@dataclass(frozen=True)
class Step:
    """All that one step computed, one entry a layer."""

    inputs: Sequence[Tensor]  # [rows, width]; the first is the step's own
    outputs: Sequence[Tensor]  # [rows, width], the bias added
    input_grads: Sequence[Tensor | None]  # [rows, width]; the first None if not asked for
    output_grads: Sequence[Tensor]  # [rows, width]; the last is the step's own
    weight_grads: Sequence[Tensor]  # [out, in]
    bias_grads: Sequence[Tensor]  # [width], or empty

    def poison(self) -> None:
        """All of it but what the step was given."""
        computed = [*self.inputs[1:], *self.outputs, *self.input_grads, *self.output_grads[:-1]]
        for x in (*computed, *self.weight_grads, *self.bias_grads):
            if x is not None:
                poison(x)


def step(network: Network, linear: Linear, x: Tensor, upstream: Tensor) -> Step:
    """Forward from x [rows, width] and backward from `upstream` [rows, width], the gradient of the
    output. The gradient of x is computed if x requires one."""
    count = len(network.weights)
    inputs, outputs = forward(network, linear, x)
    asked = inputs if x.requires_grad else inputs[1:]
    wanted = (*asked, *outputs[:-1], *network.weights, *network.biases)
    found = list(torch.autograd.grad(outputs[-1], wanted, upstream))
    input_grads = [None] * (count - len(asked)) + found[: len(asked)]
    output_grads, found = found[len(asked) :][: count - 1], found[len(asked) + count - 1 :]
    return Step(
        [i.detach() for i in inputs],
        [o.detach() for o in outputs],
        input_grads,
        [*output_grads, upstream],
        found[:count],
        found[count:],
    )


def products(network: Network, done: Step) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(C, A, B) of every product of a step. A bias, which only fp32 has here, counts as one more
    term of the sum: adding it apart is a rounding more, of which the gate has many."""
    for i, leaf in enumerate(network.weights):
        weight, x, gradient = leaf.detach(), done.inputs[i], done.output_grads[i]
        a, b = x, weight.t()
        if network.biases:
            a = torch.cat([a, a.new_ones(len(a), 1)], 1)
            b = torch.cat([b, network.biases[i].detach()[None]])
        yield done.outputs[i], a, b
        if done.input_grads[i] is not None:
            yield done.input_grads[i], gradient, weight
        yield done.weight_grads[i], gradient.t(), x


def check_step(network: Network, done: Step, *, tensor_cores: bool, tf32: bool = False) -> Check:
    """The largest errors of all products of a step, and whether each of them passes."""
    checks = [
        check_result(c, a, b, tensor_cores=tensor_cores, tf32=tf32)
        for c, a, b in products(network, done)
    ]

    def largest(values: list[float]) -> float:  # max() may drop a NaN
        return math.nan if any(math.isnan(v) for v in values) else max(values)

    return Check(
        largest([c.frobenius for c in checks]),
        largest([c.componentwise for c in checks]),
        sum(c.nan_count for c in checks),
        all(c.ok for c in checks),
    )
