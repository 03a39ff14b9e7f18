"""What MkDocs does not do by itself: pages from notebooks, and from files that stand beside docs/ and are linked to.

MkDocs calls the functions that begin with `on_`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FIRST_BESIDE_DOCS = ("CHANGELOG.md", "CONTRIBUTING.md")

_LINK = re.compile(r"(?<=\]\()([^)#\s]+)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of notebooks, and what pages link to outside of docs/."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = str(PurePosixPath(notebook.src_uri).with_suffix(".md"))
        files.append(File.generated(config, page, content=notebook_page(json.loads(notebook.content_string))))
    pages = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path is not None]
    for source in _linked_beside_docs([*pages, *(ROOT / name for name in FIRST_BESIDE_DOCS)]):
        place = _place_in_site(source)
        added = File.generated(config, place, content=source.read_text(encoding="utf-8"))
        added.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(added)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where the site has what they lead to in the repository."""
    here = page.file.src_uri
    beside = {_place_in_site(ROOT / name): ROOT / name for name in _names_beside_docs()}
    source = beside.get(here, DOCS / here)
    return _LINK.sub(lambda link: _in_site(link[0], source, here), markdown)


def _linked_beside_docs(pages: list[Path]) -> Iterator[Path]:
    """Every file outside of docs/ that a page links to, and the pages among them in turn."""
    seen = set(pages)
    waiting = list(pages)
    while waiting:
        page = waiting.pop()
        if not page.is_relative_to(DOCS):
            yield page
        if page.suffix == ".md":
            text = _FENCE.sub("", page.read_text(encoding="utf-8"))
            found = {target for link in _LINK.findall(text) if (target := _target(link, page)) is not None}
            waiting += sorted(found - seen)
            seen |= found


def _target(link: str, page: Path) -> Path | None:
    """The file outside of docs/ that a link leads to."""
    target = Path(os.path.normpath(page.parent / link))
    is_beside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS) and target.is_file()
    return target if is_beside else None


def _names_beside_docs() -> list[str]:
    return [path.name for path in ROOT.glob("*.md")]


def _place_in_site(source: Path) -> str:
    """Where the site has a file: pages at the top, other files as text, which every browser shows."""
    if not source.is_relative_to(DOCS):
        path = source.relative_to(ROOT)
        return path.name.lower() if path.suffix == ".md" else f"repository/{path.as_posix()}.txt"
    place = source.relative_to(DOCS).as_posix()
    return place.removesuffix(".ipynb") + ".md" if place.endswith(".ipynb") else place


def _in_site(link: str, source: Path, here: str) -> str:
    target = Path(os.path.normpath(source.parent / link))
    if target == DOCS:
        target = DOCS / "index.md"
    if ":" in link or not target.is_file() or not target.is_relative_to(ROOT):
        return link
    return os.path.relpath(_place_in_site(target), PurePosixPath(here).parent)


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: its text, its code, and what the code showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source:
            parts.append(f"```python\n{source}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _verbatim("".join(output["text"]))
    if output["output_type"] == "error":
        raise ValueError(f"a cell of the notebook ended with {output['ename']}: {output['evalue']}")
    data = output["data"]
    if "text/html" in data:
        # On one line: a blank line would end the block of HTML.
        return f'<div class="notebook-output">{" ".join("".join(data["text/html"]).splitlines())}</div>'
    return _verbatim("".join(data["text/plain"]))


def _verbatim(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
