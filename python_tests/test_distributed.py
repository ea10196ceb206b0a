"""DTensor and torch's parallel styles with the library's own operators: several processes on one
machine beside one process. The cases are in parallel_*.py, and all processes run all of them; a
result has one process's bits wherever no sum is shared out, or is exact."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace

import parallel_grouped
import parallel_layers
import parallel_products
import parallel_scaled
import parallel_training
import parallel_written
import pytest
import tiled_mm
import torch
from processes import free_port, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

MODULES = (
    parallel_products,
    parallel_grouped,
    parallel_scaled,
    parallel_written,
    parallel_layers,
    parallel_training,
)
NAMES = [name for module in MODULES for name in module.CASES]


@pytest.mark.parametrize("said", [(2, "gloo"), (4, "gloo")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_processes(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]


@pytest.mark.cuda
@pytest.mark.parametrize("said", [(2, "nccl"), (4, "nccl")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_gpus(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]


def test_the_steps_that_are_compared_change_every_parameter() -> None:
    net, inputs = parallel_training.make_net(), parallel_training.inputs()
    hidden = net[0](inputs[0]).relu()
    after = parallel_training.train(copy.deepcopy(net), inputs)
    assert hidden.count_nonzero() > 0
    for before, now in zip(net.parameters(), after, strict=True):
        assert not torch.equal(before, now)


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


def test_the_rules_keep_dtensors_fast_path() -> None:
    """Registered with every option by name and without a pytree, on this torch too: by torch's
    public function a call takes twice as long, and a sum is never shared out by addmm or linear."""
    from torch.distributed.tensor import DTensor

    known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for name in ("mm", "bmm", "addmm", "baddbmm", "linear", "_linear_with_pre_activation"):
        info = known[getattr(torch.ops.tiled, name).default]
        assert not info.needs_pytree
        with tiled_mm.sum_order("tree"):  # which it tells apart by that alone
            assert info.needs_pytree
        assert {"algo", "precision", "out_dtype"} <= set(info.static_kwargkey)
        assert name in ("mm", "bmm") or "activation" in info.static_kwargkey


def test_no_part_of_a_sum_where_calls_are_not_told_apart() -> None:
    """By an activation and an order of sums, as on a torch that does not say how it does."""
    from tiled_mm._placements import rules_of

    operands = [SimpleNamespace(shape=(8, 8), placements=())] * 3
    for may_be_partial in (False, True):
        for name, count in {"mm": 2, "linear_weight_grad": 2, "linear": 3, "addmm": 3}.items():
            for activation in (None, "gelu") if count == 3 else (None,):
                given = operands[:count]
                rules = rules_of(name, (), may_be_partial, *given, activation=activation)
                assert any(c.is_partial() for (c,), _ in rules) == (
                    may_be_partial and activation is None
                )
