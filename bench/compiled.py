"""Compiled models whose rows keep their bits: `python -m bench.compiled --json FILE`.

rows      logits of one sequence in batches beside those of it alone, compiled with each setting
kernels   of the settings under which rows change, the first Triton kernel that changes them, with
          its block in either batch
speed     a prompt, decoding call after call and in a CUDA graph, and a training step, compiled with
          these options, beside torch's products with the same options and with Inductor's own

Small models of transformers with random bf16 weights, on a GPU.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional

from bench import cli
from bench.arguments import DeviceOption, FileOption, chosen_parts, pick_device
from bench.linears import medians, under_override
from bench.timing import CudaStopwatch

console = Console()

BATCHES = (1, 2, 7, 16, 64)
LENGTH = 96
NAMES = ("llama", "gpt2", "qwen3")
PARTS = ("rows", "kernels", "speed")


def make_model(name: str, device: torch.device, layers: int = 2, wide: int = 1024) -> nn.Module:
    import transformers

    heads = dict(num_attention_heads=wide // 128, num_key_value_heads=wide // 256 or 1)
    sizes = dict(hidden_size=wide, intermediate_size=wide * 43 // 16, vocab_size=4000)
    config = {
        "llama": lambda: transformers.LlamaConfig(num_hidden_layers=layers, **sizes, **heads),
        "qwen3": lambda: transformers.Qwen3Config(
            num_hidden_layers=layers, head_dim=128, **sizes, **heads
        ),
        "gpt2": lambda: transformers.GPT2Config(
            n_layer=layers, n_embd=wide * 3 // 4, n_head=wide // 128, vocab_size=4000
        ),
    }[name]()
    torch.manual_seed(20)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(torch.bfloat16).eval()


def logits_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda tokens: model(tokens, use_cache=False).logits


def settings() -> dict[str, tuple[dict[str, Any] | None, dict[str, Any]]]:
    """{name: (options, further arguments of torch.compile)}; the first two are run in all batches
    and models, the others show which of the options is needed."""
    import tiled_mm

    ours = tiled_mm.inductor_options()
    left_out = {
        "inductor_choices_class": "without the blocks of reductions",
        "emulate_precision_casts": "without the roundings between operators",
        "pattern_matcher": "with patterns",
        "split_reductions": "with split reductions",
        "triton.mix_order_reduction": "with mixed orders of reductions",
        "eager_numerics.division_rounding": "without rounded divisions",
    }
    found: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
        "these options": (ours, {"dynamic": False}),
        "Inductor's own": (None, {"dynamic": False}),
        "these, dynamic shapes": (ours, {"dynamic": True}),
        "only the blocks of reductions": (
            {k: ours[k] for k in ("inductor_choices_class", "split_reductions")},
            {"dynamic": False},
        ),
    }
    for key, name in left_out.items():
        if key in ours:
            less = {k: v for k, v in ours.items() if k != key}
            found[name] = (less, {"dynamic": False})
    return found


class Kernels:
    """What each Triton kernel of a run wrote for the first row, in the order of their launches."""

    def __init__(self, batch: int) -> None:
        self.batch, self.seen = batch, []

    def __enter__(self) -> Kernels:
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        self.owner, self.run = CachingAutotuner, CachingAutotuner.run
        kernels = self

        def run(autotuner: Any, *args: Any, **kwargs: Any) -> Any:
            result = kernels.run(autotuner, *args, **kwargs)
            kernels.note(autotuner, args)
            return result

        CachingAutotuner.run = run
        return self

    def __exit__(self, *_: object) -> None:
        self.owner.run = self.run

    def note(self, autotuner: Any, args: tuple) -> None:
        names = autotuner.fn.arg_names
        rows = [
            x.detach().as_strided((x.numel() // self.batch,), (1,)).clone()
            for name, x in zip(names, args, strict=False)
            if isinstance(x, Tensor)
            and name.startswith(("out_ptr", "in_out_ptr"))
            and x.numel() % self.batch == 0
        ]
        launchers = getattr(autotuner, "launchers", [])
        config = str(launchers[0].config) if launchers else ""
        self.seen.append((autotuner.fn.__name__, config, rows))


def same(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.equal(x, y)


def run_once(compiled: Callable, tokens: Tensor) -> Tensor:
    with torch.inference_mode(), contextlib.ExitStack() as stack:
        import tiled_mm

        stack.enter_context(tiled_mm.override())
        return compiled(tokens)


def rows_of(name: str, model: nn.Module, parts: tuple[str, ...]) -> Iterator[dict]:
    tokens = torch.randint(4000, (max(BATCHES), LENGTH), device=next(model.parameters()).device)
    call = logits_of(model)
    for count, (setting, (options, more)) in enumerate(settings().items()):
        if count > 2 and name != "llama":
            continue
        batches = BATCHES if count < 3 else (1, 2, 64)
        torch._dynamo.reset()
        compiled = torch.compile(call, options=options, **more)
        alone, first, eager, began = None, None, None, time.monotonic()
        for batch in batches:
            run_once(compiled, tokens[:batch])  # compiles and tunes
            with Kernels(batch) as kernels:
                y = run_once(compiled, tokens[:batch])[0]
            if alone is None:
                alone, first = y, kernels
                eager = int((y != run_once(call, tokens[:1])[0]).sum())
            differ = int((y != alone).sum())
            row = {
                "model": name, "setting": setting, "batch": batch, "differ": differ,
                "of": y.numel(), "largest": float((y.float() - alone.float()).abs().max()),
                "eager": eager, "kernels": len(kernels.seen),
                "seconds": time.monotonic() - began,
            }  # fmt: skip
            if "kernels" in parts and differ:
                row["first"] = first_difference(first, kernels)
            yield row


def first_difference(alone: Kernels, beside: Kernels) -> str:
    """The first kernel whose first row has other bits. Where the two programs have other kernels,
    that is what is told."""
    for i, (one, other) in enumerate(zip(alone.seen, beside.seen, strict=False)):
        if one[0] != other[0]:
            return f"kernel {i}: {one[0]} alone, {other[0]} in the batch"
        pairs = zip(one[2], other[2], strict=False)
        if len(one[2]) != len(other[2]) or not all(same(x, y) for x, y in pairs):
            return f"kernel {i}, {one[0]}: [{one[1]}] alone, [{other[1]}] in the batch"
    return f"none of {len(alone.seen)} and {len(beside.seen)} kernels"


# ---- speed ---------------------------------------------------------------------------------------


def training_step(model: nn.Module, compiled: Callable, tokens: Tensor) -> Callable[[], object]:
    def step() -> None:
        logits = compiled(tokens)
        loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        torch.autograd.grad(loss, list(model.parameters()))

    return step


def speed(name: str, device: torch.device, stopwatch: CudaStopwatch) -> Iterator[dict]:
    """Candidates: 'tiled' under the override with these options, 'torch' with the same options, and
    'default' with torch's products and Inductor's own options."""
    import tiled_mm

    model = make_model(name, device, layers=4, wide=4096 if name == "llama" else 2048)
    call, ours = logits_of(model), tiled_mm.inductor_options()
    for what, rows, length in (("prompt", 4, 1024), ("decode", 16, 1), ("training step", 4, 512)):
        tokens = torch.randint(4000, (rows, length), device=device)
        works: dict[str, Callable[[], object]] = {}
        torch._dynamo.reset()  # once: it forgets what the other candidate has compiled
        for candidate, options in (("torch", ours), ("default", None)):
            compiled = torch.compile(call, options=options, dynamic=False)
            if what == "training step":
                work = training_step(model, compiled, tokens)
            else:

                def work(compiled: Callable = compiled, tokens: Tensor = tokens) -> object:
                    with torch.inference_mode():
                        return compiled(tokens)

            work()
            works[candidate] = work
            if candidate == "torch":
                works["tiled"] = under_override(work)
        row = {"model": name, "what": what, "tokens": rows * length}
        yield row | {"seconds": medians(stopwatch, works)}
        if what == "decode":
            seconds = medians(stopwatch, works, captured=True)
            yield row | {"what": "decode in a graph", "seconds": seconds}


def main(
    json_path: FileOption = None,
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PARTS)}")] = None,
    models: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(NAMES)}")] = None,
    device_name: DeviceOption = "auto",
) -> None:
    """Compares compiled models' rows, and times them."""
    device = pick_device(device_name)
    parts = chosen_parts(only, PARTS)
    document = cli.new_document("compiled", device, {"parts": list(parts)})
    found = document["models"] = {}
    torch._dynamo.config.cache_size_limit = 64
    for name in models or NAMES:
        if "rows" in parts or "kernels" in parts:
            model = make_model(name, device)
            for row in rows_of(name, model, parts):
                found.setdefault("compiled-rows", []).append(row)
                said = "equal" if row["differ"] == 0 else f"{row['differ']} of {row['of']} differ"
                console.print(
                    f"{name}, {row['setting']}, batch {row['batch']}: {said} by "
                    f"{row['largest']:.3g} ({row['eager']} differ from eager; "
                    f"{row['kernels']} kernels, {row['seconds']:.0f} s) {row.get('first', '')}",
                    highlight=False, markup=False, soft_wrap=True,
                )  # fmt: skip
                cli.keep(document, json_path)
            del model
            gc.collect()
        if "speed" in parts and device.type == "cuda":
            for row in speed(name, device, CudaStopwatch(device, region_s=2e-3)):
                found.setdefault("compiled-speed", []).append(row)
                console.print(row, highlight=False, markup=False)
                cli.keep(document, json_path)


if __name__ == "__main__":
    typer.run(main)
