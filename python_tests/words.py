"""Words that were retired, and the ones to say instead (docs/glossary.md).

    python python_tests/words.py        prints what is wrong; part of `make lint`

A rule is of a sense, not of a spelling: a phrase stands here only where no other sense of it is in
use. Phrases are looked for in pages and comments, names in code: there in strings too, but those of
several words are prose, and so are docstrings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A phrase, and what to say.
RETIRED = {
    r"\bsegments?(?: of K)? (?:that )?(?:are|is|were|was) shared out\b": "split-K",
    r"\bshares?(?: out)?(?: the| their)? segments\b": "split-K",
    r"\bcouriers?\b": "hand-off warp",
    r"\bnobody (?:ever )?(?:waits|reads|looks|stores)\b": "no thread or no block: which one it is",
    r"\bin vain\b": "what happens instead",
    r"\b(?:lies?|lying) along\b": "is contiguous along",
    r"\b(?:a|the|thread's|lane's|each) patch(?:es)?\b": "thread tile",
    r"\bvalues? before the activation\b": "pre-activation",
    r"\bcut(?:s|ting)?(?: tiles)? in time\b": "stream-K",
}
# A name in code, as a whole, and the one to use.
RETIRED_NAMES = {
    r"exchanged": "swap_ab",
    r"long_first|as_turned": "tall_problem, async_mma_problem",
    r"(?:may_)?shares?_segments": "split_k, may_split_k",
    r"wraps?_around(?:\.h)?|WrapAround|wrapping_blocks": "stream_k, StreamK, stream_k_blocks",
    r"wrapped_plan|(?:add|describe|launch)_wrapped|WrappedArguments": "stream_k, StreamK",
    r"(?:register_tile|mma_tile_fp64)_wrapped(?:_kernel)?": "stream_k",
    r"CutTurns|cut_turns|CutGrid|CUTS": "StreamKTurns, StreamKGrid, STREAM_K",
    r"\w+_with_before(?:_\w+)?|with_before|\w*WithBefore\w*": "with_pre_activation",
    r"(?:keeps?|wants|needs)_before|before_activation|before_gradient": "pre_activation",
    r"(?:WITH|READS)_BEFORE|epilogue\.before": "pre_activation",
    r"PatchOf|(?:load|store)_patch|multiply_patches|[ab]_patch": "thread_tile, fragment",
    r"PATCH_[MNPQ]|patch_[mnpq]": "THREAD_TILE, thread_tile",
    r"OF_7_5": "SM75",
    r"HeldTiles?|Held\d+x\d+": "RegisterStaged",
    r"(?:run_)?courier": "handoff_warp",
    r"ptx::forget|forget_sum": "opaque",
}
ANY_NAME = re.compile(rf"\b(?:{'|'.join(RETIRED_NAMES)})\b")
# How no comment begins: it has a subject and a verb.
HEADLESS = r"(?:Of|Those|What)\b"

SUFFIXES = {".h", ".cuh", ".cu", ".in", ".cpp", ".inc", ".py", ".md"}
FOLDERS = ("ops", "bench", "cpp_tests", "examples", "python_tests", "docs")
# Not looked at: this file and its test, what a build installs, and files whose words are still
# those of before.
LEFT_OUT = (
    "python_tests/words.py",
    "python_tests/test_words.py",
    "ops/tiled_mm/include/",
)


def files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(LEFT_OUT):
                yield path
    yield from sorted(root.glob("*.md"))


def prose(path: Path, text: str) -> list[tuple[int, str]]:
    """The lines of a page, or the comments and docstrings of a source, with their numbers. A
    comment of several lines is one, so that a phrase may go over a line's end."""
    if path.suffix == ".md":
        return [(i, line) for i, line in enumerate(text.splitlines(), 1)]
    mark = "#" if path.suffix == ".py" else "//"
    found: list[tuple[int, str]] = []
    alone = False
    for i, line in enumerate(text.splitlines(), 1):
        before, marked, said = line.partition(mark)
        if not marked or before.count('"') % 2:
            alone = False
            continue
        if alone and not before.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {said.strip()}")
        else:
            found.append((i, said.strip()))
        alone = not before.strip()
    if path.suffix == ".py":
        for match in re.finditer(r'"""(.*?)"""', text, re.DOTALL):
            found.append((text.count("\n", 0, match.start()) + 1, " ".join(match[1].split())))
    return found


def code(path: Path, text: str) -> list[tuple[int, str]]:
    """The lines of a source without comments, docstrings and strings of several words, with their
    numbers; a page has none."""
    if path.suffix == ".md":
        return []
    if path.suffix == ".py":
        text = re.sub(r'""".*?"""', lambda x: "\n" * x[0].count("\n"), text, flags=re.DOTALL)
    mark = "#" if path.suffix == ".py" else "//"
    # What comes first, a string or a comment, has the other one inside.
    other = re.compile(rf'"(?:[^"\\\n]|\\.)*"|{mark}.*')
    left = other.sub(lambda x: x[0] if x[0][0] == '"' and " " not in x[0] else "", text)
    return list(enumerate(left.splitlines(), 1))


def problems(path: Path, text: str) -> list[str]:
    found = []
    for line, said in prose(path, text):
        for phrase, better in RETIRED.items():
            if match := re.search(phrase, said, re.IGNORECASE):
                found.append(f"{path}:{line}: {match[0]!r}: say {better}")
        if path.suffix not in (".md", ".py") and (match := re.match(HEADLESS, said)):
            found.append(f"{path}:{line}: a comment that begins with {match[0]!r} has no subject")
    for line, said in code(path, text):
        for match in ANY_NAME.finditer(said):
            better = next(x for name, x in RETIRED_NAMES.items() if re.fullmatch(name, match[0]))
            found.append(f"{path}:{line}: {match[0]!r}: say {better}")
    return found


def main(root: Path = ROOT) -> int:
    found = [problem for path in files(root) for problem in problems(path, path.read_text())]
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
