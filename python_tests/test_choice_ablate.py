"""bench.choice_ablate: what products would cost without a tile, and which tiles may go."""

from __future__ import annotations

import math

import pytest

from bench.choice_ablate import KEPT, Times, ablated, instance_of, name_of, tile_of


def way(tile: str, seconds: float, *, algo: str = "hopper", cut: bool = False) -> dict:
    demand = {"kind": "16bit", "variant": tile, "stream_k": cut}
    return {"algo": algo, "demand": demand, "t": seconds}


def problem(family: str, *ways: dict, device: str = "h100") -> dict:
    return {"case": {"family": family}, "device": device, "all": list(ways)}


def test_a_tile_is_one_however_operands_are_read() -> None:
    assert tile_of(way("A by elements", 1)) == tile_of(way("A", 2)) == "hopper 16bit A"
    assert tile_of(way("A", 1, cut=True)) == "hopper 16bit A cut"
    assert name_of(way("A by elements", 1, cut=True)) == "hopper A"


def test_a_tiles_gain_is_what_the_others_lack() -> None:
    """Of its products the best of the other ways, in the mean of the family's; none of those in
    which it is not the fastest."""
    times = Times(
        [
            problem("large", way("A", 2), way("A", 1), way("B", 1.21)),
            problem("large", way("B", 3), way("A", 4)),
            problem("small", way("A", 1), way("B", 1.05)),
            problem("small"),
        ]
    )
    loss = times.loss("hopper 16bit A")
    assert loss.family == "large h100" and loss.worst == pytest.approx(1.21)
    assert loss.mean == pytest.approx(0.1)
    loss = times.loss("hopper 16bit B")
    assert loss.family == "large h100" and loss.worst == pytest.approx(4 / 3)
    assert loss.mean == pytest.approx(math.sqrt(4 / 3) - 1)


def test_a_family_counts_for_each_card_by_itself() -> None:
    """What one card needs may be nothing to the other, and is not shared out between them."""
    times = Times(
        [
            problem("large", way("A", 1), way("B", 1.2), device="h100"),
            problem("large", way("A", 1), way("B", 1), device="h200"),
        ]
    )
    loss = times.loss("hopper 16bit A")
    assert loss.family == "large h100" and loss.mean == pytest.approx(0.2)


def test_what_no_other_tile_serves_never_goes() -> None:
    times = Times([problem("large", way("A", 1))])
    assert times.loss("hopper 16bit A").mean == math.inf
    assert ablated(times, KEPT, budget=9, worst=9) == {}


def test_tiles_go_one_by_one_and_are_scored_again() -> None:
    """Two that stand in for each other: each alone costs nothing, the second everything."""
    problems = [problem("large", way("A", 1), way("B", 1), way("C", 1.5)) for _ in range(10)]
    times = Times([*problems, problem("large", way("C", 1), way("A", 1.04))])
    assert times.loss("hopper 16bit A").mean == times.loss("hopper 16bit B").mean == 0
    gone = ablated(times, KEPT, budget=0.005, worst=1.10)
    assert gone.keys() == {"hopper 16bit A"}
    assert times.loss("hopper 16bit B").worst == pytest.approx(1.5)
    assert times.loss("hopper 16bit C").worst == math.inf, "A was the other"


def test_the_budget_is_of_all_that_went() -> None:
    """Each of these costs its family 0.4 %, and a budget of 0.5 % has room for one."""
    ways = [problem("large", way("Rest", 1)) for _ in range(7)]
    ways += [problem("large", way(f"A{i}", 1), way("Rest", 1.004**10)) for i in range(3)]
    gone = ablated(Times(ways), KEPT, budget=0.005, worst=1.10)
    assert len(gone) == 1 and next(iter(gone.values())).mean == pytest.approx(0.004, rel=1e-3)
    gone = ablated(Times(ways), KEPT, budget=0.0081, worst=1.10)
    assert len(gone) == 2
    assert len(ablated(Times(ways), KEPT, budget=1, worst=1.03)) == 0


def test_what_is_kept_stays() -> None:
    ways = [problem("large", way("A", 1), way("tile", 2, algo="shared_tile_8"), way("B", 2))]
    assert list(ablated(Times(ways), KEPT, budget=0.5, worst=9)) == ["hopper 16bit B"]
    assert ablated(Times(ways), (*KEPT, "hopper"), budget=0.5, worst=9) == {}


def test_a_kernel_is_named_by_its_kind_of_tile() -> None:
    names = {
        ("few_rows", "Lanes64x1 of copied B"): "few_rows Lanes",
        ("few_rows", "Doubles32x16Apart"): "few_rows Doubles",
        ("fp16x3", "X3Direct64x32"): "fp16x3 X3Direct",
        ("fp16x3", "FewRows512 of 16"): "fp16x3 FewRows",
        ("hopper", "Coop128x256"): "hopper",
        ("shared_tile_16", "tile"): "shared_tile",
    }
    for (algo, tile), name in names.items():
        assert instance_of(way(tile, 1, algo=algo)) == name


def test_what_families_lose_without_a_kernel() -> None:
    """The mean of a family's products, those apart that nothing else computes."""
    times = Times(
        [
            problem("large", way("Few8", 1, algo="few_rows"), way("A", 1.21)),
            problem("large", way("Few16", 2, algo="few_rows"), way("A", 1)),
            problem("small", way("Few8", 1, algo="few_rows")),
        ],
        instance_of,
    )
    large, small = times.by_family("few_rows Few")
    assert (large.family, large.worst) == ("large h100", pytest.approx(1.21))
    assert large.mean == pytest.approx(0.1)
    assert (small.family, small.mean, small.worst) == ("small h100", 0, math.inf)
