"""Errors: torch.mm's own words, raised before anything is written, the same on meta tensors."""

from __future__ import annotations

import re
from collections.abc import Callable

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each

WHERE = (*cases.DEVICES, "meta")


# Tiled's words are those of torch 2.11. Later versions (2.15 has it) begin with the operator's
# name, mm says how many dimensions there are, as addmm always did, and addmm's mat1 is called self.
# Whole messages, with that name: one that 2.11 could give is compared as it is.
LATER_WORDS = {
    r"mm: (self|mat2) must be a matrix, got \d-D tensor": r"\1 must be a matrix",
    r"addmm: self (must be a matrix, got \d-D tensor)": r"mat1 \1",
    r"addmm: (mat2 must be a matrix, got \d-D tensor)": r"\1",
    r"(?:add)?mm: (mat1 and mat2 shapes cannot be multiplied \(\d+x\d+ and \d+x\d+\))": r"\1",
}


def message(call: Callable) -> tuple[type, str]:
    """The type and the first line of the error that a call raises, in the words of torch 2.11."""
    with pytest.raises(Exception) as raised:
        call()
    text = str(raised.value).splitlines()[0]
    for later, words in LATER_WORDS.items():
        if found := re.fullmatch(later, text):
            return raised.type, found.expand(words)
    return raised.type, text


def empty(*sizes: int, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, device=device, dtype=dtype)


# name -> (sizes and dtype of a, of b); torch.mm on the CPU raises for each.
WRONG_OPERANDS = {
    "inner sizes": (((2, 3), torch.float32), ((4, 5), torch.float32)),
    "inner sizes of zero": (((2, 0), torch.float32), ((4, 5), torch.float32)),
    "a vector": (((3,), torch.float32), ((3, 5), torch.float32)),
    "by a vector": (((2, 3), torch.float32), ((3,), torch.float32)),
    "a batch": (((1, 2, 3), torch.float32), ((3, 5), torch.float32)),
    "by a batch": (((2, 3), torch.float32), ((1, 3, 5), torch.float32)),
    "scalars": (((), torch.float32), ((), torch.float32)),
    "float by double": (((2, 3), torch.float32), ((3, 5), torch.float64)),
    "half by bfloat16": (((2, 3), torch.float16), ((3, 5), torch.bfloat16)),
    "int by long": (((2, 3), torch.int32), ((3, 5), torch.int64)),
    "complex by float": (((2, 3), torch.complex64), ((3, 5), torch.float32)),
    "wrong size and dtype": (((2, 3), torch.float32), ((4, 5), torch.float64)),
    "wrong dimension and dtype": (((2,), torch.float32), ((4, 5), torch.float64)),
}


@each("name", tuple(WRONG_OPERANDS))
@each("device", WHERE)
def test_wrong_operands_in_torch_mms_words(device: str, name: str) -> None:
    def operands(device: str) -> list[torch.Tensor]:
        return [empty(*size, device=device, dtype=t) for size, t in WRONG_OPERANDS[name]]

    expected = message(lambda: torch.mm(*operands("cpu")))
    assert message(lambda: tiled_mm.mm(*operands(device))) == expected
    assert message(lambda: torch.ops.tiled.mm(*operands(device))) == expected
    out = torch.full((2, 5), 7.0, device=device)
    assert message(lambda: tiled_mm.mm(*operands(device), out=out)) == expected
    if device != "meta":
        assert (out == 7).all()


WRONG_BATCHES = {
    "inner sizes": ((2, 3, 4), (2, 5, 6)),
    "batches": ((2, 3, 4), (3, 4, 5)),
    "a matrix": ((3, 4), (2, 4, 5)),
    "by a matrix": ((2, 3, 4), (4, 5)),
}


@each("name", tuple(WRONG_BATCHES))
@each("device", WHERE)
def test_wrong_batches_in_torch_bmms_words(device: str, name: str) -> None:
    def operands(device: str) -> list[torch.Tensor]:
        return [empty(*size, device=device) for size in WRONG_BATCHES[name]]

    expected = message(lambda: torch.bmm(*operands("cpu")))
    assert message(lambda: tiled_mm.bmm(*operands(device))) == expected


@each("device", WHERE)
def test_dtypes_of_bmm(device: str) -> None:
    a, b = empty(2, 3, 4, device=device), empty(2, 4, 5, device=device, dtype=torch.float64)
    kind, text = message(lambda: tiled_mm.bmm(a, b))
    assert kind is RuntimeError and "float != double" in text


