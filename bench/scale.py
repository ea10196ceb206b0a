"""Several GPUs beside torch: `torchrun --nproc-per-node 2 -m bench.scale --json FILE`.

tp      a tensor-parallel MLP, columns then rows: DTensor's styles, call after call; and in a CUDA
        graph its local products with their all_reduce, since DTensor's are not captured
fsdp    a step of a GPT under FSDP2: loss, gradients, AdamW
host    host time of one call with DTensors of 16 x 16
async   torch's products that are fused with an all_gather or a reduce_scatter; and with 4
        multiprocessors kept from products by torch's setting
tree    a row-parallel layer whose sum does not depend on the number of GPUs, beside an all_reduce
experts a mixture of experts, each process with its own
steps   how many parameters differ between two runs of the same steps, by whose products
bits    how many elements of a row-parallel product change with the batch

`torch` is torch's products, `override` the same model under tiled_mm.override(), `tiled` the
library's own layers. They take turns in every round, all processes make the same calls, and a time
is the slowest process' median. Without GPUs it runs by gloo, to try the program: --small.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import tiled_mm
import torch
import typer
from rich.console import Console
from torch import Tensor, distributed
from torch.nn import functional

from bench import cli
from bench.arguments import FileOption, SmallOption, chosen_parts
from bench.cells import markdown, ratio_number, seconds_text
from bench.in_turn import Turns, Work, forward_of, gradients_of
from bench.networks_in_parallel import (
    GPT,
    captured_perceptron,
    layers,
    perceptron,
    sharded,
    tensor_parallel,
)
from bench.scale_sums import experts, tree

console = Console()

TOKENS = (8192, 64, 16, 1)
HOST_CALLS = 300
KEPT = 4  # as many as cost these products no round of tiles on 132 multiprocessors


def torchs_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.gelu(functional.linear(x, weight, bias))


def our_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return tiled_mm.linear(x, weight, bias, activation="gelu")


def tp(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """4096 - 14336 - 4096 with gelu, bf16."""
    width, hidden = (64, 128) if small else (4096, 14336)
    nets = {
        name: tensor_parallel(perceptron(width, hidden, turns.device, ours=name == "tiled"), mesh)
        for name in ("torch", "tiled")
    }
    captured = captured_perceptron(width, hidden, turns.device)
    for tokens in TOKENS if not small else (64, 1):
        x = torch.randn(tokens, width, device=turns.device, dtype=torch.bfloat16)
        x.requires_grad_()
        for what, made in (("forward", forward_of), ("forward and backward", gradients_of)):
            row = {"part": "tp", "what": what, "tokens": tokens}
            works = {
                "torch": made(nets["torch"], x),
                "override": made(nets["torch"], x),
                "tiled": made(nets["tiled"], x),
            }
            yield row | {"mode": "eager DTensor", "seconds": turns(works)}
            if turns.device.type != "cuda":
                continue
            nothing, backward = contextlib.nullcontext, made is gradients_of
            linear, override = functional.linear, tiled_mm.override
            graphs = {
                "torch": captured(x, torchs_layer, linear, nothing, backward),
                "override": captured(x, torchs_layer, linear, override, backward),
                "tiled": captured(x, our_layer, tiled_mm.linear, nothing, backward),
            }
            yield row | {"mode": "CUDA graph", "seconds": turns(graphs)}


def fsdp(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """One model, whose layers are converted and back between the turns."""
    net = GPT(2, 64, 4, 100) if small else GPT(18, 2048, 16, 32000)
    tokens = torch.randint(100 if small else 32000, (2, 16 if small else 2048))
    net, tokens = net.to(turns.device), tokens.to(turns.device)
    count = sum(p.numel() for p in net.parameters())
    sharded(net, mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=turns.device.type == "cuda")

    def step() -> None:
        logits = net(tokens)
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    @contextlib.contextmanager
    def converted() -> Iterator[None]:
        tiled_mm.convert(net)
        yield
        tiled_mm.convert(net, back=True)

    works = dict.fromkeys(("torch", "override", "tiled"), step)
    seconds = turns(works, calls=1 if small else 3, around={"tiled": converted})
    yield {"part": "fsdp", "what": f"step of {count / 1e9:.2f} G parameters", "mode": "FSDP2"} | {
        "tokens": tokens.numel(), "seconds": seconds,
    }  # fmt: skip


def host(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    a, b = (torch.randn(16, 16, device=turns.device) for _ in range(2))
    x = distribute_tensor(a, mesh, [Replicate()])
    columns, rows = (distribute_tensor(b, mesh, [Shard(dim)]) for dim in (1, 0))
    plain = (torch.mm, tiled_mm.mm), (functional.linear, tiled_mm.linear)
    for what, (theirs, ours), other in zip(("mm", "linear"), plain, (columns, rows), strict=True):
        leaves = [x.detach().requires_grad_(), other.detach().requires_grad_()]

        def forward(product: Callable, other=other) -> Work:
            return lambda: product(x, other)

        def backward(product: Callable, leaves=leaves) -> Work:
            def work() -> None:
                y = product(*leaves)
                torch.autograd.grad(y, leaves, y.detach())

            return work

        for mode, made in (("forward", forward), ("forward and backward", backward)):
            works = {"torch": made(theirs), "tiled": made(ours)}
            seconds = turns(works, calls=20 if small else HOST_CALLS, host=True)
            yield {"part": "host", "what": f"{what}, {mode}", "mode": "host", "seconds": seconds}


@contextlib.contextmanager
def keeping(around: Callable) -> Iterator[None]:
    """KEPT multiprocessors kept from products, inside of `around`."""
    torch._C._set_sm_carveout_experimental(KEPT)
    try:
        with around():
            yield
    finally:
        torch._C._set_sm_carveout_experimental(None)


def asynchronous(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """8192 tokens of the MLP: x gathered into columns, rows scattered."""
    if turns.device.type != "cuda":
        return
    from torch.distributed import _symmetric_memory

    group, count = mesh.get_group(), mesh.size()
    name = group.group_name
    _symmetric_memory.enable_symm_mem_for_group(name)
    m, k, n = (512, 256, 512) if small else (8192, 4096, 14336)
    kind = {"device": turns.device, "dtype": torch.bfloat16}
    part = torch.randn(m // count, k, **kind)
    up = torch.randn(n // count, k, **kind).t()
    hidden, down = torch.randn(m, n // count, **kind), torch.randn(k, n // count, **kind).t()
    whole, mine = torch.empty(m, k, **kind), torch.empty(m // count, k, **kind)

    def gathered() -> Tensor:
        distributed.all_gather_into_tensor(whole, part, group)
        return whole @ up

    def scattered() -> Tensor:
        distributed.reduce_scatter_tensor(mine, hidden @ down, group=group)
        return mine

    fused = torch.ops.symm_mem
    for what, plain, one in (
        ("all_gather, product", gathered,
         lambda: fused.fused_all_gather_matmul(part, [up], 0, name)[1][0]),
        ("product, reduce_scatter", scattered,
         lambda: fused.fused_matmul_reduce_scatter(hidden, down, "sum", 0, name)),
    ):  # fmt: skip
        works = {
            "torch": one,
            "override": one,
            "torch, apart": plain,
            "override, apart": plain,
        }
        around = {
            f"torch, {KEPT} kept": lambda: keeping(contextlib.nullcontext),
            f"override, {KEPT} kept": lambda: keeping(tiled_mm.override),
        }
        seconds = turns(works | dict.fromkeys(around, one), around=around)
        with tiled_mm.override():
            tiled_mm.override_counts(reset=True)
            together = one()
            calls = {op: c["tiled"] for op, c in tiled_mm.override_counts().items() if c["tiled"]}
            differ = int((together != plain()).sum())
        values = {"differ from apart": differ, "of": together.numel(), "calls": calls}
        yield {"part": "async", "what": what, "mode": "symmetric memory", "tokens": m} | {
            "seconds": seconds, "values": values,
        }  # fmt: skip


def steps(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """Two models that begin alike, tensor-parallel, three steps of AdamW; then a third one that
    takes over the second's state before the last step, as a checkpoint would have it."""
    tokens = torch.randint(100, (4, 32), device=turns.device)

    def made() -> tuple:
        torch.manual_seed(3)
        net = layers(GPT(8, 64, 4, 100).to(turns.device), mesh)
        return net, torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        logits = net(tokens)
        functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    def differ(one: torch.nn.Module, other: torch.nn.Module) -> list:
        gaps = {
            name: float((p.full_tensor() - q.full_tensor()).detach().abs().max())
            for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True)
        }
        worst = sorted((n for n, gap in gaps.items() if gap > 0), key=gaps.get, reverse=True)
        return [len(worst), len(gaps), max(gaps.values()), worst[:8]]

    for name, around in (("torch", contextlib.nullcontext), ("override", tiled_mm.override)):
        with around():
            first, second, third = made(), made(), made()
            for _ in range(2):
                step(*first)
                step(*second)
            third[0].load_state_dict(second[0].state_dict())
            # A copy, as from a file: an optimizer takes tensors of its own device as they are.
            third[1].load_state_dict(copy.deepcopy(second[1].state_dict()))
            loaded = differ(third[0], second[0])
            for model in (first, second, third):
                step(*model)
            values = {
                "run again": differ(first[0], second[0]),
                "loaded, before": loaded,
                "loaded, one step on": differ(third[0], second[0]),
            }
        yield {"part": "steps", "what": name, "mode": "tensor parallel", "values": values}


