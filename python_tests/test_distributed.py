"""DTensor and the parallel styles with the library's own operators: two processes on one machine,
by gloo, beside one process. A result has that one's bits wherever no sum is shared out."""

from __future__ import annotations

import itertools
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import tiled_mm
import torch
from test_override_distributed import PROCESSES, free_port, inputs, make_net, one_process, why_not
from test_override_distributed import by_tensor_parallel as train_in_parallel
from tiled_mm import nn
from torch import Tensor, distributed
from torch.profiler import profile

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

CASES: dict[str, Callable[[], None]] = {}


def case(run: Callable[[], None]) -> Callable[[], None]:
    """To be run by both processes."""
    CASES[run.__name__] = run
    return run


def mesh(*sizes: int):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", sizes or (PROCESSES,))


def equal(ours: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(ours, right, rtol=0, atol=0)


def whole(t: Tensor) -> Tensor:
    """Of a DTensor or of what every process has."""
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def placements(dims: int) -> list:
    from torch.distributed.tensor import Replicate, Shard

    return [Replicate(), *map(Shard, range(dims))]


def split(tensors: list[Tensor], ways: tuple) -> list[Tensor]:
    from torch.distributed.tensor import distribute_tensor

    return [distribute_tensor(t, mesh(), [way]) for t, way in zip(tensors, ways, strict=True)]


def both_ways(product: Callable, tensors: list[Tensor], ways: tuple) -> tuple:
    """(the result as a DTensor, it and the gradients, those of one process)."""
    alone = [t.clone().requires_grad_() for t in tensors]
    parts = [t.requires_grad_() for t in split(tensors, ways)]
    right = product(*alone)
    result = product(*parts)
    right.backward(right.detach())
    result.full_tensor().backward(right.detach())
    ours = [result.full_tensor(), *(t.grad.full_tensor() for t in parts)]
    return result, ours, [right, *(t.grad for t in alone)]


def check_everywhere(
    product: Callable,
    sizes: tuple,
    dtype: torch.dtype = torch.float32,
    *,
    is_linear: bool = False,
) -> None:
    """With every operand whole or split along each of its dimensions, evenly or not. A gradient of
    linear is flattened, which torch refuses where it is split along a dimension in the middle."""
    torch.manual_seed(1)
    tensors = [torch.randn(size, dtype=dtype) for size in sizes]
    for ways in itertools.product(*(placements(len(size)) for size in sizes)):
        if is_linear and any(ways[0].is_shard(dim) for dim in range(1, len(sizes[0]) - 1)):
            with torch.no_grad():
                result = product(*split(tensors, ways))
            torch.testing.assert_close(result.full_tensor(), product(*tensors))
            continue
        result, ours, right = both_ways(product, tensors, ways)
        if not result.placements[0].is_partial():
            equal(ours[0], right[0])
        for got, expected in zip(ours, right, strict=True):
            torch.testing.assert_close(got, expected)


@case
def products_of_matrices() -> None:
    check_everywhere(tiled_mm.mm, ((5, 9), (9, 7)))
    check_everywhere(tiled_mm.mm, ((1, 4), (4, 6)), torch.complex64)


@case
def products_of_batches() -> None:
    check_everywhere(tiled_mm.bmm, ((3, 4, 5), (3, 5, 6)))


@case
def addmm() -> None:
    for activation in (None, "gelu"):
        for input in ((7,), (5, 1), (5, 7)):
            check_everywhere(
                lambda *x, a=activation: tiled_mm.addmm(*x, beta=2, alpha=0.5, activation=a),
                (input, (5, 4), (4, 7)),
            )


@case
def baddbmm() -> None:
    for activation in (None, "silu"):
        check_everywhere(
            lambda *x, a=activation: tiled_mm.baddbmm(*x, activation=a),
            ((4, 1, 6), (4, 3, 5), (4, 5, 6)),
        )


@case
def linear() -> None:
    for activation in (None, "relu", "gelu"):
        for x in ((8,), (5, 8), (4, 3, 8)):
            check_everywhere(
                lambda *x, a=activation: tiled_mm.linear(*x, activation=a),
                (x, (6, 8), (6,)),
                is_linear=True,
            )
    check_everywhere(tiled_mm.linear, ((4, 3, 8), (6, 8)), is_linear=True)
    check_everywhere(tiled_mm.linear, ((4, 3, 8), (6, 8), (3, 6)), is_linear=True)


@case
def a_vector_for_weight() -> None:
    check_everywhere(tiled_mm.linear, ((4, 3, 8), (8,)), is_linear=True)


@case
def calls_that_differ_in_an_option() -> None:
    """DTensor remembers what it chose; a call is not to get what another one was given."""
    from torch.distributed.tensor import Replicate, Shard

    torch.manual_seed(2)
    x, weight, bias = torch.randn(6, 8), torch.randn(10, 8), torch.randn(10)
    parts = split([x, weight, bias], (Shard(1), Shard(1), Replicate()))
    for activation in (None, "gelu", None, "none", "relu", "gelu"):
        result = tiled_mm.linear(*parts, activation=activation)
        assert result.placements[0].is_partial() == (activation in (None, "none"))
        right = tiled_mm.linear(x, weight, bias, activation=activation)
        torch.testing.assert_close(result.full_tensor(), right)
    halves = [t.bfloat16() for t in (x, weight)]
    parts = split(halves, (Shard(0), Shard(0)))
    for dtype in (None, torch.float32, None):
        result = tiled_mm.linear(*parts, out_dtype=dtype)
        assert result.dtype == result.to_local().dtype == (dtype or torch.bfloat16)
        equal(result.full_tensor(), tiled_mm.linear(*halves, out_dtype=dtype))


def layers(**options: object) -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(nn.Linear(12, 10, **options), nn.Linear(10, 6))


def step(net: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """The result, x's gradient, the parameters' gradients and the parameters after a step."""
    x = x.clone().requires_grad_()
    y = net(x)
    y.square().sum().backward()
    gradients = [whole(p.grad) for p in net.parameters()]
    torch.optim.AdamW(net.parameters(), lr=0.1, foreach=False).step()
    return [whole(y).detach(), x.grad, *gradients, *(whole(p).detach() for p in net.parameters())]


def parallelized(net: torch.nn.Module, styles: dict) -> torch.nn.Module:
    from torch.distributed.tensor import parallel

    return parallel.parallelize_module(net, mesh(), styles)


@case
def column_parallel() -> None:
    """Every bit but x's gradient's, to which each process has its columns' terms."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel

    for activation in (None, "relu", "gelu"):
        for lead in ((), (3,), (4, 3)):
            x = torch.randn(*lead, 12, generator=torch.Generator().manual_seed(6))
            right = step(layers(activation=activation)[0], x)
            style = ColwiseParallel(output_layouts=Replicate())
            ours = step(parallelized(layers(activation=activation)[0], style), x)
            torch.testing.assert_close(ours.pop(1), right.pop(1))
            for got, expected in zip(ours, right, strict=True):
                equal(got, expected)


@case
def row_parallel() -> None:
    """Where the layer has an activation, no sum is shared out and the forward has every bit."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel

    for activation in (None, "relu", "gelu"):
        for lead in ((), (3,), (4, 3)):
            x = torch.randn(*lead, 12, generator=torch.Generator().manual_seed(6))
            right = step(layers(activation=activation)[0], x)
            style = RowwiseParallel(input_layouts=Replicate())
            ours = step(parallelized(layers(activation=activation)[0], style), x)
            if activation is not None:
                equal(ours[0], right[0])
            torch.testing.assert_close(ours, right)


@case
def gradients_of_a_row_parallel_layer() -> None:
    """Given the same gradient of its result they have every bit: each is a product of rows or
    columns that one process has."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel

    x, found = torch.randn(4, 12, generator=torch.Generator().manual_seed(6)), []
    for split in (False, True):
        layer, mine = layers()[0], x.clone().requires_grad_()
        if split:
            layer = parallelized(layer, RowwiseParallel(input_layouts=Replicate()))
        layer(mine).sum().backward()
        found.append([mine.grad, whole(layer.weight.grad), whole(layer.bias.grad)])
    for got, expected in zip(*found, strict=True):
        equal(got, expected)


@case
def a_perceptron() -> None:
    """Columns, then rows, as the styles are meant; the first bits are one process's."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    for activation in ("relu", "gelu", "silu"):
        x = torch.randn(4, 3, 12, generator=torch.Generator().manual_seed(7))
        net = parallelized(
            layers(activation=activation), {"0": ColwiseParallel(), "1": RowwiseParallel()}
        )
        torch.testing.assert_close(step(net, x), step(layers(activation=activation), x))
        with torch.inference_mode():
            torch.testing.assert_close(whole(net(x)), net(x))


@case
def a_sequence() -> None:
    """Between the layers each process has its part of the sequence."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
    )

    def net() -> torch.nn.Sequential:
        up, down = layers(activation="gelu")
        return torch.nn.Sequential(torch.nn.LayerNorm(12), up, down)

    styles = {
        "0": SequenceParallel(),
        "1": ColwiseParallel(input_layouts=Shard(1)),
        "2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    x = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(8))
    alone, ours = net(), parallelized(net(), styles)
    part = distribute_tensor(x, mesh(), [Shard(1)])
    result = ours(part)
    assert result.placements == (Shard(1),)
    torch.testing.assert_close(result.full_tensor(), alone(x))
    alone(x).square().sum().backward()
    result.square().sum().full_tensor().backward()
    for got, right in zip(ours.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(got.grad.full_tensor(), right.grad)


@case
def fully_sharded_layers() -> None:
    """convert() of layers that fully_shard has been called for, and before: the same training."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    def trained(order: str) -> list[Tensor]:
        net = torch.nn.Sequential(
            torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6, bias=False)
        )
        generator = torch.Generator().manual_seed(9)
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
        if order == "before":
            tiled_mm.convert(net)
        for module in (net[0], net[2], net):
            fully_shard(module, mesh=mesh())
        if order != "before":
            tiled_mm.convert(net)
            for layer in (net[0], net[2]):
                assert isinstance(layer, nn.Linear) and isinstance(layer, FSDPModule)
        if order == "back":
            tiled_mm.convert(net, back=True)
            assert not any(isinstance(layer, nn.Linear) for layer in net)
        x = torch.randn(5, 12, generator=generator)
        with profile() as found:
            net(x).square().sum().backward()
        ours = sum(event.name == "tiled::linear" for event in found.events())
        assert ours == (0 if order == "back" else 2), ours
        return [parameter.grad.full_tensor() for parameter in net.parameters()]

    before, after, back = map(trained, ("before", "after", "back"))
    for one, other, torchs in zip(before, after, back, strict=True):
        equal(other, one)
        torch.testing.assert_close(torchs, one)


@case
def a_mesh_of_two_dimensions() -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(9)
    x, weight = torch.randn(4, 8), torch.randn(6, 8)
    for sizes in ((1, PROCESSES), (PROCESSES, 1)):
        result = tiled_mm.linear(
            distribute_tensor(x, mesh(*sizes), [Shard(0), Shard(0)]),
            distribute_tensor(weight, mesh(*sizes), [Shard(0), Shard(0)]),
            activation="gelu",
        )
        equal(result.full_tensor(), tiled_mm.linear(x, weight, activation="gelu"))


@case
def training_has_one_processs_parameters() -> None:
    """A model of whole numbers, whose layers convert() has changed: every sum is exact."""
    found = train_in_parallel(tiled_mm.convert(make_net()), inputs())
    for got, right in zip(found, one_process(), strict=True):
        equal(got, right)


def process(rank: int, port: int, results: list) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES
    )
    torch.set_num_threads(1)
    found = {}
    for name, run in CASES.items():
        try:
            run()
            found[name] = ""
        except Exception:  # both processes meet it, so neither waits for the other
            found[name] = traceback.format_exc()
    results[rank] = found
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def found() -> Iterator[list[dict[str, str]]]:
    """What every case said, in every process."""
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.list([{}] * PROCESSES)
        torch.multiprocessing.spawn(process, (free_port(), results), nprocs=PROCESSES)
        yield list(results)


