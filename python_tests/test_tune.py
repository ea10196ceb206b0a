"""Rules files and tuning: what is measured is chosen, and no choice changes a bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiled_mm
import torch
from cases import each
from torch import Tensor

from bench.machine import ROOT

pytestmark = pytest.mark.usefixtures("shipped_rules")

DEVICE = "h100"


def meta(m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, layout: str = "nt") -> tuple:
    def operand(rows: int, columns: int, letter: str) -> Tensor:
        sizes = (rows, columns) if letter == "n" else (columns, rows)
        x = torch.empty(sizes, dtype=dtype, device="meta")
        return x if letter == "n" else x.t()

    return operand(m, k, layout[0]), operand(k, n, layout[1])


def ways(a: Tensor, b: Tensor, **options: object) -> list[dict]:
    listed = json.loads(torch.ops.tiled_debug.ways(a, b, device=DEVICE, **options))
    return sorted((w for w in listed if not w["by_name"]), key=lambda way: way["seconds"])


def row_for(a: Tensor, b: Tensor, way: dict, device: str | None = DEVICE) -> str:
    names = (way[x] for x in ("tile", "swap_ab", "cluster_p", "cluster_q", "split_k"))
    return torch.ops.tiled_debug.rules_row(a, b, *names, algo=way["algo"], device=device)


def file_with(path: Path, *rows: str, device: str | None = DEVICE) -> Path:
    """A rules file of the device with these rows more. Beside a GPU only its own are read."""
    if device == DEVICE and torch.cuda.is_available():
        pytest.skip(f"rules of {DEVICE}, planned for by name, are refused where there is a GPU")
    lines = torch.ops.tiled_debug.rules(device).splitlines()[:-1] + list(rows)
    path.write_text("\n".join([*lines, f"lines {len(lines)}", ""]))
    return path


def chosen(a: Tensor, b: Tensor) -> dict:
    found = tiled_mm.plan(a, b, device=DEVICE)
    return {x: found.ways[0][x] for x in ("algo", "tile", "swap_ab", "cluster_p", "cluster_q")}


def same_way(way: dict, other: dict) -> bool:
    return all(way[name] == other[name] for name in other)


SIZES = (
    (4096, 4096, 4096),
    (16, 4096, 4096),
    (1000, 1000, 1000),
    (300000, 32, 64),
    (64, 64, 70000),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32, torch.float64))
def test_a_row_is_chosen(tmp_path: Path, size: tuple, dtype: torch.dtype) -> None:
    """Here the way that is estimated to be the slowest; without the row the fastest is back."""
    a, b = meta(*size, dtype)
    listed = ways(a, b)
    assert same_way(listed[0], chosen(a, b))
    assert tiled_mm.plan(a, b, device=DEVICE).measured is None
    path = file_with(tmp_path / "rules", row_for(a, b, listed[-1]))
    assert tiled_mm.load_rules(path) == 1
    assert same_way(listed[-1], chosen(a, b))
    assert tiled_mm.plan(a, b, device=DEVICE).measured.date == "2000-01-01"
    assert "measured on 2000-01-01" in tiled_mm.explain(a, b, device=DEVICE)
    torch.ops.tiled_debug.forget_rules()
    assert same_way(listed[0], chosen(a, b))
    assert "by estimated times" in tiled_mm.explain(a, b, device=DEVICE)


@pytest.mark.parametrize(
    ("size", "options", "finds"),
    (
        ((1000, 512, 256), {}, True),
        ((1020, 512, 256), {}, True),  # both count as 1024
        ((897, 512, 256), {}, True),
        ((896, 512, 256), {}, False),
        ((1025, 512, 256), {}, False),
        ((1000, 520, 256), {}, False),
        ((1000, 512, 264), {}, False),
        ((1000, 512, 256), {"layout": "nn"}, False),
        ((1000, 512, 256), {"dtype": torch.float16}, False),
    ),
)
def test_a_row_is_for_its_class(tmp_path: Path, size: tuple, options: dict, finds: bool) -> None:
    a, b = meta(1000, 512, 256)
    file_with(tmp_path / "rules", row_for(a, b, ways(a, b)[-1]))
    tiled_mm.load_rules(tmp_path / "rules")
    found = tiled_mm.plan(*meta(*size, **options), device=DEVICE).measured
    assert (found is not None) == finds


def test_few_rows_are_classes_of_their_own(tmp_path: Path) -> None:
    rows = [row_for(*meta(m, 512, 256), ways(*meta(m, 512, 256))[0]) for m in range(1, 65)]
    assert tiled_mm.load_rules(file_with(tmp_path / "rules", *rows)) == 64


def test_other_kinds_of_products_have_other_rows(tmp_path: Path) -> None:
    """Gaps between rows, an alignment, a batch, fp32 out, another precision."""
    a, b = meta(1000, 512, 256)
    tiled_mm.load_rules(file_with(tmp_path / "rules", row_for(a, b, ways(a, b)[-1])))
    gaps = torch.empty(1000, 256 * 8, dtype=a.dtype, device="meta")[:, ::8]
    unaligned = torch.empty(1000, 257, dtype=a.dtype, device="meta")[:, :256]
    for x in (gaps, unaligned):
        assert tiled_mm.plan(x, b, device=DEVICE).measured is None
    assert tiled_mm.plan(a, b, device=DEVICE, out_dtype=torch.float32).measured is None
    assert tiled_mm.plan(a.expand(4, -1, -1), b.expand(4, -1, -1), device=DEVICE).measured is None
    assert tiled_mm.plan(a, b, device="h200").measured is None
    assert tiled_mm.plan(a, b, device=DEVICE).measured is not None
    assert tiled_mm.plan(a, b, algo="hopper", device=DEVICE).algo == "hopper"


def test_a_way_that_does_not_exist_is_passed_over(tmp_path: Path) -> None:
    a, b = meta(1000, 512, 256)
    first = chosen(a, b)
    words = row_for(a, b, ways(a, b, algo="hopper")[-1]).split(" ")
    row = " ".join([*words[:-1], "Coop1x1"])
    assert tiled_mm.load_rules(file_with(tmp_path / "rules", row)) == 1
    assert chosen(a, b) == first
    assert tiled_mm.plan(a, b, device=DEVICE).measured is None


def test_rates_of_a_file_take_the_place_of_the_shipped(tmp_path: Path) -> None:
    a, b = meta(4096, 4096, 4096)
    before = tiled_mm.plan(a, b, device=DEVICE).ways[0].seconds
    shipped = (ROOT / "ops/cuda/plan/rules/h100.rules").read_text().splitlines()
    chip = [line for line in shipped if line.startswith("chip ")]
    slow = ["chip memory 1000" if line.startswith("chip memory ") else line for line in chip]
    path = file_with(tmp_path / "rules", *slow)
    assert tiled_mm.load_rules(path) == 0
    assert tiled_mm.plan(a, b, device=DEVICE).ways[0].seconds > 0.5 > before
    torch.ops.tiled.save_rules(str(tmp_path / "again"), DEVICE)
    assert "chip memory 1000\n" in (tmp_path / "again").read_text()


# ---- files that are refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    (
        ("tiled_mm rules 1", "tiled_mm rules 2", "another version"),
        ("tiled_mm rules 1", "# notes", "it is no rules file"),
        ("H100 SXM5", "H100 PCIe", "another device"),
        ("device 90 132", "device 90 131", "another device"),
        ("ways ", "ways 1", "whose ways are not this one's"),
        ("row ", "raw ", "cannot read the line 'raw "),
        ("2000-01-01 ", "2000-01-01 hoper ", "cannot read the line"),
        ("lines ", "lines 1", "does not count its lines"),
        ("lines ", "", "does not count its lines"),
    ),
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    a, b = meta(1000, 512, 256)
    path = file_with(tmp_path / "rules", row_for(a, b, ways(a, b)[-1]))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(RuntimeError, match=message):
        tiled_mm.load_rules(path)
    assert tiled_mm.plan(a, b, device=DEVICE).measured is None
    with pytest.raises(RuntimeError, match="save_rules would overwrite"):
        torch.ops.tiled.save_rules(str(path), DEVICE)
    assert path.read_text() == text.replace(old, new)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    a, b = meta(1000, 512, 256)
    path = file_with(tmp_path / "rules", row_for(a, b, ways(a, b)[-1]))
    text = path.read_text()
    for length in range(len(text) - 1):  # without its last line's end it is still whole
        path.write_text(text[:length])
        with pytest.raises(RuntimeError, match="are not used"):
            tiled_mm.load_rules(path)
    assert tiled_mm.plan(a, b, device=DEVICE).measured is None


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"cannot read rules from .*none: No such file"):
        tiled_mm.load_rules(tmp_path / "none")
    with pytest.raises(RuntimeError, match=r"cannot write rules to .*No such file"):
        tiled_mm.save_rules(tmp_path / "none" / "rules", device=DEVICE)
    with pytest.raises(RuntimeError, match="unknown device 'h300'"):
        tiled_mm.save_rules(tmp_path / "rules", device="h300")
    with pytest.raises(TypeError):
        tiled_mm.load_rules(3)
    assert not list(tmp_path.iterdir())


# ---- saving --------------------------------------------------------------------------------------


def test_saving_keeps_what_the_file_knows(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    for m in (1000, 2000, 3000):
        a, b = meta(m, 512, 256)
        torch.ops.tiled_debug.forget_rules()
        tiled_mm.load_rules(file_with(tmp_path / "one", row_for(a, b, ways(a, b)[-1])))
        tiled_mm.save_rules(shared, device=DEVICE)
    torch.ops.tiled_debug.forget_rules()
    assert tiled_mm.load_rules(shared) == 3
    assert sorted(x.name for x in tmp_path.iterdir()) == ["one", "shared"]


def test_readers_see_whole_files_only(tmp_path: Path) -> None:
    """While threads write to it again and again."""
    path = tmp_path / "rules"
    rows = [row_for(*meta(m, 512, 256), ways(*meta(m, 512, 256))[0]) for m in range(1, 33)]
    tiled_mm.load_rules(file_with(tmp_path / "one", *rows))
    tiled_mm.save_rules(path, device=DEVICE)
    failed = []

    def write() -> None:
        for _ in range(20):
            try:
                tiled_mm.save_rules(path, device=DEVICE)
            except RuntimeError as error:
                failed.append(str(error))

    def read() -> None:
        for _ in range(60):
            try:
                if tiled_mm.load_rules(path) != 32:
                    failed.append("rows")
            except RuntimeError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=f) for f in (write, write, read, read)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


WRITER = """
import sys, tiled_mm, torch
shared, own = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for i in range(12):
    torch.ops.tiled_debug.forget_rules()  # or the next save would bring back a row that was lost
    tiled_mm.load_rules(f"{own}{i}")
    tiled_mm.save_rules(shared, device="h100")
