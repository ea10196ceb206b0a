"""python -m tiled_mm check --model FOLDER: whether a model's logits change with the batch, and why.

The model is any causal language model that transformers loads from a folder. Ends with 1 where rows
change, and with 2 where the model cannot be loaded.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from .._override import override
from ._check import BATCHES, check_invariance

DTYPES = ("float32", "float16", "bfloat16", "float64")


class Logits(nn.Module):
    """Tokens [B, S] to logits, without a cache of keys."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, use_cache=False).logits


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m tiled_mm check",
        description="Says whether a model's logits change with the batch, and which operator "
        "changes them.",
    )
    p.add_argument("--model", metavar="FOLDER", required=True, help="a model of transformers")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--dtype", choices=DTYPES, help="default: bfloat16 on a GPU, else float32")
    p.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), metavar="B")
    p.add_argument("--length", type=int, default=32, help="tokens of each sequence (32)")
    p.add_argument("--attention", help="transformers' attn_implementation: eager, sdpa, ...")
    p.add_argument("--torch", action="store_true", help="with torch's own products: no override")
    p.add_argument("--backward", action="store_true", help="gradients too")
    p.add_argument("--columns", action="store_true", help="columns of products too")
    p.add_argument("--compile", action="store_true", help="by torch.compile, with our options")
    p.add_argument("--json", metavar="FILE", type=Path, help="write the report there too")
    return p


def load(folder: str, dtype: torch.dtype, attention: str | None) -> nn.Module:
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        raise OSError("--model needs transformers: pip install transformers") from None
    if not Path(folder).is_dir():
        raise OSError(f"there is no folder {folder}")
    more = {"attn_implementation": attention} if attention else {}
    return AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype, **more).eval()


def main(arguments: list[str]) -> int:
    """The command; its exit code is returned."""
    options = parser().parse_args(arguments)
    on_gpu = torch.device(options.device).type == "cuda"
    dtype = getattr(torch, options.dtype or ("bfloat16" if on_gpu else "float32"))
    try:
        model = load(options.model, dtype, options.attention).to(options.device)
    except (OSError, ValueError) as error:
        print(f"tiled_mm check: {error}", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    vocabulary = model.config.get_text_config().vocab_size
    tokens = torch.randint(vocabulary, (max(options.batches), options.length))
    program: nn.Module = Logits(model)
    if options.compile:
        from .._inductor import inductor_options

        program = torch.compile(program, options=inductor_options())
    with nullcontext() if options.torch else override():
        report = check_invariance(
            program, tokens.to(options.device), batches=options.batches,
            backward=options.backward, columns=options.columns,
        )  # fmt: skip
    whose = "torch's products" if options.torch else "tiled_mm.override()"
    print(f"{options.model}: {dtype}, {options.device}, {options.length} tokens, {whose}\n")
    print(report.table())
    if options.json:
        options.json.write_text(report.json() + "\n")
    return 0 if report.invariant else 1
