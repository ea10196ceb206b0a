"""python -m tiled_mm, its options and exit codes, and what its text and its JSON say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiled_mm
import torch
from tiled_mm import _cuda_here, _report, _self_test
from tiled_mm.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
BUILT = tiled_mm.build_info()
CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
USAGE = "usage: python -m tiled_mm [--help | --version | --json | check ... | tune ...]"
FIELDS = [
    *("schema", "version", "build", "python", "torch", "cuda_runtime", "driver", "driver_cuda"),
    *("devices", "gpu", "why_no_gpu", "override", "float32_precision", "sum_order", "rules"),
    *("environment", "self_test"),
]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*_report.VARIABLES, "TILED_MM_RULES"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test takes seconds, and tests of its own."""
    monkeypatch.setattr(_self_test, "failures", lambda places: [])


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU seems to be here, by the plans for one. Nothing can be computed on it."""
    plan, empty, rules = tiled_mm.plan, torch.empty, _report.rules_in_use

    def on_meta(*sizes: int, device: object = None, **options: object) -> torch.Tensor:
        is_gpu = torch.device(device or "cpu").type == "cuda"
        return empty(*sizes, device="meta" if is_gpu else device, **options)

    monkeypatch.setattr(torch, "empty", on_meta)
    monkeypatch.setattr(
        tiled_mm, "plan", lambda a, b: plan(a, b, device="h200" if a.is_meta else None)
    )
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(_report, "rules_in_use", lambda device: rules("h200"))
    monkeypatch.setattr(_report, "is_overridden", lambda kind: False)
    monkeypatch.setattr(_report, "devices", lambda: [CPU, GPU])


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tiled_mm", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def text_of(found: dict) -> str:
    return "\n".join(_report.lines(found))


# ---- arguments -----------------------------------------------------------------------------------


def test_help_has_the_usage_of_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(USAGE + "\n")
    for part in ("--version", "tiled_mm check [-h] --model FOLDER", "tiled_mm tune [-h]", "--save"):
        assert part in said, part


@pytest.mark.parametrize("name", ("check", "tune"))
def test_a_command_has_its_own_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m tiled_mm {name} [-h]")


def test_the_version_and_what_it_was_built_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"tiled_mm {tiled_mm.__version__}, built for torch {BUILT['torch']}, ")
    cuda = f"without CUDA: {BUILT['cuda_reason']}" if BUILT["cuda"] is None else "CUDA "
    assert cuda in line


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="there is no source beside it")
def test_the_version_is_the_sources() -> None:
    """A library that was built before its version changed is an old one."""
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert tiled_mm.__version__ == version


def test_a_build_with_cuda_names_its_architectures() -> None:
    build = {**BUILT, "torch": "2.11.0", "cuda": "13.0"}
    build |= {"portable_architectures": "7.5 8.0", "hopper_architectures": "9.0a"}
    assert _report.built_for(build) == (
        "built for torch 2.11.0, CUDA 13.0, kernels for 7.5 8.0 9.0a"
    )


@pytest.mark.parametrize(
    "arguments",
    (["chek"], ["--jsn"], ["--vers"], ["--json", "chek"], ["--json", "check"], ["--version", "x"]),
)
def test_an_unknown_argument(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(USAGE + "\n")
    assert said.err.endswith(f"error: unknown argument {arguments[-1]!r}\n")


@pytest.mark.parametrize("arguments", (["--json", "--version"], ["--json=3"]))
def test_options_that_do_not_go_together(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert ended.value.code == 2 and said.out == "" and said.err.startswith(USAGE + "\n")


# ---- the whole report ----------------------------------------------------------------------------


def test_the_json_is_one_object_and_nothing_else() -> None:
    """The environment's variables that change something are all set: a process reads them once."""
    variables = {"TILED_MM_CPU_LEVEL": "base", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    result = command("--json", TILED_MM_RULES="/home/someone/my.rules", **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert list(found) == FIELDS
    assert found["schema"] == 1 and found["version"] == tiled_mm.__version__
    assert found["build"] == BUILT and found["torch"] == torch.__version__
    assert found["self_test"] == {"ok": True, "failures": []}
    cpu = found["devices"][0]
    assert cpu["device"] == "cpu" and cpu["capability"] is None and cpu["level"] == "base"
    assert cpu["kernels"] == {_self_test.name(dtype): "blocked" for dtype in _self_test.DTYPES}
    assert cpu["float32_precision"] == "ieee"
    asked = {"precision": "tf32", "source": "torch", "torch_setting": "tf32"}
    assert found["float32_precision"] == asked
    assert found["environment"] == variables
    assert found["rules"]["file"] == "my.rules" and "someone" not in result.stdout
    assert found["override"]["cpu"] is False and found["sum_order"] == "chain"


def test_a_level_that_the_cpu_lacks_is_a_failure_that_is_reported() -> None:
    result = command("--json", TILED_MM_CPU_LEVEL="none")
    assert result.returncode == 1, result.stderr
    found = json.loads(result.stdout)
    refusal = "TILED_MM_CPU_LEVEL is 'none', but this CPU has: base"
    cpu = found["devices"][0]
    assert cpu["why_no_kernels"].startswith(refusal) and cpu["has_failed"]
    assert found["self_test"]["failures"][0].startswith(f"cpu: {refusal}")
    assert "cpu" not in found["override"]


def test_text_and_json_are_of_one_report(
    untested: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main([]) == 0
    said = capsys.readouterr().out
    assert said == text_of(found) + "\nself-test: all results are right\n"


def test_failures_are_in_both_and_end_it_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_self_test, "failures", lambda places: ["cpu float32: it is wrong"])
    assert main(["--json"]) == 1
    outcome = json.loads(capsys.readouterr().out)["self_test"]
    assert outcome == {"ok": False, "failures": ["cpu float32: it is wrong"]}
    assert main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["WRONG: cpu float32: it is wrong", "self-test: 1 failures"]


# ---- GPUs ----------------------------------------------------------------------------------------


def test_there_is_a_gpu_or_a_reason() -> None:
    found = _report.report(_report.devices())
    assert (found["gpu"] is None) == bool(found["why_no_gpu"])
    assert ("no GPU: " in text_of(found)) == (found["gpu"] is None)
    assert (found["cuda_runtime"] is None) == (torch.version.cuda is None)
    if BUILT["cuda"] is None:
        without = f"tiled_mm was built without CUDA: {BUILT['cuda_reason']}"
        assert found["why_no_gpu"].startswith(without)
    if not torch.cuda.is_available():
        assert _cuda_here.why_torch_sees_no_gpu() in found["why_no_gpu"]


def sees(monkeypatch: pytest.MonkeyPatch, driver: str | None, visible: str | None) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(_cuda_here, "newest_cuda_of_driver", lambda: driver)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)


@pytest.mark.parametrize(
    ("driver", "visible", "why"),
    [
        (None, None, "there is no NVIDIA driver"),
        (None, "", "there is no NVIDIA driver, and CUDA_VISIBLE_DEVICES is empty"),
        ("13.0", "", "CUDA_VISIBLE_DEVICES is empty"),
        ("13.0", "GPU-01", "torch says: it is too old, and CUDA_VISIBLE_DEVICES is set"),
        ("11.0", None, "torch says: it is too old"),
    ],
)
def test_why_torch_sees_no_gpu(
    driver: str | None, visible: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init() -> None:
        raise RuntimeError("it is too old\nand more about it")

    sees(monkeypatch, driver, visible)
    monkeypatch.setattr(torch.cuda, "init", init)
    assert _cuda_here.why_torch_sees_no_gpu() == why
    monkeypatch.setattr(torch.version, "cuda", None)
    assert _cuda_here.why_torch_sees_no_gpu() == "torch was built without CUDA"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert _cuda_here.why_torch_sees_no_gpu() is None


def test_without_a_driver_there_is_no_number_of_one() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has an NVIDIA driver")
    assert _cuda_here.driver_version() is None and _cuda_here.newest_cuda_of_driver() is None


def test_a_torch_without_cuda_has_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda_here.ctypes, "CDLL", lambda name: object())
    assert _cuda_here.runtime_version() is None


def test_the_entry_and_the_line_of_a_gpu(
    h200: None, untested: None, shipped_rules: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    gpu = found["devices"][1]
    assert gpu["device"] == "cuda:0" and gpu["name"] == "NVIDIA H200" == found["gpu"]
    assert gpu["capability"] == "9.0" and found["why_no_gpu"] is None
    assert gpu["kernels"]["bfloat16"] == "hopper"
    assert gpu["rules"] == {"rates": "shipped", "measured": 0}
    said = text_of(found)
    assert "\ncuda:0: NVIDIA H200 (compute capability 9.0), " in said and "hopper for " in said
    assert said.endswith("\nrules: cuda:0 has shipped rates and 0 measured ways")
    assert "\noverride: off for cpu, off for cuda\n" in said and "no GPU" not in said


def test_a_gpu_without_kernels_is_no_failure(
    h200: None,
    untested: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan, why = tiled_mm.plan, "tiled_mm: this build has no kernels for it"

    def refuses(a: torch.Tensor, b: torch.Tensor) -> object:
        if a.is_meta:
            raise NotImplementedError(f"{why}\nand where that was raised")
        return plan(a, b)

    monkeypatch.setattr(tiled_mm, "plan", refuses)
    assert main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"][1]["why_no_kernels"] == why and found["gpu"] is None
    assert found["why_no_gpu"].endswith(why)
    assert f"\ncuda:0: {why}\n" in text_of(found)


@pytest.mark.cuda
def test_the_gpu_that_is_here() -> None:
    result = command("--json")
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    gpu = found["devices"][1]
    assert gpu["name"] == torch.cuda.get_device_name(0) == found["gpu"]
    assert gpu["capability"] == ".".join(map(str, torch.cuda.get_device_capability(0)))
    assert len(gpu["kernels"]) == len(_self_test.DTYPES) and gpu["rules"]["rates"] == "shipped"
    assert found["why_no_gpu"] is None and found["override"] == {"cpu": False, "cuda": False}
    assert found["driver"] and found["driver_cuda"] and found["cuda_runtime"]


@pytest.mark.cuda
def test_a_rules_file_that_is_refused_is_said(tmp_path: Path) -> None:
    path = tmp_path / "my.rules"
    path.write_text("none\n")
    found = json.loads(command("--json", TILED_MM_RULES=str(path)).stdout)
    assert "the rules of my.rules are not used: " in found["rules"]["warning"]


# ---- settings ------------------------------------------------------------------------------------


def test_what_the_program_has_set() -> None:
    with tiled_mm.sum_order("tree:64"), tiled_mm.float32_precision("fp16x3"):
        found = _report.report([CPU])
    assert found["sum_order"] == "tree:64"
    asked = found["float32_precision"]
    assert asked["precision"] == "fp16x3" and asked["source"] == "tiled_mm"
    said = text_of(found)
    assert "\nsum order: tree:64\n" in said
    assert "\nfloat32 precision: fp16x3, by tiled_mm; cpu runs ieee\n" in said


@pytest.mark.parametrize("precision", ("ieee", "tf32", "fp16x3"))
def test_what_float32_runs_on_a_gpu(h200: None, precision: str) -> None:
    with tiled_mm.float32_precision(precision):
        assert _report.about_device(GPU)["float32_precision"] == precision
        assert _report.about_device(CPU)["float32_precision"] == "ieee"


def test_the_override_is_seen_on_and_off() -> None:
    assert not _report.is_overridden("cpu")
    with tiled_mm.override("cpu"):
        assert _report.is_overridden("cpu")
        assert "\noverride: on for cpu\n" in text_of(_report.report([CPU]))
    assert not _report.is_overridden("cpu")


def test_rules_that_were_loaded_are_seen(tmp_path: Path, shipped_rules: None) -> None:
    if torch.cuda.is_available():
        pytest.skip("rules of a GPU that is planned for by name are refused where there is one")
    a, b = (torch.empty(512, 512, dtype=torch.bfloat16, device="meta") for _ in range(2))
    way = next(w for w in json.loads(torch.ops.tiled_debug.ways(a, b, device="h100")))
    names = (way[x] for x in ("tile", "swap_ab", "cluster_p", "cluster_q", "split_k"))
    row = torch.ops.tiled_debug.rules_row(a, b, *names, algo=way["algo"], device="h100")
    shipped = (ROOT / "ops" / "cuda" / "plan" / "rules" / "h100.rules").read_text().splitlines()
    chip = [line for line in shipped if line.startswith("chip ")]
    head = torch.ops.tiled_debug.rules("h100").splitlines()[:-1]

    def load(*lines: str) -> None:
        path = tmp_path / "rules"
        path.write_text("\n".join([*head, *lines, f"lines {len(head) + len(lines)}", ""]))
        tiled_mm.load_rules(path)

    assert _report.rules_in_use("h100") == {"rates": "shipped", "measured": 0}
    load(row)
    assert _report.rules_in_use("h100") == {"rates": "shipped", "measured": 1}
    load(*chip)
    assert _report.rules_in_use("h100") == {"rates": "loaded", "measured": 1}


def test_a_refused_file_is_named_without_its_folders(
    h200: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "my.rules"
    path.write_text("none\n")
    monkeypatch.setenv("TILED_MM_RULES", str(path))
    found = _report.report([CPU, GPU])
    refused = "tiled_mm: the rules of my.rules are not used: it is no rules file"
    assert found["rules"] == {"file": "my.rules", "warning": refused}
    assert f"; TILED_MM_RULES names my.rules; {refused}" in text_of(found)