"""


def test_processes_that_save_at_once_lose_no_row(tmp_path: Path) -> None:
    """Each has a new row whenever it saves: without the lock two that merge with one old file lose
    the first one's."""
    writers, each_ones, n = 4, 12, 0
    for writer in range(writers):
        for i in range(each_ones):
            a, b = meta(1000, 8 * (n := n + 1), 256)
            file_with(tmp_path / f"{writer}_{i}", row_for(a, b, ways(a, b)[0]))
    command = [sys.executable, "-c", WRITER, str(tmp_path / "shared")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*command, str(tmp_path / f"{writer}_")], **pipes)
        for writer in range(writers)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * writers
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=300)
    assert [process.returncode for process in processes] == [0] * writers
    assert tiled_mm.load_rules(tmp_path / "shared") == writers * each_ones
    assert not list(tmp_path.glob("*.tmp"))


def test_the_public_verbs_refuse_what_is_none() -> None:
    with pytest.raises(ValueError, match="tuned on a GPU, got device 'cpu'"):
        tiled_mm.tune([(8, 8, 8)], device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="torch sees none"):
            tiled_mm.tune([(8, 8, 8)])
    a = torch.ones(4, 4)
    with tiled_mm.tuning():  # of products on the CPU nothing is measured
        assert torch.equal(tiled_mm.mm(a, a), 4 * a)


