"""grouped_mm: every group has the bits of mm, whatever the others are; and what is refused."""

from __future__ import annotations

import cases
import gates
import groups
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from epilogues import ACTIVATIONS, expected, same_bits, sum_dtype, sums
from groups import ENDS, FORMS, SHARING

FP32_SUMS = (torch.float32, torch.float16, torch.bfloat16)


def check_parts(g: groups.Groups, c: torch.Tensor, right: list[torch.Tensor]) -> None:
    assert c.is_contiguous()
    for part, one in zip(g.parts(c), right, strict=True):
        assert same_bits(part, one)
    assert not g.beyond(c).any()


@each("form", FORMS)
@each("dtype", cases.DTYPES)
def test_a_group_has_the_bits_of_mm(device: str, form: str, dtype: torch.dtype) -> None:
    for ends, total in ENDS:
        for offs_dtype in (torch.int32, torch.int64):
            g = groups.make(form, ends, total, 24, 37, dtype, device, offs_dtype)
            check_parts(g, g.run(), g.expected())


@each("form", FORMS)
@each("dtype", cases.REALS)
def test_a_group_is_within_the_error_bounds(device: str, form: str, dtype: torch.dtype) -> None:
    g = groups.make(form, (40, 40, 141, 190), 200, 72, 65, dtype, device)
    arithmetic = rungs.arithmetic_of(device, dtype)
    for c, (a, b) in zip(g.parts(g.run()), g.each(), strict=True):
        gates.check_elements(c, a, b, arithmetic)


@each("form", FORMS)
@each("algo", ("naive", "blocked"))
def test_rungs_of_the_cpu(form: str, algo: str) -> None:
    for dtype in cases.REALS:
        g = groups.make(form, *ENDS[0], 24, 37, dtype)
        check_parts(g, g.run(algo=algo), g.expected(algo=algo))


@each("form", FORMS)
@each("precision", ("ieee", "tf32", "fp16x3"))
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_precisions(form: str, precision: str) -> None:
    g = groups.make(form, (100, 100, 228, 500), 520, 128, 192, torch.float32, "cuda")
    check_parts(g, g.run(precision=precision), g.expected(precision=precision))


@each("form", FORMS)
@each("dtype", cases.HALVES)
def test_sums_in_float32(device: str, form: str, dtype: torch.dtype) -> None:
    g = groups.make(form, *ENDS[0], 24, 37, dtype, device)
    options = {"out_dtype": torch.float32}
    check_parts(g, g.run(**options), g.expected(**options))


def test_sums_of_bytes_in_int32(device: str) -> None:
    g = groups.make("rows", *ENDS[0], 24, 37, torch.int8, device)
    options = {"out_dtype": torch.int32}
    check_parts(g, g.run(**options), g.expected(**options))


@each("form", ("rows", "k", "batch"))
@each("dtype", cases.REALS)
def test_bias_and_activation(device: str, form: str, dtype: torch.dtype) -> None:
    g = groups.make(form, *ENDS[0], 24, 37, dtype, device)
    totals = [sums(a, b) for a, b in g.each()]
    for of_bias in FP32_SUMS if dtype in FP32_SUMS else (dtype,):
        bias = cases.fill(len(totals), 37, of_bias, device)
        every_second = bias.repeat_interleave(2, dim=1)[:, ::2]
        for activation in ACTIVATIONS:
            for out_dtype in {dtype, sum_dtype(dtype)}:
                right = [
                    expected(total, out_dtype, activation, bias=row)[0]
                    for total, row in zip(totals, bias, strict=True)
                ]
                options = {"activation": activation, "out_dtype": out_dtype}
                check_parts(g, g.run(bias=bias, **options), right)
                check_parts(g, g.run(bias=every_second, **options), right)


@each("dtype", (torch.float32, torch.bfloat16))
def test_activation_of_columns(device: str, dtype: torch.dtype) -> None:
    g = groups.make("columns", *ENDS[0], 24, 37, dtype, device)
    zero = torch.zeros((), dtype=dtype, device=device)
    right = [tiled_mm.addmm(zero, a, b, beta=0, activation="silu") for a, b in g.each()]
    check_parts(g, g.run(activation="silu"), right)


