"""README.md and docs/: every link leads somewhere, what is measured is shown, and the first page
stays short enough to be read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_PAGES = [p for p in sorted(ROOT.glob("*.md")) if p not in PAGES]
OTHER_PAGES.append(ROOT / "python_tests" / "README.md")

if not PAGES[0].exists():
    pytest.skip("there are no README.md and docs/ beside these tests", allow_module_level=True)

_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found: dict[str, int] = {}
    for title in re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {a if not i else f"{a}-{i}" for a, count in found.items() for i in range(count + 1)}


def broken(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    wrong = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = page.parent / name if name else page
        anchors = headings(target) if target.suffix == ".md" and target.exists() else set()
        if not target.exists() or (anchor and anchor not in anchors):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES + OTHER_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert broken(page) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "there.md").write_text("# A `code` title, twice\n## Two\n```\n# no title\n```\n")
    page = tmp_path / "page.md"
    good = ["there.md", "there.md#a-code-title-twice", "#here", "https://a.b/c"]
    bad = ["gone.md", "gone.png", "there.md#no-title", "there.md#three", "#nowhere", "gone.md#two"]
    page.write_text(
        "## Here\n" + "\n".join(f"text [x]({link}) ![y]({link})" for link in good + bad)
    )
    assert broken(page) == [link for link in bad for _ in range(2)]


@pytest.mark.parametrize(
    ("page", "most"),
    [("README.md", 130), ("docs/performance.md", 200), ("python_tests/README.md", 40)],
)
def test_the_first_pages_are_short(page, most):
    assert len((ROOT / page).read_text().splitlines()) <= most


def test_every_page_is_reached_from_the_readme():
    """By links from page to page."""
    reached, new = set(), {PAGES[0]}
    while new:
        reached |= new
        links = ((page, link) for page in new for link in _LINK.findall(page.read_text()))
        targets = {(page.parent / link.partition("#")[0]).resolve() for page, link in links}
        new = {t for t in targets if t.suffix == ".md" and t.exists()} - reached
    assert [p.name for p in PAGES if p not in reached] == []


def test_the_decisions_are_numbered_and_in_their_index():
    folder = ROOT / "docs" / "decisions"
    names = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
    assert _LINK.findall((folder / "README.md").read_text())[2:] == names
    for name in names:
        text = (folder / name).read_text()
        told = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
        assert told[0] == "Question" and "Measured" in told and told[-1] == "Decided", name
        assert re.search(r"^(NVIDIA H[12]00|AMD) ?", text, re.MULTILINE), f"{name}: on what?"


def test_pages_that_comments_name_exist():
    """Also docs/decisions/030, by number."""
    named = {}
    for folder in ("ops", "bench", "cpp_tests", "examples", "python_tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cuh", ".cu", ".cpp", ".inc", ".py"):
                for page in re.findall(r"\bdocs/(?:[\w-]+/)*[\w-]+(?:\.md)?", path.read_text()):
                    named[page] = path
    assert "docs/decisions/030" in named
    gone = {
        str(path): page
        for page, path in named.items()
        if path != Path(__file__) and not list(ROOT.glob(f"{page}*"))
    }
    assert gone == {}


def test_the_readmes_code_runs(capsys):
    """What it prints of torch depends on the CPU; what it prints of this library does not."""
    pytest.importorskip("tiled_mm")
    names: dict = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", PAGES[0].read_text(), re.DOTALL | re.MULTILINE
    ):
        exec(compile(block, PAGES[0].name, "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiled_mm True" and lines[1].startswith("torch ")
    assert lines[2] == "layer True"


def test_what_is_measured_is_shown():
    sys.path.insert(0, str(ROOT))  # the benchmark is run from the checkout and is not installed
    for module in ("matplotlib", "rich", "typer"):
        pytest.importorskip(module, reason=f"the benchmark needs {module}")
    from bench import report, results

    text = "\n".join(page.read_text() for page in PAGES)
    for folder in {report.folder_of(page) for page in PAGES}:
        documents = results.read_all(folder)
        shown = "\n".join(p.read_text() for p in PAGES if report.folder_of(p) == folder)
        if folder != report.RESULTS:  # these take the documents of all folders
            shown += "".join(f"<!-- bench:{name} -->" for name in report.REGIME_TABLES)
        hidden = [
            name
            for name, table in report.TABLES.items()
            if table(documents) != report.NOT_MEASURED and f"<!-- bench:{name} -->" not in shown
        ]
        assert hidden == [], folder
    plots = sorted(path.name for path in report.PLOTS.glob("*.svg"))
    assert [name for name in plots if f"/{name})" not in text] == []


def test_the_version_is_one():
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[
        1
    ]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert newest.startswith(version) and "**Bits changed:**" in newest