@pytest.mark.parametrize("name", CASES)
def test_two_processes(name: str, found: list[dict[str, str]]) -> None:
    said = "\n".join(of_process.get(name, "nothing") for of_process in found).strip()
    assert not said, said


ORDERS = {
    "before": "import tiled_mm; assert 'torch.distributed.tensor' not in sys.modules",
    "after": "import torch.distributed.tensor; import tiled_mm",
    "after a look-up": (
        "import importlib.util, tiled_mm; "
        "assert importlib.util.find_spec('torch.distributed.tensor').loader.is_package; "
        "assert importlib.util.find_spec('torch.distributed.tensor')"
    ),
    "after look-ups of threads": (
        "import importlib.util, threading, tiled_mm; threading.excepthook = sys.excepthook; "
        "found = []; look = lambda: found.append("
        "importlib.util.find_spec('torch.distributed.tensor')); "
        "threads = [threading.Thread(target=look) for _ in range(8)]; "
        "[t.start() for t in threads]; [t.join() for t in threads]; assert len(found) == 8"
    ),
    "in threads": (
        "import importlib, threading, tiled_mm; threads = [threading.Thread("
        "target=importlib.import_module, args=('torch.distributed.tensor',)) for _ in range(4)]; "
        "[t.start() for t in threads]; [t.join() for t in threads]"
    ),
    "before, and loaded anew": (
        "import importlib, tiled_mm; importlib.reload(tiled_mm); "
        "import torch.distributed.tensor; importlib.reload(tiled_mm)"
    ),
}
ALONE = """
import torch.distributed.tensor.parallel  # comes by the parent package
from torch import distributed
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
loader = torch.distributed.tensor.__spec__.loader
assert loader is torch.distributed.tensor.__loader__
assert not type(loader).__module__.startswith('tiled_mm')
distributed.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{sys.argv[1]}', rank=0,
                               world_size=1)
mesh = torch.distributed.device_mesh.init_device_mesh('cpu', (1,))
x = distribute_tensor(torch.ones(2, 3), mesh, [Replicate()])
assert isinstance(tiled_mm.linear(x, x), DTensor)
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("order", ORDERS)
def test_the_rules_come_with_dtensor(order: str) -> None:
    """In either order; and the package does not import it, which takes more than a second."""
    code = "import sys, torch\n" + ORDERS[order] + ALONE
    run = subprocess.run(
        [sys.executable, "-c", code, str(free_port())], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_no_part_of_a_sum_where_activations_are_not_told_apart() -> None:
    """As on a torch that does not say how it tells calls apart."""
    from tiled_mm.distributed import _Rules, _tell_activations_apart

    operands = [SimpleNamespace(shape=(8, 8), placements=())] * 3
    for may_be_partial in (False, True):
        rules = _Rules(may_be_partial)
        for rule in (rules.linear(1), rules.addmm(1)):
            for activation in (None, "gelu"):
                results = [c for (c,), _ in rule(*operands, activation=activation)]
                assert any(c.is_partial() for c in results) == (
                    may_be_partial and activation is None
                )
    assert not _tell_activations_apart([torch.ops.aten.mm.out])
