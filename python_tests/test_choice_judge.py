"""bench.choice_judge: the table of what choices cost, by estimates and after tuning."""

from __future__ import annotations

from bench.choice_judge import table


def found(family: str, estimated: str, tuned: str | None) -> dict:
    return {
        "case": {"family": family},
        "seconds": {"slow": 1.5, "fast": 1.0, "torch.mm": 2.0},
        "estimated": estimated,
        "tuned": tuned,
        "tuning_s": 0.5,
    }


def test_what_was_not_tuned_has_no_cost() -> None:
    rows = table([found("large16", "slow", "fast"), found("fp8", "slow", None)]).splitlines()[2:]
    large, fp8 = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    assert large == ["large16", "1", "50.0%", "1.50", "0.0%", "1.00", "0.50", "2.00"]
    assert fp8 == ["fp8", "1", "50.0%", "1.50", "not tuned", "-", "0.50", "1.33"]
