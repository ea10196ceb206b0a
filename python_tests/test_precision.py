"""precision=: per call, per block, for the library, and torch's own settings."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

PRECISIONS = ("ieee", "tf32", "fp16x3")


@pytest.fixture(autouse=True)
def setting() -> Iterator[None]:
    before = tiled_mm.get_float32_precision()
    tiled_mm.set_float32_precision(None)
    yield
    tiled_mm.set_float32_precision(before)


def test_the_setting_is_empty_at_first_and_keeps_what_is_set() -> None:
    script = "import tiled_mm; print(tiled_mm.get_float32_precision())"
    assert run(script) == ["None"]
    for name in (*PRECISIONS, None):
        tiled_mm.set_float32_precision(name)
        assert tiled_mm.get_float32_precision() == name


def test_the_context_restores_what_was_set() -> None:
    tiled_mm.set_float32_precision("tf32")
    with tiled_mm.float32_precision("fp16x3"):
        assert tiled_mm.get_float32_precision() == "fp16x3"
        with tiled_mm.float32_precision(None):
            assert tiled_mm.get_float32_precision() is None
        assert tiled_mm.get_float32_precision() == "fp16x3"
    assert tiled_mm.get_float32_precision() == "tf32"
    with pytest.raises(ZeroDivisionError), tiled_mm.float32_precision("ieee"):
        raise ZeroDivisionError
    assert tiled_mm.get_float32_precision() == "tf32"
    with pytest.raises(RuntimeError, match="'ieee'"), tiled_mm.float32_precision("fp8"):
        pass
    assert tiled_mm.get_float32_precision() == "tf32"


@each("first,second", (("tf32", "tf32"), ("tf32", "ieee"), (None, "fp16x3"), ("ieee", None)))
@each("outside", (None, "ieee"))
def test_blocks_of_several_threads_may_interleave(outside, first, second) -> None:
    """One enters, the other enters, the one leaves, the other leaves."""
    tiled_mm.set_float32_precision(outside)
    entered, may_leave = threading.Event(), threading.Event()

    def other() -> None:
        with tiled_mm.float32_precision(second):
            entered.set()
            assert may_leave.wait(60)

    thread = threading.Thread(target=other)
    with tiled_mm.float32_precision(first):
        thread.start()
        assert entered.wait(60)
        assert tiled_mm.get_float32_precision() == second
    assert tiled_mm.get_float32_precision() == second
    may_leave.set()
    thread.join()
    assert tiled_mm.get_float32_precision() == outside


def test_what_is_left_in_any_order_restores_what_was_outside() -> None:
    tiled_mm.set_float32_precision("ieee")
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        blocks = [tiled_mm.float32_precision(name) for name in PRECISIONS]
        [block.__enter__() for block in blocks]
        open_ = list(PRECISIONS)
        for i in order:
            assert tiled_mm.get_float32_precision() == open_[-1]
            blocks[i].__exit__(None, None, None)
            open_.remove(PRECISIONS[i])
        assert tiled_mm.get_float32_precision() == "ieee"


def test_what_is_set_in_a_block_counts_until_its_end() -> None:
    tiled_mm.set_float32_precision("tf32")
    with tiled_mm.float32_precision("ieee"):
        tiled_mm.set_float32_precision("fp16x3")
        assert tiled_mm.get_float32_precision() == "fp16x3"
    assert tiled_mm.get_float32_precision() == "tf32"


def test_the_setting_holds_for_all_threads() -> None:
    tiled_mm.set_float32_precision("fp16x3")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tiled_mm.get_float32_precision()))
    thread.start()
    thread.join()
    assert seen == ["fp16x3"]


@each("precision", PRECISIONS)
def test_the_cpu_runs_ieee_whatever_is_asked(precision: str) -> None:
    a, b = cases.pair(40, 33, 300, torch.float32)
    expected = tiled_mm.mm(a, b)
    gates.check_random(expected, a, b)
    assert_same_bits(tiled_mm.mm(a, b, precision=precision), expected)
    with tiled_mm.float32_precision(precision):
        assert_same_bits(tiled_mm.mm(a, b), expected)


def has_kernel(device: str, precision: str) -> bool:
    """Whether float32 products on this device can run it."""
    return precision == "ieee" or rungs.has_mma_kernels(device)


def serves_a_setting(device: str, precision: str) -> bool:
    """fp16x3 does only where three products in fp16 are faster than one in fp32."""
    if precision != "fp16x3" or not has_kernel(device, precision):
        return has_kernel(device, precision)
    a, b = cases.pair(8, 8, 8, torch.float32, device)
    peaks = [tiled_mm.plan(a, b, precision=x).peak_flops for x in ("fp16x3", "ieee")]
    return peaks[0] > peaks[1]


@pytest.mark.cuda
@each("precision", ("tf32", "fp16x3"))
def test_a_precision_without_a_kernel_raises_if_asked_for_a_call(precision: str) -> None:
    if has_kernel("cuda", precision):
        pytest.skip(f"{precision} has a kernel for this GPU")
    a, b = cases.pair(40, 33, 300, torch.float32, "cuda")
    with pytest.raises(NotImplementedError, match=f"'{precision}'.*'ieee'"):
        tiled_mm.mm(a, b, precision=precision)
    out = torch.full((40, 33), 7.0, device="cuda")
    with pytest.raises(NotImplementedError):
        tiled_mm.mm(a, b, precision=precision, out=out)
    assert (out == 7).all()


@each("precision", PRECISIONS)
@each("dtype", cases.DTYPES)
def test_a_setting_never_raises_and_is_never_less_exact(device, dtype, precision) -> None:
    """It is what float32 products run where a kernel exists, and changes no other dtype's."""
    a, b = cases.pair(40, 33, 300, dtype, device)
    runs = dtype == torch.float32 and serves_a_setting(device, precision)
    with tiled_mm.float32_precision("ieee"):
        expected = tiled_mm.mm(a, b, precision=precision if runs else None)
    with tiled_mm.float32_precision(precision):
        assert_same_bits(tiled_mm.mm(a, b), expected)
        if runs:
            exact = tiled_mm.mm(a, b, precision="ieee")
            assert torch.equal(exact, expected) == (precision == "ieee")


