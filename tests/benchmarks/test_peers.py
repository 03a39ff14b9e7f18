"""`panewise bench peers`: descriptions, checksums, the programs that need no environment, time limits, the picture."""

from __future__ import annotations

import doctest
import json
import re
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import peers
from _peers import checksums, environments, picture, processes, queries
from _peers.data import Dataset, describe, folders_of, make_dataset
from _peers.program import Folders, Job
from _peers.queries import Aggregate, Condition, Query, from_json, to_json
from _peers.ways import EVERY_WAY, Way
from _workload import make_flight_queries, make_trade_queries
from panewise.language.workload import print_workload

EVENTS, KEYS, QUERIES = 12_000, 4, 24


def test_descriptions_say_what_the_queries_are() -> None:
    found = describe(make_trade_queries(8))
    assert found[2] == Query(
        "q2", 60 * 60_000_000, 5 * 60_000_000, ("market",), (Aggregate("MIN", "price"),),
        Condition("volume", ">", 50), None, ("MIN(price)",), (False,),
    )  # fmt: skip
    assert found[0].aggregates == (Aggregate("COUNT"), Aggregate("SUM", "volume"))
    assert found[0].integers == (True, True)
    assert describe(make_flight_queries(2))[1].having == Condition(Aggregate("COUNT"), ">", 120)


@pytest.mark.parametrize("make", [make_trade_queries, make_flight_queries])
def test_descriptions_survive_json(make: Any) -> None:
    found = describe(make(60))
    assert [from_json(json.loads(json.dumps(to_json(query)))) for query in found] == found
    # The workloads contain what they claim: every clause, and ranges that are not a multiple of the slide.
    assert any(query.where for query in found)
    assert any(query.having for query in found)
    assert any(query.range_us % query.slide_us for query in found)
    assert {one.function for query in found for one in query.aggregates} == {
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV_POP")
    }


def test_examples_of_the_descriptions() -> None:
    assert doctest.testmod(queries).failed == 0


QUERY = Query("q7", 10, 5, ("symbol",), (Aggregate("COUNT"), Aggregate("AVG", "price")), None, None,
              ("COUNT(*)", "AVG(price)"), (True, False))  # fmt: skip
WIDE: dict[str, list[Any]] = {
    "window_start": [0, 5, 5],
    "window_end": [10, 15, 15],
    "symbol": ["a", "a", "b"],
    "a0": [3, 1, 2],
    "a1": [1.5, -2.0, 1e9],
}


def checksum(folder: Path, table: pa.Table, name: str = "q7.parquet") -> checksums.Checksum:
    folder.mkdir()
    pq.write_table(table, folder / name)
    return checksums.read_checksum(folder, [QUERY])


def changed(**columns: list[Any]) -> pa.Table:
    return pa.table(WIDE | columns)


def test_the_checksum_does_not_depend_on_the_order(tmp_path: Path) -> None:
    first = checksum(tmp_path / "a", pa.table(WIDE))
    assert checksums.overall(first).rows == 6
    assert checksums.differences(first, checksum(tmp_path / "b", pa.table(WIDE).take([2, 0, 1]))) == []


@pytest.mark.parametrize(
    "other",
    [
        pa.table(WIDE).slice(0, 2),
        pa.concat_tables([pa.table(WIDE), pa.table(WIDE).slice(0, 1)]),
        changed(window_start=[0, 5, 4]),
        changed(window_end=[10, 15, 16]),
        changed(symbol=["a", "b", "a"]),
        changed(symbol=["a", "a", None]),
        changed(a0=[3, 2, 1]),
        changed(a1=[1.5, -2.0, 1e9 + 10]),
        changed(a1=[2.0, -2.5, 1e9 + 3]),
    ],
)
def test_the_checksum_sees_every_change(tmp_path: Path, other: pa.Table) -> None:
    assert checksums.differences(checksum(tmp_path / "a", pa.table(WIDE)), checksum(tmp_path / "b", other))


