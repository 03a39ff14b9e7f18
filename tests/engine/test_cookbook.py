"""The cookbook of docs/language.md: every query has answers, and they are the oracle's."""

from __future__ import annotations

import pytest
from tests import chain_oracle, oracle
from tests.answers import of_query, to_answers
from tests.cookbook import cookbook, events_of, has_functions
from tests.engine.test_conformance import as_table

import panewise

WORKLOAD = cookbook()


@pytest.mark.parametrize("name", WORKLOAD.declared)
def test_every_question_has_an_answer_that_agrees_with_the_oracle(name: str) -> None:
    stream = WORKLOAD.streams[name]
    streams = {one: WORKLOAD.streams[one] for one in WORKLOAD.following(name)}
    queries = [query for one in streams for query in WORKLOAD.queries_of(one)]
    workload = panewise.Workload(streams, {query.name: query for query in queries})
    rows = events_of(stream)
    engine = panewise.Engine(workload)
    engine.push(name, as_table(stream, rows))
    found = to_answers(engine.advance(name, panewise.END_OF_STREAM), workload)
    for query in queries:
        assert of_query(found, query.name), query.name
        if not has_functions(query):
            seen = chain_oracle.events_of(workload, query.stream, {name: rows})
            expected = oracle.closed_answers(query, workload.streams[query.stream].timestamp, seen, None)
            oracle.assert_same_answers(of_query(found, query.name), expected)
