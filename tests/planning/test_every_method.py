"""Every method of sharing can be executed, and none changes an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import panewise
from panewise.cli.plan import make_plan
from panewise.errors import PanewiseError
from panewise.planning.sharing import EVERY_METHOD
from panewise.planning.sharing.names import METHODS

US = 1_000_000
WINDOWS = [(12, 9), (10, 6), (8, 4), (5, 5), (7, 2)]
TEXT = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;" + "".join(
    f"CREATE QUERY q{n} AS SELECT k, SUM(x) FROM s [RANGE {r} SECONDS SLIDE {s} SECONDS] GROUP BY k;"
    for n, (r, s) in enumerate(WINDOWS)
)


def test_the_names_are_those_of_the_methods() -> None:
    assert tuple(method.name for method in EVERY_METHOD) == METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_method_plans_and_its_plan_answers(method: str) -> None:
    workload = panewise.read(TEXT)
    plan = panewise.optimize(workload, method=method)
    assert plan.method == method
    assert plan.cost >= panewise.optimize(workload, method="exhaustive").cost * (1 - 1e-9)
    assert {"no_share": 5, "shared": 1}.get(method, len(plan.trees)) == len(plan.trees)
    tables = []
    for engine in (panewise.Engine(workload), panewise.Engine(workload, method=method)):
        events = {"t": [i * US for i in range(60)], "k": list("ab") * 30, "x": list(range(60))}
        engine.push("s", events)
        tables.append(engine.advance("s", panewise.END_OF_STREAM).tables)
    assert len(engine._streams["s"].generations[0].trees) == len(plan.trees)
    assert {name: table.to_pylist() for name, table in tables[0].items()} == {
        name: table.to_pylist() for name, table in tables[1].items()
    }


def test_an_unknown_method_is_refused() -> None:
    workload = panewise.read(TEXT)
    for call in (panewise.optimize, panewise.Engine):
        with pytest.raises(PanewiseError, match=r"unknown method of sharing 'weave'; use one of no_share, shared"):
            call(workload, method="weave")


def test_the_command_plans_by_a_method(tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(TEXT, encoding="utf-8")
    plans = [make_plan(file, rate_per_s=None, groups=[], measured=False, method=one) for one in ("no_share", "shared")]
    assert [len(plan.trees) for plan in plans] == [5, 1]
    with pytest.raises(PanewiseError, match="unknown method of sharing 'best'"):
        make_plan(file, rate_per_s=None, groups=[], measured=False, method="best")
