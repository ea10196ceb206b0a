"""Products streamed through a device with too little memory. A CPU plays the device: it has a few
MiB that it counts, copies in threads of its own, and multiplies by tiled_mm.mm, so that bits,
interruptions and failures are the same everywhere. The GPU's tests stand at the end."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import cases
import pytest
import tiled_mm
import torch
from cases import each
from streaming import (
    MIB,
    check_tiles,
    done_of,
    on_cpu,
    pageable,
    pinned,
    same,
    start,
    tiles_of,
)
from tiled_mm import _scale

DEEP = 32768  # the smallest K that is cut
PIECE = 4096  # elements of a segment


@pytest.mark.usefixtures("nothing_left")
@each("dtype", cases.DTYPES)
def test_bits_are_those_of_mm(dtype: torch.dtype) -> None:
    check_bits(300, 500, 700, dtype)


@pytest.mark.usefixtures("nothing_left")
@each(
    "shape", ((1, 2000, 3000), (2000, 1, 3000), (257, 129, 5000), (200, 200, 20000), (800, 800, 5))
)
@each("dtype", (torch.float32, torch.bfloat16))
def test_bits_of_other_shapes(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    check_bits(*shape, dtype)


def check_bits(m: int, n: int, k: int, dtype: torch.dtype) -> None:
    a, b = cases.pair(m, n, k, dtype, "cpu")
    job = start(a, b, capacities=((a.nbytes + b.nbytes + m * n * a.element_size()) // 2,))
    assert tiles_of(job) > 1
    same(_scale._wait_for(job, False), tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
@each("dtype", cases.DTYPES)
def test_where_k_is_cut_segments_are_added_in_their_order(dtype: torch.dtype) -> None:
    """Little memory and deep K: tiles of C stay, and K goes by in pieces."""
    a, b = cases.pair(40, 50, DEEP + PIECE + 77, dtype, "cpu")
    job = start(a, b, capacities=(90 * PIECE * 2 * a.element_size() + MIB,))
    same(_scale._wait_for(job, False), tiled_mm.mm(a, b))
    # More came over the link than the operands once, or they did, in pieces: all of K does not fit.
    assert a.nbytes + b.nbytes > 90 * PIECE * 2 * a.element_size() + MIB


@pytest.mark.usefixtures("nothing_left")
def test_segments_of_special_values() -> None:
    k = DEEP + PIECE
    a, b = cases.pair(8, 8, k, torch.complex64, "cpu")
    a[0, 5000], a[1, 9000] = float("inf"), float("nan")
    b[100, 2] = complex(0, float("inf"))
    memory = 2 * 16 * PIECE * 8 + MIB // 8 + MIB  # the last that a large allocation may take
    expected = tiled_mm.mm(a, b)
    found = on_cpu(a, b, capacities=(memory,))
    torch.testing.assert_close(
        torch.view_as_real(found), torch.view_as_real(expected), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.usefixtures("nothing_left")
@each("dtype", cases.HALVES)
@each("k", (700, DEEP + 100))
def test_unrounded_sums(k: int, dtype: torch.dtype) -> None:
    a, b = cases.pair(100, 100, k, dtype, "cpu")
    found = on_cpu(a, b, capacities=(4 * MIB,), out_dtype=torch.float32)
    same(found, tiled_mm.mm(a, b, out_dtype=torch.float32))


@pytest.mark.usefixtures("nothing_left")
@each("dtype", (torch.int8, torch.uint8))
@each("k", (700, DEEP + PIECE + 77))
def test_int32_sums_of_bytes(k: int, dtype: torch.dtype) -> None:
    """Parts of a K that goes by in pieces are kept in 32 bits too."""
    a, b = cases.pair(40, 50, k, dtype, "cpu")
    expected = (a.long() @ b.long()).int()
    assert expected.abs().max() > 255
    capacity = 90 * PIECE * 2 + MIB
    same(on_cpu(a, b, capacities=(capacity,), out_dtype=torch.int32), expected)
    assert k == 700 or a.nbytes + b.nbytes > capacity


@pytest.mark.usefixtures("nothing_left")
@each("dtype", (torch.float32, torch.int8))
def test_any_strides_of_all_three(dtype: torch.dtype) -> None:
    a, b = cases.pair(130, 170, 900, dtype, "cpu")
    expected = tiled_mm.mm(a, b)
    lefts, rights, results = (
        [x for _, x in cases.laid_out(t)] for t in (a, b, torch.zeros_like(expected))
    )
    for i, x in enumerate(lefts):
        for y in (rights[i], rights[i - 3]):
            out = results[i - 5]
            assert on_cpu(x, y, out.zero_(), capacities=(MIB,)) is not None
            same(out, expected)
    same(on_cpu(a[:, :1], b[:1]), tiled_mm.mm(a[:, :1], b[:1]))
    same(on_cpu(a[:1].expand(50, -1), b), tiled_mm.mm(a[:1].expand(50, -1), b))


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("by_columns", range(8))
def test_pinned_memory_is_copied_as_it_lies(by_columns: int) -> None:
    a, b = cases.pair(200, 300, 1000, torch.float32, "cpu")
    out = torch.empty(200, 300)
    lay = [
        pinned(x.t()).t() if by_columns >> i & 1 else pinned(x) for i, x in enumerate((a, b, out))
    ]
    job = start(*lay, capacities=(MIB,))
    while not job.wait(0.001):
        assert torch.ops.tiled_debug.out_of_core_on_cpu_holds()[1] == 0
    job.result()
    same(lay[2], tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
def test_a_lazy_conjugate_is_taken() -> None:
    a, b = cases.pair(60, 70, 800, torch.complex64, "cpu")
    same(on_cpu(pinned(a).conj(), b.conj(), capacities=(MIB,)), tiled_mm.mm(a.conj(), b.conj()))


@pytest.mark.usefixtures("nothing_left")
def test_files_are_streamed(tmp_path) -> None:
    a, b = cases.pair(200, 300, 1000, torch.float32, "cpu")
    mapped = []
    for name, x in (("a", a), ("b", b)):
        file = torch.from_file(
            str(tmp_path / name), shared=True, size=x.numel(), dtype=x.dtype
        ).view(x.shape)
        mapped.append(file.copy_(x))
    same(on_cpu(*mapped, capacities=(MIB,)), tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
def test_kernels_read_mapped_memory() -> None:
    a, b = cases.pair(200, 300, 1000, torch.float32, "cpu")
    same(on_cpu(pinned(a), pinned(b), copy=False, capacities=(MIB,)), tiled_mm.mm(a, b))
    for operands in ((pageable(a), pinned(b)), (pinned(a), pageable(b))):
        with pytest.raises(RuntimeError, match=r"copy=False .* takes pinned memory"):
            on_cpu(*operands, copy=False)


@pytest.mark.usefixtures("nothing_left")
@each("shape", cases.EMPTY_SHAPES)
def test_nothing_to_compute(shape: tuple[int, int, int]) -> None:
    a, b = cases.pair(*shape, torch.float32, "cpu")
    same(on_cpu(a, b), tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
def test_devices_share_out_the_tiles_and_a_slow_one_holds_nobody_up() -> None:
    a, b = cases.pair(600, 600, 2000, torch.float32, "cpu")
    job = start(a, b, capacities=(2 * MIB,) * 3, slow=0.2)
    tiles = tiles_of(job)
    assert tiles >= 12
    same(_scale._wait_for(job, False), tiled_mm.mm(a, b))
    # An equal share of the slow one's alone would take tiles / 3 times 0.2 s.
    assert _scale.Progress(*job.progress()).seconds < 0.2 * tiles / 3 + 1


# ---- progress ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_progress_is_told() -> None:
    a, b = cases.pair(300, 300, 2000, torch.float32, "cpu")
    seen: list[tiled_mm.Progress] = []
    on_cpu(a, b, capacities=(2 * MIB,), slow=0.002, progress=seen.append)
    assert all(x.tiles_done <= y.tiles_done for x, y in itertools.pairwise(seen))
    last = seen[-1]
    assert last.tiles_done == last.tiles > 1
    assert last.bytes_out == 300 * 300 * 4
    assert last.bytes_in >= a.nbytes + b.nbytes
    assert last.flops_done == 2 * 300 * 300 * 2000
    assert last.seconds_left == 0


@pytest.mark.usefixtures("nothing_left")
@each("asked", (True, False, None))
def test_the_bar(asked: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = cases.pair(100, 100, 1000, torch.float32, "cpu")
    on_cpu(a, b, capacities=(MIB,), progress=asked)
    shown = capsys.readouterr().err  # no terminal
    assert bool(shown) == (asked is True)
    if shown:
        done, tiles = re.findall(r"(\d+)/(\d+) tiles", shown)[-1]
        assert done == tiles and shown.endswith("\n")


# ---- what ends a product early ----------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_an_exception_in_the_progress_ends_the_product() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    out = torch.full((400, 400), -1e30)

    def fail(now: tiled_mm.Progress) -> None:
        if now.tiles_done:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough") as caught:
        on_cpu(a, b, out, capacities=(2 * MIB,), slow=0.05, progress=fail)
    done, tiles = done_of(caught.value)
    assert 0 < done < tiles
    check_tiles(out, torch.full_like(out, -1e30), tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
@each("devices", (1, 3))
def test_a_failing_device(devices: int) -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    out = torch.full((400, 400), -1e30)
    with pytest.raises(RuntimeError, match="the device has failed") as caught:
        on_cpu(a, b, out, capacities=(2 * MIB,) * devices, fail_at=2 if devices == 1 else 0)
    done, tiles = done_of(caught.value)
    assert done < tiles
    check_tiles(out, torch.full_like(out, -1e30), tiled_mm.mm(a, b))


@pytest.mark.usefixtures("nothing_left")
def test_out_of_memory_is_tried_once_more_with_smaller_tiles() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    # The plan takes the memory to be 4 MiB, and the device has 3.
    planned = start(a, b, memory=4 * MIB, capacities=(8 * MIB,))
    job = start(a, b, memory=4 * MIB, capacities=(5 * MIB // 2,))
    same(_scale._wait_for(job, False), tiled_mm.mm(a, b))
    assert tiles_of(job) > tiles_of(planned)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory") as caught:
        on_cpu(a, b, memory=4 * MIB, capacities=(MIB // 2,))
    assert done_of(caught.value)[0] == 0
    del planned


@pytest.mark.usefixtures("nothing_left")
def test_too_little_memory_for_any_tile() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    with pytest.raises(RuntimeError, match=r"not even the smallest tiles .* fit into 10000 bytes"):
        on_cpu(a, b, memory=10000)


@pytest.mark.usefixtures("nothing_left")
def test_a_stopped_job_has_no_result() -> None:
    a, b = cases.pair(400, 400, 2000, torch.float32, "cpu")
    job = start(a, b, capacities=(2 * MIB,), slow=0.05)
    job.stop()
    with pytest.raises(RuntimeError, match="out_of_core was stopped"):
        job.result()


class Interrupted(KeyboardInterrupt):
    pass


def interrupt(*_: object) -> None:
    raise Interrupted


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.usefixtures("nothing_left")
def test_a_hundred_interruptions_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scale, "_SECONDS_BETWEEN_CALLS", 0.002)  # or they would be seen together
    a, b = cases.pair(300, 300, 500, torch.float32, "cpu")
    expected = tiled_mm.mm(a, b)
    begin = time.monotonic()
    on_cpu(a, b, capacities=(MIB // 2,) * 2)
    whole = time.monotonic() - begin
    chance = random.Random(23)
    before = threads()
    old = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for _ in range(100):
            out = torch.full((300, 300), -1e30)
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, 1.5 * whole))
                on_cpu(a, b, out, capacities=(MIB // 2,) * 2, slow=0.002)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            check_tiles(out, torch.full_like(out, -1e30), expected)
            assert torch.ops.tiled_debug.out_of_core_on_cpu_holds() == [0, 0, 0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interrupted > 30
    deadline = time.monotonic() + 5  # the system's own clearing up after a thread takes a moment
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() <= before


# ---- errors before any work -------------------------------------------------------------------


@each("door", ("cpu", "cuda"))
def test_bad_input_is_refused_in_torchs_words(door: str) -> None:
    run = on_cpu if door == "cpu" else tiled_mm.out_of_core
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    wrong = [
        ((a[0], b), "self must be a matrix"),
        ((a, b[0]), "mat2 must be a matrix"),
        ((a, a), r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"),
        ((a, b.double()), "expected m1 and m2 to have the same dtype"),
        ((a, b, torch.empty(3, 6)), "out has shape"),
        ((a, b, torch.empty(0)), "out_of_core does not resize it"),
        ((a, b, torch.empty(3, 5).double()), "Expected out tensor to have dtype"),
        ((a, b, torch.empty(1, 5).expand(3, 5)), "more than one element of the written-to tensor"),
        ((a.clone().requires_grad_(), b), "does not support automatic differentiation"),
    ]
    for operands, message in wrong:
        with pytest.raises(RuntimeError, match=message):
            run(*operands)
    square = torch.randn(4, 4)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        run(square, square, square)
    with pytest.raises(RuntimeError, match="streams CPU tensors, but a is on meta"):
        run(square.to("meta"), square)
    with pytest.raises(RuntimeError, match="unknown precision 'exact'"):
        run(square, square, precision="exact") if door == "cpu" else tiled_mm.explain_out_of_core(
            square, square, precision="exact", device="h200"
        )
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        run(square.bool(), square.bool())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: nothing to refuse")
def test_without_a_gpu_it_says_so() -> None:
    a = torch.randn(4, 4)
    built = tiled_mm.build_info()["cuda"] is not None
    error = RuntimeError if built else NotImplementedError
    text = "No CUDA GPUs are available" if built else "built without CUDA"
    for function in (tiled_mm.out_of_core, tiled_mm.explain_out_of_core, tiled_mm.plan_out_of_core):
        with pytest.raises(error, match=text) as refusal:
            function(a, a)
        assert "on the CPU there is tiled_mm.mm" in str(refusal.value)
        assert "move the tensors" not in str(refusal.value)  # they are where they belong


@each("function", ("out_of_core", "explain_out_of_core", "plan_out_of_core"))
def test_devices_that_are_no_gpus_are_refused(function: str) -> None:
    a = torch.randn(4, 4)
    named = {} if function == "out_of_core" else {"device": "h200"}

    def run(devices: object) -> object:
        return getattr(tiled_mm, function)(a, a, devices=devices, **named)

    for devices in (["cpu"], "cpu", torch.device("cpu"), [torch.device("meta")], ["cuda:0", "cpu"]):
        with pytest.raises(RuntimeError, match=r"computes on GPUs, not on (cpu|meta)"):
            run(devices)
    for devices in (["cuda:1", 1], [0, 0], ["cuda", "cuda"]):
        with pytest.raises(RuntimeError, match=r"device cuda(:\d)? is named twice"):
            run(devices)
    with pytest.raises(RuntimeError, match="devices names none"):
        run([])
    for devices in ([-1], ["gpu"], ["cuda:-1"]):
        with pytest.raises(RuntimeError, match=r"[Dd]evice"):
            run(devices)
    for devices in (True, 2.5):
        with pytest.raises(TypeError, match=f"devices must be CUDA devices.*not {devices}"):
            run(devices)
    for number in (0, -1):
        error = TypeError if function == "out_of_core" else RuntimeError
        with pytest.raises(error, match="devices"):
            run(number)


def test_a_progress_that_cannot_be_called_is_refused_before_any_work() -> None:
    a = torch.randn(4, 4)
    with pytest.raises(TypeError, match="progress must be a bool or a function, not 'yes'"):
        tiled_mm.out_of_core(a, a, progress="yes")


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(),
    reason="the system has no transparent huge pages",
)
def test_a_new_result_may_have_large_pages() -> None:
    a = torch.ones(4000, 8)
    found = on_cpu(a, a.t(), capacities=(16 * MIB,))
    inside = found.data_ptr() + found.nbytes // 2
    flags = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_its = int(bounds[1], 16) <= inside < int(bounds[2], 16)
        elif is_its and line.startswith("VmFlags"):
            flags = line
    assert "hg" in flags.split()


# ---- explain ----------------------------------------------------------------------------------


def test_explain_plans_for_named_devices() -> None:
    a, b = cases.meta(65536, 65536, 65536, torch.float32)
    text = tiled_mm.explain_out_of_core(a, b, memory=8 * 2**30, device="h200")
    assert "NVIDIA H200" in text and "bound by       arithmetic" in text
    plan = tiled_mm.plan_out_of_core(a, b, memory=8 * 2**30, device="h200")
    assert plan.device_bytes <= plan.memory == 8 * 2**30
    assert plan.bytes_in >= plan.compulsory_bytes_in == 2 * 65536**2 * 4
    assert plan.bytes_out == 65536**2 * 4
    assert plan.seconds["in"] == pytest.approx(plan.bytes_in / plan.rates.to_device)
    assert plan.bound == "arithmetic"
    # Nearly all of the copies are hidden: with a room for everything it would take as long.
    room = tiled_mm.plan_out_of_core(a, b, memory=100 * 2**30, device="h200")
    assert plan.seconds.flops < room.seconds.estimate <= 1.01 * plan.seconds.estimate
    assert plan.seconds.estimate < 1.05 * room.seconds.estimate
    two = tiled_mm.plan_out_of_core(a, b, memory=8 * 2**30, device="h200", devices=2)
    assert two.devices == 2 and two.seconds.estimate < 0.55 * plan.seconds.estimate


IN_LITTLE_MEMORY = r"""
import re, resource, sys, tiled_mm, torch
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
codes = re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)
exec(next(code for code in codes if "out_of_core" in code))
"""


def test_the_page_explains_without_the_memory() -> None:
    page = Path(__file__).parents[1] / "docs" / "scale.md"
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, str(page)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("out of core on 1 x NVIDIA H200")


@pytest.mark.parametrize("name", tiled_mm.devices())
def test_every_named_device_has_a_plan(name: str) -> None:
    a, b = cases.meta(20000, 30000, 10000, torch.float32)
    plan = tiled_mm.plan_out_of_core(a, b, device=name)
    assert plan.device_bytes <= plan.memory


def test_plans_of_few_columns_are_bound_by_the_link() -> None:
    a, b = cases.meta(65536, 64, 65536, torch.float32)
    plan = tiled_mm.plan_out_of_core(a, b, device="h200")
    assert plan.bound == "link in" and plan.bytes_in < 1.01 * plan.compulsory_bytes_in
    mapped = tiled_mm.plan_out_of_core(a, b, device="h200", copy=False)
    assert mapped.device_bytes < plan.device_bytes


def test_fp16x3_is_never_cut() -> None:
    a, b = cases.meta(8192, 8192, 2**19, torch.float32)
    options = {"memory": 2 * 2**30, "device": "h200"}
    cut = tiled_mm.plan_out_of_core(a, b, precision="ieee", **options)
    assert cut.stays == "c" and cut.tile.k == PIECE
    whole = tiled_mm.plan_out_of_core(a[:, : 2**16], b[: 2**16], precision="fp16x3", **options)
    assert whole.stays != "c" and whole.workspace_bytes > 0


# ---- on a GPU ---------------------------------------------------------------------------------


@pytest.mark.cuda
@each("dtype", cases.DTYPES)
@each("k", (700, DEEP + PIECE + 77))
@each("memory", (4 * MIB, 64 * MIB, None))
def test_bits_are_those_of_mm_on_the_gpu(dtype: torch.dtype, k: int, memory: int | None) -> None:
    a, b = cases.pair(700, 900, k, dtype, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    if memory == 4 * MIB and k > DEEP:
        memory = 2 * 2 * 130 * PIECE * a.element_size() + 4 * MIB
    same(tiled_mm.out_of_core(a, b, memory=memory), expected)
    out = torch.empty_like(expected).pin_memory()
    assert tiled_mm.out_of_core(a.pin_memory(), b.pin_memory(), out, memory=memory) is out
    same(out, expected)


@pytest.mark.cuda
@pytest.mark.tensor_cores
@each("precision", ("ieee", "tf32", "fp16x3"))
@each("k", (3000, DEEP + 100))
def test_precisions_on_the_gpu(precision: str, k: int) -> None:
    a, b = cases.pair(700, 900, k, torch.float32, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda(), precision=precision).cpu()
    same(tiled_mm.out_of_core(a, b, precision=precision, memory=256 * MIB), expected)


@pytest.mark.cuda
@each("dtype", (torch.float32, torch.bfloat16))
def test_strides_on_the_gpu(dtype: torch.dtype) -> None:
    a, b = cases.pair(130, 170, 900, dtype, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    for _, x in cases.laid_out(a.pin_memory()):
        for _, y in cases.laid_out(b):
            same(tiled_mm.out_of_core(x, y, memory=4 * MIB), expected)


@pytest.mark.cuda
def test_kernels_read_pinned_memory_on_the_gpu() -> None:
    a, b = cases.pair(8, 3000, 5000, torch.bfloat16, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    same(tiled_mm.out_of_core(a.pin_memory(), b.pin_memory(), copy=False), expected)
    with pytest.raises(RuntimeError, match="takes pinned memory"):
        tiled_mm.out_of_core(a, b, copy=False)


@pytest.mark.cuda
@each("memory", (5 * MIB, 64 * MIB, 65 * MIB, 200 * MIB))
def test_memory_is_bounded_and_given_back_on_the_gpu(memory: int) -> None:
    a, b = (x.pin_memory() for x in cases.pair(3000, 3000, 3000, torch.float32, "cpu"))
    # In the allocator's store: nothing, then what the first product left there, then a free block
    # that is a little larger than what the product asks for.
    for in_store in (0, None, memory - 100 * 1024):
        if in_store is not None:
            torch.cuda.empty_cache()
            torch.empty(in_store, dtype=torch.uint8, device="cuda")
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        tiled_mm.out_of_core(a, b, memory=memory)
        assert torch.cuda.memory_allocated() == before
        assert torch.cuda.max_memory_allocated() - before <= memory


@pytest.mark.cuda
def test_work_in_the_current_stream_comes_first_on_the_gpu() -> None:
    """Memory that earlier work still uses may be handed to the job."""
    a, b = cases.pair(1000, 1000, 1000, torch.float32, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    for _ in range(5):
        busy = torch.randn(4000, 4000, device="cuda")
        results = [busy @ busy for _ in range(5)]
        del busy, results
        same(tiled_mm.out_of_core(a.pin_memory(), b.pin_memory(), memory=16 * MIB), expected)


@pytest.mark.cuda
def test_a_hundred_interruptions_leave_nothing_on_the_gpu() -> None:
    a, b = (x.pin_memory() for x in cases.pair(4000, 4000, 4000, torch.float32, "cpu"))
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    out = torch.empty(4000, 4000).pin_memory()
    ordinary = a.clone()  # goes through pinned pieces
    tiled_mm.out_of_core(ordinary, b, out, memory=64 * MIB)
    pinned_before = pinned_in_use()
    begin = time.monotonic()
    tiled_mm.out_of_core(ordinary, b, out, memory=64 * MIB)
    whole = time.monotonic() - begin
    before = threads(), torch.cuda.memory_allocated(), pinned_by_allocator()
    chance = random.Random(23)
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(100):
            out.fill_(-1e30)
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, 1.5 * whole))
                tiled_mm.out_of_core(ordinary, b, out, memory=64 * MIB)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                pass
            check_tiles(out, torch.full_like(out, -1e30), expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    deadline = time.monotonic() + 5
    while threads() > before[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() <= before[0]
    assert torch.cuda.memory_allocated() == before[1]
    # Each product took the pieces that the one before it had given back, and the last did so too.
    assert pinned_by_allocator() <= before[2]
    assert pinned_in_use() == pinned_before


def pinned_by_allocator() -> int:
    """Bytes in use, and those that PyTorch's allocator keeps for the next who asks."""
    return torch.cuda.host_memory_stats()["allocated_bytes.current"]


def pinned_in_use() -> int:
    """What is left when the allocator has given back what it keeps. Its own count of this,
    active_bytes, goes only up in torch 2.11: what is given back is not taken off."""
    torch._C._host_emptyCache()
    return pinned_by_allocator()


@pytest.mark.cuda
def test_two_gpus_share_out_the_tiles() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    a, b = cases.pair(3000, 4000, 2000, torch.bfloat16, "cpu")
    expected = tiled_mm.mm(a.cuda(), b.cuda()).cpu()
    same(tiled_mm.out_of_core(a, b, devices=[0, 1], memory=16 * MIB), expected)
    with pytest.raises(RuntimeError, match="is named twice"):
        tiled_mm.out_of_core(a, b, devices=["cuda:0", 0])