@each("device", WHERE)
def test_a_wrong_out_is_not_written(device: str) -> None:
    a, b = torch.ones(2, 3, device=device), torch.ones(3, 5, device=device)

    def refused(out: torch.Tensor, pattern: str) -> None:
        before = out.detach().clone()
        with pytest.raises(RuntimeError, match=pattern):
            tiled_mm.mm(a, b, out=out)
        assert out.shape == before.shape
        if device != "meta":
            assert torch.equal(out.detach(), before)

    for shape in ((2, 6), (5, 2), (10,), (1, 2, 5), (3, 5), (2, 4)):
        refused(torch.full(shape, 7.0, device=device), re.escape("[2, 5]"))
    refused(torch.full((2, 1), 7.0, device=device).expand(2, 5), "single memory location")
    refused(
        torch.full((2, 5), 7.0, device=device, dtype=torch.float64),
        "Expected out tensor to have dtype float, but got double instead",
    )
    refused(
        torch.full((0,), 7.0, device=device, dtype=torch.int32),
        "Expected out tensor to have dtype float, but got int instead",
    )
    refused(torch.full((2, 5), 7.0, device=device).requires_grad_(), "automatic differentiation")


@each("dtype", (torch.float64, torch.float16, torch.int32))
def test_the_dtype_of_out_in_torch_mms_words(dtype: torch.dtype) -> None:
    a, b, out = torch.ones(2, 3), torch.ones(3, 5), torch.zeros(2, 5, dtype=dtype)
    expected = message(lambda: torch.mm(a, b, out=out))
    assert message(lambda: tiled_mm.mm(a, b, out=out)) == expected


@each("which", ("a", "b", "out"))
def test_gradients_with_out_in_torch_mms_words(device: str, which: str) -> None:
    def arguments() -> dict[str, torch.Tensor]:
        tensors = {
            "a": torch.ones(2, 3, device=device),
            "b": torch.ones(3, 5, device=device),
            "out": torch.full((2, 5), 7.0, device=device),
        }
        tensors[which].requires_grad_()
        return tensors

    x = arguments()
    expected = message(lambda: torch.mm(x["a"], x["b"], out=x["out"]))
    assert message(lambda: tiled_mm.mm(x["a"], x["b"], out=x["out"])) == expected
    assert (x["out"] == 7).all()


@pytest.mark.cuda
def test_devices_must_agree() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    for x, y in ((a.cuda(), b), (a, b.cuda())):
        kind, text = message(lambda x=x, y=y: torch.mm(x, y))
        ours = message(lambda x=x, y=y: tiled_mm.mm(x, y))
        assert ours[0] is kind
        # The end of the text names the wrapper or the function that checked.
        assert ours[1].split(" (when")[0] == text.split(" (when")[0]
        for out in (torch.full((2, 5), 7.0), torch.full((2, 5), 7.0).cuda()):
            with pytest.raises(RuntimeError, match="same device"):
                tiled_mm.mm(x, y, out=out)
            assert (out == 7).all()
    out = torch.full((2, 5), 7.0)
    with pytest.raises(RuntimeError, match="same device"):
        tiled_mm.mm(a.cuda(), b.cuda(), out=out)
    assert (out == 7).all()
    with pytest.raises(RuntimeError, match="same device"):
        tiled_mm.bmm(a[None].cuda(), b[None])


def test_cpu_and_meta_do_not_mix() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    for x, y in ((a.to("meta"), b), (a, b.to("meta"))):
        with pytest.raises(RuntimeError, match="same device"):
            tiled_mm.mm(x, y)


UNSUPPORTED = (
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.complex32,
)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@each("dtype", UNSUPPORTED)
@each("device", WHERE)
def test_unsupported_dtypes_name_the_supported(device: str, dtype: torch.dtype) -> None:
    a, b = (torch.zeros(2, 2, device=device).to(dtype) for _ in range(2))
    out = torch.zeros(2, 2, device=device).to(dtype)
    for call in (
        lambda: tiled_mm.mm(a, b),
        lambda: tiled_mm.mm(a, b, out=out),
        lambda: tiled_mm.bmm(a[None], b[None]),
    ):
        kind, text = message(call)
        assert kind is NotImplementedError
        assert text.startswith('"tiled_mm" not implemented for \'')
        for name in ("Float", "BFloat16", "ComplexDouble", "Char", "Long", "Byte"):
            assert name in text.split("supported: ")[1]