def test_the_checksum_forgives_rounding(tmp_path: Path) -> None:
    rounded = changed(a1=[1.5 + 1e-15, -2.0, 1e9 + 1e-6])
    assert checksums.differences(checksum(tmp_path / "a", pa.table(WIDE)), checksum(tmp_path / "b", rounded)) == []


def test_no_answers_are_answers_too(tmp_path: Path) -> None:
    empty = checksum(tmp_path / "a", pa.table(WIDE).slice(0, 0))
    assert empty == {}
    assert len(checksums.differences(empty, checksum(tmp_path / "b", pa.table(WIDE)))) == 2


def test_all_forms_of_delivery_have_the_same_checksum(tmp_path: Path) -> None:
    wide = checksum(tmp_path / "wide", pa.table(WIDE))
    long = pa.table(
        {
            "query": ["q7"] * 6,
            **{name: WIDE[name] * 2 for name in ("window_start", "window_end", "symbol")},
            "aggregate": ["COUNT(*)"] * 3 + ["AVG(price)"] * 3,
            "value": [3.0, 1.0, 2.0, 1.5, -2.0, 1e9],
            "exact": [3, 1, 2, None, None, None],
        }
    )
    instants = pa.timestamp("us", "UTC")
    for name in ("window_start", "window_end"):
        long = long.set_column(long.schema.get_field_index(name), name, long.column(name).cast(instants))
    assert checksums.differences(wide, checksum(tmp_path / "long", long, checksums.LONG)) == []
    (tmp_path / "named").mkdir()
    more = pa.table(WIDE | {"diff": [1, 1, 1]})
    pyarrow.csv.write_csv(more, tmp_path / "named" / "q7.csv")
    assert checksums.differences(wide, checksums.read_checksum(tmp_path / "named", [QUERY])) == []
    parts = tmp_path / "parts" / "q7.csv"
    parts.mkdir(parents=True)
    begin = '"1970-01-01 00:00:00.000010Z"'
    (parts / "part-0").write_text('"1970-01-01 00:00:00.000000Z",' + begin + ",a,3,1.5\n")
    text = '"1970-01-01 00:00:00.000005Z","1970-01-01 00:00:00.000015Z",{},{},{}\n'
    (parts / "part-1").write_text(text.format("a", 1, -2.0) + text.format("b", 2, 1e9))
    (parts / "part-2").write_text("")
    assert checksums.differences(wide, checksums.read_checksum(tmp_path / "parts", [QUERY])) == []


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset("generated", tmp_path_factory.mktemp("peers") / "data", EVENTS, KEYS, seed=3)


def answered(dataset: Dataset, program: str, target: Path, **settings: str) -> checksums.Checksum:
    """The answers of a way's program, run in this process."""
    module = pytest.importorskip(f"_peers.{program}")
    workload = dataset.make_queries(QUERIES)
    asked = describe(workload)
    job = Job(dataset.stream, 1, settings, target)
    module.run(job, dataset.events, asked, print_workload(workload), target / "answers")
    return checksums.read_checksum(target / "answers", asked)


@pytest.mark.parametrize("program", ["duckdb_panes", "pandas_rolling", "polars_dynamic"])
def test_peers_agree_with_panewise(dataset: Dataset, program: str, tmp_path: Path) -> None:
    panewise = answered(dataset, "panewise_engine", tmp_path / "panewise", mode="batch")
    reporting, asked = {query for query, _ in panewise}, describe(dataset.make_queries(QUERIES))
    assert {query.name for query in asked if query.having is None} <= reporting
    assert any(query.having is not None and query.name in reporting for query in asked)
    assert checksums.differences(panewise, answered(dataset, program, tmp_path / "peer")) == []


def test_panewise_has_the_same_answers_as_a_stream(dataset: Dataset, tmp_path: Path) -> None:
    batch = answered(dataset, "panewise_engine", tmp_path / "batch", mode="batch")
    assert checksums.differences(batch, answered(dataset, "panewise_engine", tmp_path / "stream", mode="stream")) == []


