"""Does an answer change with the batch that it is computed in?

    python examples/serve_invariant.py                      a small Llama with random weights
    python examples/serve_invariant.py --model FOLDER       a model of transformers
    python examples/serve_invariant.py --device cuda --dtype bfloat16

One prompt goes through the model alone, and as the first of batches of 2 to 64. The logits are
compared bit for bit, once with torch's own products and once under tiled_mm.override(). Ends with 1
where the override's bits change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import tiled_mm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

Logits = Callable[[Tensor], Tensor]  # [B, S] tokens -> [B, S, vocabulary]


class Block(nn.Module):
    """Attention and a gated MLP, each behind a norm, as Llama has them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        hidden = 8 * width // 3
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k, v = (t.transpose(1, 2) for t in (rotated(q, turn), rotated(k, turn), v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [B, heads, S, _]
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        y = self.mlp_norm(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


def silu(x: Tensor) -> Tensor:
    """Of torch's own the last bit changes with the batch on a CPU (docs/models.md)."""
    return x / (1 + torch.exp(-x))


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary positions: pairs of ``x`` [B, S, heads, width] turned by the angles of ``turn``."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = turn.cos().to(x.dtype), turn.sin().to(x.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Llama(nn.Module):
    """Tokens [B, S] to logits [B, S, vocabulary]."""

    def __init__(self, *, width: int, heads: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        pairs = width // heads // 2
        self.register_buffer("speed", 10000.0 ** -(torch.arange(pairs) / pairs), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        position = torch.arange(tokens.shape[1], device=tokens.device)
        turn = (position[:, None] * self.speed.float()).unsqueeze(1)  # [S, 1, pairs]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, turn)
        return self.head(self.norm(x))


def load(folder: str, dtype: torch.dtype) -> tuple[nn.Module, Logits, int]:
    """A model of transformers: itself, its logits, and the size of its vocabulary."""
    try:
        from transformers import AutoModelForCausalLM
    except ImportError:
        sys.exit("--model needs transformers: pip install transformers")
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=dtype).eval()
    return model, lambda tokens: model(tokens).logits, model.config.vocab_size


@torch.inference_mode()
def compare(logits: Logits, tokens: Tensor, batches: list[int]) -> dict[int, tuple[int, float]]:
    """For each batch, of the first sequence's logits beside those of it alone: how many have other
    bits, and the largest difference."""
    alone = logits(tokens[:1])[0]
    found = {}
    for batch in batches:
        beside = logits(tokens[:batch])[0]
        # As numbers, but for NaN, which must equal nothing: a model that makes them has failed.
        other = int((beside != alone).sum())
        found[batch] = other, float((beside.float() - alone.float()).abs().max())
    return found


def cell(found: tuple[int, float]) -> str:
    other, largest = found
    return "equal" if other == 0 else f"{other} differ, by {largest:.2g}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", metavar="FOLDER", help="a model of transformers")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--length", type=int, help="tokens of the prompt")
    parser.add_argument("--small", action="store_true", help="a tiny model, and batches up to 8")
    options = parser.parse_args(arguments)

    on_gpu = torch.device(options.device).type == "cuda"
    dtype = getattr(torch, options.dtype or ("bfloat16" if on_gpu else "float32"))
    torch.manual_seed(0)
    if options.model:
        model, logits, vocabulary = load(options.model, dtype)
    else:
        sizes = dict(width=128, heads=4, layers=2, vocabulary=512)
        if not options.small:
            sizes = dict(width=1024 if on_gpu else 512, heads=8, layers=4, vocabulary=8192)
        model, vocabulary = Llama(**sizes).to(dtype), sizes["vocabulary"]
        logits = model
    model.to(options.device)
    batches = [2, 3, 5, 8] if options.small else [2, 3, 5, 8, 16, 32, 64]
    # Few tokens for the small model: torch's products change with their rows where these are few.
    length = options.length or (7 if options.small else 96)
    tokens = torch.randint(vocabulary, (batches[-1], length)).to(options.device)

    with_torch = compare(logits, tokens, batches)
    tiled_mm.override_counts(reset=True)
    with tiled_mm.override():
        with_tiled = compare(logits, tokens, batches)
    counts = tiled_mm.override_counts()

    print(f"{length} tokens, {dtype}, on {options.device}, torch {torch.__version__}")
    print("The first sequence's logits in a batch, beside those of it alone:\n")
    print(f"{'batch':>5}  {'torch':<30}  under tiled_mm.override()")
    for batch in batches:
        print(f"{batch:>5}  {cell(with_torch[batch]):<30}  {cell(with_tiled[batch])}")
    if not any(other for other, _ in with_torch.values()):
        print(
            "\ntorch's bits are equal too: of these sizes it has one order of sums here.\n"
            "Nothing promises that; try another --length, --dtype or --device."
        )
    print("\nproducts under the override, by tiled and by torch:")
    for name, count in counts.items():
        print(f"  {name}: {count['tiled']} and {sum(count['torch'].values())}")
    return int(any(other for other, _ in with_tiled.values()))


if __name__ == "__main__":
    sys.exit(main())
