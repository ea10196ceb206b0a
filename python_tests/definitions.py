"""One definition of a name in all of ops/, as C++ asks for (ODR).

    python python_tests/definitions.py        prints what is wrong; part of `make lint`

Two structs of one name in one namespace, each in a header of its own, compile wherever the headers
do not meet; then the linker takes one copy of every inline function of theirs, or template over
them, for both. So a type has one definition in a namespace, and a function that is inline or a
template one for its parameters. Rungs share no function's name in their headers, whatever its
parameters: no rung includes another's files, so two of them have no overloads of one function.

This reads text, no C++: macros are not expanded, and types are compared as they are written.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import includes

# Raw strings first: they may hold what looks like a comment.
_BLANK = re.compile(
    r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_NAMESPACE = re.compile(r"(?:^|\s)namespace\s*((?:\w+(?:::)?)*)$")
_ATTRIBUTE = re.compile(
    r"\[\[.*?\]\]|\b(?:alignas|__\w+__)\s*\((?:[^()]|\([^()]*\))*\)|\b__\w+__\b"
)
_TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) ([\w:]+(?: ?<.*>)?)")
_FUNCTION = re.compile(r"([\w:]+|operator ?[^\w\s(]+) ?\(")
UNNAMED = "(unnamed)"


class Definition(NamedTuple):
    """What a file defines at the level of a namespace."""

    namespace: str  # "tiled::cpu"
    name: str
    parameters: tuple[str, ...] | None  # types as written; None: a type is defined

    def __str__(self) -> str:
        if self.parameters is None:
            return f"{self.namespace}::{self.name}"
        return f"{self.namespace}::{self.name}({', '.join(self.parameters)})"


def _split(text: str) -> list[str]:
    """The text between its commas, those in brackets left out."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _without_template(head: str) -> tuple[str, bool]:
    """A definition without `template <...>` before it, and whether there was one. An explicit
    specialization has `template <>`, and is as a function of its own."""
    is_template = False
    while head.startswith("template"):
        end, depth = head.index("<") + 1, 1
        is_template |= head[end:].lstrip()[0] != ">"
        while depth:
            depth += (head[end] == "<") - (head[end] == ">")
            end += 1
        head = head[end:].lstrip()
    return head, is_template


def _parameters(text: str) -> tuple[str, ...]:
    """The types of a list of parameters, which begins after its bracket."""
    depth, end = 1, 0
    while depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    types = []
    for parameter in _split(text[: end - 1]):
        kept = parameter.split("=")[0].strip()
        kept = re.sub(r"\((\W*)\w+\)", r"(\1)", kept)  # of `float (&values)[4]`
        kept = re.sub(r"([\s*&>])\w+$", r"\1", kept).strip()
        types.append(re.sub(r" ?([*&<>,()]) ?", r"\1", kept))
    return tuple(types)


def _heads(text: str) -> Iterator[tuple[str, str]]:
    """The namespace and the beginning of whatever has a body at the level of a namespace."""
    text = _BLANK.sub(" ", text)
    scopes: list[str | None] = []  # namespaces; None for any other body
    begin = depth = 0  # of round brackets, in which braces begin no body of a definition
    for mark in re.finditer(r"[(){};]", text):
        depth += (mark.group() == "(") - (mark.group() == ")")
        if depth or mark.group() == ")":
            continue
        head, begin = " ".join(text[begin : mark.start()].split()), mark.end()
        if mark.group() == "}":
            scopes.pop()
        elif mark.group() == "{":
            if None in scopes:
                scopes.append(None)
            elif namespace := _NAMESPACE.search(head):
                scopes.append(namespace[1] or UNNAMED)
            else:
                yield "::".join(filter(None, scopes)), head
                scopes.append(None)


def definitions(text: str) -> Iterator[Definition]:
    """The types of a file, and its functions that are inline or templates. What no other file can
    name is left out: it is static, or in an unnamed namespace."""
    for namespace, whole in _heads(text):
        head, is_template = _without_template(_ATTRIBUTE.sub(" ", whole).strip())
        head = " ".join(head.split())
        if UNNAMED in namespace:
            continue
        if found := _TYPE.match(head):
            yield Definition(namespace, found[1].replace(" ", ""), None)
        elif found := _FUNCTION.search(head):
            words = head[: found.start()].split()
            shared = is_template or "inline" in words or "constexpr" in words
            if shared and "static" not in words and "=" not in words:
                yield Definition(namespace, found[1], _parameters(head[found.end() :]))


def problems(files: dict[str, str]) -> list[str]:
    """By the text of every file, by its path below ops/."""
    places: dict[str, list[str]] = defaultdict(list)
    rungs: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for file, text in files.items():
        for definition in dict.fromkeys(definitions(text)):
            places[str(definition)].append(file)
            if includes.room_of(file) in includes.RUNGS and file.endswith((".h", ".cuh")):
                name = definition.namespace, definition.name
                rungs[name].setdefault(file.rpartition("/")[0], file)
    twice = {what: where for what, where in places.items() if len(where) > 1}
    of_rungs = {"::".join(name): list(where.values()) for name, where in rungs.items()}
    return [
        *(f"{what} is defined in {' and '.join(where)}" for what, where in twice.items()),
        *(
            f"{name} is a name of several rungs: {' and '.join(where)}"
            for name, where in of_rungs.items()
            if len(where) > 1 and name not in twice
        ),
    ]


if __name__ == "__main__":
    wrong = problems(includes.sources(includes.OPS))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
