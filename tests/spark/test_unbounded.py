"""Windows from the start: lookups from a folder, and buckets that go on from gathered partials. Spark need not run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests import oracle
from tests.answers import to_answers
from tests.spark.log_writing import LogWriter

import panewise
from panewise.engine import partial_store
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.spark.bucket import Bucket
from panewise.spark.job import Change, Job, Statement
from panewise.spark.lookup_client import LookupClient
from panewise.spark.packing import PackedPart, pack
from panewise.windows.clock import END_OF_STREAM

MINUTE_US = 60_000_000
WORKLOAD = panewise.read("""
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 3 MINUTES GRANULARITY 1 MINUTE;
    CREATE QUERY total AS SELECT k, COUNT(*), SUM(x), MEDIAN(x) FROM s [UNBOUNDED] GROUP BY k;
    CREATE QUERY everyone AS SELECT COUNT(*), MAX(x) FROM s [UNBOUNDED] WHERE x > 2;
    CREATE QUERY so_far AS SELECT k, COUNT(*), LAST(x) FROM s [UNBOUNDED SLIDE 10 MINUTES] GROUP BY k;
    CREATE QUERY recent AS SELECT k, COUNT(*) FROM s [RANGE 20 MINUTES SLIDE 5 MINUTES] GROUP BY k;
""")
ROWS = [
    {"t": (place * 2 + place % 3) * MINUTE_US + place, "k": "abcd"[place * place % 4], "x": place % 7}
    for place in range(400)
]


def test_lookups_go_back_to_the_start_however_often_files_are_merged(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "folder", WORKLOAD)
    client = None
    for place, begin in enumerate(range(0, len(ROWS), 5)):
        writer.run(ROWS[begin : begin + 5])
        if place in (3, 50):
            client = client or LookupClient(writer.folder)
            check_lookups(client, writer)
    assert client is not None
    check_lookups(client, writer)
    check_lookups(LookupClient(writer.folder), writer)
    with pytest.raises(panewise.HistoryError, match="is held as one partial for each group"):
        LookupClient(writer.folder).lookup("total", at=ROWS[50]["t"])


def check_lookups(client: LookupClient, writer: LogWriter) -> None:
    client.refresh()
    workload = writer.workload
    for name in ("total", "everyone"):
        query = workload.queries[name]
        wanted = oracle.lookup(query, "t", writer.accepted, writer.seen_us - 1)
        oracle.assert_same_answers(to_answers(client.lookup(name), workload, name), wanted)
    one = to_answers(client.lookup("total", {"k": "b"}), workload, "total")
    total = oracle.lookup(workload.queries["total"], "t", writer.accepted, writer.seen_us - 1)
    oracle.assert_same_answers(one, [each for each in total if each.group == (("k", "b"),)])
    # A query that slides: what had come by the end of its newest slide.
    end = writer.watermark_us // (10 * MINUTE_US) * 10 * MINUTE_US
    found = {row["k"]: row["COUNT(*)"] for row in client.lookup("so_far").to_pylist()}
    kept = [row["k"] for row in writer.accepted if row["t"] < end]
    assert found == {key: kept.count(key) for key in set(kept)}


def parts_of(job: Job, rows: list[dict]) -> list[PackedPart]:
    stream = WORKLOAD.streams["s"]
    batch = to_batch(stream, {name: [row[name] for row in rows] for name in stream.attributes})
    times = np.asarray(batch.column("t"))
    found = []
    for plan, _ in job.plans_of("s"):
        combiner = Combiner(plan, project(plan, batch))
        for base in plan.bases:
            partials = combiner.partials(base, times // base.granularity)
            found.append(PackedPart(base.number, pack(partials), partials))
    return found


def test_a_bucket_goes_on_from_gathered_partials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the log of the state is shortened: what is old as one partial for each key, what is new as it came."""
    monkeypatch.setattr(partial_store, "FEWEST_GATHERED", 1)
    job = Job.of(WORKLOAD.without("total").without("everyone"), [0])
    bounds = list(range(0, len(ROWS) + 1, 40))
    log = [parts_of(job, ROWS[begin:end]) for begin, end in pairwise(bounds)]
    whole = Bucket(job)
    answers = []
    for place, parts in enumerate(log):
        whole.append(parts)
        mark = ROWS[bounds[place + 1] - 1]["t"] - 3 * MINUTE_US
        answers.append([part for closed in whole.closing(mark) for part in closed.reported])
        aged = [some for some in log[: place + 1] if whole.is_aged(whole.newest_us(some), mark)]
        assert not any(whole.is_expired(whole.newest_us(some), mark) for some in aged)
        if len(aged) > 2:
            gathered = whole.gathered_parts(part for some in aged for part in some)
            assert sum(part.partials.num_rows for part in gathered) <= 4
            later = Bucket(job)
            later.append(gathered)
            for some in log[len(aged) : place + 1]:
                later.append(some)
            later.resume(mark)
            assert answers_of(later, END_OF_STREAM) == answers_of(copy_of(job, log[: place + 1], mark), END_OF_STREAM)
    assert any(answers)


def copy_of(job: Job, log: list[list[PackedPart]], mark: int) -> Bucket:
    bucket = Bucket(job)
    for parts in log:
        bucket.append(parts)
    bucket.resume(mark)
    return bucket


def answers_of(bucket: Bucket, until: int) -> list[tuple]:
    found = []
    for closed in bucket.closing(until):
        for part in closed.reported:
            groups = part.groups.decode(part.keys)["k"].to_pylist()
            values = [part.lowered[call].exact.tolist() for call in part.lowered]
            found += [(part.query.name, *row) for row in zip(part.ends_us.tolist(), groups, *values, strict=True)]
    return sorted(found)


def test_a_running_job_takes_no_query_from_the_start() -> None:
    job = Job.of(WORKLOAD, [0], is_live=True)
    text = "CREATE QUERY late AS SELECT COUNT(*) FROM s [UNBOUNDED SLIDE 10 MINUTES]"
    (judged,) = job.judge(Change(3, (Statement(text),), {"s": 10 * MINUTE_US}, MINUTE_US)).statements
    assert judged.error is not None
    assert "start the job with it" in judged.error
