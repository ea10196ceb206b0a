"""tiled_mm.override(): torch's own products by tiled's kernels.

Which operators, with which bits; what goes on to torch's kernels; that shapes, strides, resizing
and errors stay torch's; and the switch. Whole programs are in test_override_models.py."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator

import pytest
import tiled_mm
import torch
from golden import same_bits
from torch import Tensor

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)


@pytest.fixture(autouse=True)
def from_zero() -> Iterator[None]:
    tiled_mm.override_counts(reset=True)
    yield
    with pytest.raises(RuntimeError, match="override is not enabled for cpu"):
        tiled_mm.disable_override("cpu")  # no test leaves it on


def computed() -> dict[str, int]:
    """How many calls of each operator tiled computed."""
    counts = tiled_mm.override_counts(reset=True)
    return {name: count["tiled"] for name, count in counts.items() if count["tiled"]}


def passed_on(operator: str) -> dict[str, int]:
    """Why calls of an operator under an override went on to torch's kernel."""
    reasons = tiled_mm.override_counts(reset=True)[operator]["torch"]
    return {reason: count for reason, count in reasons.items() if reason != "off"}


def with_epilogue(a: Tensor, b: Tensor, **epilogue: object) -> Tensor:
    return torch.ops.tiled_debug.mm_with_epilogue(a, b, **epilogue)[0]


# ---- operators and bits -------------------------------------------------------------------------

M, K, N, B = 7, 33, 5, 3


class Operands:
    def __init__(self, dtype: torch.dtype, device: str) -> None:
        def random(*sizes: int) -> Tensor:
            return torch.randn(sizes, device=device).to(dtype)

        self.a, self.b = random(M, K), random(K, N)
        self.stack_a, self.stack_b = random(B, M, K), random(B, K, N)
        self.matrix, self.stack = random(M, N), random(B, M, N)
        self.row, self.column, self.vector = random(N), random(M), random(K)
        self.gelu = "gelu" if device == "cpu" else "gelu_tanh"

    def mm(self) -> Tensor:
        return tiled_mm.mm(self.a, self.b)

    def mv(self) -> Tensor:
        return tiled_mm.mm(self.a, self.vector[:, None])[:, 0]


Call = Callable[[Operands], Tensor]
FACTORS = {"beta": 0.3, "alpha": 1 / 3}  # of which fp32 has only the first digits

