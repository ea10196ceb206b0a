"""An index of wheels, as pip and uv read it (PEP 503): for each file its name, its sha256 and the
Pythons that it is for. `make wheels` calls it.

    python wheel_index.py dist     writes dist/index.html, and index.html beside the wheels

The wheels lie in dist/tiled-mm. All links are relative, so that dist/ is an index wherever it is
put, on a disk too: pip install --extra-index-url file:///.../dist "tiled-mm==0.1.0+cpu.torch2.11"
"""

from __future__ import annotations

import email
import hashlib
import html
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

PROJECT = "tiled-mm"


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def link(wheel: Path) -> str:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pythons = html.escape(metadata(wheel)["Requires-Python"] or ">=3")
    target = f'href="{quote(wheel.name)}#sha256={digest}" data-requires-python="{pythons}"'
    return f"<a {target}>{html.escape(wheel.name)}</a><br>"


def page(title: str, links: list[str]) -> str:
    head = '<meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">'
    lines = ["<!DOCTYPE html>", "<html>", f"<head>{head}<title>{title}</title></head>", "<body>"]
    return "\n".join([*lines, *links, "</body>", "</html>", ""])


def main(folder: Path) -> None:
    wheels = sorted((folder / PROJECT).glob("*.whl"))
    if not wheels:
        sys.exit(f"There is no wheel in {folder / PROJECT}.")
    links = [link(wheel) for wheel in wheels]
    (folder / PROJECT / "index.html").write_text(page(PROJECT, links))
    projects = [f'<a href="{PROJECT}/">{PROJECT}</a><br>']
    (folder / "index.html").write_text(page("Index", projects))
    print(*(wheel.name for wheel in wheels), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
