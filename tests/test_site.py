"""The documentation site: it builds strictly, needs nothing from elsewhere, and shows what the notebook computes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
_LINKS_THAT_LOAD = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}


class Assets(HTMLParser):
    """The addresses that a browser loads with a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag in _LOADED:
            self.found.append(values.get(_LOADED[tag], ""))
        if tag == "link" and _LINKS_THAT_LOAD & set(values.get("rel", "").split()):
            self.found.append(values.get("href", ""))


def styles(folder: Path) -> Iterator[tuple[Path, str]]:
    """What style sheets load."""
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        for address in re.findall(r"(?:@import\s+|url\()\s*['\"]?([^'\")\s;]+)", text):
            yield sheet, address


def is_outside(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme not in ("", "data")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it, in another place."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert built.returncode == 0, built.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    outside = [
        f"{page.relative_to(site)} loads {address}"
        for page in pages
        for address in Assets(page.read_text(encoding="utf-8")).found
        if is_outside(address)
    ]
    outside += [f"{sheet.relative_to(site)} loads {address}" for sheet, address in styles(site) if is_outside(address)]
    assert not outside


def test_what_pages_load_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for address in Assets(page.read_text(encoding="utf-8")).found:
            if address and not address.startswith("data:"):
                assert (page.parent / address.split("?")[0]).exists(), f"{page.relative_to(site)} loads {address}"


def test_addresses_are_told_apart() -> None:
    assert is_outside("https://example.org/a.js")
    assert is_outside("//example.org/a.js")
    assert not is_outside("../assets/a.js")
    assert not is_outside("data:image/svg+xml;charset=utf-8,<svg xmlns='http://www.w3.org/2000/svg'/>")


def test_the_reference_has_every_public_name(site: Path) -> None:
    import panewise
    import panewise.indexes
    import panewise.planning.sharing
    import panewise.spark
    import panewise.structures
    import panewise.substreams

    shown = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    anchors = set(re.findall(r'id="([\w.]+)"', shown))
    modules = (
        *(panewise, panewise.spark, panewise.structures, panewise.substreams, panewise.indexes),
        panewise.planning.sharing,
    )
    missing = [
        f"{module.__name__}.{name}"
        for module in modules
        for name in module.__all__
        if f"{module.__name__}.{name}" not in anchors
    ]
    # What a class takes from its base is its own to those who look it up.
    missing += [
        f"panewise.{kind.__name__}.{name}"
        for kind in (panewise.Engine, panewise.Plan, panewise.Answers, panewise.LookupClient)
        for name in dir(kind)
        if callable(getattr(kind, name)) and name[0] != "_" and name != "check_invariants"
        if f"panewise.{kind.__name__}.{name}" not in anchors
    ]
    assert not missing


def test_the_search_finds_a_method(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    assert "reference/engine.html#panewise.Engine.lookup_one" in places
    assert "quickstart.html" in places


def test_the_notebook_is_a_page(site: Path) -> None:
    page = (site / "quickstart.html").read_text(encoding="utf-8")
    assert 'class="notebook-output"' in page
    assert "<svg" in page


def without_numbers(text: str) -> str:
    """Bytes and costs differ from version to version of what Panewise builds on."""
    return re.sub(r"[\d.,]+( bytes| kB| MB)?", "0", text)


def shown(cell: dict[str, Any]) -> list[str]:
    """What a cell showed."""
    found = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            found.append("".join(output["text"]))
        elif output["output_type"] == "error":
            found.append(f"{output['ename']}: {output['evalue']}")
        else:
            found.append(without_numbers("".join(output["data"]["text/plain"])))
            found.append(without_numbers("".join(output["data"].get("text/html", ""))))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_it_computes(path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    stored = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    NotebookClient(run, timeout=600, kernel_name="python3").execute()
    cure = f"run it anew with: jupyter execute --inplace {path.relative_to(ROOT)}"
    for before, after in zip(stored.cells, run.cells):
        if before.cell_type == "code":
            assert shown(before) == shown(after), f"{before.source}\n{cure}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_knows_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert "/tmp/" not in text


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


def test_examples_of_docstrings_are_code(site: Path) -> None:
    """Without docs/site/doctests.py, Markdown takes >>> for quotations of quotations."""
    for page in (site / "reference").glob("*.html"):
        assert not re.search(r"<blockquote>\s*<blockquote>", page.read_text(encoding="utf-8")), page.name
    assert "&gt;&gt;&gt;" in (site / "reference" / "structures.html").read_text(encoding="utf-8")