# How it is called, what tiled's own operators give, and the operators that are counted.
OPERATORS: dict[str, tuple[Call, Call, str]] = {
    "mm": (lambda o: torch.mm(o.a, o.b), Operands.mm, "mm"),
    "mm out=": (lambda o: torch.mm(o.a, o.b, out=o.matrix), Operands.mm, "mm.out"),
    "transposed": (lambda o: o.b.t() @ o.a.t(), lambda o: tiled_mm.mm(o.b.t(), o.a.t()), "mm"),
    "bmm": (
        lambda o: torch.bmm(o.stack_a, o.stack_b),
        lambda o: tiled_mm.bmm(o.stack_a, o.stack_b),
        "bmm",
    ),
    "bmm out=": (
        lambda o: torch.bmm(o.stack_a, o.stack_b, out=o.stack),
        lambda o: tiled_mm.bmm(o.stack_a, o.stack_b),
        "bmm.out",
    ),
    "addmm": (
        lambda o: torch.addmm(o.matrix, o.a, o.b, **FACTORS),
        lambda o: with_epilogue(o.a, o.b, input=o.matrix, **FACTORS),
        "addmm",
    ),
    "addmm of a row": (
        lambda o: torch.addmm(o.row, o.a, o.b),
        lambda o: with_epilogue(o.a, o.b, input=o.row),
        "addmm",
    ),
    "addmm of a row, out=": (
        lambda o: torch.addmm(o.row, o.a, o.b, out=o.matrix),
        lambda o: with_epilogue(o.a, o.b, input=o.row),
        "addmm.out",
    ),
    "addmm without input": (
        lambda o: torch.addmm(torch.full_like(o.row, torch.nan), o.a, o.b, beta=0),
        Operands.mm,
        "addmm",
    ),
    "addmm_": (
        lambda o: o.matrix.clone().addmm_(o.a, o.b, **FACTORS),
        lambda o: with_epilogue(o.a, o.b, input=o.matrix, **FACTORS),
        "addmm_",
    ),
    "baddbmm": (
        lambda o: torch.baddbmm(o.matrix, o.stack_a, o.stack_b, **FACTORS),
        lambda o: with_epilogue(o.stack_a, o.stack_b, input=o.matrix, **FACTORS),
        "baddbmm",
    ),
    "baddbmm_": (
        lambda o: o.stack.clone().baddbmm_(o.stack_a, o.stack_b, **FACTORS),
        lambda o: with_epilogue(o.stack_a, o.stack_b, input=o.stack, **FACTORS),
        "baddbmm_",
    ),
    "baddbmm out=": (
        lambda o: torch.baddbmm(o.stack, o.stack_a, o.stack_b, out=torch.empty_like(o.stack)),
        lambda o: with_epilogue(o.stack_a, o.stack_b, input=o.stack),
        "baddbmm.out",
    ),
    "addmv": (
        lambda o: torch.addmv(o.column, o.a, o.vector, **FACTORS),
        lambda o: with_epilogue(o.a, o.vector[:, None], input=o.column[:, None], **FACTORS)[:, 0],
        "addmv",
    ),
    "addmv_": (
        lambda o: o.column.clone().addmv_(o.a, o.vector),
        lambda o: with_epilogue(o.a, o.vector[:, None], input=o.column[:, None])[:, 0],
        "addmv_",
    ),
    "addmv out=": (
        lambda o: torch.addmv(o.column, o.a, o.vector, out=torch.empty_like(o.column)),
        lambda o: with_epilogue(o.a, o.vector[:, None], input=o.column[:, None])[:, 0],
        "addmv.out",
    ),
    "mv": (lambda o: torch.mv(o.a, o.vector), Operands.mv, "addmv_"),
    "mv out=": (
        lambda o: torch.mv(o.a, o.vector, out=torch.empty_like(o.column)),
        Operands.mv,
        "addmv.out",
    ),
    "dot": (lambda o: torch.dot(o.a[0], o.b[:, 0]), lambda o: Operands.mm(o)[0, 0], "dot"),
    "linear": (lambda o: torch.nn.functional.linear(o.a, o.b.t()), Operands.mm, "mm"),
    "linear with bias": (
        lambda o: torch.nn.functional.linear(o.a, o.b.t(), o.row),
        lambda o: with_epilogue(o.a, o.b, bias=o.row),
        "addmm",
    ),
    "einsum": (lambda o: torch.einsum("mk,kn->mn", o.a, o.b), Operands.mm, "bmm"),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_torch_calls_have_the_bits_of_tiled(name: str, dtype: torch.dtype, device: str) -> None:
    call, expected, operator = OPERATORS[name]
    o = Operands(dtype, device)
    wanted = expected(o)
    with tiled_mm.override():
        found = call(o)
    assert same_bits(found, wanted)
    assert computed() == {operator: 1}


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.is_floating_point], ids=str)
def test_activations(activation: str, dtype: torch.dtype, device: str) -> None:
    """Which gelu torch means on a device is seen by its own result: the two differ by far more."""
    o = Operands(dtype, device)
    use_gelu = activation == "gelu"
    theirs = torch._addmm_activation(o.row, o.a, o.b, use_gelu=use_gelu)
    with tiled_mm.override():
        ours = torch._addmm_activation(o.row, o.a, o.b, use_gelu=use_gelu)
        out = torch.empty_like(ours)
        torch._addmm_activation(o.row, o.a, o.b, use_gelu=use_gelu, out=out)
    name = o.gelu if use_gelu else "relu"
    assert same_bits(ours, with_epilogue(o.a, o.b, bias=o.row, activation=name))
    assert same_bits(out, ours)
    assert computed() == {"_addmm_activation": 1, "_addmm_activation.out": 1}
    if dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(ours, theirs)