@each("form", FORMS)
@each("dtype", (torch.float32, torch.bfloat16))
def test_the_value_before_the_activation(device: str, form: str, dtype: torch.dtype) -> None:
    """Autograd keeps it; it is zero where no group is."""
    g = groups.make(form, *ENDS[2 if form != "batch" else 0], 24, 37, dtype, device)
    for activation in ACTIVATIONS:
        c, pre_activation = torch.ops.tiled._grouped_mm_with_pre_activation(
            g.a, g.b, g.offs, activation=activation
        )
        assert same_bits(c, g.run(activation=activation))
        check_parts(g, pre_activation, g.expected())


@each("form", SHARING)
@each("dtype", cases.REALS)
@each("value", (float("nan"), float("inf")))
def test_neighbours_do_not_come_in(device: str, form: str, dtype, value: float) -> None:
    """Other groups, and rows behind the last end, enter no sum: 0 * Inf is NaN."""
    ends, total = (30, 30, 31, 95, 160), 200
    clean = groups.make(form, ends, total, 24, 64, dtype, device)
    right = clean.expected()
    shared_of_a = {"rows": 0, "k": 1}.get(form)
    shared_of_b = {"columns": 1, "k": 0}.get(form)
    for g, (begin, end) in enumerate([*clean.spans(), (ends[-1], total)]):
        a, b = clean.a.clone(), clean.b.clone()
        if shared_of_a is not None:
            a.narrow(shared_of_a, begin, end - begin).fill_(value)
        elif g < len(ends):
            a[g] = value
        if shared_of_b is not None:
            b.narrow(shared_of_b, begin, end - begin).fill_(value)
        elif g < len(ends):
            b[g] = value
        got = clean.on(a, b)
        c = got.run()
        for other, part in enumerate(got.parts(c)):
            if other != g:
                assert same_bits(part, right[other]), (g, other)
        assert not got.beyond(c).any()


@each("form", FORMS)
@each("dtype", (torch.float32, torch.bfloat16, torch.float64))
def test_layouts(device: str, form: str, dtype: torch.dtype) -> None:
    g = groups.make(form, *ENDS[0], 24, 40, dtype, device)
    c = g.run()

    def laid_out(t: torch.Tensor):
        if t.dim() == 2:
            yield from cases.laid_out(t)
            return
        yield "transposed", t.mT.contiguous().mT
        for name, flat in cases.laid_out(t.reshape(-1, t.shape[-1])):
            if flat.stride(0) >= flat.stride(1):
                yield name, flat.unflatten(0, t.shape[:2])
        turned = t.movedim(0, -1).contiguous().movedim(-1, 0)
        yield "entries along the last", turned

    for name, a in laid_out(g.a):
        assert same_bits(g.on(a, g.b).run(), c), name
    for name, b in laid_out(g.b):
        assert same_bits(g.on(g.a, b).run(), c), name
    if g.offs is not None:
        for offs in (g.offs.repeat_interleave(2)[::2], g.offs.long()):
            assert same_bits(tiled_mm.grouped_mm(g.a, g.b, offs=offs), c)


@each("form", FORMS)
def test_one_weight_for_all_groups(device: str, form: str) -> None:
    g = groups.make(form, *ENDS[0], 24, 40, torch.bfloat16, device)
    a = g.a[:1].expand_as(g.a) if g.a.dim() == 3 else g.a
    b = g.b[:1].expand_as(g.b) if g.b.dim() == 3 else g.b
    g = g.on(a, b)
    check_parts(g, g.run(), g.expected())