@each("dtype", cases.HALVES)
def test_ieee_of_16_bit_types(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(40, 33, 300, dtype, device)
    c = tiled_mm.mm(a, b, precision="ieee")
    gates.check_random(c, a, b)
    if device == "cuda":
        assert_same_bits(c.cpu(), tiled_mm.mm(a.cpu(), b.cpu(), precision="ieee"))


def run(script: str) -> list[str]:
    """The lines that a new process prints: torch's settings cannot be taken back."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


TORCH_SETTINGS = {
    "new": "torch.backends.cuda.matmul.fp32_precision = '{}'",
    "new, everything": "torch.backends.fp32_precision = '{}'",
}
LEGACY_SETTINGS = {
    "tf32": "torch.backends.cuda.matmul.allow_tf32 = True; "
    "torch.set_float32_matmul_precision('high')",
    "ieee": "torch.backends.cuda.matmul.allow_tf32 = False; "
    "torch.set_float32_matmul_precision('highest')",
}
PRODUCT = """
import torch, tiled_mm
device = {device!r}
a = torch.full((2, 1), 1 + 2.0**-20, device=device)  # TF32 would lose the last bits
b = torch.ones(1, 3, device=device)
def show():
    print(bool((tiled_mm.mm(a, b) == a.expand(2, 3)).all()), tiled_mm.get_float32_precision())
show()
{setting}
show()
with tiled_mm.float32_precision("tf32"):
    show()
"""


def shown(device: str, precisions: tuple[str, ...], library: str | None = None) -> list[str]:
    """What `show` prints where torch, or the library, is set so."""
    return [f"{p != 'tf32' or not has_kernel(device, p)} {library}" for p in precisions]


def test_torchs_new_settings_are_read(device: str) -> None:
    values = ("tf32", "ieee", "tf32")
    setting = "\nshow()\n".join(
        text.format(value) for value in values for text in TORCH_SETTINGS.values()
    )
    lines = run(PRODUCT.format(device=device, setting=setting))
    torchs = tuple(value for value in values for _ in TORCH_SETTINGS)
    assert lines == shown(device, ("ieee", *torchs)) + shown(device, ("tf32",), "tf32")


def test_torchs_legacy_settings_are_read(device: str) -> None:
    values = ("tf32", "ieee", "tf32")
    setting = "\nshow()\n".join(LEGACY_SETTINGS[value] for value in values)
    lines = run(PRODUCT.format(device=device, setting=setting))
    assert lines == shown(device, ("ieee", *values)) + shown(device, ("tf32",), "tf32")


def test_new_settings_after_legacy_ones(device: str) -> None:
    """torch's own legacy getters throw in this state."""
    setting = LEGACY_SETTINGS["ieee"] + "\n" + TORCH_SETTINGS["new"].format("tf32")
    lines = run(PRODUCT.format(device=device, setting=setting))
    assert lines[:2] == shown(device, ("ieee", "tf32"))


def test_what_a_backward_asks_for() -> None:
    """Where a gradient is computed apart from its product, by what the setting got the product:
    less than it names on a GPU that lacks it, where a call that asked for it would be refused."""
    from tiled_mm._tree_precision import _served, precision_of

    known = {"h200": PRECISIONS, "t4": ("ieee",) * 3, "k40": ("ieee",) * 3}
    for device, expected in known.items():
        for setting, right in zip(PRECISIONS, expected, strict=True):
            with tiled_mm.float32_precision(setting):
                assert _served(setting, device) == right
    for setting in (None, *PRECISIONS):
        with tiled_mm.float32_precision(setting):
            assert precision_of(torch.float32, torch.device("cpu")) == "ieee"
            assert precision_of(torch.bfloat16, torch.device("cuda", 0)) is None
