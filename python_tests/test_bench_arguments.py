"""The benchmark's commands refuse what they cannot measure before they measure anything."""

from __future__ import annotations

import re

import pytest
import torch
import typer
from test_bench import CPU, StandIn, invoke
from typer.testing import CliRunner

from bench import arguments, candidates, cli, cpu_table, ladder_tables


class NoOperator(StandIn):
    def call(self, algo: str | None, precision: str | None) -> candidates.Call:
        raise AssertionError("something is measured")


REFUSED = [
    (("--algo", "bogus"), "no rung 'bogus' on this device; there are: auto, all, naive,"),
    (("--algo", "naive", "--algo", "hopper"), "no rung 'hopper' on this device"),
    (("--precision", "double"), "no precision 'double'; there are: ieee, tf32, fp16x3"),
    (("--precision", "fp16x3"), "a CPU computes 'ieee', and has no 'fp16x3' to measure"),
    (("--precision", "tf32"), "a CPU computes 'ieee', and has no 'tf32' to measure"),
    (("--threads", "0"), "Invalid value for '--threads'"),
    (("--budget", "-1"), "-1 is not above 0"),
    (("--budget", "nan"), "nan is not above 0"),
    (("--limit", "0"), "0 is not above 0"),
    (("--device", "bogus"), "no device 'bogus'; there are: auto, cpu, cuda, cuda:N"),
    (("--device", "meta"), "no device 'meta'"),
    (("--device", "cuda:1000"), "GPU that torch can use|no device 'cuda:1000'; the last is"),
]


@pytest.mark.parametrize(("asked", "told"), REFUSED, ids=[" ".join(a) for a, _ in REFUSED])
def test_what_cannot_be_measured_is_refused_before_anything_is(monkeypatch, tmp_path, asked, told):
    path = tmp_path / "out.json"
    more = ("--set", "small", "--json", str(path), *asked)
    done = invoke(monkeypatch, *more, operator=NoOperator())
    assert done.exit_code == 2 and not path.exists()
    output = " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())
    assert re.search(told, output), output


@pytest.mark.parametrize("option", [("--threads", "0"), ("--budget", "0"), ("--limit", "-1")])
@pytest.mark.parametrize("command", ["ladder", "cpu"])
def test_every_command_refuses_them(monkeypatch, command, option):
    monkeypatch.setattr(cli, "load_operator", NoOperator)
    assert CliRunner().invoke(cli.app, [command, *option]).exit_code == 2


def test_a_precision_without_a_kernel_is_refused():
    """As a GPU refuses it; here the device does not matter."""

    class NoKernel(StandIn):
        def call(self, algo, precision):
            def run(a, b, out):
                raise NotImplementedError("tiled_mm: no kernel of 'fp16x3' here\nand a trace")

            return run

    with pytest.raises(typer.BadParameter, match=r"^tiled_mm: no kernel of 'fp16x3' here$"):
        arguments.check_kernel(NoKernel(), CPU, "fp16x3")
    for precision in (None, "ieee"):
        arguments.check_kernel(NoOperator(), CPU, precision)


def test_the_librarys_rungs_of_a_cpu_are_known():
    assert candidates.TiledOperator().rungs(CPU) == ["naive", "blocked"]


@pytest.mark.cuda
def test_every_rung_of_the_ladder_is_known_on_hopper():
    """Else a rung that is there could not be asked for."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("this GPU has not all rungs")
    widths = [f"shared_tile_{width}" for width in (8, 16, 32)]
    expected = {*ladder_tables.IDEAS, *widths} - {"shared_tile"}
    assert set(candidates.TiledOperator().rungs(torch.device("cuda"))) == expected


@pytest.mark.parametrize("options", [["--threads", "2,0"], ["--budget", "0"], ["--groups", "x"]])
def test_the_cpus_table_refuses_them(monkeypatch, tmp_path, options):
    monkeypatch.setattr("sys.argv", ["cpu_table", "--out", str(tmp_path / "out"), *options])
    with pytest.raises(SystemExit) as ended:
        cpu_table.main()
    assert ended.value.code == 2 and not (tmp_path / "out").exists()
