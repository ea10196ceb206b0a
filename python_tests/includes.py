"""The rooms of ops/, and which way their includes point: downward.

    python python_tests/includes.py        prints what is wrong; part of `make lint`

A room is a folder. A file may include files of its own room and of the rooms that ROOMS names for
it; files do not include each other in a circle; only out_of_core/, torch/ and the public header
know ATen. So a kernel can be read without its launch, the planner without tensors, and the CPU
without CUDA.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

OPS = Path(__file__).parents[1] / "ops"
SUFFIXES = {".h", ".cuh", ".inc", ".rules", ".cpp", ".cu", ".in"}

# Each room with those below it that it may include. A rung's folder is a room of its own, "rung":
# no rung includes another's files, and what two of them share is a part.
ROOMS = {
    "core": set(),
    "cpu": {"core"},
    "cuda/ptx": set(),
    "cuda/plan/rules": set(),  # text
    "cuda/plan": {"cuda/plan/rules", "core"},
    "cuda/parts": {"cuda/ptx", "cuda/plan", "core"},
    "cuda/rungs": {"cuda/plan", "core"},  # ladder.cpp, which lists all of them
    "rung": {"cuda/parts", "cuda/ptx", "cuda/plan", "core"},
    "cuda/launch": {"cuda/parts", "cuda/plan", "core"},
    "explain": {"cuda/plan", "core"},
    "scale": {"core"},
    "torch": {"tiled_mm.h", "explain", "cpu", "cuda/launch", "rung", "cuda/plan", "core"},
    "out_of_core": {"torch", "tiled_mm.h", "explain", "scale", "cuda/plan", "core"},
    "tiled_mm.h": set(),
}
KNOW_ATEN = {"out_of_core", "torch", "tiled_mm.h"}
ATEN = re.compile(r"(ATen|c10|caffe2|torch)/")
GENERATED = {"kernel_resources_table.inc", "h100_rules.inc"}  # written by the build


def sources(ops: Path) -> dict[str, str]:
    """The text of every source and header, by its path below ops/. The package has none that
    belong to a room: its include/ is a copy that the build installs."""
    paths = (path for path in sorted(ops.rglob("*")) if path.suffix in SUFFIXES)
    below = {path.relative_to(ops).as_posix(): path for path in paths}
    return {name: p.read_text() for name, p in below.items() if not name.startswith("tiled_mm/")}


def room_of(name: str) -> str:
    """The room of a file: its folder, and of the public header its name."""
    folder, _, file = name.rpartition("/")
    return "rung" if folder.startswith("cuda/rungs/") else folder or file


def includes_of(text: str) -> Iterator[tuple[str, str]]:
    """Every include as its bracket or quote, and its path."""
    return (m.groups() for m in re.finditer(r'^\s*#\s*include\s*([<"])([^>"]+)', text, re.M))


def wrong_includes(files: dict[str, str]) -> Iterator[str]:
    for name, text in files.items():
        room = room_of(name)
        if room not in ROOMS:
            yield f"{name}: no room of ROOMS"
            continue
        for bracket, path in includes_of(text):
            if path in files and bracket == "<":
                yield f"{name}: includes <{path}>; files of ops/ stand in quotes"
            # Before ATen is looked for, since torch's own headers lie in a torch/ too.
            elif path in files:
                other = room_of(path)
                alien = room == "rung" and other == "rung" and _folder(name) != _folder(path)
                if alien or (other != room and other not in ROOMS[room]):
                    yield f"{name}: includes {path}, which does not lie below it"
            elif ATEN.match(path):
                if room not in KNOW_ATEN:
                    yield f"{name}: includes {path}, but it is not for {room} to know ATen"
            elif bracket == '"' and path not in GENERATED:
                yield f"{name}: includes {path}, no file below ops/"


def circle(files: dict[str, str]) -> list[str]:
    """Files that include each other, from one of them round to it again; empty without any."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for _, path in includes_of(files[name]):
            if path in files and (found := walk(path, [*way, name])):
                return found
        done.add(name)
        return []

    return next((found for name in files if (found := walk(name, []))), [])


def problems(files: dict[str, str]) -> list[str]:
    found = list(wrong_includes(files))
    if round_trip := circle(files):
        found.append(f"a circle: {' -> '.join(round_trip)}")
    return found


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


if __name__ == "__main__":
    found = problems(sources(OPS))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