def test_addbmm_is_made_of_addmm(device: str) -> None:
    o = Operands(torch.float64, device)
    expected = o.matrix
    for a, b in zip(o.stack_a, o.stack_b, strict=True):
        expected = with_epilogue(a, b, input=expected)
    with tiled_mm.override():
        found = torch.addbmm(o.matrix, o.stack_a, o.stack_b)
    assert same_bits(found, expected)
    assert computed() == {"addmm_": B}


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_wide_results_of_16_bit_inputs(dtype: torch.dtype) -> None:
    """Torch has out_dtype= on CUDA alone."""
    o = Operands(dtype, "cuda")
    wide = torch.float32
    mm = tiled_mm.mm(o.a, o.b, out_dtype=wide)
    bmm = tiled_mm.bmm(o.stack_a, o.stack_b, out_dtype=wide)
    row, stack = o.row.to(wide), o.stack.to(wide)
    out, stack_out = torch.empty_like(mm), torch.empty_like(bmm)
    with tiled_mm.override():
        assert same_bits(torch.mm(o.a, o.b, out_dtype=wide), mm)
        assert same_bits(torch.mm(o.a, o.b, out_dtype=wide, out=out), mm)
        assert same_bits(torch.bmm(o.stack_a, o.stack_b, out_dtype=wide), bmm)
        assert same_bits(torch.bmm(o.stack_a, o.stack_b, out_dtype=wide, out=stack_out), bmm)
        sums = [
            (torch.addmm(self, o.a, o.b, out_dtype=wide), with_epilogue(
                o.a, o.b, bias=self, out_dtype=wide))
            for self in (o.row, row)
        ] + [
            (torch.baddbmm(self, o.stack_a, o.stack_b, out_dtype=wide), with_epilogue(
                o.stack_a, o.stack_b, input=self, out_dtype=wide))
            for self in (o.stack, stack)
        ]  # fmt: skip
    assert all(same_bits(*pair) for pair in sums)
    operators = ("mm.dtype", "mm.dtype_out", "bmm.dtype", "bmm.dtype_out")
    assert computed() == dict.fromkeys(operators, 1) | {"addmm.dtype": 2, "baddbmm.dtype": 2}


def test_integers_are_exact_on_the_cpu() -> None:
    a, b = torch.randint(-99, 99, (M, K)), torch.randint(-99, 99, (K, N))
    with tiled_mm.override():
        c = torch.addmm(torch.ones(N, dtype=torch.long), a, b, beta=-3, alpha=2)
    assert torch.equal(c, 2 * (a[:, :, None] * b).sum(1) - 3)
    assert computed() == {"addmm": 1}


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_integers_stay_refused_on_cuda(dtype: torch.dtype) -> None:
    a = torch.ones(4, 4, dtype=dtype, device="cuda")
    with tiled_mm.override(), pytest.raises(RuntimeError, match=r"addmm_cuda|not implemented"):
        torch.mm(a, a)
    assert passed_on("mm") == {"dtype": 1}


def test_conjugate_views(device: str) -> None:
    a, b = (torch.randn(4, 4, dtype=torch.complex64, device=device) for _ in range(2))
    expected = tiled_mm.mm(a.conj().resolve_conj(), b)
    with tiled_mm.override():
        assert same_bits(a.conj() @ b, expected)
        assert same_bits(torch.addmm(b.conj(), a, b), with_epilogue(a, b, input=b.conj().clone()))
    assert computed() == {"mm": 1, "addmm": 1}


# ---- as torch has it ----------------------------------------------------------------------------


