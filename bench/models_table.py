"""The tables of bench.models' documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.cells import NOT_MEASURED, last, ratio_number, seconds_text, table

MODELS = {
    "llama": "Llama, 4 layers, 4096 wide",
    "gpt2": "GPT-2",
    "mlp": "Llama's MLP, 4096 x 11008",
}

Rows = Sequence[dict]


def of_cpu(document: dict) -> dict:
    """As of a run that had no GPU, which these rows did not use."""
    environment = {**document["environment"], "gpu": None, "cublas": None}
    return {**document, "environment": environment}


def part_table(
    part: str, header: Sequence[str], texts: int, rows_of: Callable, *, gpu: bool = True
) -> Callable:
    def newest(documents: Sequence[dict]) -> str:
        """Of the newest document that has the part, of whole sizes."""
        of_part = (d for d in documents if d.get("models", {}).get(part))
        document = last(d for d in of_part if not d["settings"].get("small"))
        if document is None:
            return NOT_MEASURED
        rows = rows_of(document["models"][part])
        return table(header, rows, document if gpu else of_cpu(document), texts=texts)

    return newest


def sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def against(seconds: dict) -> list[str]:
    """Ratio first: above 1 the library is the faster."""
    ours, theirs = seconds["tiled"], seconds["torch"]
    return [ratio_number(theirs / ours), seconds_text(ours), seconds_text(theirs)]


def bits_rows(rows: Rows) -> list[list[str]]:
    def cell(row: dict) -> str:
        if row["differ"] == 0:
            return "equal"
        return f"{100 * row['differ'] / row['of']:.0f} % differ, by {row['largest']:.2g}"

    found: dict[tuple, dict[str, str]] = {}
    for row in rows:
        found.setdefault((row["model"], row["batch"]), {})[row["arithmetic"]] = cell(row)
    return [
        [MODELS[model], str(batch), cells["tiled"], cells["torch"]]
        for (model, batch), cells in found.items()
    ]


def speed_rows(rows: Rows) -> list[list[str]]:
    return [[MODELS[r["model"]], r["what"], str(r["tokens"]), *against(r["seconds"])] for r in rows]


def finished_rows(rows: Rows) -> list[list[str]]:
    """What activations cost beside the bare product."""
    lines = []
    for row in rows:
        bare = row["seconds"].get("mm")
        for name, seconds in row["seconds"].items() if bare else ():
            beside = f"{100 * (seconds / bare - 1):+.1f} %"
            lines.append([sizes(row["shape"]), name, seconds_text(seconds), beside])
    return lines


def linear_rows(rows: Rows) -> list[list[str]]:
    return [
        [row["what"], sizes(row["shape"]), *against(row["seconds"])]
        for row in rows
        if "tiled" in row["seconds"]
    ]


def host_rows(rows: Rows) -> list[list[str]]:
    return [[row["what"], "yes" if row["grad"] else "no", *against(row["seconds"])] for row in rows]


def compiled_rows(rows: Rows) -> list[list[str]]:
    """A line for a model and a setting: the batches in which rows change."""
    found: dict[tuple, list[dict]] = {}
    for row in rows:
        found.setdefault((row["setting"], row["model"]), []).append(row)
    lines = []
    for (setting, model), of_it in found.items():
        wrong = [row for row in of_it if row["differ"]]
        batches = ", ".join(str(row["batch"]) for row in wrong)
        largest = max((row["largest"] for row in wrong), default=0.0)
        cell = f"change in batches {batches}, by {largest:.2g}" if wrong else "equal"
        lines.append([setting, model, cell])
    return lines


def compiled_speed_rows(rows: Rows) -> list[list[str]]:
    """Beside torch's products with the same options, and what the options cost by themselves."""
    lines = []
    for row in rows:
        s = row["seconds"]
        cost = ratio_number(s["default"] / s["torch"])
        lines.append([row["model"], row["what"], str(row["tokens"]), *against(s), cost])
    return lines


def compiled_epilogues_rows(rows: Rows) -> list[list[str]]:
    """Times of the others over that with epilogues."""
    lines = []
    for row in rows:
        s = row["seconds"]
        ratios = [ratio_number(s[n] / s["epilogues"]) for n in ("tiled", "torch", "max-autotune")]
        place = [row["model"], row["what"], str(row["tokens"])]
        lines.append([*place, seconds_text(s["epilogues"]), *ratios])
    return lines


def rivals_rows(rows: Rows) -> list[list[str]]:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["candidate"], {})[row["kind"]] = f"{row['changed']} of {row['of']}"
    return [[who, *(cells[k] for k in ("bf16", "fp32", "squares"))] for who, cells in found.items()]


def rivals_speed_rows(rows: Rows) -> list[list[str]]:
    lines = []
    for row in rows:
        s = row["seconds"]
        cut = s["cut cuBLAS"] / s["tiled beside cut cuBLAS"]
        ratios = [s["torch"] / s["tiled"], cut, s["triton"] / s["tiled"]]
        lines.append([sizes(row["shape"]), seconds_text(s["tiled"]), *map(ratio_number, ratios)])
    return lines


def eager_rows(rows: Rows) -> list[list[str]]:
    return [[row["what"], *against(row["seconds"])] for row in rows]


BESIDE = ("torch's time / ours", "ours", "torch's")

TABLES = {
    "models-bits": part_table(
        "bits", ("model", "batch", "under the override", "torch"), 4, bits_rows
    ),
    "models-speed": part_table("speed", ("model", "", "tokens", *BESIDE), 2, speed_rows),
    "models-finished": part_table(
        "linear", ("M x N x K", "", "time", "beside mm"), 2, finished_rows
    ),
    "models-linear": part_table("linear", ("", "M x N x K", *BESIDE), 2, linear_rows),
    "models-cpu": part_table("cpu", ("inputs", "M x N x K", *BESIDE), 2, linear_rows, gpu=False),
    "models-host": part_table("host", ("16 x 16", "gradients", *BESIDE), 2, host_rows),
    "models-compiled": part_table(
        "compiled-rows", ("options", "model", "a row's logits in batches"), 3, compiled_rows
    ),
    "models-compiled-speed": part_table(
        "compiled-speed",
        ("model", "", "tokens", *BESIDE, "Inductor's own options' time / these"),
        2,
        compiled_speed_rows,
    ),
    "models-compiled-epilogues": part_table(
        "compiled-epilogues",
        ("activation", "", "tokens", "with epilogues", "without / with", "torch", "max-autotune"),
        2,
        compiled_epilogues_rows,
    ),
    "models-rivals": part_table(
        "rivals-bits", ("products", "bf16", "fp32", "squares"), 1, rivals_rows
    ),
    "models-rivals-speed": part_table(
        "rivals-speed",
        ("M x N x K, bf16", "ours", "torch / ours", "cuBLAS cut / ours", "Triton / ours"),
        1,
        rivals_speed_rows,
    ),
    "models-eager": part_table("eager-calls", ("call", *BESIDE), 1, eager_rows),
    "models-eager-decode": part_table("eager-decode", ("model", *BESIDE), 1, eager_rows),
    "models-eager-prompt": part_table("eager-prompt", ("model", *BESIDE), 1, eager_rows),
    "models-eager-training": part_table("eager-training", ("model", *BESIDE), 1, eager_rows),
}
