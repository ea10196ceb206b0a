"""`out_dtype=torch.int32` of bytes: their sum as it is, beside exact sums in int64.

The kernels themselves are held to the same, at every level of the CPU and in software of the GPU's,
by cpp_tests/test_cpu_core.cpp, test_cpu_pairs.cpp and test_async_mma_words.cpp.
"""

from __future__ import annotations

import cases
import pytest
import tiled_mm
import torch
from cases import each

BYTES = (torch.int8, torch.uint8)
DEEP = 9 * 4096 + 8  # K that is cut
INT32 = {"out_dtype": torch.int32}

each_byte = each("dtype", BYTES)


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product on the CPU: in int64, of which the low 32 bits remain."""
    return torch.matmul(a.cpu().long(), b.cpu().long()).to(torch.int32)


def check(c: torch.Tensor, expected: torch.Tensor, what: object = None) -> None:
    assert c.dtype == torch.int32, what
    assert c.shape == expected.shape and torch.equal(c.cpu(), expected), what


def each_algo(a: torch.Tensor, b: torch.Tensor) -> list[str | None]:
    """What the planner takes, and every rung that computes bytes."""
    algos = tiled_mm.algos(a, b, **INT32)
    assert algos == tiled_mm.algos(a, b) and len(algos) >= 2
    return [None, *algos]


@each_byte
def test_every_shape_and_rung(device: str, dtype: torch.dtype) -> None:
    shapes = (*cases.SHAPES, *cases.EMPTY_SHAPES, (136, 264, 592), (2, 300, 4100), (70, 66, DEEP))
    for m, n, k in shapes:
        a, b = cases.pair(m, n, k, dtype, device)
        expected = exact(a, b)
        for algo in each_algo(a, b):
            cases.leave_garbage(m, n, torch.int32, device)
            check(tiled_mm.mm(a, b, algo=algo, **INT32), expected, (m, n, k, algo))


@each_byte
def test_every_layout(device: str, dtype: torch.dtype) -> None:
    layouts = list(cases.layouts_of(dtype).items())
    for m, n, k in ((35, 79, 68), (3, 130, 257), (65, 1, 33)):
        for i, (name_a, lay_a) in enumerate(layouts):
            for name_b, lay_b in (layouts[i], layouts[i - 1], layouts[i - 4]):
                a, b = lay_a(m, k, dtype, device), lay_b(k, n, dtype, device)
                expected = exact(a, b)
                for algo in each_algo(a, b):
                    c = tiled_mm.mm(a, b, algo=algo, **INT32)
                    check(c, expected, (m, n, k, name_a, name_b, algo))


@each_byte
def test_the_largest_sums_and_those_beyond_32_bits(device: str, dtype: torch.dtype) -> None:
    """Extremes, which some instructions for bytes saturate or take for numbers of the other sign;
    and a K whose sum wraps around."""
    info = torch.iinfo(dtype)
    for k in (1, 35, 5000, 140000):
        for x in (info.min, info.max):
            for y in (info.min, info.max):
                a = torch.full((18, k), x, dtype=dtype, device=device)
                b = torch.full((k, 17), y, dtype=dtype, device=device)
                total = (x * y * k + 2**31) % 2**32 - 2**31
                expected = torch.full((18, 17), total, dtype=torch.int32)
                assert abs(x * y * k) < 2**31 or k == 140000
                for algo in each_algo(a, b):
                    check(tiled_mm.mm(a, b, algo=algo, **INT32), expected, (x, y, k, algo))


@each_byte
def test_the_default_is_its_low_bits(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(70, 90, 300, dtype, device)
    whole, low = tiled_mm.mm(a, b, **INT32), tiled_mm.mm(a, b)
    assert low.dtype == dtype and torch.equal(low, whole.to(dtype))
    assert torch.equal(tiled_mm.mm(a, b, out_dtype=dtype), low)
    assert not torch.equal(whole, low.int())


def test_equals_int_mm(device: str) -> None:
    a, b = cases.pair(64, 48, 96, torch.int8, device)
    assert torch.equal(tiled_mm.mm(a, b, **INT32), torch._int_mm(a, b))


@each_byte
def test_slices_are_slices_of_the_whole(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(90, 75, DEEP, dtype, device)
    whole = tiled_mm.mm(a, b, **INT32)
    assert torch.equal(tiled_mm.mm(a[7:20], b, **INT32), whole[7:20])
    assert torch.equal(tiled_mm.mm(a, b[:, 3:50], **INT32), whole[:, 3:50])


@each_byte
def test_out_of_every_layout(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(37, 45, 66, dtype, device)
    expected = exact(a, b)
    for algo in each_algo(a, b):
        for name, whole, out in cases.outputs(37, 45, torch.int32, device):
            assert tiled_mm.mm(a, b, algo=algo, out=out, **INT32) is out
            check(out, expected, (name, algo))
            assert cases.is_untouched_outside(whole, out), (name, algo)
    resized = torch.empty(0, dtype=torch.int32, device=device)
    check(tiled_mm.mm(a, b, out=resized, **INT32), expected)


@each_byte
def test_out_over_an_operand(device: str, dtype: torch.dtype) -> None:
    memory = cases.fill(64, 4 * 64, dtype, device)
    a, b = memory[:, 64:128], cases.fill(64, 64, dtype, device)
    expected = exact(a, b)
    check(tiled_mm.mm(a, b, out=memory.view(torch.int32), **INT32), expected)


@each_byte
def test_batches(device: str, dtype: torch.dtype) -> None:
    for m, n, k in ((5, 6, 7), (65, 40, 130), (3, 4, 0), (1, 33, 4100)):
        a = torch.stack([cases.fill(m, k, dtype, device) for _ in range(3)])
        b = torch.stack([cases.fill(k, n, dtype, device) for _ in range(3)])
        for x, y in ((a, b), (a, b[:1].expand(3, -1, -1)), (a.mT.contiguous().mT, b[::2][:1])):
            y = y if len(y) == len(x) else y.expand(len(x), -1, -1)
            for algo in each_algo(x[0], y[0]):
                check(tiled_mm.bmm(x, y, algo=algo, **INT32), exact(x, y), (m, n, k, algo))


@pytest.mark.usefixtures("no_fallback")
@each_byte
def test_vmap(device: str, dtype: torch.dtype) -> None:
    a = torch.stack([cases.fill(7, 9, dtype, device) for _ in range(4)])
    b = torch.stack([cases.fill(9, 5, dtype, device) for _ in range(4)])
    for in_dims, args in (((0, 0), (a, b)), ((0, None), (a, b[0])), ((None, 0), (a[0], b))):
        mapped = torch.func.vmap(lambda x, y: tiled_mm.mm(x, y, **INT32), in_dims)(*args)
        check(mapped, exact(*args))
    mapped = torch.func.vmap(lambda x, y: tiled_mm.bmm(x[None], y[None], **INT32))(a, b)
    check(mapped[:, 0], exact(a, b))


@each_byte
def test_meta(dtype: torch.dtype) -> None:
    a, b = (x.to("meta") for x in cases.pair(5, 6, 7, dtype))
    for c in (tiled_mm.mm(a, b, **INT32), tiled_mm.bmm(a[None], b[None], **INT32)[0]):
        assert c.is_meta and c.dtype == torch.int32 and c.shape == (5, 6)
    out = torch.empty(0, dtype=torch.int32, device="meta")
    assert tiled_mm.mm(a, b, out=out, **INT32).shape == (5, 6)


@each_byte
@each("device", (*cases.DEVICES, "meta"))
def test_what_is_refused(device: str, dtype: torch.dtype) -> None:
    """Operators that add to the sum, an out of another dtype, and every other result."""
    a, b = (torch.ones(*s, dtype=dtype, device=device) for s in ((2, 3), (3, 5)))
    input = torch.ones(5, dtype=dtype, device=device)
    out = torch.zeros(2, 5, dtype=torch.int32, device=device)
    finished = {
        "addmm": lambda: tiled_mm.addmm(input, a, b, **INT32),
        "addmm of an int32 input": lambda: tiled_mm.addmm(input.int(), a, b, beta=0, **INT32),
        "addmm.out": lambda: tiled_mm.addmm(input, a, b, out=out, **INT32),
        "baddbmm": lambda: tiled_mm.baddbmm(input, a[None], b[None], **INT32),
        "linear": lambda: tiled_mm.linear(a, b.t(), **INT32),
        "linear with a bias": lambda: tiled_mm.linear(a, b.t(), input, **INT32),
        "linear.out": lambda: tiled_mm.linear(a, b.t(), out=out, **INT32),
    }
    for name, call in finished.items():
        int32_input = "of an int32 input" in name
        text = "must have the same dtype" if int32_input else "is for mm and bmm alone"
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        tiled_mm.mm(a, b, out=out)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        tiled_mm.mm(a, b, out=out.to(dtype), **INT32)
    if device != "meta":
        assert torch.equal(out, torch.zeros_like(out))
    for other in (torch.int16, torch.int64, torch.float32, torch.uint32, torch.bool):
        for call in (tiled_mm.mm, lambda x, y, **asked: tiled_mm.bmm(x[None], y[None], **asked)):
            with pytest.raises(RuntimeError, match="or int32 for int8/uint8 inputs"):
                call(a, b, out_dtype=other)
    wide = a.short(), b.short()
    with pytest.raises(RuntimeError, match="out_dtype must be the same as input dtype"):
        tiled_mm.mm(*wide, **INT32)


@each("device", ("t4", "a10", "a100", "h200", "b200"))
def test_plans_are_those_of_bytes(device: str) -> None:
    for m, n, k in ((64, 64, 64), (4096, 4096, 4096), (128, 96, 40000)):
        for dtype in BYTES:
            a, b = cases.meta(m, n, k, dtype)
            plan = tiled_mm.plan(a, b, device=device, **INT32)
            assert (plan.dtype, plan.out_dtype) == (str(dtype).removeprefix("torch."), "int32")
            algos = tiled_mm.algos(a, b, device=device, **INT32)
            assert algos == tiled_mm.algos(a, b, device=device)
            assert plan.algo in algos and ("async_mma" in algos) == (device != "t4")
            assert ("unsigned char" in plan.kernel) == (dtype == torch.uint8), plan.kernel
            assert f"{plan.dtype} to int32" in tiled_mm.explain(a, b, device=device, **INT32)


def test_compiled(device: str) -> None:
    function = torch.compile(
        lambda x, y: tiled_mm.mm(x, y, **INT32) * 2 + 1, fullgraph=True, dynamic=True
    )
    for m, n, k in ((5, 6, 7), (33, 34, 70)):
        a, b = cases.pair(m, n, k, torch.int8, device)
        check(function(a, b), exact(a, b) * 2 + 1)