def test_the_command_refuses_bad_sizes() -> None:
    command = [sys.executable, "-m", "tiled_mm", "tune", "12x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected MxNxK or BxMxNxK, got '12x'" in done.stderr


# ---- on a GPU ------------------------------------------------------------------------------------


def rows() -> list[str]:
    return [x for x in torch.ops.tiled_debug.rules(None).splitlines() if x.startswith("row ")]


def normal(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*sizes, dtype=dtype, device="cuda")


@pytest.mark.cuda
def test_tuning_measures_each_class_once() -> None:
    a, b = normal(520, 264), normal(264, 136)
    before, a0, b0 = tiled_mm.mm(a, b), a.clone(), b.clone()
    assert not rows()
    with tiled_mm.tuning():
        first = tiled_mm.mm(a, b)
        assert len(rows()) == 1
        known = rows()
        assert torch.equal(tiled_mm.mm(a, b), first)
        tiled_mm.mm(a[:519], b)
        tiled_mm.mm(a, b, algo="naive", precision="ieee")
        assert rows() == known
    tiled_mm.mm(b, b.t())
    assert rows() == known
    assert torch.equal(first, before)
    assert torch.equal(a, a0) and torch.equal(b, b0)
    assert tiled_mm.plan(a, b).measured is not None


@pytest.mark.cuda
def test_tuning_of_every_kind_of_call() -> None:
    """Epilogues, batches, out= and in place, gradients, torch's own: results are as without."""
    a, b, bias = normal(130, 72), normal(72, 96), normal(96)
    batch = normal(3, 130, 72)
    weight = normal(96, 72).requires_grad_()
    x = normal(130, 72).requires_grad_()

    def calls() -> list[Tensor]:
        out = torch.zeros(130, 96, dtype=a.dtype, device="cuda")
        torch.ops.tiled.mm.out(a, b, out=out)
        total = out.clone()
        tiled_mm.addmm_(total, a, b)
        y = tiled_mm.linear(x, weight, bias, activation="gelu")
        gradients = torch.autograd.grad(y.sum(), (x, weight))
        with tiled_mm.override():
            own = torch.addmm(bias, a, b)
        return [
            *(out, total, tiled_mm.addmm(bias, a, b, activation="silu"), y.detach(), own),
            *(tiled_mm.bmm(batch, b.expand(3, -1, -1)), *gradients),
            tiled_mm.mm(a, b, out_dtype=torch.float32),
            tiled_mm.mm(a.float(), b.float(), precision="fp16x3"),
            tiled_mm.mm(a.double(), b.double()),
            tiled_mm.mm(a[:8].to(torch.complex64), b.to(torch.complex64)),
        ]

    expected = calls()
    with tiled_mm.tuning():
        found = calls()
    assert len(rows()) >= 8
    again = calls()
    for x0, x1, x2 in zip(expected, found, again, strict=True):
        assert torch.equal(x0, x1) and torch.equal(x0, x2)


@pytest.mark.cuda
@each("dtype", (torch.complex64, torch.bfloat16))
def test_tuning_of_converted_products(dtype: torch.dtype) -> None:
    """Of the dtype's own kernels, and of the product of another dtype that may compute it, whether
    its operands are copies or not."""
    asked = {"precision": None if dtype.is_complex else "ieee"}
    for size in ((4, 512, 640), (640, 512, 4), (70, 300, 60)):
        a = torch.randn(size[0], size[1], dtype=dtype, device="cuda")
        b = torch.randn(size[2], size[1], dtype=dtype, device="cuda").t()
        expected, known = tiled_mm.mm(a, b, **asked), len(rows())
        with tiled_mm.tuning():
            assert torch.equal(tiled_mm.mm(a, b, **asked), expected)
        assert len(rows()) == known + 2
        assert torch.equal(tiled_mm.mm(a, b, **asked), expected)
        assert tiled_mm.plan(a, b, **asked).measured is not None


@pytest.mark.cuda
def test_nothing_is_measured_while_a_graph_is_captured() -> None:
    a, b = normal(264, 136), normal(136, 72)
    expected = tiled_mm.mm(a, b)
    graph = torch.cuda.CUDAGraph()
    with tiled_mm.tuning(), torch.cuda.graph(graph):
        c = tiled_mm.mm(a, b)
    assert not rows()
    graph.replay()
    assert torch.equal(c, expected)


@pytest.mark.cuda
def test_threads_tune_side_by_side() -> None:
    a = normal(264, 136)
    wide = [normal(136, n) for n in (8, 16, 24, 32, 40, 48)]
    expected = [tiled_mm.mm(a, b) for b in wide]
    failed = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()), tiled_mm.tuning():
            for b, c in zip(wide, expected, strict=True):
                if not torch.equal(tiled_mm.mm(a, b), c):
                    failed.append(b.shape)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert len(rows()) == len(wide)


