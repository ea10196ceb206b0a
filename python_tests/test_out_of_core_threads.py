"""The threads of out_of_core, and the one that calls it: threads that cannot start, calls from many
threads, modes of the caller, and tensors that have no memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cases
import numpy as np
import pytest
import tiled_mm
import torch
from cases import each
from streaming import MIB, on_cpu, same, start
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

GIB = 2**30

# ---- threads that cannot start ----------------------------------------------------------------

# Every thread takes a GiB of addresses for its stack, and the process may have `free` more: so many
# threads start, whoever runs it.
STARTS = """
import resource, tiled_mm, torch
from streaming import MIB, on_cpu, same
GIB = 2**30
a, b = torch.randn(300, 400), torch.randn(400, 300)
expected = tiled_mm.mm(a, b)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]

def attempt(free):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + free * GIB + GIB // 2, hard))
    try:
        return on_cpu(a, b, capacities=(MIB,) * 2, slow=0.01)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

for free in range(12):  # three queues for each device, the job, another device, two stages each
    try:
        same(attempt(free), expected)
    except RuntimeError as error:
        assert "cannot start a thread" in str(error), error
        print("refused", free)
    assert torch.ops.tiled_debug.out_of_core_on_cpu_holds() == [0, 0, 0]
same(attempt(12), expected)
"""


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY,
    reason="stacks may not be as large as the test needs them",
)
def test_a_thread_that_cannot_start_is_an_error_and_not_the_end_of_the_process() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STARTS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
        cwd=Path(__file__).parent,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (GIB, resource.RLIM_INFINITY)),
    )
    assert run.returncode == 0, run.stderr
    refused = [int(line.split()[1]) for line in run.stdout.splitlines()]
    assert refused == list(range(len(refused))) and len(refused) >= 8


# ---- calls from many threads ------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_many_threads_stop_a_job_together() -> None:
    a, b = cases.pair(200, 200, 1000, torch.float32, "cpu")
    for _ in range(30):
        job = start(a, b, capacities=(MIB,), slow=0.002)
        together = threading.Barrier(8)

        def stop(job=job, together=together) -> bool:
            together.wait()
            job.stop()
            return job.wait(0)  # all threads have ended, whichever call it was that joined them

        with ThreadPoolExecutor(8) as pool:
            assert all(f.result() for f in [pool.submit(stop) for _ in range(8)])


@pytest.mark.usefixtures("nothing_left")
def test_the_error_of_a_job_is_the_same_at_every_call() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    job = start(a, b, capacities=(2 * MIB,), fail_at=2)
    while not job.wait(1):
        pass

    def message(_: int) -> str:
        with pytest.raises(RuntimeError, match="the device has failed") as caught:
            job.result()
        return str(caught.value)

    with ThreadPoolExecutor(8) as pool:
        messages = set(pool.map(message, range(40)))
    assert len(messages) == 1 and messages.pop().count("tiles of out are done") == 1


@pytest.mark.usefixtures("nothing_left")
def test_a_job_that_runs_has_no_result_yet() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    job = start(a, b, capacities=(2 * MIB,), slow=0.05)
    with pytest.raises(RuntimeError, match="has not ended"):
        job.result()
    job.stop()


# ---- modes of the caller ----------------------------------------------------------------------

DEEP = 32768 + 4096


@pytest.mark.usefixtures("nothing_left")
@each("k", (700, DEEP))  # of which the second is added up on the device
@each("out", ("none", "ordinary", "inference"))
@each("operands", ("ordinary", "inference"))
def test_in_inference_mode(operands: str, out: str, k: int) -> None:
    a, b = cases.pair(60, 70, k, torch.bfloat16, "cpu")
    expected = tiled_mm.mm(a, b)
    c = torch.zeros(60, 70, dtype=a.dtype) if out == "ordinary" else None
    with torch.inference_mode():
        if operands == "inference":
            a, b = a.clone(), b.clone()
        if out == "inference":
            c = torch.zeros(60, 70, dtype=a.dtype)
        found = on_cpu(a, b, c, capacities=(4 * MIB,))
        same(found, expected)
        assert c is None or found is c
    assert found.is_inference() == (out != "ordinary")


@pytest.mark.usefixtures("nothing_left")
def test_inference_tensors_outside_of_inference_mode() -> None:
    a, b = cases.pair(60, 70, 700, torch.float32, "cpu")
    with torch.inference_mode():
        inference, out = a.clone(), torch.zeros(60, 70)
    found = on_cpu(inference, b)
    same(found, tiled_mm.mm(a, b))
    assert not found.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside") as torchs:
        torch.mm(a, b, out=out)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside") as ours:
        on_cpu(a, b, out)
    assert str(ours.value) == str(torchs.value)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "mode",
    (
        torch.no_grad,
        torch.enable_grad,
        partial(torch.autocast, "cpu", torch.bfloat16),
        partial(FlopCounterMode, display=False),
        torch.autograd.profiler.profile,
        torch.autograd.detect_anomaly,
    ),
)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_modes_of_the_caller_change_nothing(mode: Callable) -> None:
    a, b = cases.pair(60, 70, DEEP, torch.float32, "cpu")
    expected = tiled_mm.mm(a, b)
    with mode():
        same(on_cpu(a, b, capacities=(4 * MIB,)), expected)


def test_gradients_are_refused_forward_too() -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, "cpu")
    refused = "does not support automatic differentiation, but {} has a tangent"
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=refused.format("b")):
        on_cpu(a, forward_ad.make_dual(b, b))
    with pytest.raises(RuntimeError, match=refused.format("a")):
        torch.func.jvp(lambda x: on_cpu(x, b), (a,), (a,))


# ---- tensors without memory of their own ------------------------------------------------------


def test_tensors_without_memory_are_refused() -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, "cpu")
    wrapped = {
        "vmap": lambda: torch.vmap(on_cpu, (0, None))(a[None], b),
        "functionalize": lambda: torch.func.functionalize(on_cpu)(a, b),
        "zero tensor": lambda: on_cpu(torch._efficientzerotensor((5, 7)), b),
    }
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = mode.from_tensor(a)
    wrapped["fake operand"] = lambda: on_cpu(fake, b)
    for name, call in wrapped.items():
        with pytest.raises(NotImplementedError, match="and a has none"):
            call()
            pytest.fail(name)
    with mode, pytest.raises(NotImplementedError, match="and out has none"):
        on_cpu(a, b)


def test_freed_storage_is_refused_as_by_torch() -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, "cpu")
    freed = a.clone()
    freed.untyped_storage().resize_(0)
    out = torch.empty(5, 6)
    out.untyped_storage().resize_(0)
    right = b.clone()
    right.untyped_storage().resize_(0)
    for operands in ((freed, b), (a, right), (a, b, out)):
        with pytest.raises(RuntimeError, match="its data is not allocated yet"):
            on_cpu(*operands)


def test_out_is_apart_from_operands_of_another_storage() -> None:
    array = np.zeros((6, 6), dtype=np.float32)
    a, out = torch.from_numpy(array), torch.from_numpy(array)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        on_cpu(a, torch.eye(6), out)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        on_cpu(torch.eye(3), a[2:5, :3], out[:3, :3])
    on_cpu(torch.eye(3), a[3:, :3], out[:3, :3])  # the rows before
    square = torch.rand(6, 6)
    copy = torch._lazy_clone(square)
    same(on_cpu(square, torch.eye(6), copy), square)


# ---- on a GPU ---------------------------------------------------------------------------------


@pytest.mark.cuda
@each("k", (700, DEEP))
@each("dtype", (torch.float32, torch.bfloat16))
def test_modes_of_the_caller_on_the_gpu(dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(300, 400, k, dtype, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    memory = 2 * 2 * 130 * 4096 * a.element_size() + 8 * MIB
    with torch.inference_mode():
        found = tiled_mm.out_of_core(a, b, memory=memory)
        pinned = torch.empty(300, 400, dtype=dtype).pin_memory()
        tiled_mm.out_of_core(a.pin_memory(), b.pin_memory(), pinned, memory=memory)
        assert found.is_inference()
    same(found, expected)
    same(pinned, expected)
    with torch.autocast("cuda", torch.float16), torch.enable_grad():
        same(tiled_mm.out_of_core(a, b, memory=memory), expected)


@pytest.mark.cuda
def test_the_current_gpu_is_named_once() -> None:
    a = torch.randn(4, 4)
    with pytest.raises(RuntimeError, match=r"device cuda:\d is named twice"):
        tiled_mm.out_of_core(a, a, devices=["cuda", torch.cuda.current_device()])