@pytest.mark.filterwarnings("ignore:Sparse")
@each("layout", ("COO", "CSR", "quantized"))
def test_unsupported_layouts_name_what_is_supported(device: str, layout: str) -> None:
    make = {
        "COO": lambda t: t.to_sparse(),
        "CSR": lambda t: t.to_sparse_csr(),
        "quantized": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
    }[layout]
    dense = torch.ones(2, 2, device=device)
    special = make(dense)
    for a, b in ((special, dense), (dense, special), (special, special)):
        for call in (
            lambda a=a, b=b: tiled_mm.mm(a, b),
            lambda a=a, b=b: tiled_mm.mm(a, b, out=torch.ones(2, 2, device=device)),
        ):
            kind, text = message(call)
            assert kind is NotImplementedError
            assert text.startswith('"tiled_mm" not implemented for')
            assert re.search("supported: dense .*Float, .*Byte", text)


@each("device", WHERE)
def test_algos_that_do_not_fit_list_those_that_do(device: str) -> None:
    a, b = torch.ones(2, 3, device=device), torch.ones(3, 5, device=device)
    # Whose rungs a meta tensor will meet is not known, so all are named.
    every = rungs.RUNGS["cpu"] + rungs.RUNGS["cuda"] + rungs.TENSOR_RUNGS + (rungs.PARTS_RUNG,)
    fitting = every if device == "meta" else tiled_mm.algos(a, b)
    unfit = "blocked" if device == "cuda" else "register_tile" if device == "cpu" else "nonsense"
    for algo in ("nonsense", "", "Naive", unfit):
        out = torch.full((2, 5), 7.0, device=device)
        for call in (
            lambda algo=algo: tiled_mm.mm(a, b, algo=algo),
            lambda algo=algo, out=out: tiled_mm.mm(a, b, algo=algo, out=out),
            lambda algo=algo: tiled_mm.bmm(a[None], b[None], algo=algo),
        ):
            kind, text = message(call)
            assert kind is RuntimeError and f"'{algo}'" in text
            for name in fitting:
                assert name in text
        if device != "meta":
            assert (out == 7).all()


def test_an_algo_of_a_gpu_says_so_on_cpu_tensors() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    out = torch.full((2, 5), 7.0)
    for algo in (*rungs.TENSOR_RUNGS, "register_tile"):
        for call in (
            lambda algo=algo: tiled_mm.mm(a, b, algo=algo),
            lambda algo=algo: tiled_mm.mm(a, b, algo=algo, out=out),
            lambda algo=algo: tiled_mm.explain(a, b, algo=algo),
        ):
            kind, text = message(call)
            assert kind is RuntimeError
            assert text == (
                f"tiled_mm: algo '{algo}' is not for these inputs: it runs on CUDA tensors, and "
                "these are on the CPU; expected one of: naive, blocked"
            )
    assert bool((out == 7).all())


@each("device", ("h200", "a100", "t4", "k40"))
def test_an_algo_says_why_it_does_not_fit_a_gpu(device: str) -> None:
    """By the planner, which needs no GPU: as mm on one says it."""

    def why(algo: str, dtype: torch.dtype, shape: tuple[int, int] = (64, 64), **asked) -> str:
        a = torch.empty(shape, dtype=dtype, device="meta")
        b = torch.empty(shape[::-1], dtype=dtype, device="meta")
        kind, text = message(lambda: tiled_mm.plan(a, b, algo=algo, device=device, **asked))
        assert kind is RuntimeError
        begin, end = f"tiled_mm: algo '{algo}' is not for these inputs: ", "; expected one of: "
        assert text.startswith(begin)
        return text.removeprefix(begin).split(end)[0]

    assert why("blocked", torch.float32) == "it runs on CPU tensors, and these are on a GPU"
    if device == "h200":
        computes = "it computes float32 with precision='tf32', float16, bfloat16, int8, uint8"
        assert why("hopper", torch.float64) == computes
        assert why("hopper", torch.float32, precision="ieee") == computes
        assert why("hopper", torch.int16) == computes
        sizes = "it is not for these sizes or strides"
        assert why("tma_wgmma", torch.bfloat16, (64, 63)) == sizes
        assert why("fp16x3", torch.float64) == "it computes float32 with precision='fp16x3'"
        of_few_rows = "float32 with precision='ieee', float32 with precision='tf32', float64"
        assert why("few_rows", torch.int32).startswith(f"it computes {of_few_rows}")
    else:
        assert re.fullmatch(
            r"it has no kernel for .* of compute capability \d\.\d", why("hopper", torch.bfloat16)
        )
    if device == "a100":
        assert why("async_mma", torch.float64).startswith("it computes float32 with precision=")


