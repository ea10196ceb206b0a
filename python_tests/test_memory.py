"""Operands and results whose memory was freed, or was never there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits


def same(t: torch.Tensor) -> torch.Tensor:
    return t


def freed(*sizes: int, device: str, view: Callable = same) -> torch.Tensor:
    """What FSDP and the offloading of activations leave."""
    t = view(torch.ones(sizes, device=device))
    t.untyped_storage().resize_(0)
    return t


Make = Callable[..., torch.Tensor]
# make(...) stands for the tensor in question or a view of it, and o(...) for ordinary ones.
READS: dict[str, Callable[[Make, Make], object]] = {
    "mm, a": lambda make, o: tiled_mm.mm(make(3, 4), o(4, 5)),
    "mm, b": lambda make, o: tiled_mm.mm(o(3, 4), make(4, 5)),
    "mm, a view with an offset": lambda make, o: tiled_mm.mm(
        make(4, 4, view=lambda t: t[1:]), o(4, 5)
    ),
    "mm with out, a": lambda make, o: tiled_mm.mm(make(3, 4), o(4, 5), out=o(3, 5)),
    "bmm": lambda make, o: tiled_mm.bmm(make(2, 3, 4), o(2, 4, 5)),
    "addmm, a": lambda make, o: tiled_mm.addmm(o(5), make(3, 4), o(4, 5)),
    "addmm, input": lambda make, o: tiled_mm.addmm(make(3, 5), o(3, 4), o(4, 5)),
    "addmm, a row as input": lambda make, o: tiled_mm.addmm(make(5), o(3, 4), o(4, 5)),
    "baddbmm, input": lambda make, o: tiled_mm.baddbmm(make(5), o(2, 3, 4), o(2, 4, 5)),
    "linear, x": lambda make, o: tiled_mm.linear(make(3, 4), o(5, 4)),
    "linear, a batch that is copied": lambda make, o: tiled_mm.linear(
        make(3, 2, 4, view=lambda t: t.transpose(0, 1)), o(5, 4)
    ),
    "linear, weight": lambda make, o: tiled_mm.linear(o(3, 4), make(5, 4)),
    "linear, a vector as weight": lambda make, o: tiled_mm.linear(o(3, 4), make(4)),
    "linear, bias": lambda make, o: tiled_mm.linear(o(3, 4), o(5, 4), make(5)),
    "linear, a wide bias": lambda make, o: tiled_mm.linear(o(2, 3, 4), o(5, 4), make(3, 5)),
    "an epilogue's bias": lambda make, o: torch.ops.tiled_debug.mm_with_epilogue(
        o(3, 4), o(4, 5), bias=make(5)
    ),
    "activation_backward, gradient": lambda make, o: torch.ops.tiled.activation_backward(
        make(3, 4), o(3, 4), "silu"
    ),
    "activation_backward, columns that are copied": lambda make, o: (
        torch.ops.tiled.activation_backward(
            make(2, 3, 4, view=lambda t: t.transpose(0, 1)), None, None, bias_dtype=torch.float32
        )
    ),
    "activation_backward, before": lambda make, o: torch.ops.tiled.activation_backward(
        o(3, 4), make(3, 4), "silu"
    ),
}
WRITES: dict[str, Callable[[Make, Make], object]] = {
    "mm": lambda make, o: tiled_mm.mm(o(3, 4), o(4, 5), out=make(3, 5)),
    "addmm": lambda make, o: tiled_mm.addmm(o(5), o(3, 4), o(4, 5), out=make(3, 5)),
    "addmm_": lambda make, o: tiled_mm.addmm_(make(3, 5), o(3, 4), o(4, 5)),
    "linear": lambda make, o: tiled_mm.linear(o(3, 4), o(5, 4), out=make(3, 5)),
    "linear of a batch": lambda make, o: tiled_mm.linear(o(2, 3, 4), o(5, 4), out=make(2, 3, 5)),
}
# Of torch itself, which the override computes.
TORCHS: dict[str, Callable[[Make, Make], object]] = {
    "mm, a": lambda make, o: torch.mm(make(3, 4), o(4, 5)),
    "mm, b": lambda make, o: torch.mm(o(3, 4), make(4, 5)),
    "mm, out": lambda make, o: torch.mm(o(3, 4), o(4, 5), out=make(3, 5)),
    "mm, a and out of another size": lambda make, o: torch.mm(make(3, 4), o(4, 5), out=o(9)),
    "bmm": lambda make, o: torch.bmm(make(2, 3, 4), o(2, 4, 5)),
    "mv, matrix": lambda make, o: torch.mv(make(3, 4), o(4)),
    "mv, vector": lambda make, o: torch.mv(o(3, 4), make(4)),
    "dot": lambda make, o: torch.dot(make(4), o(4)),
    "addmm, a": lambda make, o: torch.addmm(o(5), make(3, 4), o(4, 5)),
    "addmm, input": lambda make, o: torch.addmm(make(3, 5), o(3, 4), o(4, 5)),
    "addmm, a row as input": lambda make, o: torch.addmm(make(5), o(3, 4), o(4, 5)),
    "addmm_": lambda make, o: make(3, 5).addmm_(o(3, 4), o(4, 5)),
}
NOT_ALLOCATED = "data is not allocated yet"


def ordinary(device: str) -> Make:
    return lambda *sizes: torch.ones(sizes, device=device)


@each("name", tuple(READS))
def test_reading_freed_memory_is_refused(device: str, name: str) -> None:
    with pytest.raises(RuntimeError, match=NOT_ALLOCATED):
        READS[name](lambda *sizes, **view: freed(*sizes, device=device, **view), ordinary(device))


@each("name", tuple(WRITES))
def test_writing_freed_memory_is_refused(device: str, name: str) -> None:
    with pytest.raises(RuntimeError, match=NOT_ALLOCATED):
        WRITES[name](lambda *sizes, **view: freed(*sizes, device=device, **view), ordinary(device))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@each("name", tuple(TORCHS))
def test_freed_memory_under_the_override(device: str, name: str) -> None:
    with tiled_mm.override(), pytest.raises(RuntimeError, match=NOT_ALLOCATED):
        TORCHS[name](lambda *sizes, **view: freed(*sizes, device=device, **view), ordinary(device))


def test_the_words_are_torchs(device: str) -> None:
    """Of the first line; torch's others are advice on kernels that are traced."""
    a, b = freed(3, 4, device=device), torch.ones(4, 5, device=device)
    texts = []
    for mm in (torch.mm, tiled_mm.mm):
        with pytest.raises(RuntimeError) as raised:
            mm(a, b)
        texts.append(str(raised.value).splitlines()[0])
    assert texts[0] == texts[1]