@each("form", FORMS)
@each("dtype", FP32_SUMS)
def test_torchs_own_on_exact_numbers(form: str, dtype: torch.dtype) -> None:
    """Sums of these numbers are exact, so all agree; and so do shapes and dtypes."""
    g = groups.make(form, (8, 8, 24, 40), 48, 16, 32, torch.float32)
    g = g.on((g.a * 2).round().to(dtype), (g.b * 2).round().to(dtype))
    theirs = g.run(torch.nn.functional.grouped_mm)
    ours = g.run()
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    for one, other in zip(g.parts(ours), g.parts(theirs), strict=True):
        assert torch.equal(one, other)


def test_no_groups_and_empty_sizes(device: str) -> None:
    """Everything that is not in a group is zero, and a product over no k is."""
    none = torch.empty(0, dtype=torch.int32, device=device)
    ends = torch.tensor([0, 2, 3], dtype=torch.int32, device=device)

    def ones(*sizes: int) -> torch.Tensor:
        return torch.ones(*sizes, device=device)

    for a, b, offs, sizes in (
        (ones(4, 5), ones(0, 5, 6), none, (4, 6)),
        (ones(0, 4, 5), ones(5, 6), none, (4, 6)),
        (ones(4, 5), ones(5, 6), none, (0, 4, 6)),
        (ones(0, 4, 5), ones(0, 5, 6), None, (0, 4, 6)),
        (ones(0, 5), ones(3, 5, 6), ends * 0, (0, 6)),
        (ones(4, 0), ones(3, 0, 6), ends, (4, 6)),
        (ones(4, 5), ones(3, 5, 0), ends, (4, 0)),
        (ones(3, 4, 5), ones(5, 0), ends * 0, (4, 0)),
        (ones(3, 4, 0), ones(0, 6), ends, (4, 6)),
        (ones(3, 0, 5), ones(5, 6), ends, (0, 6)),
        (ones(4, 0), ones(0, 6), ends * 0, (3, 4, 6)),
        (ones(0, 4), ones(4, 6), ends, (3, 0, 6)),
    ):
        c = tiled_mm.grouped_mm(a, b, offs=offs)
        assert c.shape == sizes and not c.any()
    bias = torch.arange(18.0, device=device).view(3, 6) - 9
    got = tiled_mm.grouped_mm(ones(4, 0), ones(3, 0, 6), offs=ends, bias=bias, activation="relu")
    assert torch.equal(got, torch.stack([bias[1], bias[1], bias[2], bias[0] * 0]).relu())
    got = tiled_mm.grouped_mm(ones(4, 3), ones(3, 6), offs=ends * 0, bias=bias)
    assert torch.equal(got, bias[:, None].expand(3, 4, 6))


# ---- out= --------------------------------------------------------------------------------------


