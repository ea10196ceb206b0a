"""bench.planner: what a choice costs, and what this library's choices cost in recorded times."""

from __future__ import annotations

import json

import pytest
import tiled_mm  # noqa: F401, registers what the choices are asked from

from bench import planner
from bench.machine import ROOT
from bench.shapes import Shape

RECORDED = {"h200": "h200_planner.json", "h100": "h100/planner.json"}


def test_a_choice_is_scored_in_the_rounds_that_did_not_choose_the_oracle() -> None:
    case = {
        "odd": {"a": 1.0, "b": 1.1, "c": 2.0},
        "even": {"a": 1.2, "b": 1.5, "c": 1.9},
        "far": {"d": 3.0},
        "peer": 1.5,
    }
    for choice, regret in (("a", 0), ("b", 0.25), ("d", 1.5)):
        found = planner.score(case, choice)
        assert found["oracle"] == "a" and found["choice"] == choice
        assert found["regret"] == pytest.approx(regret)
        assert found["ratio"] == pytest.approx(1.5 / 1.2 / (1 + regret))
        assert found["noise"] == pytest.approx(1.0 / 1.2 - 1)
    with pytest.raises(KeyError):
        planner.score(case, "never timed")


def test_drawn_problems_are_those_of_their_seed() -> None:
    assert planner.drawn(122, 20) == planner.drawn(122, 20) == planner.FITTED[:20]
    for name in ("held_out", "large_held_out"):
        held_out = set(planner.PROBLEMS[name])
        assert len(held_out) > 25 and not held_out & planner.SEEN
        sizes = [size for s in held_out for size in (s.m, s.n, s.k)]
        assert all(size % 8 == 0 for size in sizes) and any(size % 64 for size in sizes)


@pytest.mark.parametrize("device", RECORDED)
def test_the_recorded_regret_is_that_of_this_librarys_choices(device: str) -> None:
    """Whoever changes the model scores the files anew: python -m bench.planner --score FILE --json
    FILE --device NAME."""
    document = json.loads((ROOT / "bench" / "results" / RECORDED[device]).read_text())
    found = planner.scored(document, device)
    for name, regret in document["regret"].items():
        again = found["regret"][name]
        for case, other in zip(regret["cases"], again["cases"], strict=True):
            label = Shape.from_json(case["shape"]).label
            assert case["choice"] == other["choice"], label
        assert again["summary"] == pytest.approx(regret["summary"])
