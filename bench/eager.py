"""What the override costs an eager program: `python -m bench.eager --json FILE`.

calls     host time of a small mm, addmm, linear, bmm and grouped_mm: medians of 1,000 calls
decode    wall time of one eager step of 16 sequences of one token, of models of transformers with
          random bf16 weights, four layers, no graph
prompt    the same of 4 sequences of 1,024 tokens
training  the same of 2 sequences of 1,024 tokens, with the gradients of all parameters

Two processes take turns: one in which no override was ever registered, and one that is under it all
the time. So torch's figure is torch's alone.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Annotated

import torch
import typer
from rich.console import Console

from bench import cli
from bench.arguments import DeviceOption, FileOption, SmallOption, chosen_parts, pick_device

console = Console()

TURNS, CALLS, STEPS = 20, 50, 5  # 1,000 calls, 100 steps
STEP_PARTS = ("decode", "prompt", "training")
PARTS = ("calls", *STEP_PARTS)
CALLED = ("mm", "addmm", "linear", "bmm", "grouped_mm")
MODELS = ("llama", "gpt2", "qwen3", "mixtral", "qwen3_moe")
ROWS = 16
LENGTH = 1024  # of a prompt's sequences, and of a training step's

Work = Callable[[], object]


def small_calls(device: torch.device) -> dict[str, Work]:
    a, b, bias = (torch.randn(*s, device=device) for s in ((16, 16), (16, 16), (16,)))
    stack = torch.randn(4, 16, 16, device=device)
    rows, weights = a.bfloat16(), stack.bfloat16()
    ends = torch.tensor([3, 3, 9, 16], dtype=torch.int32, device=device)
    return {
        "mm": lambda: torch.mm(a, b),
        "addmm": lambda: torch.addmm(bias, a, b),
        "linear": lambda: torch.nn.functional.linear(a, b, bias),
        "bmm": lambda: torch.bmm(stack, stack),
        "grouped_mm": lambda: torch.nn.functional.grouped_mm(rows, weights, offs=ends),
    }


def model_of(name: str, device: torch.device, small: bool) -> torch.nn.Module:
    import transformers as t

    wide = 128 if small else 2048
    sizes = dict(
        hidden_size=wide, intermediate_size=wide * 43 // 16, num_hidden_layers=4, vocab_size=4000,
        num_attention_heads=wide // 128, num_key_value_heads=max(1, wide // 512),
    )  # fmt: skip
    experts = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=wide // 2)
    config = {
        "llama": lambda: t.LlamaConfig(**sizes),
        "gpt2": lambda: t.GPT2Config(n_layer=4, n_embd=wide, n_head=wide // 64, vocab_size=4000),
        "qwen3": lambda: t.Qwen3Config(**sizes, head_dim=128),
        "mixtral": lambda: t.MixtralConfig(**sizes, num_local_experts=8),
        "qwen3_moe": lambda: t.Qwen3MoeConfig(**sizes, head_dim=128, **experts),
    }[name]()
    torch.manual_seed(20)
    with device:
        return t.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()


def decode_step(name: str, device: torch.device, small: bool) -> Work:
    """One token of each sequence, behind a prompt of 16."""
    model = model_of(name, device, small)
    prompt = torch.randint(4000, (ROWS, 16), device=device)
    token = torch.randint(4000, (ROWS, 1), device=device)
    with torch.inference_mode():
        cache = model(prompt, use_cache=True).past_key_values

    def step() -> object:
        with torch.inference_mode():
            logits = model(token, past_key_values=cache, use_cache=True).logits
            cache.crop(-1)  # the token goes again
            return logits

    return step


def prompt(name: str, device: torch.device, small: bool) -> Work:
    model = model_of(name, device, small)
    tokens = torch.randint(4000, (4, 16 if small else LENGTH), device=device)

    def step() -> object:
        with torch.inference_mode():
            return model(tokens, use_cache=False).logits

    return step


def training_step(name: str, device: torch.device, small: bool) -> Work:
    model = model_of(name, device, small)
    tokens = torch.randint(4000, (2, 16 if small else LENGTH), device=device)

    def step() -> object:
        logits = model(tokens, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()
        )
        return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    return step


STEPS_OF = dict(zip(STEP_PARTS, (decode_step, prompt, training_step), strict=True))


def worker(pipe: Connection, overridden: bool, device_name: str, small: bool) -> None:
    """Answers (part, name, count) with the seconds of each call."""
    device = torch.device(device_name)
    if overridden:
        import tiled_mm

        tiled_mm.enable_override(device.type)
    works: dict[tuple[str, str], Work] = {}

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    while (asked := pipe.recv()) is not None:
        kind, name, count = asked
        if (kind, name) not in works:
            works.clear()
            if kind == "calls":
                made = small_calls(device)[name]
            else:
                made = STEPS_OF[kind](name, device, small)
            works[kind, name] = made
            for _ in range(3 if kind in ("prompt", "training") else 10):
                made()
        work, seconds = works[kind, name], []
        wait()
        for _ in range(count):
            begin = time.perf_counter()
            work()
            if kind != "calls":
                wait()
            seconds.append(time.perf_counter() - begin)
        pipe.send(seconds)


def in_turn(pipes: dict[str, Connection], kind: str, name: str, count: int) -> dict[str, float]:
    found: dict[str, list[float]] = {who: [] for who in pipes}
    rng = random.Random(7)
    for turn in range(TURNS + 1):
        order = list(pipes)
        rng.shuffle(order)
        for who in order:
            pipes[who].send((kind, name, count))
            seconds = pipes[who].recv()
            if turn:  # the first is for warming up
                found[who] += seconds
    return {who: statistics.median(seconds) for who, seconds in found.items()}


def main(
    json_path: FileOption = None,
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PARTS)}")] = None,
    models: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(MODELS)}")] = None,
    device_name: DeviceOption = "auto",
    small: SmallOption = False,
) -> None:
    """Times eager calls and steps under the override beside torch's."""
    device = pick_device(device_name)
    parts = chosen_parts(only, PARTS)
    document = cli.new_document("eager", device, {"parts": list(parts), "small": small})
    found = document["models"] = {}
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for who in ("torch", "tiled"):
        pipes[who], theirs = context.Pipe()
        arguments = (theirs, who == "tiled", str(device), small)
        processes.append(context.Process(target=worker, args=arguments, daemon=True))
        processes[-1].start()
    for kind in parts:
        for name in CALLED if kind == "calls" else (models or MODELS):
            seconds = in_turn(pipes, kind, name, CALLS if kind == "calls" else STEPS)
            row = {"what": name, "grad": False, "seconds": seconds}
            found.setdefault(f"eager-{kind}", []).append(row)
            ratio = seconds["torch"] / seconds["tiled"]
            console.print(
                f"{kind} {name}: torch's time / ours {ratio:.3f}, ours "
                f"{1e6 * seconds['tiled']:.2f} us, torch's {1e6 * seconds['torch']:.2f} us",
                highlight=False, markup=False,
            )  # fmt: skip
            cli.keep(document, json_path)
    for pipe in pipes.values():
        pipe.send(None)
    for process in processes:
        process.join()


if __name__ == "__main__":
    typer.run(main)