def shapes_of(call: Callable[[], Tensor]) -> tuple:
    """What can be seen of a result but its values, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        c = call()
    return c.shape, c.stride(), c.dtype, c.storage_offset(), [str(w.message) for w in caught]


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(sizes, dtype=dtype)


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "mm": lambda: torch.mm(empty(2, 3).t(), empty(2, 4)),
    "no rows": lambda: torch.mm(empty(0, 3), empty(3, 4)),
    "no terms": lambda: torch.mm(empty(2, 0), empty(0, 4)),
    "addmm without terms": lambda: torch.addmm(empty(4), empty(2, 0), empty(0, 4)),
    "no entries": lambda: torch.bmm(empty(0, 2, 3), empty(0, 3, 4)),
    "bmm": lambda: torch.bmm(empty(5, 3, 2).mT, empty(5, 3, 4)),
    "out of other strides": lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(4, 2).t()),
    "out of gaps": lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(2, 9)[:, 1::2]),
    "empty out": lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(0)),
    "smaller out": lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(2)),
    "larger out": lambda: torch.addmm(empty(4), empty(2, 3), empty(3, 4), out=empty(5, 5)),
    "larger out of bmm": lambda: torch.bmm(empty(5, 2, 3), empty(5, 3, 4), out=empty(9, 9, 9)),
    "smaller out of mv": lambda: torch.mv(empty(4, 3), empty(3), out=empty(2)),
    "larger out of addmv": lambda: torch.addmv(empty(1), empty(4, 3), empty(3), out=empty(6)),
    "empty out of dot": lambda: torch.dot(empty(3), empty(3), out=empty(1)),
    "matrix without columns": lambda: torch.mv(empty(4, 0), empty(0)),
    "dot of nothing": lambda: torch.dot(empty(0), empty(0)),
    "scalar input": lambda: torch.addmm(empty(), empty(2, 3), empty(3, 4)),
    "in place of a view": lambda: empty(9, 4)[::4].addmm_(empty(3, 2), empty(2, 4)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_shapes_strides_and_resizing_are_torchs(name: str) -> None:
    expected = shapes_of(LAYOUTS[name])
    with tiled_mm.override("cpu"):
        assert shapes_of(LAYOUTS[name]) == expected
    assert len(computed()) == 1


def test_sums_without_terms_are_the_input() -> None:
    row = torch.randn(4)
    with tiled_mm.override("cpu"):
        assert torch.equal(torch.addmm(row, empty(2, 0), empty(0, 4)), row.expand(2, 4))
        assert torch.equal(torch.mv(empty(4, 0), empty(0)), torch.zeros(4))
        assert torch.equal(torch.dot(empty(0), empty(0)), torch.tensor(0.0))


WRONG: dict[str, tuple[Callable[[], Tensor], str, str]] = {
    "terms": (lambda: torch.mm(empty(2, 3), empty(4, 5)), "mm", "shape"),
    "dimensions": (lambda: torch.mm(empty(2, 3), empty(3)), "mm", "shape"),
    "batches": (lambda: torch.bmm(empty(2, 3, 4), empty(3, 4, 5)), "bmm", "shape"),
    "dtypes": (lambda: torch.mm(empty(2, 3), empty(3, 4).double()), "mm", "dtype"),
    "bool": (lambda: torch.mm(empty(2, 2).bool(), empty(2, 2).bool()), "mm", "dtype"),
    "dtype of out": (
        lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(2, 4).int()),
        "mm.out",
        "dtype",
    ),
    "dtype of the input": (
        lambda: torch.addmm(empty(4).half(), empty(2, 3), empty(3, 4)),
        "addmm",
        "dtype",
    ),
    "shape of the input": (
        lambda: torch.addmm(empty(3), empty(2, 3), empty(3, 4)),
        "addmm",
        "shape",
    ),
    "in place of a row": (lambda: empty(4).addmm_(empty(2, 3), empty(3, 4)), "addmm_", "shape"),
    "out on itself": (
        lambda: torch.mm(empty(2, 3), empty(3, 4), out=empty(1).expand(2, 4)),
        "mm.out",
        "layout",
    ),
    "complex alpha": (
        lambda: torch.addmm(empty(4), empty(2, 3), empty(3, 4), alpha=1j),
        "addmm",
        "scalar",
    ),
    "alpha too large": (
        lambda: torch.addmm(empty(4), empty(2, 3), empty(3, 4), alpha=1e300),
        "addmm",
        "scalar",
    ),
    "vector": (lambda: torch.mv(empty(2, 3), empty(4)), "addmv_", "shape"),
    "vectors": (lambda: torch.dot(empty(3), empty(4)), "dot", "shape"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_torchs(name: str) -> None:
    call, operator, reason = WRONG[name]
    with pytest.raises(Exception) as theirs:
        call()
    with tiled_mm.override("cpu"), pytest.raises(Exception) as ours:
        call()
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value) == str(theirs.value)
    # mv refuses by itself; the others' kernels are reached.
    assert name == "vector" or passed_on(operator) == {reason: 1}


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (1, 2)], ids=str)
def test_an_out_that_lies_on_itself_goes_on_to_torch(strides: tuple[int, int]) -> None:
    """Torch writes it where no stride is 0; equal elements can be compared."""
    a = torch.ones(3, 3)

    def out() -> Tensor:
        return torch.zeros(20).as_strided((3, 3), strides)

    calls = {
        "mm.out": lambda: torch.mm(a, a, out=out()),
        "addmm.out": lambda: torch.addmm(a, a, a, out=out()),
        "addmm_": lambda: out().addmm_(a, a, beta=0),
        "bmm.out": lambda: torch.bmm(a[None], a[None], out=out()[None]),
        "baddbmm.out": lambda: torch.baddbmm(a, a[None], a[None], out=out()[None]),
    }
    for name, call in calls.items():
        expected = call()
        with tiled_mm.override("cpu"):
            assert torch.equal(call(), expected), name
        assert passed_on(name) == {"layout": 1}, name


def test_an_out_whose_entries_lie_on_one_another_goes_on_to_torch() -> None:
    a = torch.ones(2, 3, 3)
    with tiled_mm.override("cpu"):
        out = torch.zeros(30).as_strided((2, 3, 3), (4, 3, 1))
        assert torch.equal(torch.bmm(a, a, out=out), torch.full((2, 3, 3), 3.0))
    assert passed_on("bmm.out") == {"layout": 1}


def test_a_fraction_of_integers_goes_on_to_torch() -> None:
    a = torch.ones(2, 2, dtype=torch.int)
    expected = torch.addmm(a, a, a, alpha=1.5)
    with tiled_mm.override("cpu"):
        assert torch.equal(torch.addmm(a, a, a, alpha=1.5), expected)
    assert passed_on("addmm") == {"scalar": 1}


@pytest.mark.skipif(
    not hasattr(Tensor, "refine_names"), reason="this torch has no tensors with named dimensions"
)
def test_names_go_on_to_torch() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that names are experimental
        a = torch.ones(2, 3).refine_names("row", "term")
    with tiled_mm.override("cpu"):
        assert torch.mm(a, torch.ones(3, 4)).names == ("row", None)
    assert passed_on("mm") == {"names": 1}


def test_sparse_products_are_not_touched() -> None:
    a, b = torch.eye(3).to_sparse(), torch.randn(3, 3)
    with tiled_mm.override("cpu"):
        assert torch.equal(torch.mm(a, b), b)
    assert computed() == {}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_may_overlap_what_is_read(device: str) -> None:
    """Torch's own kernels then read what they have written."""
    memory = torch.randn(40, 8, device=device)
    a, b = memory[:8], memory[4:12]
    expected, stack = tiled_mm.mm(a, b), tiled_mm.bmm(memory.view(5, 8, 8), memory.view(5, 8, 8))
    sum_ = with_epilogue(b, b, input=memory[8:16])
    with tiled_mm.override():
        for place in (slice(0, 8), slice(2, 10), slice(4, 12)):
            copy = memory.clone()
            assert same_bits(torch.mm(copy[:8], copy[4:12], out=copy[place]), expected)
        copy = memory.clone()
        entries = copy.view(5, 8, 8)
        assert same_bits(torch.bmm(entries, entries, out=entries), stack)
        copy = memory.clone()
        torch.addmm(copy[8:16], copy[4:12], copy[4:12], out=copy[9:17])
        assert same_bits(copy[9:17], sum_)


