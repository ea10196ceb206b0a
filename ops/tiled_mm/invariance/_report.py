"""What a check found: as data, as a table that fits 80 columns, and as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass, field

WIDTH = 80

#: What each kind of finding says.
KINDS = {
    "rows": "its rows change with the batch",
    "columns": "its columns change with the number of columns",
    "run to run": "it changes from run to run",
    "random": "its rows share one stream of random numbers",
    "over the batch": "it adds, or mixes, over the batch",
    "another size": "a size beside the batch's changes with the batch",
    "another path": "the program calls other operators for another batch",
    "cannot see inside": "values changed that no operator of torch's dispatcher made",
}


@dataclass
class Finding:
    """One operator, at one place of the program or several alike."""

    operator: str  # as aten names it, or 'namespace::name'
    kind: str  # of KINDS
    module: str  # the name of the module in the model; '' outside of any
    line: str  # 'file.py:12', the innermost line outside of torch
    shapes: str  # of the operands and the result
    dtype: str
    batches: list[int]  # of these the rows differ from the reference's
    differ: int  # elements with other bits, of that many
    of: int
    largest: float  # the largest difference
    advice: str
    first: bool = False  # the first operator of the program whose rows change
    alike: list[str] = field(default_factory=list)  # other modules with the same finding

    def words(self) -> list[str]:
        where = " ".join(x for x in (self.module, f"({self.line})" if self.line else "") if x)
        lines = [f"{self.operator}: {KINDS[self.kind]}", f"where    {where or 'the program'}"]
        if self.alike:
            lines.append(f"also in  {len(self.alike)} more, such as {self.alike[-1]}")
        if self.shapes:
            lines.append(f"shapes   {self.shapes}, {self.dtype}")
        if self.batches:
            lines.append(f"batches  {', '.join(map(str, self.batches))}")
        if self.differ:
            share = 100 * self.differ / self.of
            lines.append(f"by       {self.largest:.3g}; {share:.2g} % of elements differ")
        lines.append(f"instead  {self.advice}")
        return lines


@dataclass
class Report:
    """Whether the rows of a program keep their bits in every batch, and which operators change.

    Attributes:
        invariant: every row of every result has one answer, and no result is NaN.
        batches: those that were run; the largest is the reference.
        results: for each result ('output', 'gradient of input 0', 'gradient of weight NAME') what
            was found: 'equal', 'changes', 'nan', 'over the batch', 'no rows to compare'.
        differences: for each result that changes (batch, elements that differ, of, largest).
        findings: operators that change, the first culprit first.
        compiled: for a compiled program, whether its own rows are equal; None for others.
        operators: how many calls were seen.
        notes: what else there is to know.
    """

    invariant: bool
    batches: list[int]
    results: dict[str, str]
    differences: dict[str, list[tuple[int, int, int, float]]]
    findings: list[Finding]
    operators: int
    compiled: bool | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Finding | None:
        """The first operator whose rows change; None where none does."""
        return next((f for f in self.findings if f.first), None)

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Text of at most 80 columns."""
        answer = "rows keep their bits" if self.invariant else "ROWS CHANGE WITH THE BATCH"
        batches = ", ".join(map(str, self.batches))
        lines = [f"{answer}: batches {batches}; {self.operators} calls of operators", ""]
        for name, found in self._grouped_results():
            lines.append(f"  {name:<28.28}  {found:.48}")
        for note in self.notes:
            lines += ["", *textwrap.wrap(note, WIDTH)]
        for i, finding in enumerate(self.findings, 1):
            lines.append("")
            first = " (the first)" if finding.first else ""
            head, *rest = finding.words()
            lines += textwrap.wrap(f"{i}. {head}{first}", WIDTH, subsequent_indent="   ")
            for line in rest:
                lines += textwrap.wrap(
                    line, WIDTH, initial_indent="   ", subsequent_indent=" " * 12
                )
        if not self.findings and self.invariant:
            lines += ["", "No operator changes by itself."]
        return "\n".join(lines)

    def _grouped_results(self) -> list[tuple[str, str]]:
        rows, weights = [], {}
        for name, found in self.results.items():
            if name.startswith("gradient of weight"):
                weights.setdefault(found, []).append(name)
                continue
            if differences := self.differences.get(name):
                batches = ", ".join(str(batch) for batch, *_ in differences)
                largest = max(largest for *_, largest in differences)
                found += f" by {largest:.2g} in batches {batches}"
            rows.append((name, found))
        for found, names in weights.items():
            word = "sums over the batch" if found == "over the batch" else found
            rows.append((f"gradients of {len(names)} weights", word))
        return rows
