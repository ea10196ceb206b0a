"""The benchmark of few rows: its problems, and its tables."""

from __future__ import annotations

import random
import statistics

import pytest
import torch

from bench import decode, decode_table, results, schema
from bench.decode_table import TABLES
from bench.timing import CudaStopwatch


def case(m: int, n: int, k: int, ours: float, torch_s: float, **more) -> dict:
    place = {"dtype": "bfloat16", "layout": "nt", "m": m, "n": n, "k": k, "drawn": False}
    changed = {"tiled": False, "torch": more.pop("changed", False)}
    return place | {"seconds": {"tiled": ours, "torch": torch_s}, "changed": changed} | more


def document(
    cases: list[dict], *, split_k: bool = True, date: str = "2026-01-01", commit: str = "abc"
) -> dict:
    gpu = {"name": "GPU", "driver": "1"}
    environment = {
        "date": date,
        "gpu": gpu,
        "commit": commit,
        "dirty": False,
        "torch": "2",
        "cublas": "3",
    }
    return {"settings": {"split_k": split_k}, "environment": environment, "decode": cases}


def rows_of(table: str) -> dict[tuple[str, ...], list[str]]:
    """The cells by the three texts before them."""
    lines = [line.strip("| ").split(" | ") for line in table.split("\n\n")[0].splitlines()]
    return {tuple(line[:3]): line[3:] for line in lines[2:]}


def test_the_drawn_layers_are_always_the_same() -> None:
    layers = decode.drawn()
    assert layers == decode.drawn() and len(set(layers)) == 20
    assert all(n % 64 == k % 64 == 0 and n * k <= 2**28 for n, k in layers)
    assert not set(layers) & set(decode.NAMED)


def test_the_table_of_ratios() -> None:
    cases = [
        case(1, 4096, 4096, 1e-5, 2e-5),
        case(1, 8192, 8192, 1e-5, 0.5e-5),
        case(1, 256, 7168, 4e-5, 1e-5),
        case(8, 8192, 8192, 2e-5, 2e-5),
    ]
    found = rows_of(TABLES["decode"]([document(cases)]))
    key = ("bfloat16", "nt")
    geomean = statistics.geometric_mean([2, 0.5])
    assert found[(*key, "N >= 2048, geomean")] == [f"{geomean:.2f}", "1.00"]
    assert found[(*key, "N >= 2048, least")] == ["0.50", "1.00"]
    assert found[(*key, "N < 2048, geomean")] == ["0.25", "-"]
    # 8192 x 8192 x 2 bytes are 134 MB, in 10 µs; 4096 x 4096 are less than 100.
    assert found[(*key, "100 MB and more, GB/s")] == ["13422", "6711"]


def test_the_newest_document_is_shown_and_torch_without_split_k_apart() -> None:
    old = document([case(1, 4096, 4096, 1.0, 1.0)])
    new = document([case(1, 4096, 4096, 1.0, 3.0)], date="2026-02-01")
    without = document([case(1, 4096, 4096, 1.0, 7.0)], split_k=False, date="2026-03-01")
    key = ("bfloat16", "nt", "N >= 2048, least")
    assert rows_of(TABLES["decode"]([new, old, without]))[key] == ["3.00"]
    assert rows_of(TABLES["decode-no-split"]([new, old, without]))[key] == ["7.00"]
    assert TABLES["decode-no-split"]([new, old]) == TABLES["decode"]([])


def test_the_table_of_changed_bits() -> None:
    cases = [case(m, 4096, 4096, 1.0, 1.0, changed=m > 1) for m in (1, 2, 3)]
    without = document(
        [case(m, 4096, 4096, 1.0, 1.0, changed=m > 2) for m in (1, 2, 3)], split_k=False
    )
    table = TABLES["decode-bits"]([document(cases), without])
    assert "| bfloat16 | 3 | 0 | 2 | 1 of 3 |" in table


def test_every_document_that_speaks_is_named() -> None:
    """Not the newest alone: rows are of the run in which their dtype was measured last."""
    bf16 = document([case(1, 4096, 4096, 1.0, 1.0)], date="2026-02-01", commit="newer")
    fp32 = document([case(1, 4096, 4096, 1.0, 1.0, dtype="float32")], commit="older")
    without = document(
        [case(1, 4096, 4096, 1.0, 1.0)], split_k=False, date="2026-03-01", commit="apart"
    )
    assert "bfloat16: 2026-02-01, commit newer; float32: 2026-01-01, commit older" in (
        TABLES["decode"]([bf16, fp32])
    )
    text = TABLES["decode-bits"]([bf16, fp32, without])
    assert "bfloat16 without split-K: 2026-03-01, commit apart" in text and "commit older" in text


def test_precisions_of_fp32_stand_among_the_inputs() -> None:
    assert set(decode.PRECISIONS) < set(decode_table.SIZES)
    assert all(
        decode.torch_dtype(name).itemsize == size for name, size in decode_table.SIZES.items()
    )
    assert decode.torch_dtype("tf32") == decode.torch_dtype("fp16x3") == torch.float32
    found = rows_of(TABLES["decode"]([document([case(1, 8192, 8192, 1e-4, 2e-4, dtype="tf32")])]))
    assert found["tf32", "nt", "N >= 2048, geomean"] == ["2.00"]
    assert found["tf32", "nt", "100 MB and more, GB/s"] == ["2684"]  # of 4 bytes an element


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["bfloat16", "float32", *decode.PRECISIONS])
def test_a_problem_is_measured(name: str) -> None:
    stopwatch = CudaStopwatch(torch.device("cuda", 0))
    weights = decode.weights_of(stopwatch, 256, 512, "nt", decode.torch_dtype(name))
    found = decode.measure(stopwatch, weights, 3, random.Random(7), name)
    assert found["changed"]["tiled"] is False
    assert all(0 < seconds < 1 for seconds in found["seconds"].values())


@pytest.mark.parametrize("key", ["seconds", "changed", "drawn"])
def test_a_record_is_whole(key: str) -> None:
    record = case(1, 2, 3, 1.0, 1.0)
    kind = schema.Decode
    assert results.problems(record, kind) == []
    del record[key]
    assert results.problems(record, kind)
