"""``python -m tiled_mm`` reports what this gathers in one dictionary; the text is made of it alone.

People paste reports into public issues, so there is no path and no identifier of theirs in it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import tiled_mm

from . import _cuda_here
from ._self_test import DTYPES, first_line, name

SCHEMA = 1
# These change what runs, and their values are short words that tell nothing of their owner.
VARIABLES = ("TILED_MM_CPU_LEVEL", "TILED_MM_PLAN_AS", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
TORCH_SETTING = "torch.backends.cuda.matmul.fp32_precision"

Report = dict[str, Any]


def devices() -> list[torch.device]:
    """The CPU, and the GPUs, if this build has kernels for any and torch can use them."""
    usable = tiled_mm.build_info()["cuda"] and torch.cuda.is_available()
    count = torch.cuda.device_count() if usable else 0
    return [torch.device("cpu"), *(torch.device("cuda", i) for i in range(count))]


def report(places: list[torch.device]) -> Report:
    """The self-test is not in it: its outcome is added when it has ended."""
    found = [about_device(device) for device in places]
    usable = [each for each in found if is_gpu(each) and each["kernels"]]
    return {
        "schema": SCHEMA,
        "version": tiled_mm.__version__,
        "build": tiled_mm.build_info(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda_runtime": _cuda_here.runtime_version(),
        "driver": _cuda_here.driver_version(),
        "driver_cuda": _cuda_here.newest_cuda_of_driver(),
        "devices": found,
        "gpu": usable[0]["name"] if usable else None,
        "why_no_gpu": None if usable else why_no_gpu(found),
        "override": {kind: is_overridden(kind) for kind in working_kinds(found)},
        "float32_precision": float32_precision(),
        "sum_order": tiled_mm.get_sum_order(),
        "rules": rules_of_environment(usable),
        "environment": {x: os.environ[x] for x in VARIABLES if os.environ.get(x)},
    }


# ---- what there is -------------------------------------------------------------------------------


def about_device(device: torch.device) -> Report:
    """The entry of a device has, by dtype, the rung that the planner chooses for a product of
    middle size. Whatever goes wrong is part of it, since that is what a report is wanted for."""
    about: Report = {
        "device": str(device),
        "name": "CPU" if device.type == "cpu" else None,
        "capability": None,
        "level": None,
        "threads": None,
        "kernels": {},
        "float32_precision": None,
        "rules": None,
        "why_no_kernels": None,
        "has_failed": False,
    }
    try:
        if is_gpu(about):
            about["name"] = torch.cuda.get_device_name(device)
            about["capability"] = "{}.{}".format(*torch.cuda.get_device_capability(device))
        about |= _what_runs(device)
        about["rules"] = rules_in_use(str(device)) if is_gpu(about) else None
    except NotImplementedError as error:  # this build has no kernels for the GPU
        about["why_no_kernels"] = first_line(error)
    except Exception as error:
        about |= {"why_no_kernels": first_line(error), "has_failed": True}
    return about


def _what_runs(device: torch.device) -> Report:
    plans = {}
    for dtype in DTYPES:
        a = torch.empty(1024, 1024, dtype=dtype, device=device)
        plans[name(dtype)] = tiled_mm.plan(a, a)
    float32 = plans["float32"]
    on_cpu = device.type == "cpu"
    return {
        "level": float32.cpu_level if on_cpu else None,
        "threads": float32.threads if on_cpu else None,
        "kernels": {dtype: plan.algo for dtype, plan in plans.items()},
        "float32_precision": "ieee" if float32.arithmetic == "fma" else float32.arithmetic,
    }


def why_no_gpu(found: list[Report]) -> str:
    """Each thing that stands in the way is named, since mending one shows only the next."""
    built = tiled_mm.build_info()
    reasons = [] if built["cuda"] else [f"tiled_mm was built without CUDA: {built['cuda_reason']}"]
    reasons.append(_cuda_here.why_torch_sees_no_gpu() or "")
    reasons += [each["why_no_kernels"] or "" for each in found if is_gpu(each)]
    return "; ".join(reason for reason in reasons if reason)


def is_gpu(about: Report) -> bool:
    return about["device"].startswith("cuda")


def working_kinds(found: list[Report]) -> list[str]:
    """These are 'cpu' and 'cuda', where a product of torch's can be tried."""
    working = (each["device"] for each in found if not each["has_failed"])
    return list(dict.fromkeys(torch.device(device).type for device in working))


# ---- what is set ---------------------------------------------------------------------------------


def is_overridden(kind: str) -> bool:
    """An empty product of torch's runs no kernel, and who computed it is counted. Other threads may
    add to the count meanwhile, but only where the override is on."""
    before = _computed()
    torch.mm(torch.empty(0, 1, device=kind), torch.empty(1, 0, device=kind))
    return _computed() > before


def _computed() -> int:
    return tiled_mm.override_counts().get("mm", {}).get("tiled", 0)


