"""The rooms of ops/, which way their includes point, downward, and which of them name no rung.

    python python_tests/includes.py        prints what is wrong; part of `make lint`

A room is a folder. A file may include files of its own room and of the rooms that ROOMS names for
it; files do not include each other in a circle; only out_of_core/, torch/ and the public header
know ATen. So a kernel can be read without its launch, the planner without tensors, and the CPU
without CUDA. The rooms above the planner and the CPU know rungs by what core/ladder.inc, their
plans and cpu/rungs.h say of them, so that a further rung changes no file there.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

OPS = Path(__file__).parents[1] / "ops"
SUFFIXES = {".h", ".cuh", ".inc", ".rules", ".cpp", ".cu", ".in"}

# Each room with those below it that it may include. A lesson's folder is a room of its own, and so
# is a rung's of the engine: none includes another's files, and what two of them share is a part.
# Only a rung that grew from a lesson, and runs its kernel too, includes it: both have one name.
ROOMS = {
    "core": set(),
    "cpu": {"core"},
    "cuda/ptx": set(),
    "cuda/plan/rules": set(),  # text
    "cuda/plan": {"cuda/plan/rules", "core"},
    "cuda/parts": {"cuda/ptx", "cuda/plan", "core"},
    "lesson": {"cuda/parts", "cuda/ptx", "cuda/plan", "core"},
    "engine": {"lesson", "cuda/parts", "cuda/ptx", "cuda/plan", "core"},
    "cuda/launch": {"cuda/parts", "cuda/plan", "core"},
    "explain": {"cuda/plan", "core"},
    "scale": {"core"},
    "torch": {"tiled_mm.h", "explain", "cpu", "cuda/launch", "cuda/plan", "core"},
    "out_of_core": {"torch", "tiled_mm.h", "explain", "scale", "cuda/plan", "core"},
    "tiled_mm.h": set(),
}
RUNGS = {"lesson", "engine"}
# Folders by how their names begin, and the room that they are.
ONE_ROOM = {"cuda/lessons/": "lesson", "cuda/engine/": "engine", "cuda/parts/": "cuda/parts"}
KNOW_ATEN = {"out_of_core", "torch", "tiled_mm.h"}
NAME_NO_RUNG = {"explain", "scale", "torch", "out_of_core", "tiled_mm.h"}
RUNG = re.compile(r"\bAlgo::\w+")
ATEN = re.compile(r"(ATen|c10|caffe2|torch)/")
GENERATED = {"kernel_resources_table.inc", "h100_rules.inc"}  # written by the build


def sources(ops: Path) -> dict[str, str]:
    """The text of every source and header, by its path below ops/. The package has none that
    belong to a room: its include/ is a copy that the build installs."""
    paths = (path for path in sorted(ops.rglob("*")) if path.suffix in SUFFIXES)
    below = {path.relative_to(ops).as_posix(): path for path in paths}
    return {name: p.read_text() for name, p in below.items() if not name.startswith("tiled_mm/")}


def room_of(name: str) -> str:
    """The room of a file: its folder, and of the public header its name. The parts are one room,
    whose folders are subjects."""
    folder, _, file = name.rpartition("/")
    for start, room in ONE_ROOM.items():
        if folder.startswith(start):
            return room
    return folder or file


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
                alien = {room, other} <= RUNGS and _rung(name) != _rung(path)
                if alien or (other != room and other not in ROOMS[room]):
                    yield f"{name}: includes {path}, which does not lie below it"
            elif ATEN.match(path):
                if room not in KNOW_ATEN:
                    yield f"{name}: includes {path}, but it is not for {room} to know ATen"
            elif bracket == '"' and path not in GENERATED:
                yield f"{name}: includes {path}, no file below ops/"


def named_rungs(files: dict[str, str]) -> Iterator[str]:
    for name, text in files.items():
        if room_of(name) in NAME_NO_RUNG:
            yield from (f"{name}: names {rung}, a rung" for rung in RUNG.findall(text))


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
    found = [*wrong_includes(files), *named_rungs(files)]
    if round_trip := circle(files):
        found.append(f"a circle: {' -> '.join(round_trip)}")
    return found


def _rung(name: str) -> str:
    """The rung whose folder a file is in: "mma_tile" of cuda/lessons/4_mma_tile/tiles.h."""
    return name.split("/")[2].lstrip("0123456789_")


if __name__ == "__main__":
    found = problems(sources(OPS))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
