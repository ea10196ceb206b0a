"""One definition of a name, and what looks after that notices a second one."""

import definitions
import includes
import pytest

FILES = includes.sources(includes.OPS)


def test_every_name_of_ops_has_one_definition() -> None:
    assert definitions.problems(FILES) == []


def test_the_definitions_of_ops_are_found() -> None:
    """Else nothing could be wrong."""
    found = {str(one) for text in FILES.values() for one in definitions.definitions(text)}
    assert {
        "tiled::Problem",
        "tiled::cpu::Range",
        "tiled::transposed(Epilogue)",
        "tiled::name_of(Work)",
    } <= found
    assert len(found) > 500


A, B = "cuda/parts/a.cuh", "torch/b.h"


def within(*definitions: str) -> dict[str, str]:
    """Files of one definition each, in namespace tiled."""
    return {
        file: f"#define OPEN {{\nnamespace tiled {{\n// }}\n{text}\n}}  // namespace tiled\n"
        for file, text in zip((A, B), definitions, strict=True)
    }


TWICE = [
    ("struct X { int i; };", "class X {};", "tiled::X"),
    ("enum class X : int { One };", "struct alignas(16) X final {};", "tiled::X"),
    ("template <typename T> struct X {};", "struct X : Y<1> {};", "tiled::X"),
    ("template <> struct X<int> {};", "template <> struct X<int> {};", "tiled::X<int>"),
    ("inline int f(int a) { return a; }", "inline int f(int b) { return -b; }", "tiled::f(int)"),
    (
        "__device__ __forceinline__ __attribute__((noinline)) inline void f(const X& x = {}) {}",
        "constexpr int f(const X &other) { return 1; }",
        "tiled::f(const X&)",
    ),
    (
        "template <int N> void f(float (&x)[N], std::pair<int, int> y) {}",
        "template <int N>\nvoid f(float (&z)[N],\n       std::pair<int, int>) {}",
        "tiled::f(float(&)[N], std::pair<int,int>)",
    ),
    ("inline bool operator==(X a, X b) { return 1; }",) * 2 + ("tiled::operator==(X, X)",),
]


@pytest.mark.parametrize(("one", "other", "name"), TWICE)
def test_a_second_definition_is_found(one: str, other: str, name: str) -> None:
    assert definitions.problems(within(one, other)) == [f"{name} is defined in {A} and {B}"]


ONCE = [
    ("struct X {};", "struct X;"),  # declared
    ("struct X {};", "namespace cpu { struct X {}; }"),
    ("struct X {};", "namespace { struct X {}; }"),
    ("struct X {};", "struct Y { struct X {}; };"),
    ("struct X {};", '// struct X {};\n/* struct X {}; */ const char* s = "struct X {};";'),
    ("template <> struct X<int> {};", "template <> struct X<float> {};"),
    ("inline void f(int) {}", "inline void f(float) {}"),  # overloads
    ("inline void f(int) {}", "inline void f(int);"),
    ("inline void f(int) {}", "static inline void f(int) {}"),
    ("inline void f(int) {}", "void g() { f(1); }"),
    ("constexpr int X = (int{1} << 3);", "constexpr int X = (int{1} << 3);"),  # of its file alone
]


@pytest.mark.parametrize(("one", "other"), ONCE)
def test_what_may_be_there_twice_is_left_alone(one: str, other: str) -> None:
    assert definitions.problems(within(one, other)) == []


def test_rungs_share_no_functions_name_in_their_headers() -> None:
    one, other = "cuda/lessons/1_naive/a.cuh", "cuda/engine/hopper/b.h"
    text = "namespace tiled { inline void f(%s) {} }"
    files = {one: text % "int", other: text % "float"}
    assert definitions.problems(files) == [
        f"tiled::f is a name of several rungs: {one} and {other}"
    ]
    same_rung = {one: text % "int", one.replace("/a.", "/b."): text % "float"}
    assert definitions.problems(same_rung) == []
    assert definitions.problems({one: text % "int", other[:-1] + "cpp": text % "float"}) == []