@pytest.mark.cuda
def test_no_choice_changes_a_bit(tmp_path: Path) -> None:
    """Every product by the slowest way that is listed for it."""
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32):
        for m, n, k in ((5, 72, 264), (264, 136, 520), (70, 17, 33000), (3000, 24, 16)):
            if dtype.is_floating_point:
                a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
            else:
                a, b = (
                    torch.randint(-99, 99, s, device="cuda").to(dtype) for s in ((m, k), (k, n))
                )
            expected = tiled_mm.mm(a, b)
            listed = json.loads(torch.ops.tiled_debug.ways(a, b))
            slowest = max((w for w in listed if not w["by_name"]), key=lambda w: w["seconds"])
            row = row_for(a, b, slowest, device=None)
            tiled_mm.load_rules(file_with(tmp_path / "rules", row, device=None))
            assert tiled_mm.plan(a, b).measured is not None
            assert torch.equal(tiled_mm.mm(a, b), expected), (dtype, m, n, k, slowest)


CALLS = """
import torch, tiled_mm
a = torch.randn(1000, 512, dtype=torch.bfloat16, device="cuda")
plan = tiled_mm.plan(a, a.t())
print(plan.measured is not None)
"""


@pytest.mark.cuda
@pytest.mark.parametrize("damaged", (False, True))
def test_rules_of_the_environment(tmp_path: Path, damaged: bool) -> None:
    found = tiled_mm.tune([(1000, 1000, 512)])
    assert len(found) == 1 and found[0].seconds > 0 and found[0].gain >= 0
    path = tmp_path / "rules"
    tiled_mm.save_rules(path)
    if damaged:
        path.write_text(path.read_text()[:-3])
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        env=os.environ | {"TILED_MM_RULES": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(not damaged)
    assert ("are not used: it is damaged" in done.stderr) == damaged


@pytest.mark.cuda
def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tiled_mm", "tune", "100x64x64", "2x64x64x64", "--save"]
    done = subprocess.run(
        [*command, str(tmp_path / "rules")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 measured, 2 asked" in done.stdout
    assert tiled_mm.load_rules(tmp_path / "rules") == 2
