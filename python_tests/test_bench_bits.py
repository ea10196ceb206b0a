"""`python -m bench.bits`: what it records, and that compare sees one bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bench import bits, bits_list
from bench.compare import INSTALLED

CPU = torch.device("cpu")


def compare(old: Path, new: Path) -> tuple[int, str]:
    done = CliRunner().invoke(bits.app, ["compare", str(old), str(new)])
    return done.exit_code, done.stdout


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Part of the list, recorded twice."""
    paths = tmp_path / "old.json", tmp_path / "new.json"
    for path in paths:
        assert bits.record_here(path, CPU, bits_list.products()[::97]) >= 60
    return paths


def test_two_records_of_one_library_are_equal(files: tuple[Path, Path]) -> None:
    old, new = (json.loads(path.read_text()) for path in files)
    assert old["results"] == new["results"] and old["library"] == new["library"]
    code, text = compare(*files)
    assert code == 0 and f"{len(old['results'])} compared: 0 differ; 0 gone; 0 only" in text


def edit(path: Path, **changed: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def test_a_result_that_differs_or_is_gone_is_found(files: tuple[Path, Path]) -> None:
    results = json.loads(files[1].read_text())["results"]
    name = list(results)[7]
    edit(files[1], results=results | {name: "0"})
    code, text = compare(*files)
    assert code == 1 and f"differs: {name}\n" in text and "1 differ; 0 gone" in text
    edit(files[1], results={other: value for other, value in results.items() if other != name})
    code, text = compare(*files)
    assert code == 1 and f"gone: {name}\n" in text and "0 differ; 1 gone" in text
    edit(files[1], results=results | {"one more: hopper": "0"})
    code, text = compare(*files)
    assert code == 0 and "1 only in the new" in text
    for path in files:
        edit(path, results={})
    assert compare(*files)[0] == 1, "nothing was compared"


@pytest.mark.parametrize("what", ["arithmetic", "operands"])
def test_files_of_other_arithmetic_or_data_are_refused(files: tuple[Path, Path], what: str) -> None:
    edit(files[1], **{what: "another"})
    code, text = compare(*files)
    assert code == 2 and f"not comparable: {what}" in text


@pytest.mark.parametrize("dtype", bits_list.DTYPES)
def test_the_digest_sees_each_bit(dtype: str) -> None:
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


def test_a_result_written_beside_its_place_is_seen() -> None:
    for layout in bits_list.IN_MEMORY[2:]:
        whole, out = bits_list.memory((5, 6), layout, torch.float32, CPU)
        out.copy_(torch.ones(5, 6))
        before = bits.digest(whole)
        whole[-1, -1] = 1
        assert bits.digest(whole) != before, layout


def test_the_list_has_every_dtype_layout_and_kind() -> None:
    listed = bits_list.products()
    assert len({product.name for product in listed}) == len(listed) > 2000
    for dtype in bits_list.DTYPES:
        of_dtype = [product for product in listed if product.dtype == dtype]
        for layout in bits_list.LAYOUTS:
            assert any(product.layout_a == layout for product in of_dtype)
            assert any(product.layout_b == layout for product in of_dtype)
        for output in bits_list.OUTPUTS:
            assert any(product.out == output for product in of_dtype)
        assert any(product.batch > 1 for product in of_dtype)
        assert any(product.k == 0 for product in of_dtype)
        if dtype in ("float32", "float64", *bits_list.HALVES):
            assert {product.data for product in of_dtype} == set(bits_list.DATA)
            assert any(product.k > 32768 for product in of_dtype)


def test_operands_are_the_same_numbers_however_they_lie() -> None:
    a, b = bits_list.operands(bits_list.Product("float16", 5, 6, 7))
    for layout in bits_list.IN_MEMORY:
        x, y = bits_list.operands(bits_list.Product("float16", 5, 6, 7, layout, layout))
        assert torch.equal(x, a) and torch.equal(y, b)
        assert layout == "n" or x.stride() != a.stride()


def test_another_library_is_loaded_in_a_process_of_its_own(tmp_path: Path) -> None:
    broken = tmp_path / "libtiled_mm.so"
    broken.write_bytes(b"no library")
    path = tmp_path / "record.json"
    asked = ["record", str(path), "--device", "cpu", "--library"]
    assert CliRunner().invoke(bits.app, [*asked, str(broken)]).exit_code != 0
    assert not path.exists() and INSTALLED.exists()