# ---- the switch ---------------------------------------------------------------------------------


def overridden() -> bool:
    """Whether tiled computes a product of the CPU now."""
    tiled_mm.override_counts(reset=True)
    torch.mm(empty(1, 1), empty(1, 1))
    return computed() == {"mm": 1}


def test_nesting_and_errors_restore_what_was() -> None:
    with tiled_mm.override():
        with tiled_mm.override("cpu"):
            assert overridden()
        with pytest.raises(ValueError, match="inside"), tiled_mm.override():
            raise ValueError("inside")
        assert overridden()
    torch.mm(empty(1, 1), empty(1, 1))
    assert tiled_mm.override_counts() == {"mm": {"tiled": 0, "torch": {"off": 1}}}


def test_as_a_decorator() -> None:
    @tiled_mm.override("cpu")
    def inside(deeper: int) -> bool:
        return overridden() and (deeper == 0 or inside(deeper - 1))

    assert inside(2) and not overridden()


def test_what_runs_after_its_call_is_not_decorated() -> None:
    """Or the override would be off by its first step, and nobody told."""

    def generator():
        yield

    async def coroutine() -> None: ...

    async def both():
        yield

    for function in (generator, coroutine, both):
        with pytest.raises(TypeError, match="use a with block inside of it"):
            tiled_mm.override("cpu")(function)


