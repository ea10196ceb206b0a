"""Cases of test_tree_parallel.py: a loss over a vocabulary that is split, and micro-batches that
ranks of FSDP2 share out, have the bits of one process, which computes beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from parallel_tree import (
    COLUMNS,
    DTYPES,
    ORDER,
    ROWS,
    WIDTH,
    WORDS,
    drawn,
    gpt,
    mlp,
    parallelized,
    part,
)
from processes import Cases, device, equal, mesh, whole
from tiled_mm.distributed import (
    ColwiseParallel,
    GradientTree,
    RowwiseParallel,
    cross_entropy,
    use_tree_reduce_scatter,
)
from torch import Tensor, distributed

CASES = Cases()
Loss = Callable[[Tensor, Tensor], Tensor]


def drawn_targets(*sizes: int) -> Tensor:
    """Columns of WORDS, of which a third is ignored."""
    generator = torch.Generator().manual_seed(5)
    target = torch.randint(-WORDS // 2, WORDS, sizes, generator=generator, device="cpu")
    return target.masked_fill(target < 0, -100).to(device())


def loss_and_gradient(logits: Tensor, *args: object, **options: object) -> tuple[Tensor, Tensor]:
    logits = logits.detach().clone().requires_grad_()
    loss = cross_entropy(logits, *args, sum_order=ORDER, **options)
    loss.sum().backward()
    return loss.detach(), logits.grad


@CASES
def losses() -> None:
    """Beside one process, one row, and torch's in float64."""
    target = drawn_targets(3, 7)
    for dtype, reduction in itertools.product((*DTYPES, torch.float16), ("mean", "sum", "none")):
        logits = drawn(3, 7, WORDS, dtype=dtype) * 4
        right, grad = loss_and_gradient(logits, target, reduction=reduction)
        ours, of_ours = loss_and_gradient(part(logits, -1), target, mesh(), reduction=reduction)
        equal(ours, right)
        equal(of_ours, part(grad, -1))
        exact = logits.detach().double().requires_grad_()
        expected = torch.nn.functional.cross_entropy(
            exact.flatten(0, 1), target.flatten(), reduction=reduction
        )
        expected.sum().backward()
        # A sum's additions, the error of exp by the size of its argument, and a few roundings.
        relative = (WORDS + target.numel() + 4 * 40 + 16) * torch.finfo(right.dtype).eps / 2
        torch.testing.assert_close(
            right.double(), expected.detach().view(right.shape), rtol=relative, atol=relative
        )
        rounding = relative + torch.finfo(dtype).eps / 2
        tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        torch.testing.assert_close(
            grad.double(), exact.grad, rtol=rounding, atol=relative * 2**-5 + tiny
        )
        if reduction == "none":
            for i, j in itertools.product(range(3), range(7)):
                row, of_row = loss_and_gradient(logits[i, j], target[i, j], reduction="none")
                equal(row, right[i, j])
                equal(of_row, grad[i, j])


