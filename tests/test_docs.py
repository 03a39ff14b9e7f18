"""The documents are true: their examples run, print what they show, and their links lead somewhere.

In README.md and docs/*.md:
- a ```python block runs; the blocks of a file share one namespace, in order;
- a ```text block right after a ```python block is what that block prints;
- a ```python block that names pyspark runs in tests/spark/test_docs_spark.py, after the others of its file;
- the ```sql blocks of a file, one after the other, are one workload; a statement that is meant to fail is in another
  kind of block;
- a ```toml block is a job file, of `panewise training-set` if it has labels.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import panewise
from panewise.cli.job import read_job
from panewise.cli.training_set import read_training_job
from panewise.structures import EVERY_STRUCTURE
from panewise.structures.sheet import sheets_table

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its content, the line it begins on, and what it prints if the page shows it."""

    language: str
    content: str
    line: int
    printed: str | None = None

    @property
    def needs_spark(self) -> bool:
        return "pyspark" in self.content


def blocks_of(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    found = []
    for fence, following in zip(fences, [*fences[1:], None]):
        if fence[1] == language:
            shown = following is not None and following[1] == "text" and following.start() == fence.end()
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(language, fence[2], line, following[2] if following is not None and shown else None))
    return found


def run_blocks(page: Path, blocks: list[Block]) -> None:
    """Run blocks in one namespace, and compare what they print with what the page shows."""
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in blocks:
        # Padded, so that a traceback shows the line of the page.
        code = compile("\n" * block.line + block.content, str(page), "exec")
        output = StringIO()
        with redirect_stdout(output):
            exec(code, namespace)
        if block.printed is not None:
            assert _lines(output.getvalue()) == _lines(block.printed), f"{page.name}, line {block.line}"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def _name(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_examples(page: Path) -> None:
    run_blocks(page, [block for block in blocks_of(page, "python") if not block.needs_spark])


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_sql_examples(page: Path) -> None:
    text = ""
    for block in blocks_of(page, "sql"):
        text += block.content + "\n"
        assert panewise.read(text).streams, f"{page.name}, line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_job_examples(page: Path, tmp_path: Path) -> None:
    for block in blocks_of(page, "toml"):
        file = tmp_path / "job.toml"
        file.write_text(block.content, encoding="utf-8")
        if "[labels]" in block.content:
            assert read_training_job(file).events, f"{page.name}, line {block.line}"
        else:
            assert read_job(file).sources, f"{page.name}, line {block.line}"


@pytest.mark.parametrize("page", LINKED, ids=_name)
def test_links(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(file), f"{page.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    """The headings of a page as anchors: in lower case, hyphens for spaces, no other signs."""
    headings = re.findall(r"^#+ +(.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_data_sheets_are_those_of_the_code() -> None:
    table = sheets_table(kind.sheet for kind in EVERY_STRUCTURE)
    assert table in (ROOT / "docs" / "structures.md").read_text(encoding="utf-8"), f"put this in:\n{table}"


def test_there_are_examples() -> None:
    """The tests would miss a fence that is written differently."""
    count = {language: sum(len(blocks_of(page, language)) for page in PAGES) for language in ("python", "sql", "toml")}
    assert count["python"] >= 15
    assert count["sql"] >= 4
    assert count["toml"] >= 1
    assert sum(block.printed is not None for page in PAGES for block in blocks_of(page, "python")) >= 15


def test_the_table_of_aggregates_is_whole() -> None:
    from panewise.language.functions import functions

    text = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    table = text[text.index("## Aggregates") : text.index("## Aggregates of your own")]
    assert set(functions()) == set(re.findall(r"`([A-Z_]+)\(", table))
