"""bench.choice_terms: every number but two can be left out, and what is left out says nothing."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from cases import each

from bench import choice, choice_fit, choice_terms
from bench.machine import ROOT

RECORD = ROOT / "bench" / "results" / "h200_choice_seed63.jsonl.xz"


@cache
def problems() -> list[dict]:
    return choice_fit.loaded(choice_fit.problems_in(RECORD)[:60], "h200")


@cache
def ways() -> choice_fit.Ways:
    return choice_fit.Ways(problems(), 132)


def seconds(fixed: dict[str, float] | None = None) -> torch.Tensor:
    fit = choice_fit.Fit(sorted(set(ways().names)), fixed)
    with torch.no_grad():
        return fit.seconds(ways(), fit.places(ways()))


def test_all_numbers_but_two_can_be_left_out() -> None:
    every = {*choice_fit.CHIP, *choice_fit.TILE}
    assert every - choice_terms.WITHOUT.keys() == {"busy", "memory"}


@each("name", tuple(choice_terms.WITHOUT))
def test_what_is_left_out_says_nothing(name: str) -> None:
    """Without a wait or a rate estimates are less; without a factor they are others."""
    less = seconds({name: choice_terms.WITHOUT[name]})
    assert torch.isfinite(less).all() and (less > 0).all()
    if name in ("p_mn", "q_mn"):  # they begin as ones
        assert torch.equal(less, seconds())
        assert not torch.equal(seconds({name: 2.0}), seconds())
    elif name in ("four", "slowdown"):
        assert not torch.equal(less, seconds())
    else:
        assert (less <= seconds()).all() and (less < seconds()).any()


def test_a_fit_leaves_alone_what_is_fixed() -> None:
    fit = choice_fit.fit_to(problems(), 132, 3, {"line": 0.0})
    fitted = choice_fit.fitted_seconds(fit, problems(), 132)
    free = choice_fit.fit_to(problems(), 132, 3)
    assert fitted != pytest.approx(choice_fit.fitted_seconds(free, problems(), 132))
    found = choice_fit.costs(problems(), fitted)
    assert found.keys() <= choice.FAMILIES.keys()
    row = choice_terms.row("line", found, found)
    assert row.startswith("| line | ") and row.count("+0.0") == 2