@CASES
def losses_at_the_edges() -> None:
    """Rows that are ignored, of infinities, of NaN, and none."""
    logits = drawn(4, WORDS)
    logits[0] = torch.nan
    logits[1, WORDS - 1] = torch.inf
    logits[2, 1:] = -torch.inf
    target = torch.tensor([-100, 3, 0, 1], device=device())
    right, grad = loss_and_gradient(logits, target, reduction="none")
    ours, of_ours = loss_and_gradient(part(logits, -1), target, mesh(), reduction="none")
    torch.testing.assert_close(ours, right, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(of_ours, part(grad, -1), rtol=0, atol=0, equal_nan=True)
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    assert right[0] == 0 and not grad[0].any() and right[2] == 0
    assert torch.equal(right.isnan(), expected.isnan())
    nothing = torch.full((4,), -100, device=device())
    assert loss_and_gradient(part(logits, -1), nothing, mesh())[0].isnan()
    empty, no_grad = loss_and_gradient(part(logits[:0], -1), nothing[:0], mesh(), reduction="sum")
    assert empty == 0 and no_grad.shape[0] == 0
    with torch.autocast(device(), torch.bfloat16):
        equal(loss_and_gradient(logits[2:], target[2:], reduction="none")[0], right[2:])


@CASES
def losses_compiled() -> None:
    logits, target = part(drawn(5, WORDS), -1), drawn_targets(5)
    torch._dynamo.reset()
    compiled = torch.compile(cross_entropy, backend="aot_eager", fullgraph=True)
    ours = logits.clone().requires_grad_()
    loss = compiled(ours, target, mesh(), sum_order=ORDER)
    loss.backward()
    right, grad = loss_and_gradient(logits, target, mesh())
    equal(loss.detach(), right)
    equal(ours.grad, grad)


def micro_batch(i: int) -> tuple[Tensor, Tensor]:
    """Words [3, 20], and what follows each; nothing follows the last."""
    generator = torch.Generator().manual_seed(i)
    words = torch.randint(WORDS, (3, 20), generator=generator, device="cpu").to(device())
    return words, torch.nn.functional.pad(words[:, 1:], (0, 1), value=-100)


def sharded(net: torch.nn.Module, on: object, of_16_bits: bool) -> torch.nn.Module:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    options = {"mp_policy": policy} if of_16_bits else {}
    for layer in (net[1], net[2]):
        fully_shard(layer, mesh=on, **options)
    fully_shard(net, mesh=on, **options)
    use_tree_reduce_scatter(net)
    return net


def trained(
    net: torch.nn.Module, count: int, rank: int, ranks: int, scale: float, loss: Loss
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The losses, and the sums of the gradients of `count` micro-batches, dealt to `ranks`."""
    sums = GradientTree(net.parameters())
    found = []
    for step in range(count // ranks):
        words, target = micro_batch(step * ranks + rank)
        found.append(loss(net(words), target))
        (found[-1] * scale).backward()
        sums.add()
    sums.finish()
    return [f.detach() for f in found], {n: whole(p.grad) for n, p in net.named_parameters()}


def own_mesh():
    """Of this process alone."""
    return mesh(distributed.get_world_size(), 1, names=("all", "one"))["one"]


def loss_of(group: object) -> Loss:
    return lambda logits, target: cross_entropy(logits, target, group, sum_order=ORDER)


@CASES
def micro_batches() -> None:
    """Averaged over ranks, or as many as no power of two and only added; of one process in a plain
    model too."""
    from torch.distributed.fsdp import FSDPModule

    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    with tiled_mm.sum_order(ORDER):
        for of_16_bits, count in itertools.product((False, True), (8, 12)):
            nets = [sharded(gpt(torch.float32), on, of_16_bits) for on in (mesh(), own_mesh())]
            scales = [ranks / count, 1 / count]
            if count == 12:
                scales = [1 / count] * 2
                for module in (m for n in nets for m in n.modules() if isinstance(m, FSDPModule)):
                    module.set_gradient_divide_factor(1.0)
            losses, grads = trained(nets[0], count, rank, ranks, scales[0], loss_of(None))
            all_losses, right = trained(nets[1], count, 0, 1, scales[1], loss_of(None))
            assert all(map(torch.equal, losses, all_losses[rank::ranks]))
            for name, grad in grads.items():
                equal(grad, right[name])
            if not of_16_bits:
                plain = gpt(torch.float32)
                _, of_plain = trained(plain, count, 0, 1, 1 / count, loss_of(None))
                for name, grad in of_plain.items():
                    equal(grad, right[name])
                plain.zero_grad()
                for i in range(count):  # autograd's own order is another one
                    (loss_of(None)(plain(micro_batch(i)[0]), micro_batch(i)[1]) / count).backward()
                assert any(not torch.equal(p.grad, right[n]) for n, p in plain.named_parameters())


def sequence_parallel_styles() -> dict:
    from torch.distributed.tensor import Replicate, Shard, parallel

    split = {"input_layouts": Shard(1), "sum_order": ORDER}
    columns = ColwiseParallel(**split)
    rows = RowwiseParallel(output_layouts=Shard(1), sum_order=ORDER)
    norm = parallel.SequenceParallel(use_local_output=True)
    layers = {"q": columns, "k": columns, "v": columns, "back": rows, "up": columns, "down": rows}
    layers |= {"norms.0": norm, "norms.1": norm}
    styles = {f"{i}.{name}": style for i in (1, 2) for name, style in layers.items()}
    words = parallel.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    return styles | {"0": words, "3": norm, "4": columns}


def tensor_parallel_styles() -> dict:
    layers = {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "back": ROWS, "up": COLUMNS, "down": ROWS}
    styles = {f"{i}.{name}": style for i in (1, 2) for name, style in layers.items()}
    return styles | {"4": COLUMNS}


@CASES
def tensor_and_data_parallel() -> None:
    """Every way to share out the processes, with sequences split or whole. All gradients are one
    process's, but of norms whose sequences are split."""
    processes = distributed.get_world_size()
    for of_16_bits in (False, True):
        with tiled_mm.sum_order(ORDER):
            one = sharded(gpt(torch.float32), own_mesh(), of_16_bits)
            all_losses, right = trained(one, 4, 0, 1, 1 / 4, loss_of(None))
        for of_model in (m for m in (1, 2, 4) if m <= processes):
            ranks = processes // of_model
            on = mesh(ranks, of_model, names=("data", "model"))
            rank = on.get_local_rank("data")
            for styles in (tensor_parallel_styles(), sequence_parallel_styles()):
                net = parallelized(gpt(torch.float32), styles, on["model"])
                net = sharded(net, on["data"], of_16_bits)
                with tiled_mm.sum_order(ORDER):
                    losses, grads = trained(net, 4, rank, ranks, ranks / 4, loss_of(on["model"]))
                assert all(map(torch.equal, losses, all_losses[rank::ranks]))
                for name, grad in grads.items():
                    is_norm = "norms" in name or name.startswith("3.")
                    if not (is_norm and "3" in styles and of_model > 1):
                        equal(grad, right[name])


@CASES
def steps() -> None:
    """Parameters after AdamW, which divides noise by its own size."""
    processes = distributed.get_world_size()
    for of_16_bits in (False, True):
        right = None
        for of_model in (None, *(m for m in (1, 2, 4) if m <= processes)):
            net, rank, ranks, group = gpt(torch.float32), 0, 1, None
            if of_model is None:
                net = sharded(net, own_mesh(), of_16_bits)
            else:
                on = mesh(processes // of_model, of_model, names=("data", "model"))
                rank, ranks, group = on.get_local_rank("data"), on.size(0), on["model"]
                net = parallelized(net, tensor_parallel_styles(), group)
                net = sharded(net, on["data"], of_16_bits)
            on_meshes = [p.device_mesh for p in net.parameters()]
            optimizers = [
                torch.optim.AdamW([p for p in net.parameters() if p.device_mesh == on], lr=1e-2)
                for on in set(on_meshes)
            ]
            with tiled_mm.sum_order(ORDER):
                for _ in range(3):
                    trained(net, 4, rank, ranks, ranks / 4, loss_of(group))
                    for optimizer in optimizers:
                        optimizer.step()
                        optimizer.zero_grad()
            after = {n: whole(p.detach()) for n, p in net.named_parameters()}
            right = right or after
            for name, parameter in after.items():
                equal(parameter, right[name])


@CASES
def one_batch() -> None:
    """Its rows shared out: products' weights have the gradients of all rows at once."""
    from torch.distributed.fsdp import fully_shard

    ranks = distributed.get_world_size()
    x, g = drawn(16 * 4 * 3, WIDTH), drawn(16 * 4 * 3, WIDTH, seed=1)
    with tiled_mm.sum_order(ORDER):
        right = mlp(torch.float32)
        right(x).backward(g)
        net = fully_shard(mlp(torch.float32), mesh=mesh())
        use_tree_reduce_scatter(net)
        net(part(x, 0)).backward(part(g, 0) * ranks)  # FSDP averages
    for ours, expected in zip(net.parameters(), right.parameters(), strict=True):
        if expected.dim() == 2:
            equal(whole(ours.grad), expected.grad)


@CASES
def refusals_in_training() -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    count = distributed.get_world_size()
    logits, target = torch.zeros(2, 24), torch.zeros(2, dtype=torch.int64)
    if count > 1:
        with pytest.raises(RuntimeError, match=f"vocabulary of {24 * count} does not part into"):
            cross_entropy(logits, target, mesh(), sum_order=ORDER)
        with pytest.raises(RuntimeError, match="at least 1024"):
            cross_entropy(torch.zeros(2, 512), target, mesh())
    for arguments, options, message in (
        ((logits.int(), target), {}, "logits of 16 to 64 bits, got torch.int32"),
        ((logits, target.int()), {}, "target.*of torch.int32"),
        ((logits, target[:1]), {}, r"got \[2, 24\] and \[1\]"),
        ((logits, target), {"reduction": "max"}, "'max'; expected mean"),
        ((logits, target), {"sum_order": "chain"}, "'chain' is not shared out"),
    ):
        with pytest.raises(RuntimeError, match=message):
            cross_entropy(*arguments, **options)
    if device() == "cpu":  # on a GPU the kernel ends the process
        for wrong in (target + 24, target - 1):
            with pytest.raises(RuntimeError, match="no column of 24"):
                cross_entropy(logits, wrong, reduction="none")
    with pytest.raises(RuntimeError, match="no gradients were added"):
        GradientTree([]).finish()
    with pytest.raises(RuntimeError, match="call fully_shard before"):
        use_tree_reduce_scatter(torch.nn.Linear(8, 8))
    with pytest.raises(NotImplementedError, match="HSDP's all_reduce"):
        on = mesh(count, 1, names=("copies", "shards"))
        use_tree_reduce_scatter(fully_shard(torch.nn.Linear(8, 8), mesh=on))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)
    for options, factor, message in (
        ({"mp_policy": policy}, None, "float64, got torch.bfloat16.*reduce_dtype=torch.float32"),
        ({}, 3.0, "factor with a power of two"),
    ):
        net = fully_shard(torch.nn.Linear(8, 8), mesh=mesh(), **options)
        use_tree_reduce_scatter(net)
        if factor:
            net.set_gradient_divide_factor(factor)
        if count > 1 or not factor:
            with pytest.raises(RuntimeError, match=message):
                net(torch.ones(2, 8)).sum().backward()
    if count == 4:
        three = DeviceMesh(device(), [0, 1, 2])
        if distributed.get_rank() < 3:
            with pytest.raises(RuntimeError, match="3 ranks are no power of two"):
                use_tree_reduce_scatter(fully_shard(torch.nn.Linear(9, 9), mesh=three))
            with pytest.raises(RuntimeError, match="of 96 does not part into 3 equal trees"):
                cross_entropy(torch.zeros(2, 32), target, three, sum_order=ORDER)
