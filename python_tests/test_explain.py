"""explain, plan, occupancy and roofline, for named devices where there is no GPU."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator

import cases
import pytest
import rungs
import scaled
import tiled_mm
import torch
from cases import each, meta

KIB = 1024


def test_the_named_devices() -> None:
    hopper = {"h200", "h100", "h100-pcie", "h20", "gh200"}
    others = {"a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200", "t4"}
    assert set(tiled_mm.devices()) >= hopper | others | {"g80", "gt200", "fermi", "k40"}


# (device, threads, registers, shared bytes), then what is known of the answer. The first rows are
# the textbook's; the last are worked out from the limits that NVIDIA publishes for the device:
# cc 9.0 has 64 warps, 32 blocks, 65,536 registers in units of 256 a warp, and 228 KiB of shared
# memory of which each block costs 1 KiB more than it asks for.
OCCUPANCY = (
    (("g80", 256, 0, 2 * KIB), dict(by_shared=8, by_threads=3, blocks_per_sm=3, limit="threads")),
    (("g80", 256, 0, 2 * KIB), dict(by_blocks=8, by_registers=None)),
    (("g80", 256, 0, 2 * KIB), dict(shared_bytes_per_sm=6 * KIB, threads_per_sm=768, fraction=1)),
    (("g80", 256, 10, 0), dict(by_registers=3, threads_per_sm=768)),
    (("g80", 256, 11, 0), dict(by_registers=2, threads_per_sm=512, limit="registers")),
    (("g80", 64, 0, 5 * KIB), dict(by_shared=3, blocks_per_sm=3, limit="shared memory")),
    (("g80", 64, 0, 0), dict(by_blocks=8, by_threads=12, blocks_per_sm=8, limit="blocks")),
    (("gt200", 256, 0, 2 * KIB), dict(by_threads=4, threads_per_sm=1024)),
    (("fermi", 1024, 0, 8 * KIB), dict(blocks_per_sm=1, limit="threads")),
    (("fermi", 256, 0, 2 * KIB), dict(blocks_per_sm=6, threads_per_sm=1536, limit="threads")),
    (("fermi", 192, 0, 2 * KIB), dict(blocks_per_sm=8, threads_per_sm=1536)),
    (("h200", 256, 128, 0), dict(by_registers=2, threads_per_sm=512, limit="registers")),
    (("h200", 256, 0, 47 * KIB), dict(by_shared=4, by_threads=8, limit="shared memory")),
    (("h200", 32, 0, 0), dict(by_threads=64, by_blocks=32, blocks_per_sm=32, limit="blocks")),
    (("h200", 1024, 33, 0), dict(by_registers=1, threads_per_sm=1024, fraction=0.5)),
)


@pytest.mark.parametrize(("block", "known"), OCCUPANCY)
def test_occupancy(block: tuple, known: dict) -> None:
    device, threads, registers, shared_bytes = block
    found = tiled_mm.occupancy(
        device, threads=threads, registers=registers, shared_bytes=shared_bytes
    )
    assert {name: found[name] for name in known} == known


# (device, bytes, flops, peak) and the bound in flop/s: the textbook's figures.
ROOFLINE = (
    (("g80", 4, 1, "float32"), 21.6e9, "memory"),
    (("g80", 4, 16, "float32"), 345.6e9, "memory"),
    (("g80", 4, 17, "float32"), 367e9, "compute"),
    (("fermi", 4, 1, "float32"), 37.5e9, "memory"),
    (("fermi", 4, 16, "float32"), 600e9, "memory"),
    (("k40", 24, 1, "float64"), 12e9, "memory"),
    (("h200", 1e9, 1e10, "float32"), 48e12, "memory"),
    (("h200", 1, 1e6, "float32"), 66.9e12, "compute"),
)


@pytest.mark.parametrize(("work", "flops_bound", "bound"), ROOFLINE)
def test_roofline(work: tuple, flops_bound: float, bound: str) -> None:
    device, size, flops, peak = work
    found = tiled_mm.roofline(device, bytes=size, flops=flops, peak=peak)
    assert found.flops_bound == pytest.approx(flops_bound, rel=1e-3)
    assert found.bound == bound
    assert found.intensity == pytest.approx(flops / size)
    assert found.seconds_bound == pytest.approx(flops / flops_bound, rel=1e-3)


def test_vector_addition_on_k40_is_a_percent_of_its_peak() -> None:
    found = tiled_mm.roofline("k40", bytes=24, flops=1, peak="float64")
    assert found.flops_bound / 1.43e12 == pytest.approx(0.008, abs=0.0005)


def test_the_grid_covers_the_result() -> None:
    for m, n, k in (*cases.SHAPES, (46341, 46341, 64), (1, 2**33, 3)):
        for algo in rungs.RUNGS["cuda"]:
            plan = tiled_mm.plan(*meta(m, n, k), algo=algo, device="h200")
            tile = plan.tile
            assert (plan.m, plan.n, plan.k) == (m, n, k)
            assert 0 <= plan.grid.tiles_m * tile.m - m < tile.m
            assert 0 <= plan.grid.tiles_n * tile.n - n < tile.n
            tiles = plan.grid.tiles_m * plan.grid.tiles_n
            if plan.get("stream_k"):
                assert plan.grid.x == plan.grid.blocks < tiles
            else:
                assert plan.grid.x == tiles
            assert 0 <= plan.step["count"] * tile.k - k < tile.k
            assert plan.segments == 1


def test_how_often_k_is_cut() -> None:
    for k, segments in ((0, 0), (1, 1), (4097, 1), (32767, 1), (32768, 8), (32769, 9), (36864, 9)):
        for algo in rungs.RUNGS["cuda"]:
            assert tiled_mm.plan(*meta(5, 6, k), algo=algo, device="h200").segments == segments


@each("dtype", cases.DTYPES)
def test_every_device_has_a_plan(dtype: torch.dtype) -> None:
    without_fp64 = {"g80"}
    for device in tiled_mm.devices():
        a, b = meta(1000, 900, 800, dtype)
        computed = dtype
        if device in without_fp64 and dtype in (torch.float64, torch.complex128):
            continue
        plan = tiled_mm.plan(a, b, device=device)
        # Of the named devices these have all tensor-core kernels, for 16-bit inputs, float64 and
        # bytes, and those async_mma.
        hopper = device.startswith(("h100", "h20", "gh200"))
        ampere = device.startswith(("a10", "l40", "rtx", "b200"))
        tensor = (hopper or ampere) and dtype in cases.HALVES
        tensor |= device == "t4" and dtype == torch.float16
        text = tiled_mm.explain(a, b, device=device)
        if plan.converted:  # by a real product: the rest is that one's
            assert plan.converted == str(dtype).removeprefix("torch.")
            first, _, text = text.partition("\n")
            assert plan.converted in first and "real product" in first
            computed = torch.float64 if dtype == torch.complex128 else torch.float32
            a, b = meta(2000, 1800, 800, computed)
            assert (plan.m, plan.n, plan.k) == (2000, 1800, 800)
            assert plan.workspace_bytes >= 2000 * 1800 * computed.itemsize
        assert plan.algo in tiled_mm.algos(a, b, device=device)
        assert not tensor or plan.algo in rungs.TENSOR_RUNGS
        assert plan.arithmetic == ("tensor" if tensor else "fma")
        assert plan.occupancy.blocks_per_sm >= 1
        assert text.startswith(f"{plan.algo} on {plan.device}")
        assert str(computed).removeprefix("torch.") in text


CONVERTED = {  # M, N, K, whether B is contiguous along K
    (8, 640, 15680, True): (torch.bfloat16, torch.float16, torch.complex64),
    (512, 512, 512, False): (torch.bfloat16, torch.float16, torch.complex128),
    (20000, 64, 64, False): (),
}


@each("dtype", (torch.bfloat16, torch.float16, torch.complex64, torch.complex128))
@each("size", tuple(CONVERTED))
def test_what_is_converted(dtype: torch.dtype, size: tuple) -> None:
    m, n, k, along_k = size
    a = torch.empty(m, k, dtype=dtype, device="meta")
    b = torch.empty(*((n, k) if along_k else (k, n)), dtype=dtype, device="meta")
    b = b.t() if along_k else b
    asked = {"device": "h200", "precision": "ieee"}
    plan = tiled_mm.plan(a, b, **asked)
    if dtype not in CONVERTED[size]:
        assert dtype.is_complex or plan.converted is None
        return
    assert plan.converted == str(dtype).removeprefix("torch.")
    twice = 2 if dtype.is_complex else 1
    computed = "float64" if dtype == torch.complex128 else "float32"
    assert (plan.m, plan.n, plan.k, plan.dtype) == (twice * m, twice * n, k, computed)
    assert plan.workspace_bytes >= twice * twice * m * n * (8 if computed == "float64" else 4)
    first = tiled_mm.explain(a, b, **asked).partition("\n")[0]
    assert ("real product" if dtype.is_complex else "product in float32") in first
    assert tiled_mm.plan(a, b, algo="register_tile", **asked).converted is None


@each("device", tuple(tiled_mm.devices()))
def test_every_plan_is_json(device: str) -> None:
    """Of every rung, also where it is not the one that is chosen: plan() reads the text."""
    sizes, read = (*((s, s, s) for s in (0, 1, 65, 4096)), (3, 4096, 4096)), 0
    for size, dtype in itertools.product(sizes, cases.DTYPES):
        a, b = meta(*size, dtype)
        for precision in (None, "tf32", "fp16x3") if dtype == torch.float32 else (None,):
            asked, algos = {"precision": precision, "device": device}, ()
            with contextlib.suppress(NotImplementedError):  # a device without such a kernel
                algos = tiled_mm.algos(a, b, **asked)
            for algo in algos:
                assert tiled_mm.plan(a, b, algo=algo, **asked).algo == algo
                read += 1
    assert read > 100


A100, T4 = {"device": "a100"}, {"device": "t4"}


def test_the_arithmetic_of_a_plan() -> None:
    """What is asked decides, then the rung, then the device."""
    half, single = meta(64, 64, 64, torch.bfloat16), meta(64, 64, 64)

    def found(operands: tuple, **asked) -> str:
        return tiled_mm.plan(*operands, **({"device": "h200"} | asked)).arithmetic

    assert found(half) == found(half, device="a100") == "tensor"
    assert found(half, device="t4") == "fma"
    assert found(meta(64, 64, 64, torch.float16), device="t4") == "tensor"
    assert found(half, precision="ieee") == found(half, algo="register_tile") == "fma"
    assert found(single) == found(single, precision="ieee") == "fma"
    assert found(single, precision="tf32") == "tf32"
    for algo in rungs.TENSOR_RUNGS:
        assert tiled_mm.plan(*half, algo=algo, device="h200").algo == algo
        assert found(half, algo=algo) == "tensor"
        refused = [(half, {"precision": "ieee"})]
        chains = rungs.names("fma", dtype=torch.float32)
        refused += [(single, {})] if algo not in chains else []
        for operands, asked in refused:
            with pytest.raises(RuntimeError, match=rf"'{algo}' is not for these.*register_tile"):
                found(operands, algo=algo, **asked)
    assert found(single, algo="hopper", precision="tf32") == "tf32"
    fit = ", ".join(rungs.names("tf32", any_layout=True))
    with pytest.raises(RuntimeError, match=f"'register_tile'.*: {fit}$"):
        found(single, algo="register_tile", precision="tf32")
    assert found(single, precision="tf32", device="a100") == "tf32"
    with pytest.raises(NotImplementedError, match=r"'tf32' has no kernel.*7\.5.*'ieee'$"):
        found(single, precision="tf32", device="t4")
    assert found(single, precision="fp16x3") == found(single, algo="fp16x3") == "fp16x3"
    assert found(single, algo="fp16x3", precision="fp16x3") == "fp16x3"
    assert found(single, precision="fp16x3", **A100) == found(single, algo="fp16x3", **A100)
    for operands, asked in ((half, {}), (single, {"precision": "tf32"}), (single, T4)):
        with pytest.raises(RuntimeError, match=r"'fp16x3' is not for these inputs"):
            found(operands, algo="fp16x3", **asked)
    with pytest.raises(NotImplementedError, match=r"'fp16x3' has no kernel.*7\.5.*'ieee'$"):
        found(single, precision="fp16x3", **T4)
    with pytest.raises(RuntimeError, match=r"'fp16x3' is for float32 inputs"):
        found(half, precision="fp16x3")


@each("device", ("h200", "h100", "a100", "t4"))
def test_the_rungs_of_float32(device: str) -> None:
    def those_of(*arithmetics: str) -> list[str]:
        return [
            rung.name
            for rung in rungs.TABLE
            if rung.device == "cuda" and any(single in rung.runs.get(x, ()) for x in arithmetics)
            if not rung.tensor_cores or device in runs_on(rung)
        ]

    def runs_on(rung: rungs.Rung) -> tuple[str, ...]:
        ampere = rung.mma or rung.name == rungs.PARTS_RUNG
        return ("h200", "h100", "a100") if ampere else ("h200", "h100")

    single = torch.float32
    operands = meta(64, 64, 64)
    assert tiled_mm.algos(*operands, device=device) == those_of("fma", "fp16x3")
    exact = tiled_mm.algos(*operands, device=device, precision="ieee")
    assert exact == those_of("fma")
    if device != "t4":
        parts = tiled_mm.algos(*operands, device=device, precision="fp16x3")
        assert parts == those_of("fp16x3")


def test_the_tests_know_every_rung() -> None:
    with pytest.raises(RuntimeError, match="algo 'nonsense' is unknown") as refusal:
        tiled_mm.mm(*meta(1, 1, 1), algo="nonsense")
    (known,) = re.findall(r"expected one of: ([\w, ]+)", str(refusal.value))
    assert known.split(", ") == list(dict.fromkeys(rung.name for rung in rungs.TABLE))


def test_a_rung_that_a_device_cannot_launch_is_refused() -> None:
    """G80 has at most 512 threads in a block; the 32 tile needs 1,024."""
    with pytest.raises(RuntimeError, match=r"shared_tile_32.*shared_tile_16"):
        tiled_mm.plan(*meta(100, 100, 100), algo="shared_tile_32", device="g80")


def test_the_ways_that_a_plan_was_chosen_of() -> None:
    """Its own first, then the others by their estimates: of every rung that may be chosen."""
    a, b = meta(512, 768, 1024, torch.bfloat16)
    plan = tiled_mm.plan(a, b, device="h200")
    chosen, *others = plan.ways
    assert chosen.algo == plan.algo
    seconds = [way.seconds for way in others]
    assert seconds == sorted(seconds) and 0 < chosen.seconds <= min(seconds)
    assert {way.algo for way in plan.ways} == {*rungs.TENSOR_RUNGS} - {*rungs.LESSONS}
    for algo in ("hopper", "mma_tile"):
        ways = tiled_mm.plan(a, b, algo=algo, device="h200").ways
        assert ways[0].algo == algo and len(ways) == len(plan.ways)
    (lesson,) = tiled_mm.plan(a, b, algo="tma_wgmma", device="h200").ways
    assert (lesson.algo, lesson.tile) == ("tma_wgmma", "")


def test_the_text_shows_the_chosen_way_and_the_next_three() -> None:
    a, b = meta(512, 768, 1024, torch.bfloat16)
    plan = tiled_mm.plan(a, b, device="h200")
    text = tiled_mm.explain(a, b, device="h200")
    head = f"Chosen of {len(plan.ways)} ways, by estimated times\n"
    lines = text.split(head)[1].split("\n\n")[0].splitlines()
    assert lines.pop().split() == f"and {len(plan.ways) - 4} more, with verbose=True".split()
    assert len(lines) == 4 and lines[0].endswith(" <- chosen")
    every = tiled_mm.explain(a, b, device="h200", verbose=True).split(head)[1].split("\n\n")[0]
    assert every.splitlines()[:4] == lines and len(every.splitlines()) == len(plan.ways)
    for line, way in zip(lines, plan.ways, strict=False):
        what = f"{way.algo} {way.tile}".rstrip()
        assert re.match(rf"  [\d.]+ [mun]?s +{re.escape(what)}", line), line
        assert ("cluster" in line) == (way.cluster_p * way.cluster_q > 1)
        assert ("swap_ab" in line) == way.swap_ab
        assert ("split" in line) == way.split_k
        assert ("<- chosen" in line) == (line is lines[0])
    one = tiled_mm.explain(a, b, algo="tma_wgmma", device="h200")
    assert "Chosen of 1 way, by estimated times\n" in one


def test_keywords() -> None:
    a, b = meta(64, 64, 64, torch.bfloat16)
    plan = tiled_mm.plan(a, b, out_dtype=torch.float32, precision="ieee", device="h200")
    assert (plan.dtype, plan.out_dtype) == ("bfloat16", "float32")
    assert "bfloat16 to float32" in tiled_mm.explain(a, b, out_dtype=torch.float32, device="h200")
    a, b = meta(512, 512, 512, torch.int8)
    plan = tiled_mm.plan(a, b, algo="async_mma", out_dtype=torch.int32, device="a100")
    assert (plan.dtype, plan.out_dtype, plan.algo) == ("int8", "int32", "async_mma")
    assert plan.kernel.endswith(", signed char, 0, 0>")
    assert "int8 to int32" in tiled_mm.explain(a, b, out_dtype=torch.int32, device="a100")
    with pytest.raises(AttributeError, match="no 'colour'"):
        plan.colour  # noqa: B018, the access is the test


def test_loads_of_tiles_are_no_bound() -> None:
    """Caches answer most of them: 8192^3 in bfloat16 runs at 700 TF/s on an H200, and a naive fp32
    product above the rate of its loads over that of memory."""
    large, small = meta(8192, 8192, 8192, torch.bfloat16), meta(512, 512, 512)
    for operands, algo in ((large, None), (small, "naive")):
        text = tiled_mm.explain(*operands, algo=algo, device="h200")
        head, once, tiles = text.rstrip().splitlines()[-3:]
        plan = tiled_mm.plan(*operands, algo=algo, device="h200")
        assert "at most" in head and "at least" in head
        assert once.startswith("  each byte once") and once.endswith("compute")
        assert tiles.startswith("  loads of tiles") and tiles.endswith("if no load hit a cache")
        least = plan.traffic.compulsory
        assert least.flops_bound == plan.peak_flops and least.bound == "compute"
        assert plan.traffic.tiles.bytes > least.bytes


def test_errors() -> None:
    a, b = meta(64, 64, 64)
    for function in (tiled_mm.plan, tiled_mm.explain):
        with pytest.raises(RuntimeError, match=r"unknown device 'h300'.*h200.*g80"):
            function(a, b, device="h300")
        with pytest.raises(RuntimeError, match="device='h200'"):
            function(a, b)
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            function(a, b[:3], device="h200")
        with pytest.raises(RuntimeError, match=r"nonsense.*register_tile"):
            function(a, b, algo="nonsense", device="h200")
    with pytest.raises(RuntimeError, match="unknown device"):
        tiled_mm.occupancy("h300", threads=1)
    with pytest.raises(RuntimeError, match="unknown device"):
        tiled_mm.roofline("h300", bytes=1, flops=1)


def test_real_tensors_can_be_planned_for_a_named_device() -> None:
    a, b = cases.pair(64, 48, 32, torch.float32)
    plan = tiled_mm.plan(a.t().contiguous().t(), b, algo="register_tile", device="h200")
    assert plan.device.endswith("H200")
    assert plan.access is not None


def test_on_the_cpu() -> None:
    a, b = cases.pair(64, 48, 32, torch.float32)
    assert tuple(tiled_mm.algos(a, b)) == rungs.RUNGS["cpu"]
    for algo in rungs.RUNGS["cpu"]:
        assert tiled_mm.plan(a, b, algo=algo).algo == algo
        assert algo in tiled_mm.explain(a, b, algo=algo)
    assert tiled_mm.plan(a, b).device == "cpu"
    assert tiled_mm.explain(a, b, verbose=True) == tiled_mm.explain(a, b)
    with pytest.raises(RuntimeError, match=r"register_tile.*naive"):
        tiled_mm.plan(a, b, algo="register_tile")


@each("dtype", cases.DTYPES)
def test_what_the_cpu_does(dtype: torch.dtype) -> None:
    shapes = ((512, 300, 200), (1, 300, 40000), (300, 1, 200), (2, 3, 4), *cases.EMPTY_SHAPES)
    for m, n, k in shapes:
        a, b = cases.pair(m, n, k, dtype, "cpu")
        plan, text = tiled_mm.plan(a, b), tiled_mm.explain(a, b)
        assert (plan.m, plan.n, plan.k, plan.batch) == (m, n, k, 1)
        assert plan.segments == (k > 0 if k < 32768 else -(-k // 4096))
        assert plan.arithmetic == ("cpu16" if dtype in cases.HALVES else "fma")
        assert plan.traffic.compulsory.bytes == (m * k + k * n + m * n) * dtype.itemsize
        assert plan.flops == (8 if dtype.is_complex else 2) * m * n * k
        # Levels of 16 bits and of bytes have no other instructions for what they leave out.
        special = dtype in (torch.bfloat16, *rungs.BYTES)
        assert special or plan.level not in ("amx", "avx512_bf16")
        assert not special or plan.level == plan.cpu_level
        for said in (plan.level, str(dtype).removeprefix("torch."), "arithmetic", "Least traffic"):
            assert said in text
        if (blocking := plan.blocking) is None:
            assert m * n * k <= 512 and "three loops" in text
            continue
        wide, tall = (m, n) if blocking.swap_ab else (n, m)
        assert min(k, 1) <= blocking.block_k <= k
        assert blocking.tile.m <= max(tall, 32) and blocking.panel >= min(blocking.tile.n, wide)
        assert f"{blocking.tile.m} x {blocking.tile.n} of C in registers" in text
    assert tiled_mm.plan(a, b, algo="naive").blocking is None


@each("dtype", cases.DTYPES)
def test_every_rung_is_offered(device: str, dtype: torch.dtype) -> None:
    for m, n, k in (*cases.SHAPES, *cases.EMPTY_SHAPES):
        a, b = cases.pair(m, n, k, dtype, device)
        expected = rungs.fma_rungs(device, dtype)
        if rungs.arithmetic_of(device, dtype) == "tensor":
            # Rows that lie next to each other must begin at multiples of 16 bytes.
            aligned = k <= 1 or ((m <= 1 or k % 8 == 0) and (n <= 1 or n % 8 == 0))
            without = () if aligned else rungs.NEED_TMA
            found_here = rungs.here(rungs.TENSOR_RUNGS, device)
            expected += tuple(name for name in found_here if name not in without)
        if dtype == torch.float32 and rungs.has_mma_kernels(device):
            expected += (rungs.PARTS_RUNG,)
        found = tiled_mm.algos(a, b)
        ladder = [rung.name for rung in rungs.TABLE if rung.device == device]
        assert found == sorted(expected, key=ladder.index), (m, n, k)


def uninitialised(rows: int, cols: int, dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Row-major, column-major and with both strides above 1."""
    yield torch.empty(rows, cols, dtype=dtype, device="cuda")
    yield torch.empty(cols, rows, dtype=dtype, device="cuda").t()
    yield torch.empty(2 * rows, 3 * cols, dtype=dtype, device="cuda")[::2, ::3]


