"""Whole models with the library's products, beside torch's: `python -m bench.models --json FILE`.

bits    a sequence's logits in batches, beside those of it alone
speed   models of transformers, unchanged, under tiled_mm.override(): a prompt, decoding call after
        call and in a CUDA graph, a training step; and an MLP's few rows
linear  a linear layer with its activation, forward, and backward too
host    host time of one small call
cpu     a linear layer on the CPU in 16 bits

Candidates take turns in an order shuffled every round. Models have random weights. Parts that need
transformers are left out, with a line, where it is missing.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor
from torch.nn import functional

from bench import cli
from bench.arguments import DeviceOption, FileOption, SmallOption, chosen_parts, pick_device
from bench.linears import Work, both, cpu_linears, host_times, linears, tiled
from bench.timing import CpuStopwatch, CudaStopwatch, Stopwatch

console = Console()

BATCHES = (2, 7, 16, 64)
DECODED = (1, 8, 16, 64)  # sequences
MLP_ROWS = (1, 2, 4, 8, 16, 32, 64)
PROMPT = 8192  # tokens
CACHE = 1024  # positions of a decoding step's keys and values
NAMES = ("llama", "gpt2")
SMALL_GPT2 = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000}


def make_model(name: str, device: torch.device, *, small: bool) -> torch.nn.Module:
    """Of four layers 4,096 wide, or GPT-2's own sizes; bf16."""
    import transformers

    if name == "llama":
        wide = 128 if small else 4096
        config = transformers.LlamaConfig(
            hidden_size=wide, intermediate_size=wide * 43 // 16, num_hidden_layers=4,
            num_attention_heads=wide // 128, num_key_value_heads=wide // 128,
            vocab_size=1000 if small else 32000, max_position_embeddings=PROMPT,
        )  # fmt: skip
    else:
        config = transformers.GPT2Config(**SMALL_GPT2 if small else {})
    torch.manual_seed(20)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(torch.bfloat16).eval()


def tokens_for(model: torch.nn.Module, rows: int, length: int) -> Tensor:
    device = next(model.parameters()).device
    return torch.randint(model.config.vocab_size, (rows, length), device=device)


def bits(model: torch.nn.Module, name: str) -> Iterator[dict]:
    tokens = tokens_for(model, max(BATCHES), 96)
    for arithmetic, around in (("torch", contextlib.nullcontext), ("tiled", tiled)):
        with torch.inference_mode(), around():
            alone = model(tokens[:1]).logits[0]
            for batch in BATCHES:
                beside = model(tokens[:batch]).logits[0]
                differ = int((beside != alone).sum())
                largest = float((beside.float() - alone.float()).abs().max())
                yield {"model": name, "arithmetic": arithmetic, "batch": batch} | {
                    "differ": differ, "largest": largest, "of": alone.numel(),
                }  # fmt: skip


def decoding_step(model: torch.nn.Module, rows: int) -> Work:
    """One token of each sequence, at the end of a cache of full length: nothing but tensors, so
    that a graph can hold it."""
    import transformers

    device, dtype = next(model.parameters()).device, torch.bfloat16
    cache = transformers.StaticCache(
        config=model.config, max_cache_len=CACHE, max_batch_size=rows, device=device, dtype=dtype
    )
    last = torch.tensor([CACHE - 1], device=device)
    mask = torch.zeros(rows, 1, 1, CACHE, dtype=dtype, device=device)
    token = tokens_for(model, rows, 1)

    def step() -> Tensor:
        with torch.inference_mode():
            return model(
                token, past_key_values=cache, cache_position=last, attention_mask=mask,
                position_ids=last.expand(rows, 1), use_cache=True,
            ).logits  # fmt: skip

    return step


def training_step(model: torch.nn.Module, tokens: Tensor) -> Work:
    def step() -> None:
        logits = model(tokens).logits
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        torch.autograd.grad(loss, list(model.parameters()))

    return step


def speed(stopwatch: Stopwatch, model: torch.nn.Module, name: str, *, small: bool) -> Iterator:
    positions = 1024 if name == "gpt2" else PROMPT
    tokens = tokens_for(model, PROMPT // positions, positions)
    if small:
        tokens = tokens[:1, :32]

    def prompt() -> Tensor:
        with torch.inference_mode():
            return model(tokens).logits

    def timed(what: str, count: int, work: Work, *, captured: bool = False) -> dict:
        place = {"model": name, "what": what, "tokens": count}
        return place | {"seconds": both(stopwatch, work, captured=captured)}

    yield timed("prompt", tokens.numel(), prompt)
    for rows in DECODED if name == "llama" else ():
        step = decoding_step(model, rows)
        yield timed("decode", rows, step)
        if tokens.is_cuda:
            yield timed("decode in a graph", rows, step, captured=True)
    yield timed("training step", tokens.numel(), training_step(model, tokens))


def mlp(stopwatch: Stopwatch, device: torch.device, *, small: bool) -> Iterator[dict]:
    """Llama's: down(silu(gate(x)) * up(x)). Its weights are more than four times the L2 cache."""
    width, hidden = (64, 172) if small else (4096, 11008)
    gate, up, down = (
        torch.randn(*sizes, device=device, dtype=torch.bfloat16) / width**0.5
        for sizes in ((hidden, width), (hidden, width), (width, hidden))
    )
    for rows in MLP_ROWS:
        x = torch.randn(rows, width, device=device, dtype=torch.bfloat16)

        def work(x: Tensor = x) -> Tensor:
            y = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
            return functional.linear(y, down)

        with torch.inference_mode():
            seconds = both(stopwatch, work, 0.1)
        yield {"model": "mlp", "what": "mlp", "tokens": rows, "seconds": seconds}


PARTS = ("host", "bits", "speed", "linear", "cpu")


def main(
    json_path: FileOption = None,
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PARTS)}")] = None,
    device_name: DeviceOption = "auto",
    small: SmallOption = False,
) -> None:
    """Measures models on this device."""
    device = pick_device(device_name)
    parts = chosen_parts(only, PARTS)
    document = cli.new_document("models", device, {"parts": list(parts), "small": small})
    found = document["models"] = {}
    begin = time.monotonic()

    def keep(part: str, rows: Iterator[dict]) -> None:
        for row in rows:
            found.setdefault(part, []).append(row)
            cli.keep(document, json_path)
        console.print(f"{part}: {time.monotonic() - begin:.0f} s since the begin")

    if "host" in parts:
        keep("host", host_times(device))
    stopwatch = CpuStopwatch() if device.type == "cpu" else CudaStopwatch(device, region_s=2e-3)
    if "bits" in parts or "speed" in parts:
        for name in NAMES if has_transformers() else ():
            model = make_model(name, device, small=small)
            if "bits" in parts:
                keep("bits", bits(model, name))
            if "speed" in parts:
                keep("speed", speed(stopwatch, model, name, small=small))
            del model
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    if "speed" in parts:
        keep("speed", mlp(stopwatch, device, small=small))
    if "linear" in parts:
        keep("linear", linears(stopwatch, device, small=small))
    if "cpu" in parts:
        keep("cpu", cpu_linears())
    from bench.models_table import TABLES

    for name, table in TABLES.items():
        console.print(f"\n{name}\n{table([document])}", highlight=False, markup=False)


def has_transformers() -> bool:
    try:
        import transformers  # noqa: F401
    except ImportError:
        console.print("transformers is not installed: its models are left out")
        return False
    return True


if __name__ == "__main__":
    typer.run(main)