@pytest.mark.cuda
def test_an_algo_says_why_it_does_not_fit_these_cuda_tensors() -> None:
    a = torch.ones(64, 64, device="cuda", dtype=torch.float64)
    reason = "not for these inputs: (it computes|it has no kernel|this build leaves out)"
    with pytest.raises(RuntimeError, match=reason):
        tiled_mm.mm(a, a, algo="hopper")
    with pytest.raises(RuntimeError, match="it runs on CPU tensors, and these are on a GPU"):
        tiled_mm.mm(a, a, algo="blocked")


def test_operators_of_a_gpu_refuse_cpu_tensors_in_one_line() -> None:
    a = torch.ones(64, 64)
    tile = ("128x128", False, 1, 1, False)
    for call in (
        lambda: tiled_mm.fp16x3_recomputed(a, a),
        lambda: torch.ops.tiled_debug.mm_with_tile(a, a, *tile),
        lambda: torch.ops.tiled_debug.finished_with_tile(a, a, *tile),
    ):
        with pytest.raises(NotImplementedError, match=r"expected CUDA tensors, got cpu$") as raised:
            call()
        assert len(str(raised.value).splitlines()) == 1
    meta = a.to("meta")
    count = tiled_mm.fp16x3_recomputed(meta, meta)
    assert count.shape == () and count.dtype == torch.int64 and count.is_meta


def test_a_wrong_algo_is_an_error_for_empty_results_too(device: str) -> None:
    for m, n, k in cases.EMPTY_SHAPES:
        a, b = torch.ones(m, k, device=device), torch.ones(k, n, device=device)
        with pytest.raises(RuntimeError, match="nonsense"):
            tiled_mm.mm(a, b, algo="nonsense")


@each("device", WHERE)
def test_unknown_precisions_list_the_known(device: str) -> None:
    a, b = torch.ones(2, 3, device=device), torch.ones(3, 5, device=device)
    for precision in ("fp32", "", "IEEE", "highest"):
        kind, text = message(lambda p=precision: tiled_mm.mm(a, b, precision=p))
        assert kind is RuntimeError
        for name in (f"'{precision}'", "'ieee'", "'tf32'", "'fp16x3'"):
            assert name in text
    with pytest.raises(RuntimeError, match="'ieee'"):
        tiled_mm.set_float32_precision("fp32")


@each("dtype", tuple(t for t in cases.DTYPES if t != torch.float32))
@each("device", WHERE)
def test_only_float32_has_other_precisions(device: str, dtype: torch.dtype) -> None:
    a, b = (torch.ones(2, 2, device=device).to(dtype) for _ in range(2))
    tiled_mm.mm(a, b, precision="ieee")
    for precision in ("tf32", "fp16x3"):
        kind, text = message(lambda p=precision: tiled_mm.mm(a, b, precision=p))
        assert kind is RuntimeError and f"'{precision}'" in text and "'ieee'" in text


@each("device", WHERE)
def test_out_dtypes(device: str) -> None:
    wanted = (
        "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs or int32 for "
        "int8/uint8 inputs"
    )
    bytes_ = (torch.int8, torch.uint8)
    for dtype in cases.DTYPES:
        a, b = (torch.ones(2, 2, device=device).to(dtype) for _ in range(2))
        for out_dtype in (*cases.DTYPES, torch.bool):
            fits = (
                out_dtype == dtype
                or (out_dtype == torch.float32 and dtype in cases.HALVES)
                or (out_dtype == torch.int32 and dtype in bytes_)
            )
            if fits:
                assert tiled_mm.mm(a, b, out_dtype=out_dtype).dtype == out_dtype
            else:
                assert message(lambda a=a, b=b, t=out_dtype: tiled_mm.mm(a, b, out_dtype=t)) == (
                    RuntimeError,
                    wanted,
                )


def test_out_must_have_the_asked_dtype() -> None:
    a, b = torch.ones(2, 3).bfloat16(), torch.ones(3, 5).bfloat16()
    out = torch.full((2, 5), 7.0).bfloat16()
    with pytest.raises(RuntimeError, match="dtype float, but got c10::BFloat16"):
        tiled_mm.mm(a, b, out_dtype=torch.float32, out=out)
    assert (out == 7).all()


def test_every_operator_on_tensors_has_a_kernel_or_an_answer_for_cuda() -> None:
    """A library without CUDA refuses CUDA tensors in its own words, whatever the operator."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [
        schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(("tiled::", "tiled_debug::"))
    ]
    assert {"tiled::mm", "tiled::mm.out", "tiled_debug::mm_with_tile"} <= set(names)
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CUDA")
    assert [name for name in names if not any(has_kernel(name, key) for key in keys)] == []