def test_nothing_is_resized_or_written_before_the_refusal(device: str) -> None:
    a, b = freed(3, 4, device=device), torch.ones(4, 5, device=device)
    for call in (tiled_mm.mm, torch.mm):
        empty, full = torch.empty(0, device=device), torch.full((3, 5), 7.0, device=device)
        for out in (empty, full):
            with tiled_mm.override(), pytest.raises(RuntimeError, match=NOT_ALLOCATED):
                call(a, b, out=out)
        assert empty.shape == (0,) and bool((full == 7).all())


def test_no_elements_need_no_memory(device: str) -> None:
    def none(*sizes: int) -> torch.Tensor:
        return freed(*sizes, device=device)

    o = ordinary(device)
    assert torch.equal(tiled_mm.mm(none(3, 0), o(0, 5)), torch.zeros(3, 5, device=device))
    assert tiled_mm.mm(none(0, 4), o(4, 5)).shape == (0, 5)
    assert_same_bits(tiled_mm.mm(o(3, 4), o(4, 5), out=none(0)), tiled_mm.mm(o(3, 4), o(4, 5)))
    with tiled_mm.override():
        assert_same_bits(torch.mm(o(3, 4), o(4, 5), out=none(0)), tiled_mm.mm(o(3, 4), o(4, 5)))


# ---- zeros that have no memory -------------------------------------------------------------------


def lazy_zeros(device: str) -> Make:
    return lambda *sizes, view=same: view(torch._efficientzerotensor(sizes, device=device))


def values(result: object) -> list[torch.Tensor]:
    found = result if isinstance(result, tuple) else (result,)
    return [t + 0 for t in found if t is not None]


@each("name", tuple(READS))
def test_efficient_zeros_are_zeros(device: str, name: str) -> None:
    zeros = READS[name](
        lambda *sizes, view=same: view(torch.zeros(sizes, device=device)), ordinary(device)
    )
    lazy = READS[name](lazy_zeros(device), ordinary(device))
    for one, other in zip(values(lazy), values(zeros), strict=True):
        assert_same_bits(one, other)


@each("name", tuple(n for n in TORCHS if n not in ("mm, out", "addmm_")))
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_efficient_zeros_under_the_override(device: str, name: str) -> None:
    expected = TORCHS[name](lazy_zeros(device), ordinary(device))
    with tiled_mm.override():
        found = TORCHS[name](lazy_zeros(device), ordinary(device))
    assert torch.equal(found + 0, expected + 0)


def test_efficient_zeros_go_on_to_torch(device: str) -> None:
    """Where they come this far: torch itself has no memory for them in dot alone."""
    a, b = torch._efficientzerotensor((4,), device=device), torch.ones(4, device=device)
    tiled_mm.override_counts(reset=True)
    with tiled_mm.override():
        assert float(torch.dot(a, b)) == float(torch.dot(b, a)) == 0
    assert tiled_mm.override_counts(reset=True)["dot"] == {"tiled": 0, "torch": {"memory": 2}}


@each("name", tuple(WRITES))
def test_efficient_zeros_are_not_written(device: str, name: str) -> None:
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        WRITES[name](lazy_zeros(device), ordinary(device))
