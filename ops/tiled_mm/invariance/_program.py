"""A program that is run with several batches of the same rows."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._calls import tensors_of

#: Random numbers and cotangents begin from here in every run.
SEED = 4936


class Program:
    """``model(*inputs)`` for the first ``batch`` of its rows, each run from the same state.

    A tensor among the inputs whose axis ``batch_dim`` is as long as the first tensor's has rows;
    they are taken in turn where more are needed. All else is handed on as it is.
    """

    def __init__(self, model: Callable, inputs: tuple, batch_dim: int, backward: bool) -> None:
        self.model, self.backward = model, backward
        self.leaves, self.spec = tree_flatten(inputs)
        first = next((x for x in self.leaves if isinstance(x, Tensor)), None)
        if first is None:
            raise ValueError("tiled_mm: check_invariance needs a tensor among the inputs")
        if not -first.dim() <= batch_dim < first.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-first.dim()}, "
                f"{first.dim() - 1}], but got {batch_dim})"
            )
        self.axis = batch_dim % first.dim()
        self.given = first.shape[self.axis]
        if self.given == 0:
            raise ValueError("tiled_mm: check_invariance needs inputs of at least one row")
        self.device = first.device
        self.module = model if isinstance(model, torch.nn.Module) else None
        self.buffers: list[tuple[Tensor, Tensor]] = []
        if self.module is not None:
            self.buffers = [(b, b.detach().clone()) for b in self.module.buffers()]

    def has_rows(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dim() > self.axis and x.shape[self.axis] == self.given

    def inputs(self, batch: int, turn: int = 0) -> tuple:
        """The first ``batch`` rows, in memory of their own; the first ``turn`` of them last."""

        def rows_of(x: Any) -> Any:
            if not self.has_rows(x):
                return copy.copy(x) if not isinstance(x, Tensor) else x
            at = (torch.arange(batch, device=x.device) + turn) % batch % self.given
            rows = x.detach().index_select(self.axis, at)
            return rows.requires_grad_(self.backward and rows.is_floating_point())

        return tree_unflatten([rows_of(x) for x in self.leaves], self.spec)

    @contextlib.contextmanager
    def from_the_start(self) -> Iterator[None]:
        """Random numbers and the model's buffers as at the first run; afterwards as before."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(SEED)
            with torch.no_grad():
                for buffer, value in self.buffers:
                    buffer.copy_(value)
            try:
                yield
            finally:
                with torch.no_grad():
                    for buffer, value in self.buffers:
                        buffer.copy_(value)

    def run(
        self, batch: int, around: contextlib.AbstractContextManager | None = None, turn: int = 0
    ) -> dict[str, Tensor]:
        """{name: tensor} of what the program gives: 'output', and with a backward 'gradient of
        input 0' and 'gradient of weight NAME'. ``around`` is entered for it alone."""
        inputs = self.inputs(batch, turn)
        around = around or contextlib.nullcontext()
        with self.from_the_start(), torch.set_grad_enabled(self.backward), around:
            with warnings.catch_warnings():  # torch.compile minds hooks that see every module
                warnings.filterwarnings(
                    "ignore", "Using `torch.compile\\(module\\)` when there are"
                )
                outputs = named_outputs(self.model(*inputs))
            found = dict(outputs)
            if self.backward:
                found |= self._gradients(outputs, inputs)
        return {name: x.detach() for name, x in found.items()}

    def _gradients(self, outputs: dict[str, Tensor], inputs: tuple) -> dict[str, Tensor]:
        differentiable = [y for y in outputs.values() if y.requires_grad]
        if not differentiable:
            raise ValueError("tiled_mm: no output of the program requires a gradient")
        wanted = {
            f"gradient of input {i}": x
            for i, x in enumerate(tensors_of(inputs))
            if x.requires_grad and self.has_input_rows(x)
        }
        if self.module is not None:
            named = self.module.named_parameters()
            wanted |= {f"gradient of weight {n}": p for n, p in named if p.requires_grad}
        cotangents = [cotangent(y) for y in differentiable]
        gradients = torch.autograd.grad(
            differentiable, list(wanted.values()), cotangents, allow_unused=True
        )
        return {n: g for n, g in zip(wanted, gradients, strict=True) if g is not None}

    def has_input_rows(self, x: Tensor) -> bool:
        return x.is_leaf and x.is_floating_point()


def cotangent(y: Tensor) -> Tensor:
    """Numbers that depend on an element's place in its row alone: every row has the same."""
    if y.dim() < 2:
        return torch.ones_like(y)
    steps = torch.arange(y[0].numel(), device=y.device, dtype=torch.float64).view(y.shape[1:])
    row = (steps * 0.6180339887498949).frac() - 0.5
    return row.to(y.dtype).expand_as(y)


def named_outputs(result: Any) -> dict[str, Tensor]:
    """The tensors of a result, by their place in it. Of a result with logits (transformers) those
    alone: what is beside them is kept for the next call."""
    logits = getattr(result, "logits", None)
    found = tensors_of(result if logits is None else logits)
    if not found:
        raise ValueError("tiled_mm: the program returns no tensor")
    return {"output" if len(found) == 1 else f"output {i}": y for i, y in enumerate(found)}