def float32_precision() -> Report:
    """Products that name no precision ask for this one. A device without a kernel for it runs
    'ieee', so that what runs is in each device's entry."""
    ours = tiled_mm.get_float32_precision()
    torchs = torch.backends.cuda.matmul.fp32_precision
    return {
        "precision": ours or ("tf32" if torchs == "tf32" else "ieee"),
        "source": "tiled_mm" if ours else "torch",
        "torch_setting": torchs,
    }


def rules_in_use(device: str) -> Report:
    """A GPU's rules say whose rates estimate the ways' times, and how many classes of products have
    a way that was measured, here or by whoever wrote a file."""
    lines = torch.ops.tiled_debug.rules(device).splitlines()
    head = ("tiled_mm rules ", "device ", "ways ", "lines ", "row ")
    own = any(not line.startswith(head) for line in lines)
    return {
        "rates": "loaded" if own else "shipped",
        "measured": sum(line.startswith("row ") for line in lines),
    }


def rules_of_environment(gpus: list[Report]) -> Report:
    """The file that TILED_MM_RULES names, and why it is refused: the library, which reads it at the
    first plan for a GPU, says so on stderr alone, so it is loaded once more here, for any of the
    GPUs. Its folders are left out, since they may name their owner."""
    path = os.environ.get("TILED_MM_RULES")
    if not path:
        return {"file": None, "warning": None}
    file, warning = Path(path).name, None
    if gpus:
        try:
            tiled_mm.load_rules(path)
        except RuntimeError as error:
            warning = first_line(error).replace(path, file)
    return {"file": file, "warning": warning}


# ---- the text ------------------------------------------------------------------------------------


def built_for(build: dict[str, str | None]) -> str:
    if not build["cuda"]:
        return f"built for torch {build['torch']}, without CUDA: {build['cuda_reason']}"
    kernels = (build["portable_architectures"], build["hopper_architectures"])
    architectures = " ".join(k for k in kernels if k)
    return f"built for torch {build['torch']}, CUDA {build['cuda']}, kernels for {architectures}"


def lines(found: Report) -> Iterator[str]:
    """This is the text of a report, but for its self-test."""
    yield f"tiled-mm {found['version']}, {built_for(found['build'])}"
    yield f"torch {found['torch']}, Python {found['python']}, {_cuda_line(found)}"
    yield from map(_device_line, found["devices"])
    if found["why_no_gpu"]:
        yield f"no GPU: {found['why_no_gpu']}"
    on = (f"{'on' if is_on else 'off'} for {kind}" for kind, is_on in found["override"].items())
    yield f"override: {', '.join(on) or 'not known'}"
    yield _precision_line(found)
    yield f"sum order: {found['sum_order']}"
    yield _rules_line(found)
    if found["environment"]:
        yield "environment: " + ", ".join(f"{x}={y}" for x, y in found["environment"].items())


def _cuda_line(found: Report) -> str:
    version = found["cuda_runtime"]
    runtime = f"CUDA runtime {version}" if version else "no CUDA runtime"
    if not found["driver"] and not found["driver_cuda"]:
        return f"{runtime}, no driver"
    number = found["driver"] or "of unknown number"
    return f"{runtime}, driver {number} for CUDA {found['driver_cuda'] or 'of unknown number'}"


def _device_line(about: Report) -> str:
    if about["why_no_kernels"]:
        return f"{about['device']}: {about['why_no_kernels']}"
    rungs: dict[str, list[str]] = {}
    for dtype, rung in about["kernels"].items():
        rungs.setdefault(rung, []).append(dtype)
    what = "; ".join(f"{rung} for {', '.join(dtypes)}" for rung, dtypes in rungs.items())
    more = f"compute capability {about['capability']}"
    if about["level"]:
        more = f"{about['level']}, {about['threads']} threads"
    return f"{about['device']}: {about['name']} ({more}), {what}"


def _precision_line(found: Report) -> str:
    asked = found["float32_precision"]
    source = "by tiled_mm"
    if asked["source"] == "torch":
        source = f"by {TORCH_SETTING}, which is '{asked['torch_setting']}'"
    runs = (
        f"{each['device']} runs {each['float32_precision']}"
        for each in found["devices"]
        if each["float32_precision"]
    )
    return "; ".join((f"float32 precision: {asked['precision']}, {source}", *runs))


def _rules_line(found: Report) -> str:
    parts = [
        f"{each['device']} has {each['rules']['rates']} rates and "
        f"{each['rules']['measured']} measured ways"
        for each in found["devices"]
        if each["rules"]
    ]
    said = parts or ["none in use, as only GPUs have any"]
    rules = found["rules"]
    if rules["file"]:
        said.append(f"TILED_MM_RULES names {rules['file']}" + ("" if parts else ", not read"))
    if rules["warning"]:
        said.append(rules["warning"])
    return "rules: " + "; ".join(said)
