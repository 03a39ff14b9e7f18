"""The names of aggregates stand in the catalogue alone: other modules ask an entry for what they need to know."""

from __future__ import annotations

import ast
from pathlib import Path

import panewise
from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind

SOURCE = Path(panewise.__file__).parent

EXCEPTIONS = {
    "language/functions.py": {"COUNT", "COUNT_ALL", "COUNT_DISTINCT"},  # COUNT(*) and COUNT(DISTINCT x) are grammar
    "language/top_k.py": {"APPROX_TOP_ITEM", "APPROX_TOP_COUNT"},  # what APPROX_TOP_K is short for
    "language/binder.py": {"MAX", "COUNT"},  # an example in an error's hint
    "language/window_clauses.py": {"MAX"},  # the longest session, in errors
    "language/foreign_words.py": {"MIN"},  # short for minutes
    "structures/timegram.py": {"MAX"},  # the default of a public argument
}
"""Names that a module may hold, each with its reason."""


def test_no_module_names_an_aggregate() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        names = set() if place.startswith("aggregates/") else named_in(path.read_text(encoding="utf-8"))
        if names:
            found[place] = names
    assert found == EXCEPTIONS


def test_names_are_found() -> None:
    assert named_in('def f(call):\n    """SUM"""\n    return call.function == "SUM"') == {"SUM"}
    assert named_in('KINDS = {"AVG": 1}\nx = f"{y}MAX"\nprint("the SUM")') == {"AVG"}
    assert named_in("class Function(Enum):\n    STDDEV_POP = 1") == {"STDDEV_POP"}
    assert named_in("match x:\n    case 'MIN':\n        pass") == {"MIN"}
    assert named_in("function = Function.AVG\nkind = Kind.MAX") == {"AVG"}


def test_every_entry_says_what_it_is_made_of() -> None:
    for entry in CATALOGUE.values():
        for argument in entry.types:
            kinds = entry.kinds(argument)
            assert (Kind.VALUES in kinds) == (entry.reading is not None), entry.name
            assert any(kind.is_sketch and not kind.is_kept for kind in kinds) == (not entry.is_exact), entry.name
            assert (entry.component(argument) is not None) <= (len(kinds) <= 2), entry.name


def named_in(source: str) -> set[str]:
    """The names of aggregates that a module has as whole strings, or as members of an enum."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    # Documentation, and parts of formatted text, may speak of aggregates.
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    prose |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    names = set()
    for node in nodes:
        match node:
            case ast.Constant(str() as text) if id(node) not in prose:
                names.add(text)
            case ast.Attribute(ast.Name(owner), name) if owner[:1].isupper() and owner != "Kind":
                names.add(name)  # a member of an enum; components share some names, and are no aggregates
            case ast.ClassDef(bases=bases) if any("Enum" in ast.unparse(base) for base in bases):
                targets = [target for item in node.body if isinstance(item, ast.Assign) for target in item.targets]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names & CATALOGUE.keys()
