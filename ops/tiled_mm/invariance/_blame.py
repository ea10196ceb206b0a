"""Which operators of a program change, from its runs with several batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ._advice import advice_for
from ._calls import is_random
from ._judge import Change
from ._record import Call, Layouts, Place, groups_unlike, unchanged
from ._report import Finding
from ._rows import BY_DATA, MIXED, NO_ROWS, OTHER_SIZE, Layout, Rows

Calls = dict[Place, Call]


@dataclass
class Runs:
    """All that was recorded: the reference run, once more, and the smaller batches."""

    known: dict[Place, Layouts]
    batch: int
    reference: Calls
    again: Calls
    smaller: dict[int, Calls]
    changes: dict[Place, Change]  # of rows, by replaying a call alone
    columns: dict[Place, Change]
    other_calls: set[Place]  # that only one of the probes made
    device: str
    order: dict[Place, int] = field(init=False)
    unlike: dict[int, set[tuple]] = field(init=False)

    def __post_init__(self) -> None:
        self.order = {place: i for i, place in enumerate(self.reference)}
        self.unlike = {b: groups_unlike(c, self.reference) for b, c in self.smaller.items()}


def _compared(ours: list, reference: list) -> list[bool | None]:
    if len(ours) != len(reference):
        return []
    return [unchanged(x, y) for x, y in zip(ours, reference, strict=True)]


class Blame:
    """Findings of a set of runs, in the program's order."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.kinds: dict[Place, str] = {}

    # ---- what a call's tensors did ---------------------------------------------------------------

    def batches_changed(self, place: Place, rows: bool) -> list[int]:
        """The batches in which a result with rows (or without any) has other bits."""
        here, known = self.runs.reference[place], self.runs.known.get(place)
        found = []
        for batch, calls in self.runs.smaller.items():
            other = calls.get(place)
            if other is None or known is None or place[:3] in self.runs.unlike[batch]:
                continue
            same = _compared(other.result_bits, here.result_bits)
            for ok, at, exact in zip(same, known.results, here.whole_numbers, strict=False):
                # Whole numbers may say where in the batch a row is, or how it is sorted.
                if ok is False and isinstance(at, Rows) == rows and not exact:
                    found.append(batch)
                    break
        return sorted(found)

    def changed_arguments(self, place: Place, batch: int) -> list[int] | None:
        """The arguments that have other bits; None where that is not known of one."""
        here, known = self.runs.reference[place], self.runs.known[place]
        other = self.runs.smaller[batch][place]
        same = _compared(other.argument_bits, here.argument_bits)
        tensors = [isinstance(x, torch.Size) for x in here.arguments]
        if len(same) != len(tensors):
            return None
        if any(t and ok is None for t, ok in zip(tensors, same, strict=True)):
            unknown = [at for at, t in zip(known.arguments, tensors, strict=True) if t]
            if any(not isinstance(at, Rows) and at != NO_ROWS for at in unknown):
                return None
        return [i for i, ok in enumerate(same) if ok is False]

    def mixes(self, place: Place) -> bool:
        """Whether a call adds over the batch, or brings its rows together."""
        known = self.runs.known.get(place)
        if known is None:
            return False
        has_rows = any(isinstance(at, Rows) or at == BY_DATA for at in known.arguments)
        return has_rows and any(at in (NO_ROWS, MIXED) for at in known.results)

    # ---- findings --------------------------------------------------------------------------------

    def by_themselves(self) -> None:
        """Calls that change though their operands do not."""
        for place, call in self.runs.reference.items():
            if place not in self.runs.known:
                continue
            if self._changes_again(place):
                self.kinds[place] = "run to run"
            elif place in self.runs.changes:
                self.kinds[place] = "random" if is_random(call.func) else "rows"
            else:
                for batch in self.batches_changed(place, rows=True):
                    if self.changed_arguments(place, batch) == []:
                        self.kinds[place] = "random" if is_random(call.func) else "rows"
            if place not in self.kinds and place in self.runs.columns:
                self.kinds[place] = "columns"

    def _changes_again(self, place: Place) -> bool:
        here, other = self.runs.reference[place], self.runs.again.get(place)
        if other is None:
            return False
        arguments = _compared(other.argument_bits, here.argument_bits)
        results = _compared(other.result_bits, here.result_bits)
        return False in results and False not in arguments

    def first_changed(self) -> Place | None:
        """The first call in the whole program of which a result's rows change."""
        places = self.runs.reference
        return next((p for p in places if self.batches_changed(p, rows=True)), None)

    def explain(self, first: Place | None, changes: bool) -> Place | None:
        """What made the first changed rows, where that call itself is not to blame: a call that is
        added to the findings. None: nothing that was seen. ``changes``: whether what the program
        gives does; other sizes and paths are no fault by themselves."""
        end = len(self.runs.order) if first is None else self.runs.order[first]
        blamed = [p for p in self.kinds if self.runs.order[p] <= end and self.kinds[p] != "columns"]
        if blamed:
            return min(blamed, key=self.runs.order.__getitem__)
        if first is not None:
            source = self._mixing_source(first)
            if source is not None:
                self.kinds[source] = "over the batch"
                return source
        for kind, places in (
            ("another size", self._other_sizes()),
            ("another path", self._paths()),
        ):
            source = next((p for p in places if self.runs.order.get(p, -1) <= end), None)
            if source is not None:
                self.kinds[source] = kind
                return source
        return None

    def _mixing_source(self, first: Place) -> Place | None:
        batch = self.batches_changed(first, rows=True)[0]
        known = self.runs.known[first]
        at = self.changed_arguments(first, batch)
        whole = self.runs.reference[first].whole_arguments
        if at is not None:
            at = [i for i in at if not whole[i]]
        layouts: list[Layout] = [x for x in known.arguments if x == MIXED]
        if at is not None:
            layouts += [known.arguments[i] for i in at]
        if NO_ROWS in layouts and at is not None:
            here = self.runs.reference[first]
            bits = [here.argument_bits[i][0] for i in at if known.arguments[i] == NO_ROWS]
            source = self.made_over_the_batch(bits[0], first)
            if source is not None:
                return source
        if any(x in (NO_ROWS, MIXED) for x in layouts) or at is None:
            return self._last(first, lambda p: self.mixes(p) and self._moves(p))
        return None

    def _moves(self, place: Place) -> bool:
        return MIXED in self.runs.known[place].results or bool(
            self.batches_changed(place, rows=False)
        )

    def _last(self, before: Place, holds) -> Place | None:
        found = [p for p in self.runs.reference if self.runs.order[p] < self.runs.order[before]]
        return next((p for p in reversed(found) if holds(p)), None)

    def made_over_the_batch(self, bits: Tensor, before: Place | None) -> Place | None:
        """The call that brought the rows together from which a tensor without rows was made. The
        tensor is told by its bits."""
        end = len(self.runs.order) if before is None else self.runs.order[before]
        for place in reversed(list(self.runs.reference)[:end]):
            here, known = self.runs.reference[place], self.runs.known.get(place)
            if known is None or not any(
                at == NO_ROWS and found is not None and torch.equal(found[0], bits)
                for at, found in zip(known.results, here.result_bits, strict=False)
            ):
                continue
            if self.mixes(place):
                return place
            for batch, calls in self.runs.smaller.items():
                if place not in calls or place[:3] in self.runs.unlike[batch]:
                    continue
                for i in self.changed_arguments(place, batch) or ():
                    source = self.made_over_the_batch(here.argument_bits[i][0], place)
                    if source is not None:
                        return source
            return None
        return None

    def _other_sizes(self) -> Iterator[Place]:
        for place, call in self.runs.reference.items():
            known = self.runs.known.get(place)
            if known is None or len(known.results) != len(call.results):
                continue
            if OTHER_SIZE in known.arguments:
                continue
            for at, probe, sizes in zip(
                known.results, known.result_sizes, call.results, strict=True
            ):
                if at == OTHER_SIZE or not _predicted(at, probe, sizes, self.runs.batch):
                    yield place

    def _paths(self) -> Iterator[Place]:
        """Calls of the reference that another batch does not make, and then the call before one
        that only other batches make."""
        reference = self.runs.reference
        for place in reference:
            if place in self.runs.other_calls or any(
                place not in calls for calls in self.runs.smaller.values()
            ):
                yield place
        for calls in self.runs.smaller.values():
            last = next(iter(reference), None)
            for place in calls:
                if place not in reference and last is not None:
                    yield last
                elif place in reference:
                    last = place

    def finding(self, place: Place, *, first: bool) -> Finding:
        call, kind = self.runs.reference[place], self.kinds[place]
        change = self.runs.columns[place] if kind == "columns" else self.runs.changes.get(place)
        module, line, name, _ = place
        sizes = [list(x) for x in call.arguments if isinstance(x, torch.Size)]
        results = " ".join(str(list(x)) for x in call.results)
        return Finding(
            operator=name, kind=kind, module=module.replace("_orig_mod.", ""), line=line,
            shapes=change.shapes if change else f"{' '.join(map(str, sizes))} -> {results}",
            dtype=str(call.dtype).removeprefix("torch."),
            batches=change.batches if change else self.batches_changed(place, rows=True),
            differ=change.differ if change else 0, of=change.of if change else 0,
            largest=change.largest if change else 0.0,
            advice=advice_for(name, kind, self.runs.device), first=first,
        )  # fmt: skip


def _predicted(at: Layout, probe: torch.Size, sizes: torch.Size, batch: int) -> bool:
    if at in (BY_DATA, MIXED):
        return True
    expected = list(probe)
    if isinstance(at, Rows):
        expected[at.axis] = at.outer * batch * at.inner
    return list(sizes) == expected


def grouped(findings: list[Finding]) -> list[Finding]:
    """Findings of one operator at one line, in several modules, are one."""
    found: dict[tuple, Finding] = {}
    for one in findings:
        key = (one.operator, one.kind, one.line, one.dtype)
        if key in found:
            found[key].alike.append(one.module)
        else:
            found[key] = one
    return list(found.values())
