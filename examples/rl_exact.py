"""A policy whose sampler and trainer agree bit for bit: the ratio of their probabilities is 1.

    python examples/rl_exact.py                     a toy policy, on the CPU or a GPU
    python examples/rl_exact.py --torch             with torch's own products, to see the difference

The sampler draws sequences token by token, in one large batch. The trainer computes the same
sequences' log-probabilities in one pass, in batches of other sizes, and must find the same bits, or
policy gradients are those of another policy. Three things make it so:

- the products: tiled_mm.compat.batch_invariant_ops, which takes log_softmax and mean too;
- one length: the sampler runs over sequences of full length, of which the end is masked;
- an fp32 head: logits of bf16 states are sums in fp32 that nothing rounds (out_dtype=).

The gradients are those of each sequence by itself, added up in the order of the sequences: so they
do not depend on how these were cut into micro-batches. It costs a weight's memory for each sequence
of a micro-batch. Ends with 1 where bits differ.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

import tiled_mm
import torch
from tiled_mm.compat.batch_invariant_ops import set_batch_invariant_mode
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY, LENGTH, WIDTH, HEADS = 24, 16, 48, 4
WANTED = 7  # the token that is rewarded


class Policy(nn.Module):
    """Tokens [B, LENGTH] to log-probabilities of the next ones, [B, LENGTH, VOCABULARY]."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Parameter(torch.randn(VOCABULARY, WIDTH) / WIDTH**0.5)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) / 4)
        self.to(dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.embedding.weight) + self.place
        x = x + self.out(self.attention(self.qkv(self.norms[0](x))))
        x = x + self.down(torch.relu(self.up(self.norms[1](x))))
        return torch.log_softmax(logits(self.norms[2](x), self.head), -1)

    def attention(self, qkv: Tensor) -> Tensor:
        q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).movedim(-3, 0).transpose(-3, -2)
        scores = q @ k.mT / (WIDTH // HEADS) ** 0.5  # [B, HEADS, LENGTH, LENGTH]
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=q.device).triu(1)
        weights = torch.softmax(scores.masked_fill(later, -torch.inf), -1)
        return (weights @ v).transpose(-3, -2).flatten(-2)


def logits(x: Tensor, head: Tensor) -> Tensor:
    """In fp32 for 16-bit dtypes: their products are exact there, and sums alone are rounded."""
    wide = torch.float32 if x.dtype.itemsize == 2 else x.dtype
    return tiled_mm.mm(x.flatten(0, -2), head.t(), out_dtype=wide).unflatten(0, x.shape[:-1])


def of_tokens(logprobs: Tensor, tokens: Tensor) -> Tensor:
    """The log-probability of each drawn token, [B, LENGTH - 1]."""
    return logprobs[..., :-1, :].gather(-1, tokens[..., 1:, None])[..., 0]


@torch.no_grad()
def sample(policy: Policy, count: int) -> tuple[Tensor, Tensor]:
    """Sequences that begin with token 0, and what the sampler says of each drawn token."""
    device = policy.head.device
    tokens = torch.zeros(count, LENGTH, dtype=torch.long, device=device)
    said = torch.empty(count, LENGTH - 1, dtype=torch.float32, device=device)
    for t in range(LENGTH - 1):
        logprobs = policy(tokens)[:, t]
        tokens[:, t + 1] = torch.multinomial(logprobs.exp(), 1)[:, 0]
        said[:, t] = logprobs.gather(-1, tokens[:, t + 1, None])[:, 0]
    return tokens, said


def gradients(policy: Policy, tokens: Tensor, advantage: Tensor, micro: int) -> dict[str, Tensor]:
    """Those of the policy's loss, of micro-batches of ``micro`` sequences."""
    parameters = {n: p.detach() for n, p in policy.named_parameters()}

    def loss(parameters: dict[str, Tensor], tokens: Tensor, advantage: Tensor) -> Tensor:
        logprobs = torch.func.functional_call(policy, parameters, (tokens[None],))[0]
        return -(of_tokens(logprobs, tokens) * advantage).sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    total = {n: torch.zeros_like(p, dtype=torch.float32) for n, p in parameters.items()}
    for begin in range(0, len(tokens), micro):
        part = slice(begin, begin + micro)
        for name, found in each(parameters, tokens[part], advantage[part]).items():
            for gradient in found:  # in the order of the sequences
                total[name] += gradient
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", action="store_true", help="torch's own products")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    if options.device != "cpu":  # sums by index, on a GPU
        torch.use_deterministic_algorithms(True, warn_only=True)
    policy = Policy(getattr(torch, options.dtype)).to(options.device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.03)
    mode = contextlib.nullcontext() if options.torch else set_batch_invariant_mode()
    wrong, rewards = 0, []
    with mode:
        for step in range(options.steps):
            tokens, said = sample(policy, 24)
            with torch.no_grad():
                found = [of_tokens(policy(part), part) for part in tokens.split(5)]
            wrong += int((torch.cat(found) != said).sum())
            reward = (tokens == WANTED).float().mean(1)
            rewards.append(float(reward.mean()))
            advantage = reward - reward.mean()
            total = gradients(policy, tokens, advantage, micro=8)
            if step == 0:
                other = gradients(policy, tokens, advantage, micro=3)
                uneven = sum(int((total[n] != other[n]).sum()) for n in total)
            for name, parameter in policy.named_parameters():
                parameter.grad = total[name].to(parameter.dtype)
            optimizer.step()
    print(
        f"{options.steps} steps of {options.dtype} on {options.device}, {24 * (LENGTH - 1)} tokens"
    )
    print(f"reward: {rewards[0]:.3f} at first, {rewards[-1]:.3f} at last")
    print(f"log-probabilities of sampler and trainer that differ: {wrong}")
    print(f"elements of weights' gradients that differ with the micro-batch: {uneven}")
    return int(bool(wrong or uneven))


if __name__ == "__main__":
    sys.exit(main())