@pytest.mark.cuda
@each("algo", (*rungs.RUNGS["cuda"], *rungs.TENSOR_RUNGS, rungs.PARTS_RUNG))
@each("dtype", cases.DTYPES)
def test_the_compilers_report_is_the_running_kernels(dtype: torch.dtype, algo: str) -> None:
    """Registers, memory and occupancy, beside what the CUDA runtime says of the kernel."""
    fits = {
        **dict.fromkeys(rungs.TENSOR_RUNGS, False),
        **dict.fromkeys(
            rungs.here(rungs.TENSOR_RUNGS), rungs.arithmetic_of("cuda", dtype) == "tensor"
        ),
        rungs.PARTS_RUNG: rungs.arithmetic_of("cuda", dtype, rungs.PARTS_RUNG) == "fp16x3",
    }
    fits |= dict.fromkeys(rungs.fma_rungs("cuda", dtype), True)
    if not fits.get(algo, True):
        pytest.skip(f"{algo} is not for {dtype} on this GPU")
    compared = 0
    # One for each tile of register_tile and of fp64, and few rows.
    for m, n, k in ((64, 128, 256), (1024, 1024, 256), (4096, 4096, 256), (8, 128, 256)):
        for a in uninitialised(m, k, dtype):
            for b in uninitialised(k, n, dtype):
                if algo not in tiled_mm.algos(a, b):
                    continue
                plan = tiled_mm.plan(a, b, algo=algo)
                registers, shared_bytes, local_bytes, blocks = (
                    torch.ops.tiled_debug.kernel_attributes(a, b, algo=algo)
                )
                assert plan.registers is not None, plan.registers_unknown
                assert plan.registers.per_thread == registers, plan.kernel
                assert plan.registers.stack_bytes == local_bytes, plan.kernel
                (product,) = (step for step in plan.steps if step.work == "product")
                if product.dynamic:
                    assert shared_bytes < plan.shared_bytes, "it is given at the launch"
                else:
                    assert plan.shared_bytes == shared_bytes, plan.kernel
                assert plan.occupancy.blocks_per_sm == blocks, plan.kernel
                compared += 1
    assert compared > 0


