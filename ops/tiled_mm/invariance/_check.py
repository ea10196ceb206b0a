"""check_invariance: a program's rows in several batches, compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from .._bar import Bar
from ._advice import advice_for
from ._blame import Blame, Calls, Runs, grouped
from ._calls import results_of
from ._judge import Change, Judge, snapshot
from ._program import Program
from ._record import Call, Layouts, Place, leaves_of, probe, record
from ._report import Finding, Report
from ._rows import NO_ROWS, Layout, Rows, difference, hashes, orders_of, same_bits

BATCHES = (1, 2, 7, 16, 64)


def check_invariance(
    model_or_fn: Callable,
    *inputs: Any,
    batch_dim: int = 0,
    batches: Sequence[int] = BATCHES,
    backward: bool = False,
    columns: bool = False,
    progress: bool | None = None,
) -> Report:
    """Whether the rows of a model's results keep their bits in every batch, and what changes them.

    ::

        report = tiled_mm.check_invariance(model, tokens)
        print(report)  # a table of 80 columns; report.first, report.findings, report.json()

    The model runs with the first rows of ``inputs`` in each batch, and operator by operator the
    rows are compared with those of the largest batch; an operator is also judged by itself, on the
    first rows of its own operands. It runs as it is called: under :class:`tiled_mm.override` if
    that is on. A compiled model is compared as it is, and runs eagerly to be seen inside.

    Args:
        model_or_fn: a module or a function of tensors; in the mode (train, eval) that it is in.
        inputs: what it is called with. Each tensor whose ``batch_dim`` is as long as the first
            tensor's has rows; where more are needed than there are, they are taken in turn.
        batch_dim: the axis of the batch in the inputs.
        batches: the sizes to compare; the largest is the reference.
        backward: compare the gradients of the inputs too, and explain those of the weights. Every
            row of the outputs has the same cotangent.
        columns: judge products with their right operand cut in two along its columns too, as tensor
            parallelism cuts it.
        progress: whether to show a bar on stderr; ``None``: where that is a terminal.

    Returns:
        A :class:`Report`; ``report.invariant`` is the answer.

    Raises:
        ValueError: no tensor among the inputs or the outputs, fewer than two sizes of batch or one
            below 1, or no output that requires a gradient.
        IndexError: ``batch_dim`` is no axis of the first tensor.
    """
    sizes = sorted({int(b) for b in batches})
    if len(sizes) < 2 or sizes[0] < 1:
        raise ValueError(
            f"tiled_mm: batches must be two sizes or more, each at least 1, but got {batches}"
        )
    program = Program(model_or_fn, inputs, batch_dim, backward)
    return _Check(program, sizes, columns, progress).report()


def assert_batch_invariant(model_or_fn: Callable, *inputs: Any, **options: Any) -> None:
    """For tests: :func:`check_invariance`, and its report where rows change.

    Raises:
        AssertionError: with the report's table.
    """
    report = check_invariance(model_or_fn, *inputs, **options)
    if not report.invariant:
        raise AssertionError("\n" + report.table())


def is_compiled(model: Any) -> bool:
    """Whether torch.compile has a part in it."""
    if getattr(model, "_torchdynamo_orig_callable", None) is not None:
        return True
    if not isinstance(model, torch.nn.Module):
        return False
    return any(
        type(m).__name__ == "OptimizedModule" or m._compiled_call_impl is not None
        for m in model.modules()
    )


class _Check:
    def __init__(
        self, program: Program, sizes: list[int], columns: bool, progress: bool | None
    ) -> None:
        self.program, self.sizes, self.columns = program, sizes, columns
        self.smaller, self.batch = sizes[:-1], sizes[-1]
        self.compiled = is_compiled(program.model)
        self.bar = Bar(progress, 2 * len(sizes) + 3)

    def report(self) -> Report:
        try:
            return self._report()
        finally:
            self.bar.end()

    def _report(self) -> Report:
        plain = {}
        for batch in self.sizes:
            self.bar.step(f"batch {batch}, as it is")
            plain[batch] = self.program.run(batch)
        eagerly = torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()
        self.bar.step("in another order")
        turned = self.program.run(self.batch, turn=1)
        with eagerly:
            runs, given = self._runs()
        results, differences = self._results(plain, turned, given)
        invariant = all(
            found == "equal" or (name.startswith("gradient of weight") and found != "nan")
            for name, found in results.items()
        )
        findings, notes = self._findings(runs, plain, results)
        compiled = invariant if self.compiled else None
        count = len(runs.reference)
        return Report(invariant, self.sizes, results, differences, findings, count, compiled, notes)

    # ---- runs ------------------------------------------------------------------------------------

    def _runs(self) -> tuple[Runs, dict[str, Layout]]:
        self.bar.step("where the batch lies")
        known, given, other_calls = probe(self.program)
        changes: dict[Place, Change] = {}
        columns: dict[Place, Change] = {}
        judge = Judge(self.batch, self.smaller, self.program.device)

        def beside(call: Call, args: tuple, kwargs: dict, at: Layouts) -> Callable[[Any], None]:
            before = snapshot(call.func, args, kwargs)
            replays = judge.replays(call.func, args, kwargs, at)
            leaves = leaves_of(*before)

            def after(outputs: Any) -> None:
                results = results_of(call.func, outputs, args, kwargs)
                change = judge.rows_changed(results, replays, at, leaves)
                if change is not None:
                    changes[call.place] = change
                if self.columns:
                    change = judge.columns_changed(call.func, args, kwargs, outputs)
                    if change is not None:
                        columns[call.place] = change

            return after

        self.bar.step(f"batch {self.batch}, operator by operator")
        reference, _ = record(self.program, self.batch, known, beside)
        self.bar.step(f"batch {self.batch} once more")
        again, _ = record(self.program, self.batch, known)
        smaller: dict[int, Calls] = {}
        for batch in self.smaller:
            self.bar.step(f"batch {batch}, operator by operator")
            smaller[batch], _ = record(self.program, batch, known)
        device = self.program.device.type
        return (
            Runs(
                known, self.batch, reference, again, smaller, changes, columns, other_calls, device
            ),
            given,
        )

    # ---- what the program gave -------------------------------------------------------------------

    def _results(
        self,
        plain: dict[int, dict[str, Tensor]],
        turned: dict[str, Tensor],
        given: dict[str, Layout],
    ) -> tuple[dict[str, str], dict[str, list[tuple[int, int, int, float]]]]:
        results, differences = {}, {}
        reference = plain[self.batch]
        for name, y in reference.items():
            at = given.get(name)
            if y.is_floating_point() and bool(y.isnan().any()):
                results[name] = "nan"
            elif isinstance(at, Rows):
                rows = [(b, *found) for b, found in self._rows_beside(plain, name, at)]
                places = self._changes_with_place(y, turned.get(name), at)
                results[name] = "changes" if rows else places or "equal"
                if rows:
                    differences[name] = rows
            elif at == NO_ROWS:
                same = all(same_bits(plain[b][name], y) for b in self.smaller)
                results[name] = "equal" if same else "over the batch"
            else:
                results[name] = "no rows to compare"
        return results, differences

    def _changes_with_place(self, y: Tensor, turned: Tensor | None, at: Rows) -> str:
        """Of the reference's rows in another order. Whole numbers may say where a row is."""
        if turned is None or not y.is_floating_point():
            return ""
        for order in orders_of(at):
            rows, back = order.split(y, self.batch), order.split(turned, self.batch).roll(1, 0)
            if same_bits(rows, back):
                return ""
        return "changes with its place in the batch"

    def _rows_beside(
        self, plain: dict[int, dict[str, Tensor]], name: str, at: Rows
    ) -> Iterator[tuple[int, tuple[int, int, float]]]:
        y = plain[self.batch][name]
        for batch in self.smaller:
            part = plain[batch].get(name)
            best: tuple[int, int, float] | None = None
            for order in orders_of(at):
                try:
                    whole = order.part(y, self.batch, 0, batch)
                except RuntimeError:
                    whole = None
                if part is None or whole is None or whole.shape != part.shape:
                    found = (y.numel(), y.numel(), float("nan"))
                else:
                    differ, largest = difference(part, whole)
                    found = (differ, part.numel(), largest)
                if best is None or found[0] < best[0]:
                    best = found
            if best is not None and best[0]:
                yield batch, best

    # ---- who did it ------------------------------------------------------------------------------

    def _findings(
        self, runs: Runs, plain: dict, results: dict[str, str]
    ) -> tuple[list[Finding], list[str]]:
        blame = Blame(runs)
        blame.by_themselves()
        first_changed = blame.first_changed()
        changes = any(x.startswith("change") or "no rows" in x for x in results.values())
        first = None
        if first_changed is not None or (changes and not self.compiled):
            first = blame.explain(first_changed, changes)
        for name, found in results.items():
            if found == "over the batch" and not name.startswith("gradient of weight"):
                bits = hashes(plain[self.batch][name].reshape(1, -1)).cpu()
                source = blame.made_over_the_batch(bits, None)
                if source is not None:
                    blame.kinds.setdefault(source, "over the batch")
        places = sorted(blame.kinds, key=runs.order.__getitem__)
        findings = [blame.finding(p, first=p == first) for p in places]
        if first is None and changes:
            findings.insert(0, self._unseen(first_changed))
        return grouped(findings), self._notes(results)

    def _unseen(self, first_changed: Place | None) -> Finding:
        device = self.program.device.type
        if self.compiled and first_changed is None:
            advice = "torch.compile(model, options=tiled_mm.inductor_options())"
            return Finding("torch.compile", "cannot see inside", "", "", "", "", [], 0, 0, 0.0,
                           advice, first=True)  # fmt: skip
        module, line, name, _ = first_changed or ("", "", "the program's end", 0)
        return Finding(f"before {name}", "cannot see inside", module, line, "", "", [], 0, 0, 0.0,
                       advice_for(name, "cannot see inside", device), first=True)  # fmt: skip

    def _notes(self, results: dict[str, str]) -> list[str]:
        notes = []
        if self.compiled:
            notes.append(
                "It is compiled: its results are compared as they are, and its operators as they "
                "are when it runs eagerly. What the compiler writes itself cannot be seen inside."
            )
        weights = [n for n in results if n.startswith("gradient of weight")]
        if any(results[n] == "over the batch" for n in weights):
            notes.append(
                "A weight's gradient is a sum over the batch, so it changes with the batch by "
                "what it is; what can be asked of it is one answer for one batch."
            )
        if any(x == "nan" for x in results.values()):
            notes.append("A result is NaN: nothing can be said of rows that have no numbers.")
        if "no rows to compare" in results.values():
            notes.append("The batch is in no axis of a result, so it has no rows to compare.")
        return notes