def bits(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    count, rank = mesh.size(), distributed.get_rank()
    m, n, k = (64, 64, 256) if small else (8192, 4096, 14336)
    torch.manual_seed(5)
    a = torch.randn(m, k, device=turns.device, dtype=torch.bfloat16)
    b = torch.randn(k, n, device=turns.device, dtype=torch.bfloat16)
    own = slice(rank * k // count, (rank + 1) * k // count)

    def shared(rows: int) -> Tensor:
        c = tiled_mm.mm(a[:rows, own], b[own])
        distributed.all_reduce(c)
        return c

    few = 16
    values = {
        "differ from one process": float((shared(m) != tiled_mm.mm(a, b)).float().mean()),
        f"of {few} rows change with the batch": float(
            (shared(m)[:few] != shared(few)).float().mean()
        ),
    }
    yield {"part": "bits", "what": "row parallel", "mode": "all_reduce", "tokens": m} | {
        "values": values
    }


PARTS = {
    "host": host,
    "tp": tp,
    "async": asynchronous,
    "tree": tree,
    "experts": experts,
    "bits": bits,
    "steps": steps,
    "fsdp": fsdp,
}


def main(
    json_path: FileOption = None,
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(PARTS)}")] = None,
    small: SmallOption = False,
    rounds: Annotated[int, typer.Option(min=1)] = 7,
) -> None:
    """Measures on all processes of torchrun."""
    parts = chosen_parts(only, PARTS)
    on_gpus = torch.cuda.is_available()
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpus else "gloo")
    from torch.distributed.device_mesh import init_device_mesh

    torch.manual_seed(1)  # what is not shared out is alike
    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
    turns = Turns(device, rounds)
    document = cli.new_document("scale", device, {"small": small, "rounds": rounds})
    document["scale"] = {"processes": mesh.size(), "rows": []}
    begin = time.monotonic()
    for part in parts:
        for row in PARTS[part](turns, mesh, small=small):
            document["scale"]["rows"].append(row)
            if rank == 0:
                cli.keep(document, json_path)
        if rank == 0:
            console.print(f"{part}: {time.monotonic() - begin:.0f} s since the begin")
        if on_gpus:
            torch.cuda.empty_cache()
    if rank == 0:
        print(table(document))  # whole lines
    distributed.destroy_process_group()


def table(document: dict) -> str:
    """Times, and torch's over each of the others'; and what was counted."""
    rows, counted = [], []
    for row in document["scale"]["rows"]:
        place = [row["part"], row["what"], row["mode"], str(row.get("tokens", ""))]
        if row.get("values"):
            counted.append(" | ".join([*place, str(row["values"])]))
        if seconds := row.get("seconds"):
            texts = [
                f"{name} {seconds_text(s)}"
                + ("" if name == "torch" else f" ({ratio_number(seconds['torch'] / s)})")
                for name, s in seconds.items()
            ]
            rows.append([*place, "; ".join(texts)])
    header = ("part", "what", "mode", "tokens", "time (torch's / it)")
    return "\n".join([markdown(header, rows, texts=5), *counted])


if __name__ == "__main__":
    typer.run(main)
