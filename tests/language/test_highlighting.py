"""Editors know every word of the grammar, and what is stored for them is what the grammar gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pygments.token import Comment, Error, Keyword, Name, Number, String

from panewise.language.highlighting import PanewiseLexer, keywords, textmate
from panewise.language.words import RESERVED

EDITOR = Path(__file__).parents[2] / "editors/vscode"
TEXT = """-- how much
CREATE QUERY a AS SELECT k, ewm_avg(x, HALF LIFE 1.5 MINUTES) AS "from", CAST(x AS DOUBLE)
FROM s [RANGE 1 HOUR] WHERE k LIKE 'it''s%' AND b IS NOT NULL; /* done */
"""


def test_every_reserved_word_is_known() -> None:
    assert set(keywords()) | {"TRUE", "FALSE", "NULL"} >= RESERVED
    assert {"CASE", "EXTRACT", "HALF", "WATERMARK"} <= set(keywords())


def test_pygments() -> None:
    found = [(kind, value) for kind, value in PanewiseLexer().get_tokens(TEXT) if value.strip()]
    assert not [value for kind, value in found if kind is Error]
    kinds = {value: kind for kind, value in found}
    assert kinds["-- how much"] is Comment.Single
    assert kinds["/* done */"] is Comment.Multiline
    assert kinds["SELECT"] is kinds["HALF"] is kinds["RANGE"] is Keyword
    assert kinds["ewm_avg"] is Name.Function
    assert kinds["k"] is kinds['"from"'] is Name
    assert kinds["DOUBLE"] is Keyword.Type
    assert kinds["NULL"] is Keyword.Constant
    assert kinds["MINUTES"] is Keyword.Pseudo
    assert kinds["1.5"] is Number
    assert kinds["'it''s%'"] is String.Single


def test_vs_code() -> None:
    stored = json.loads((EDITOR / "syntaxes/panewise.tmLanguage.json").read_text(encoding="utf-8"))
    cure = "run python -m panewise.language.highlighting > editors/vscode/syntaxes/panewise.tmLanguage.json"
    assert stored == textmate(), cure
    for pattern in stored["patterns"]:
        for name in ("match", "begin", "end"):
            re.compile(pattern.get(name, ""))
    contributes = json.loads((EDITOR / "package.json").read_text(encoding="utf-8"))["contributes"]
    files = [contributes["grammars"][0]["path"], contributes["languages"][0]["configuration"]]
    assert all((EDITOR / file).exists() for file in files)