def test_every_form_holds_the_same_events(dataset: Dataset) -> None:
    forms, batch = dataset.events, pq.read_table(dataset.events.batch)
    assert batch.num_rows == dataset.count == EVENTS
    stream = pq.read_table(forms.stream)
    assert stream.num_rows == EVENTS + 1
    for folder, header in ((forms.csv, 0), (forms.named_csv, 1)):
        lines = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()[header:]]
        assert len(lines) == EVENTS
        assert sum(int(line.split(",")[-1]) for line in lines) == sum(batch.column("volume").to_pylist())


def fake(tmp_path: Path, body: str) -> list[str]:
    """A program that speaks the protocol as `body` says."""
    script = tmp_path / "fake.py"
    script.write_text("import json, os, subprocess, sys, time\n" + textwrap.dedent(body))
    return [sys.executable, str(script)]


SAY = "def say(**line): print(json.dumps(line), flush=True)\n"


def test_a_program_that_misses_its_limit_is_ended_with_all_it_started(tmp_path: Path) -> None:
    command = fake(
        tmp_path,
        SAY
        + """
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
say(state="began", child=child.pid)
time.sleep(600)
""",
    )
    program = processes.Program(command, {}, tmp_path / "log")
    child = program.next_line("began", 60)["child"]
    began = time.monotonic()
    with pytest.raises(processes.NotFinishedError):
        program.next_line("ended", 0.5)
    assert time.monotonic() - began >= 0.5
    assert program.peak_bytes > 0
    program.end()
    # It is gone, or waits until the process that inherited it notices.
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def bench(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, counts: list[int]
) -> tuple[peers.Bench, list[dict[str, Any]]]:
    """A bench whose program is a fake one."""
    options = peers.parse(["--limit", "0.5", "--queries", *map(str, counts)])
    output = peers.Output(as_json=True)
    made = peers.Bench(dataset, options, output, tmp_path)
    command = fake(tmp_path, SAY + textwrap.dedent(body))
    monkeypatch.setattr(
        made, "_start", lambda way, folder: processes.Program([*command, str(folder)], {}, tmp_path / "log")
    )
    return made, output.lines


PEER = Way("peer", "A peer", "batch", "none", None, "panewise")


def test_what_does_not_finish_says_so(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    say(state="warm", version="1")
    os.makedirs(sys.argv[1] + "/1/0")
    say(state="began", queries=1)
    say(state="ended", queries=1, seconds=[0.25, 0.5, 0.125], answers=sys.argv[1] + "/1/0")
    say(state="began", queries=2)
    time.sleep(600)
    """
    made, lines = bench(dataset, tmp_path, monkeypatch, body, [1, 2, 10, 100])
    made.measure(PEER)
    assert [line["status"] for line in lines] == ["finished", "not finished", "not tried", "not tried"]
    assert (lines[0]["seconds"], lines[0]["runs"], lines[0]["version"]) == (0.25, 3, "1")
    assert lines[1]["note"] == "stopped after 0.5 s"
    assert lines[3]["note"] == "not tried: n=2 did not finish in 0.5 s"
    # A target counts a missed limit as at least the limit.
    made._seconds["panewise", 10] = made._seconds["panewise", 100] = 0.1
    made.targets([PEER])
    targets = {line["queries"]: line for line in lines if line["section"] == "target"}
    assert {count: (line["times"], line["at_least"], line["met"]) for count, line in targets.items()} == {
        10: (5.0, True, True),
        100: (5.0, True, False),
    }


def test_a_program_that_fails_says_why(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lines = bench(dataset, tmp_path, monkeypatch, "raise ValueError('no room')", [1, 10])
    made.measure(PEER)
    assert [(line["status"], line["note"]) for line in lines] == [
        ("failed", "ValueError: no room"),
        ("not tried", "not tried: n=1 failed"),
    ]
    assert made.differed == []


def test_other_answers_are_an_error(dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    say(state="warm", version="1")
    say(state="began", queries=1)
    os.makedirs(sys.argv[1] + "/1/0")
    say(state="ended", queries=1, seconds=[0.1], answers=sys.argv[1] + "/1/0")
    """
    made, lines = bench(dataset, tmp_path, monkeypatch, body, [1])
    made._reference[1] = {("q0", "COUNT(*)"): checksums.Part(1, 2, 3.0, 3.0)}
    made.measure(PEER)
    assert lines[0]["equal"] is False
    assert lines[0]["note"] == "first to differ: q0 COUNT(*)"
    assert len(made.differed) == 1


def test_a_peer_that_cannot_be_installed_is_said_so(dataset: Dataset, tmp_path: Path) -> None:
    options, output = peers.parse(["--queries", "1"]), peers.Output(as_json=True)
    options.environments = tmp_path / "file"
    options.environments.write_text("no folder")
    made = peers.Bench(dataset, options, output, tmp_path)

    def refuse(peer: str, command: list[str]) -> None:
        raise environments.NotInstalledError(f"{peer} could not be installed: no such version")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environments, "_command", refuse)
        patch.setattr(Path, "mkdir", lambda *_, **__: None)
        made.measure(Way("peer", "A peer", "batch", "none", "polars", "panewise"))
    assert [(line["status"], line["note"]) for line in output.lines] == [
        ("not installed", "polars could not be installed: no such version")
    ]


