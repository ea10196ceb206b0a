"""attack_bits.py: a short attack in every run, and whether it finds a wrong order of sums."""

from __future__ import annotations

from collections.abc import Callable

import attack_bits
import pytest
import tiled_mm
from cases import DEVICES, each
from torch import Tensor


@each("device", DEVICES)
def test_no_element_has_other_bits(device: str) -> None:
    tally = attack_bits.attack(device, seed=1, rounds=60)
    assert tally.rounds == 60
    assert tally.compared.total() > 500
    assert not tally.reports, tally.reports[:5]


@each("name", ("bmm", "linear"))
def test_another_order_of_sums_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of that name with another tree than the one that is asked for."""
    right: Callable[..., Tensor] = getattr(tiled_mm, name)

    def wrong(*operands: Tensor, sum_order: str, **asked: object) -> Tensor:
        other = "tree:16" if sum_order == "chain" else "chain"
        return right(*operands, sum_order=other, **asked)

    monkeypatch.setattr(attack_bits.tiled_mm, name, wrong)
    tally = attack_bits.attack("cpu", seed=1, rounds=20)
    found = {"bmm": {"an entry of a batch", "its last entry"}, "linear": {"linear"}}[name]
    assert set(tally.different) == found


def test_a_round_is_drawn_by_its_number() -> None:
    first, second = (attack_bits.Tally() for _ in range(2))
    for tally in (first, second):
        attack_bits.run_round(tally, seed=3, number=5, device="cpu", order=None)
    assert first.compared == second.compared