def test_a_class_stays_a_class() -> None:
    """A decorator would make a function of it, which no isinstance takes."""
    with pytest.raises(TypeError, match="Linear is a class, of which a decorator"):
        tiled_mm.override()(torch.nn.Linear)


def test_one_gpu_of_many_is_refused() -> None:
    """The switch is one for all of them."""
    for call in (tiled_mm.override, tiled_mm.enable_override, tiled_mm.disable_override):
        for device in ("cuda:7", torch.device("cuda", 0)):
            with pytest.raises(RuntimeError, match="all devices of a kind together: 'cuda', not"):
                call(device)
    with tiled_mm.override(torch.device("cpu", 0)):  # which is the CPU
        assert overridden()


def test_for_a_whole_process() -> None:
    tiled_mm.enable_override(torch.device("cpu"))
    assert overridden()
    tiled_mm.disable_override("cpu")
    assert not overridden()


def test_devices_are_switched_one_by_one() -> None:
    if tiled_mm.build_info()["cuda"] is None:
        with pytest.raises(NotImplementedError, match="built without CUDA"):
            tiled_mm.enable_override("cuda")
        return
    with tiled_mm.override("cuda"):
        assert not overridden()
        with tiled_mm.override("cpu"):
            assert overridden()


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="unknown device 'meta' to override"):
        tiled_mm.enable_override("meta")


def test_every_operator_has_a_kernel_where_torch_has_one() -> None:
    """On the keys CPU and CUDA, so that torch's own derivatives stand above them."""
    with tiled_mm.override():
        pass
    operators = [
        *("mm", "mm.out", "bmm", "bmm.out", "dot", "addmm", "addmm_", "addmm.out", "baddbmm"),
        *("baddbmm_", "baddbmm.out", "addmv", "addmv_", "addmv.out"),
        *("_addmm_activation", "_addmm_activation.out", "_grouped_mm"),
    ]
    forms = [f"{op}.{form}" for op in ("mm", "bmm", "addmm", "baddbmm") for form in
             ("dtype", "dtype_out")]  # fmt: skip
    on_cuda = operators + forms if tiled_mm.build_info()["cuda"] else []
    for key, expected in (("CPU", operators), ("CUDA", on_cuda)):
        for name in operators + forms:
            kernels = torch._C._dispatch_dump(f"aten::{name}").splitlines()
            ours = any(line.startswith(f"{key}: tiled_mm.override ") for line in kernels)
            assert ours == (name in expected), (name, key)