def test_an_environment_is_made_once_for_its_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def record(peer: str, command: list[str]) -> None:
        commands.append(command)
        (tmp_path / f"polars-{sys.version_info.major}.{sys.version_info.minor}").mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "_command", record)
    assert environments.interpreter(None, tmp_path) == Path(sys.executable)
    first = environments.interpreter("polars", tmp_path)
    assert environments.interpreter("polars", tmp_path) == first
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]
    (first.parents[1] / environments.PINS).write_text("polars==0\n")
    environments.interpreter("polars", tmp_path)
    assert len(commands) == 4


def test_every_environment_is_pinned_by_names_and_versions_only() -> None:
    wanted = {way.environment for way in EVERY_WAY if way.environment is not None}
    files = {file.stem: file.read_text().splitlines() for file in environments.REQUIREMENTS.glob("*.txt")}
    assert files.keys() == wanted
    for lines in files.values():
        assert lines
        assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.+!]+", line) for line in lines)


def test_every_peer_is_compared_with_a_way_of_panewise_in_its_mode() -> None:
    ways = {way.name: way for way in EVERY_WAY}
    assert len(ways) == len(EVERY_WAY)
    folder = environments.REQUIREMENTS.parent
    for way in EVERY_WAY:
        assert (folder / f"{way.program}.py").exists()
        if way.against is not None:
            assert ways[way.against].is_panewise
            assert ways[way.against].mode == way.mode


def test_a_chosen_peer_brings_the_way_of_panewise_that_it_is_compared_with() -> None:
    assert [way.name for way in peers.chosen_ways(["spark-over", "duckdb"])] == [
        *("panewise", "panewise-spark", "duckdb", "spark-over")
    ]


def test_the_picture_is_drawn_from_the_lines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    facts = peers.facts(peers.parse(["--limit", "60"]))
    lines: list[dict[str, Any]] = [{"bench": "peers", "section": "facts", **facts}]
    for mode in ("batch", "streaming"):
        for way, scale in (("panewise", 0.01), ("peer", 1.0)):
            for count in (1, 10, 100):
                late = scale * count > 60
                lines.append(
                    {"section": "point", "data": "flights", "events": 10, "mode": mode, "way": way, "label": way,
                     "is_panewise": way == "panewise", "queries": count,
                     "status": "not finished" if late else "finished",
                     "seconds": None if late else scale * count}
                )  # fmt: skip
    saved = tmp_path / "lines.json"
    saved.write_text("a word between\n" + "\n".join(json.dumps(line) for line in lines))
    target = tmp_path / "pictures" / "peers.png"
    picture.draw(picture.lines_of(saved.read_text().splitlines()), target)
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
    assert width > 1000
    assert height > 400


def test_folders_survive_json(dataset: Dataset) -> None:
    kept = json.loads(json.dumps(folders_of(dataset.events)))
    assert Folders(**{name: Path(path) for name, path in kept.items()}) == dataset.events