@pytest.mark.cuda
def test_the_running_device_is_planned_for_as_its_name() -> None:
    running = torch.cuda.get_device_name()
    keys = {tiled_mm.plan(*meta(1, 1, 1), device=key).device: key for key in tiled_mm.devices()}
    if running not in keys:
        pytest.skip(f"{running} is not a named device")
    for (m, n, k), dtype in itertools.product(cases.SHAPES, (torch.float32, torch.bfloat16)):
        a, b = cases.pair(m, n, k, dtype, "cuda")
        here, named = tiled_mm.plan(a, b), tiled_mm.plan(a, b, device=keys[running])
        of_the_rung = here.keys() - tiled_mm.plan(a, b, algo="naive").keys()
        choices = ("algo", "kernel", "tile", "grid", "registers", "occupancy", "waves")
        for key in (*choices, *of_the_rung):
            assert here[key] == named[key]
        # Data sheets round.
        assert here.peak_flops == pytest.approx(named.peak_flops, rel=0.05)
        assert here.memory_bandwidth == pytest.approx(named.memory_bandwidth, rel=0.05)
    assert tiled_mm.explain(a, b).startswith(f"{here.algo} on {running}")


@each("recipe", scaled.RECIPES)
def test_products_with_scales(recipe: str) -> None:
    o = scaled.make(300, 200, 40000, recipe, "RowWise", (scaled.E4M3, scaled.E5M2))
    scales = {"scale_a": o.scale_a, "scale_b": o.scale_b}
    plan = tiled_mm.plan(o.a, o.b, device="h100", **scales)
    assert plan.algo == "hopper" and plan.arithmetic == "fp8" and plan.segments == 1
    assert plan.scales == {"a": recipe, "b": "RowWise", "b_dtype": "float8_e5m2"}
    first = "E5m2, ptx::E4m3" if plan.hopper.swap_ab else "E4m3, ptx::E5m2"
    assert plan.kernel.startswith(f"hopper_scaled<{plan.tile.name}, Fp8Scaled<ptx::{first}, ")
    text = tiled_mm.explain(o.a, o.b, device="h100", out_dtype=torch.float16, **scales)
    assert f"float8_e4m3fn by float8_e5m2 to float16, scaled {recipe} and RowWise" in text
    assert "__half>, " in text and "segments" not in text
    assert (
        tiled_mm.plan(
            o.a.to("meta"),
            o.b.to("meta"),
            device="h100",
            **{name: t.to("meta") for name, t in scales.items()},
        )
        == plan
    )
    on_cpu = tiled_mm.plan(o.a, o.b, **scales)
    assert on_cpu.scales == plan.scales and on_cpu.segments == 1 and on_cpu.arithmetic == "fp8"
    assert "fp8: of every 128 of K" in tiled_mm.explain(o.a, o.b, **scales)
    assert tiled_mm.plan(o.a.bfloat16(), o.b.bfloat16(), device="h100").scales is None


def test_what_has_no_plan_with_scales() -> None:
    o = scaled.make(30, 20, 40, "RowWise", "RowWise")
    with pytest.raises(NotImplementedError, match="have no kernel for NVIDIA A100"):
        tiled_mm.plan(o.a, o.b, device="a100", scale_a=o.scale_a, scale_b=o.scale_b)
    with pytest.raises(RuntimeError, match="has two of them"):
        tiled_mm.explain(o.a, o.b, device="h100", scale_a=o.scale_a)
    with pytest.raises(RuntimeError, match="neither algo nor precision"):
        tiled_mm.plan(
            o.a, o.b, precision="tf32", device="h100", scale_a=o.scale_a, scale_b=o.scale_b
        )
    with pytest.raises(RuntimeError, match="Invalid scaling configuration"):
        tiled_mm.plan(o.a, o.b, scale_a=torch.ones(3), scale_b=o.scale_b)
    whole = torch.ones(4, 4, dtype=torch.int8)
    one = torch.ones(1)
    assert "exact sums, which are scaled" in tiled_mm.explain(
        whole, whole, scale_a=one, scale_b=one
    )
