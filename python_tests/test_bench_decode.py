"""The benchmark of few rows: its problems, and its tables."""

from __future__ import annotations

import statistics

import pytest

from bench import decode, results
from bench.decode_table import TABLES


def case(m: int, n: int, k: int, ours: float, torch_s: float, **more) -> dict:
    place = {"dtype": "bfloat16", "layout": "nt", "m": m, "n": n, "k": k, "drawn": False}
    changed = {"tiled": False, "torch": more.pop("changed", False)}
    return place | {"seconds": {"tiled": ours, "torch": torch_s}, "changed": changed} | more


def document(cases: list[dict], *, split_k: bool = True, date: str = "2026-01-01") -> dict:
    gpu = {"name": "GPU", "driver": "1"}
    environment = {
        "date": date,
        "gpu": gpu,
        "commit": "abc",
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


@pytest.mark.parametrize("key", ["seconds", "changed", "drawn"])
def test_a_record_is_whole(key: str) -> None:
    record = case(1, 2, 3, 1.0, 1.0)
    kind = results._DECODE
    assert not list(results._problems(record, kind, "decode"))
    del record[key]
    assert list(results._problems(record, kind, "decode"))
