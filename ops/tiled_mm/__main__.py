"""``python -m tiled_mm``: versions, devices, what runs where, what is set, and a self-test.

Ends with 1 where a result is wrong, and with 2 where the arguments are. ``--json`` prints the same
as one JSON object. ``python -m tiled_mm check --model FOLDER`` says which operator of a model
changes with the batch, and ``python -m tiled_mm tune`` measures the choice among ways.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap

import torch

import tiled_mm

from . import _report, _self_test

COMMANDS = {
    "check": "which operator of a model changes with the batch",
    "tune": "measures the choice among the ways of products of given sizes",
}


def run(command: str, arguments: list[str]) -> int:
    if command == "check":
        from tiled_mm.invariance import _cli

        return _cli.main(arguments)
    from tiled_mm import _tune_command

    return _tune_command.main(arguments)


def parser() -> argparse.ArgumentParser:
    """This one is for calls without a command; commands have parsers of their own."""
    p = argparse.ArgumentParser(
        prog="python -m tiled_mm",
        usage="python -m tiled_mm [--help | --version | --json | check ... | tune ...]",
        description="Without an argument it reports versions, devices, the kernel that each dtype\n"
        "gets, what is set, and a self-test of some seconds. It ends with 1 where a\n"
        "result is wrong, and with 2 where the arguments are.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    one = p.add_mutually_exclusive_group()
    one.add_argument("--version", action="store_true", help="the version, and its build")
    one.add_argument("--json", action="store_true", help="the report as one JSON object")
    return p


def usage_of_commands() -> str:
    from tiled_mm import _tune_command
    from tiled_mm.invariance import _cli

    parsers = {"check": _cli.parser(), "tune": _tune_command.parser()}
    return "commands:\n" + "\n".join(
        f"  {command}: {what}\n" + textwrap.indent(parsers[command].format_usage(), "    ")
        for command, what in COMMANDS.items()
    )


def tested(found: _report.Report) -> _report.Report:
    """This adds the self-test's outcome. A device has failed too if no product could be planned for
    it, unless this build only leaves out its kernels."""
    entries = found["devices"]
    failures = [f"{x['device']}: {x['why_no_kernels']}" for x in entries if x["has_failed"]]
    places = [torch.device(x["device"]) for x in entries if x["kernels"]]
    failures += _self_test.failures(places)
    return {**found, "self_test": {"ok": not failures, "failures": failures}}


def print_report(as_json: bool) -> int:
    """The text is printed as far as it is known, in case the self-test ends the process."""
    found = _report.report(_report.devices())
    if not as_json:
        print("\n".join(_report.lines(found)), flush=True)
    found = tested(found)
    outcome = found["self_test"]
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return 0 if outcome["ok"] else 1
    for text in outcome["failures"]:
        print("WRONG:", text)
    wrong = len(outcome["failures"])
    print("self-test:", f"{wrong} failures" if wrong else "all results are right")
    return 0 if outcome["ok"] else 1


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return run(arguments[0], arguments[1:])
    asked_for = parser()
    if {"-h", "--help"} & set(arguments):
        asked_for.epilog = usage_of_commands()
    asked, unknown = asked_for.parse_known_args(arguments)
    if unknown:
        asked_for.print_usage(sys.stderr)
        print(f"{asked_for.prog}: error: unknown argument {unknown[0]!r}", file=sys.stderr)
        return 2
    if asked.version:
        print(f"tiled_mm {tiled_mm.__version__}, {_report.built_for(tiled_mm.build_info())}")
        return 0
    return print_report(asked.json)


if __name__ == "__main__":
    sys.exit(main())
