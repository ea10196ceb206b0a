"""Parts of bench.scale whose results have one process's bits: the tree's row-parallel layer, and
experts that processes share out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tiled_mm
import torch
from tiled_mm.distributed import ExpertParallel, RowwiseParallel
from torch import Tensor, distributed
from torch.nn import functional

from bench.in_turn import Turns, Work

ROWS = (8192, 64, 16, 1)
EXPERTS, TOP, TOKENS = 64, 8, (4096, 64)


def _graph_of(work: Work) -> Work:
    """The work as a CUDA graph's replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _by_nccl(product: Callable, x: Tensor, weight: Tensor) -> Work:
    def work() -> Tensor:
        c = product(x, weight)
        distributed.all_reduce(c)
        return c

    return work


def tree(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """A row-parallel layer of 14336 to 4096, bf16, forward: its product and the sum over processes,
    in a CUDA graph. `torch` and `chain` add by NCCL, after torch.mm and after ours."""
    width, hidden = (64, 4096) if small else (4096, 14336)
    kind = {"device": turns.device, "dtype": torch.bfloat16}
    layer = torch.nn.Linear(hidden, width, bias=False, **kind)
    torch.distributed.tensor.parallel.parallelize_module(layer, mesh, RowwiseParallel())
    weight = layer.weight.to_local().detach().t()
    for rows in ROWS if not small else (64, 1):
        x = torch.randn(rows, hidden // mesh.size(), **kind)
        chain = _by_nccl(tiled_mm.mm, x, weight)
        works = {"torch": _by_nccl(torch.mm, x, weight), "chain": chain}
        works["tree"] = lambda x=x: layer(x)
        mode = "call after call"
        with torch.no_grad():
            if turns.device.type == "cuda":
                mode = "CUDA graph"
                works = {name: _graph_of(work) for name, work in works.items()}
            seconds = turns(works)
        yield {"part": "tree", "what": "rows, forward", "mode": mode, "tokens": rows} | {
            "seconds": seconds
        }


class _TorchExperts(torch.nn.Module):
    """The layers of tiled_mm.nn.Experts by torch's products, each process with its own experts, and
    a sum by NCCL in the rows' dtype."""

    def __init__(self, ours: torch.nn.Module, mesh) -> None:
        super().__init__()
        self.local = {n: p.to_local().detach() for n, p in ours.named_parameters()}
        self.count = ours.experts // mesh.size()
        self.first = mesh.get_local_rank() * self.count

    def layer(self, x: Tensor, name: str, ends: Tensor) -> Tensor:
        return torch.nn.functional.grouped_mm(x, self.local[name].mT, offs=ends)

    def forward(self, x: Tensor, order: Tensor, offs: Tensor) -> Tensor:
        begin = offs[self.first - 1] if self.first else offs.new_zeros(())
        at = torch.arange(len(order), device=x.device)
        size = len(order)
        mine = (at + begin) % size
        ends = offs[self.first : self.first + self.count] - begin
        rows = x[order // TOP][mine]
        hidden = functional.silu(self.layer(rows, "gate", ends)) * self.layer(rows, "up", ends)
        rows = torch.where((at < ends[-1])[:, None], self.layer(hidden, "down", ends), 0)
        rows = rows[(at - begin) % size]
        distributed.all_reduce(rows)
        back = torch.empty_like(order).scatter_(0, order, at)
        return rows[back].view(len(x), TOP, -1).sum(1)


def experts(turns: Turns, mesh, *, small: bool) -> Iterator[dict]:
    """64 experts of 2048 to 768 and back, 8 for each token, bf16, forward: `one process` has them
    all, `tiled` its own (ExpertParallel); `torch` is the same by torch's products and a sum."""
    if turns.device.type != "cuda":
        return  # torch's grouped products are a GPU's
    sizes = (EXPERTS, 256, 128) if small else (EXPERTS, 2048, 768)
    kind = {"device": turns.device, "dtype": torch.bfloat16}
    torch.manual_seed(4)
    whole = tiled_mm.nn.Experts(*sizes, **kind)
    torch.manual_seed(4)
    net = torch.nn.ModuleDict({"experts": tiled_mm.nn.Experts(*sizes, **kind)})
    torch.distributed.tensor.parallel.parallelize_module(net, mesh, {"experts": ExpertParallel()})
    ours = net["experts"]
    theirs = _TorchExperts(ours, mesh)
    for tokens in TOKENS:
        torch.manual_seed(tokens)
        x = torch.randn(tokens, sizes[1], **kind)
        index = torch.rand(tokens, EXPERTS, device=turns.device).topk(TOP).indices

        def torchs(x: Tensor = x, index: Tensor = index) -> Tensor:
            in_order, order = torch.sort(index.flatten(), stable=True)
            numbers = torch.arange(EXPERTS, device=x.device)
            offs = torch.searchsorted(in_order, numbers, right=True, out_int32=True)
            return theirs(x, order, offs)

        works = {
            "torch": torchs,
            "tiled": lambda x=x, index=index: ours.routed(x, index),
            "one process": lambda x=x, index=index: whole.routed(x, index),
        }
        with torch.no_grad():
            seconds = turns({name: _graph_of(work) for name, work in works.items()})
            same = torch.equal(ours.routed(x, index), whole.routed(x, index))
        yield {"part": "experts", "what": "forward", "mode": "CUDA graph", "tokens": tokens} | {
            "seconds": seconds, "values": {"bits of one process": same},
        }  # fmt: skip
