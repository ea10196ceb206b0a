"""`python -m bench.bits`: what it records, and that compare sees one bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from benchmark import CPU, invoke

from bench import bits, bits_list


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Part of the list, recorded twice."""
    paths = tmp_path / "old.json", tmp_path / "new.json"
    for path in paths:
        assert bits.record_here(path, CPU, bits_list.products()[::97]) >= 60
    return paths


def test_compare_finds_what_differs_or_is_gone(files: tuple[Path, Path]) -> None:
    made = json.loads(files[1].read_text())
    results = made["results"]
    name = list(results)[7]

    def compared(**changed: object) -> tuple[int, str]:
        files[1].write_text(json.dumps(made | changed))
        done = invoke(bits.app, "compare", *files)
        return done.exit_code, done.stdout

    code, text = compared()
    assert code == 0 and f"{len(results)} compared: 0 differ; 0 gone; 0 only" in text
    code, text = compared(results=results | {name: "0"})
    assert code == 1 and f"differs: {name}\n" in text and "1 differ; 0 gone" in text
    code, text = compared(results={k: v for k, v in results.items() if k != name})
    assert code == 1 and f"gone: {name}\n" in text and "0 differ; 1 gone" in text
    code, text = compared(results=results | {"one more: hopper": "0"})
    assert code == 0 and "1 only in the new" in text
    for what in ("arithmetic", "operands"):
        code, text = compared(**{what: "another"})
        assert code == 2 and f"not comparable: {what}" in text
    files[0].write_text(json.dumps(made | {"results": {}}))
    assert compared(results={})[0] == 1, "nothing was compared"


@pytest.mark.parametrize("dtype", bits_list.DTYPES)
def test_the_digest_sees_each_bit_and_no_strides(dtype: str) -> None:
    x = torch.arange(1, 13).to(getattr(torch, dtype)).view(4, 3)
    memory = x.clone().view(torch.uint8)
    found = {bits.digest(x)}
    for byte in range(memory.shape[1]):
        flipped = memory.clone()
        flipped[2, byte] ^= 1
        found.add(bits.digest(flipped.view(x.dtype)))
    assert len(found) == 1 + memory.shape[1]
    assert bits.digest(x.t().contiguous().t()) == bits.digest(x)


def test_every_nan_is_the_same_and_zeros_are_not() -> None:
    payloads = torch.tensor([0x7FC00000, 0x7FC00001, -1], dtype=torch.int32).view(torch.float32)
    assert len({bits.digest(x) for x in payloads.split(1)}) == 1
    assert bits.digest(torch.tensor([0.0])) != bits.digest(torch.tensor([-0.0]))


@pytest.mark.parametrize("layout", bits_list.IN_MEMORY)
def test_memory_around_a_result_is_seen_and_operands_are_the_same_numbers(layout: str) -> None:
    if layout in bits_list.IN_MEMORY[2:]:
        whole, out = bits_list.memory((5, 6), layout, torch.float32, CPU)
        out.copy_(torch.ones(5, 6))
        before = bits.digest(whole)
        whole[-1, -1] = 1
        assert bits.digest(whole) != before
    plain = bits_list.operands(bits_list.Product("float16", 5, 6, 7))
    found = bits_list.operands(bits_list.Product("float16", 5, 6, 7, layout, layout))
    assert all(torch.equal(x, y) for x, y in zip(plain, found, strict=True))
    assert layout == "n" or found[0].stride() != plain[0].stride()


@pytest.mark.parametrize("dtype", bits_list.DTYPES)
def test_the_list_has_every_layout_and_kind(dtype: str) -> None:
    listed = [product for product in bits_list.products() if product.dtype == dtype]
    assert len({product.name for product in listed}) == len(listed) > 50
    for letter in "ab":
        assert {getattr(product, f"layout_{letter}") for product in listed} == {*bits_list.LAYOUTS}
    assert {product.out for product in listed} == {*bits_list.OUTPUTS}
    assert any(product.batch > 1 for product in listed) and any(p.k == 0 for p in listed)
    if dtype in ("float32", "float64", *bits_list.HALVES):
        assert {product.data for product in listed} == set(bits_list.DATA)
        assert any(product.k > 32768 for product in listed)