def in_a_new_process(program: str) -> str:
    """What a program prints in which every warning is an error."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_without_an_override_torch_keeps_its_kernels() -> None:
    in_a_new_process("""
        import torch
        before = torch._C._dispatch_dump("aten::mm")
        import tiled_mm
        assert torch._C._dispatch_dump("aten::mm") == before
        assert tiled_mm.override_counts() == {}
        with tiled_mm.override():
            assert "tiled_mm.override" in torch._C._dispatch_dump("aten::mm")
    """)


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_torchs_own_warning_is_left_for_others(always: bool) -> None:
    """It comes once in a process: not for our kernels, and for others as it would without them. For
    the next overridden one, that is, unless torch has overridden kernels of its own before, as 2.15
    does when it is imported; where it is asked to come always, it comes in every version."""

    def warnings_of_another(before: str) -> str:
        return in_a_new_process(f"""
            import warnings, torch, tiled_mm
            torch.set_warn_always({always})
            {before}
            library = torch.library.Library("aten", "IMPL")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                library.impl("mm", lambda a, b: a, "CPU", allow_override=True)
            for warning in caught:
                print("Overriding a previously registered kernel" in str(warning.message))
        """)

    without = warnings_of_another("")
    assert without == "True\n" or (without == "" and not always)
    assert warnings_of_another("tiled_mm.enable_override()") == without


def test_a_kernel_that_was_there_before_is_called() -> None:
    in_a_new_process("""
        import warnings, torch, tiled_mm
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl("mm", lambda a, b: torch.full((7,), 7), "CPU", allow_override=True)
        a = torch.eye(2)
        with tiled_mm.override("cpu"):
            assert torch.equal(torch.mm(a, a), a)
            assert torch.equal(torch.mm(a.bool(), a.bool()), torch.full((7,), 7))
        assert torch.equal(torch.mm(a, a), torch.full((7,), 7))
    """)


def test_counts_may_be_asked_for_by_threads_at_once() -> None:
    in_a_new_process("""
        import threading, time, tiled_mm
        tiled_mm.enable_override("cpu")
        end = time.monotonic() + 2
        def ask():
            while time.monotonic() < end:
                assert tiled_mm.override_counts() == {}
        threads = [threading.Thread(target=ask) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    """)


def test_counts_leave_no_memory_behind() -> None:
    in_a_new_process("""
        import ctypes, gc, tiled_mm
        class Usage(ctypes.Structure):
            _fields_ = [(name, ctypes.c_size_t) for name in (
                "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                "fordblks", "keepcost")]
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = Usage
        tiled_mm.enable_override("cpu")
        def used(calls):
            for _ in range(calls):
                tiled_mm.override_counts()
            gc.collect()
            return mallinfo2().uordblks
        before = used(20)
        grown = used(200) - before
        assert grown < 200 * 100, grown  # bytes; a token for each operator were 200 * 780
    """)


def test_a_kernel_that_comes_later_wins_and_is_named() -> None:
    in_a_new_process("""
        import warnings, torch, tiled_mm
        tiled_mm.enable_override("cpu")
        assert tiled_mm.override_counts() == {}
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl("mm", lambda a, b: torch.full((7,), 7), "CPU", allow_override=True)
        assert torch.equal(torch.mm(torch.eye(2), torch.eye(2)), torch.full((7,), 7))
        ((name, count),) = tiled_mm.override_counts().items()
        assert name == "mm" and count["tiled"] == 0 and count["torch"] == {}
        assert count["replaced_by"].startswith("registered at ")
    """)