@each("form", FORMS)
def test_out(device: str, form: str) -> None:
    g = groups.make(form, *ENDS[0], 24, 40, torch.bfloat16, device)
    c = g.run()
    filled = torch.full_like(c, float("nan"))
    assert g.run(out=filled) is filled and same_bits(filled, c)
    turned = filled.mT.contiguous().mT.fill_(float("nan"))
    g.run(out=turned)
    assert same_bits(turned, c)
    wide = cases.hole(c.numel() // c.shape[-1], c.shape[-1] + 9, c.dtype, device)
    view = wide[:, 3 : 3 + c.shape[-1]].unflatten(0, c.shape[:-1])
    g.run(out=view)
    assert same_bits(view, c) and wide[:, :3].isnan().all() and wide[:, -6:].isnan().all()
    grown = torch.empty(0, dtype=c.dtype, device=device)
    g.run(out=grown)
    assert same_bits(grown, c)


def test_out_that_is_an_operand_is_refused(device: str) -> None:
    g = groups.make("rows", (3, 8), 8, 6, 6, torch.float32, device)
    a, b = g.a.clone(), g.b.clone()
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        g.run(out=g.a)
    assert torch.equal(g.a, a) and torch.equal(g.b, b)
    # Views that interleave may overlap, so the result is computed aside.
    memory = torch.stack([g.a, torch.zeros_like(g.a)], dim=2).flatten(1)  # every second column
    inner, out = memory[:, ::2], memory[:, 1::2]
    right = tiled_mm.grouped_mm(a, b, offs=g.offs)
    tiled_mm.grouped_mm(inner, b, offs=g.offs, out=out)
    assert same_bits(out, right)


@each("form", FORMS)
def test_lazy_views(device: str, form: str) -> None:
    g = groups.make(form, *ENDS[0], 24, 40, torch.complex64, device)
    right = g.on(g.a.conj().resolve_conj(), g.b).run()
    assert same_bits(g.on(g.a.conj(), g.b).run(), right)
    out = torch.empty_like(right).conj()
    g.on(g.a.conj(), g.b).run(out=out)
    assert out.is_conj() and same_bits(out.resolve_conj(), right)


def test_out_has_no_gradient(device: str) -> None:
    g = groups.make("rows", (2, 3), 3, 4, 5, torch.float32, device)
    out = torch.empty(3, 5, device=device)
    version = out._version
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        g.on(g.a.requires_grad_(), g.b).run(out=out)
    with torch.no_grad():
        g.run(out=out)
    assert out._version > version and not out.requires_grad


@each("dtype", (torch.bfloat16, torch.float32, torch.float64))
def test_weight_gradients_added_up(device: str, dtype: torch.dtype) -> None:
    """Rounded once, to the dtype of the sum, which lies as it does."""
    add = torch.ops.tiled._add_grouped_weight_grad
    g = groups.make("k", (0, 30, 31, 90), 100, 24, 40, dtype, device)
    for type in {dtype, sum_dtype(dtype)}:
        start = cases.fill(4 * 24, 40, type, device).view(4, 24, 40)
        right = [
            tiled_mm.addmm(one, a, b, out_dtype=type)
            for one, (a, b) in zip(start, g.each(), strict=True)
        ]
        for sum in (start.clone(), start.mT.contiguous().mT):
            version = sum._version
            add(sum, g.a.mT.contiguous(), g.b, g.offs)
            assert sum._version > version
            assert all(same_bits(one, two) for one, two in zip(sum, right, strict=True))


# ---- what is refused ---------------------------------------------------------------------------

I32 = torch.int32


def bad_calls(device: str) -> list[tuple[str, dict]]:
    def ones(*sizes: int, dtype=torch.float32) -> torch.Tensor:
        return torch.ones(*sizes, dtype=dtype, device=device)

    ends = torch.tensor([2, 4, 4], dtype=I32, device=device)
    a, b = ones(5, 8), ones(3, 8, 16)
    both = "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    return [
        ("mat_a has to be 2 or 3d", {"a": ones(8), "b": b, "offs": ends}),
        ("mat_b has to be 2 or 3d", {"a": a, "b": b[None], "offs": ends}),
        (
            "contraction dimension of mat_a and mat_b must match",
            {"a": ones(5, 12), "b": b, "offs": ends},
        ),
        (
            "contraction dimension of mat_a and mat_b must match",
            {"a": ones(5, 12), "b": ones(8, 4), "offs": ends},
        ),
        (both, {"a": a, "b": b}),
        (both, {"a": ones(3, 5, 8), "b": b, "offs": ends}),
        ("offs has to be 1D", {"a": a, "b": b, "offs": ends[None]}),
        ("Offsets have to be int32", {"a": a, "b": b, "offs": ends.float()}),
        ("matrix batch sizes have to match", {"a": a, "b": b, "offs": ends[:2]}),
        ("matrix batch sizes have to match", {"a": b.mT, "b": ones(8, 12), "offs": ends[:2]}),
        ("batched dimension has to match", {"a": ones(2, 5, 8), "b": b}),
        ("expected m1 and m2 to have the same dtype", {"a": a, "b": b.double(), "offs": ends}),
        (
            "the bias of a grouped product is [E, N], got 1-D",
            {"a": a, "b": b, "offs": ends, "bias": ones(16)},
        ),
        (
            "has shape [E, N], here [3, 16], got [1, 16]",
            {"a": a, "b": b, "offs": ends, "bias": ones(1, 16)},
        ),
        (
            "groups share out the columns",
            {"a": b.mT, "b": ones(8, 12), "offs": ends, "bias": ones(3, 12)},
        ),
        (
            "Expected bias to have dtype float",
            {"a": a, "b": b, "offs": ends, "bias": ones(3, 16, dtype=torch.float64)},
        ),
        ("unknown activation 'swish'", {"a": a, "b": b, "offs": ends, "activation": "swish"}),
        ("algo 'fastest' is unknown", {"a": a, "b": b, "offs": ends, "algo": "fastest"}),
        ("out_dtype must be the same", {"a": a, "b": b, "offs": ends, "out_dtype": torch.half}),
        ("out has shape [4, 16]", {"a": a, "b": b, "offs": ends, "out": ones(4, 16)}),
        (
            "Expected out tensor to have dtype float",
            {"a": a, "b": b, "offs": ends, "out": ones(5, 16).half()},
        ),
    ]


def test_bad_input(device: str) -> None:
    for text, call in bad_calls(device):
        operands = call.pop("a"), call.pop("b")
        with pytest.raises(RuntimeError) as raised:
            tiled_mm.grouped_mm(*operands, **call)
        assert text in str(raised.value)
    with pytest.raises(TypeError, match="argument 'offs' must be Tensor, not list"):
        tiled_mm.grouped_mm(torch.ones(2, 3), torch.ones(1, 3, 4), offs=[2])


def test_torchs_words() -> None:
    """Where torch refuses the same for the same reason."""
    words = 0
    for text, call in bad_calls("cpu"):
        a, b, offs = call.pop("a"), call.pop("b"), call.pop("offs", None)
        if call:
            continue
        try:
            torch.nn.functional.grouped_mm(a, b, offs=offs)
        except RuntimeError as refusal:
            words += text in str(refusal)
    assert words >= 8


BAD_ENDS = (
    ([5, 2, 9], "offs must not decrease, but offs[1] is 2 after 5"),
    ([-5, 2, 9], "offs must not decrease below 0, but offs[0] is -5"),
    ([2, 4, 13], "offs[2] is 13, past the end of the dimension that groups share out"),
    ([2, 2**31 - 1, 2**31 - 1], "offs[1] is 2147483647, past the end"),
)


@each("form", SHARING)
def test_wrong_ends_on_the_cpu_are_refused_before_anything_is_written(form: str) -> None:
    for ends, text in BAD_ENDS:
        for dtype in (torch.int32, torch.int64):
            g = groups.make(form, (2, 4, 9), 12, 5, 6, torch.float32)
            offs = torch.tensor(ends, dtype=dtype)
            out = torch.full_like(g.run(), 7.0)
            for asked in ({}, {"out": out}):
                with pytest.raises(RuntimeError) as raised:
                    tiled_mm.grouped_mm(g.a, g.b, offs=offs, **asked)
                assert text in str(raised.value)
            assert bool((out == 7).all())


@each("form", SHARING)
@each("dtype", (torch.bfloat16, torch.float32))
@pytest.mark.cuda
def test_wrong_ends_on_a_gpu_count_as_within_and_in_order(form: str, dtype: torch.dtype) -> None:
    for ends, meant in (
        ((50, 20, 90), (50, 50, 90)),
        ((-50, 20, 90), (0, 20, 90)),
        ((20, 40, 130), (20, 40, 100)),
        ((200, 40, 2**31 - 1), (100, 100, 100)),
        ((-(2**31), -1, -7), (0, 0, 0)),
    ):
        right = groups.make(form, meant, 100, 64, 72, dtype, "cuda")
        c = right.run()
        memory = torch.full((c.numel() + 256,), float("nan"), dtype=c.dtype, device="cuda")
        out = memory[128:-128].view(c.shape)
        for type in (torch.int32, torch.int64):
            offs = torch.tensor(ends, dtype=type, device="cuda")
            memory.fill_(float("nan"))
            tiled_mm.grouped_mm(right.a, right.b, offs=offs, out=out)
            assert same_bits(out, c)
            assert memory[:128].isnan().all() and memory[-128:].isnan().all()
