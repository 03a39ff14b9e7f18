"""Checks a job before Spark starts: everything that can be checked without it."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path

from panewise.cli.job import FILE_FORMATS, EventSource, JobError, JobFile, Sink, local_path, path_of_table
from panewise.cli.nearest import did_you_mean
from panewise.cli.workload import read_workload
from panewise.language.workload import Workload
from panewise.spark.job import check_workload
from panewise.spark.layouts import LONG, table_names


def check_job(job: JobFile) -> Workload:
    """The workload of a job, after checking that its queries bind, its sources exist, and Spark can answer it."""
    if not job.queries.is_file():
        raise JobError(job.file, "queries", f"there is no file {job.queries}")
    workload = read_workload(job.queries)
    if not workload.queries and not workload.row_queries:
        raise JobError(job.file, "queries", f"{job.queries} has no query; write a CREATE QUERY statement")
    _check_sources_match_streams(job, workload)
    for stream, source in job.sources.items():
        _check_path(job, job.place_of_source(stream), source)
    if job.control is not None:
        _check_path(job, "[control]", job.control)
    _check_read_twice(job)
    workload = _with_watermarks(job, workload)
    check_workload(workload, lookups=job.lookups is not None, rows=True, most_rows=job.most_rows)
    _check_sinks(job, workload)
    return workload


def _check_sinks(job: JobFile, workload: Workload) -> None:
    """Raise if a sink is of no table, or a table has no sink."""
    tables = table_names(workload, job.wide_by or LONG, is_live=job.control is not None)
    if not tables and job.wide_by is not None:
        raise JobError(job.file, "layout", f"no query of {job.queries.name} has SLIDE, so there is no wide table")
    for name in job.sinks:
        if job.wide_by is None and name not in workload.row_queries and name not in tables:
            hint = did_you_mean(name, workload.row_queries)
            message = f"is of no query that answers with rows{hint}; a sink for each table of answers needs"
            raise JobError(job.file, f"[sink.{name}]", f'{message} layout = "wide"')
        if name not in tables:
            raise JobError(
                job.file, f"[sink.{name}]", f"{job.queries.name} gives no table {name}{did_you_mean(name, tables)}"
            )
    for name in tables:
        sink_of_table(job, name)


def sink_of_table(job: JobFile, table: str) -> Sink:
    """The sink of a table: its own, or that of all wide tables in a folder of its own, or of the long table [sink]."""
    if table in job.sinks:
        return job.sinks[table]
    if job.wide_by is None:
        return _sink_of_answers(job, table)
    if job.sink is None:
        raise JobError(
            job.file,
            f"[sink.{table}]",
            f"is missing; table {table} needs a sink of its own, or [sink] a format for all tables",
        )
    if job.sink.path is not None:
        return replace(job.sink, path=path_of_table(job.sink.path, table))
    if job.sink.format in FILE_FORMATS:
        raise JobError(
            job.file, "[sink] path", f"is missing; format {job.sink.format} writes files, and table {table} has no path"
        )
    return job.sink


def _sink_of_answers(job: JobFile, table: str) -> Sink:
    """The sink of the long table. Rows do not fit into it, so row queries have sinks of their own."""
    if table != LONG:
        raise JobError(
            job.file, f"[sink.{table}]", f"is missing; query {table} answers with rows, which need a sink of their own"
        )
    if job.sink is None:
        raise JobError(job.file, "[sink]", "is missing; it says where the answers of the aggregates go")
    return job.sink


def source_of(job: JobFile, stream: str) -> EventSource:
    """The source of a stream; a single [source] serves the workload's only stream."""
    return job.sources[stream] if stream in job.sources else job.sources[""]


def _with_watermarks(job: JobFile, workload: Workload) -> Workload:
    """The workload with the watermarks and the bound of the job file in place of those in the statements."""
    given = job.stream.watermarks_us
    streams = workload.declared
    for name, delay_us in given.items():
        if name and name not in streams:
            hint = did_you_mean(name, streams)
            raise JobError(job.file, f"[stream.watermark] {name}", f"{job.queries.name} has no such stream{hint}")
        for chosen in [name] if name else list(streams):
            streams[chosen] = replace(streams[chosen], watermark_us=delay_us)
    if job.stream.future_bound_us is not None:
        bound_us = job.stream.future_bound_us
        streams = {name: replace(stream, future_bound_us=bound_us) for name, stream in streams.items()}
    return replace(workload, streams={**workload.streams, **streams})


def _check_read_twice(job: JobFile) -> None:
    """Refuse a source that removes what was read, if [set_aside] has it read twice."""
    for stream, source in job.sources.items():
        cleans = next((value for name, value in source.options.items() if name.lower() == "cleansource"), "off")
        if job.set_aside is not None and cleans.lower() != "off":
            raise JobError(
                job.file,
                f"{job.place_of_source(stream)} options cleanSource",
                "would remove files that [set_aside] has not read yet; leave out one of them",
            )


def _check_sources_match_streams(job: JobFile, workload: Workload) -> None:
    streams = list(workload.declared)
    if "" in job.sources:
        if len(streams) > 1:
            tables = ", ".join(f"[source.{stream}]" for stream in streams)
            raise JobError(job.file, "[source]", f"{job.queries.name} has {len(streams)} streams; write {tables}")
        return
    for stream in job.sources:
        if stream not in streams:
            raise JobError(
                job.file,
                f"[source.{stream}]",
                f"{job.queries.name} has no stream {stream}{did_you_mean(stream, streams)}",
            )
    for stream in streams:
        if stream not in job.sources:
            raise JobError(job.file, f"[source.{stream}]", f"is missing; stream {stream} needs a source")


def _check_path(job: JobFile, place: str, source: EventSource) -> None:
    local = local_path(source.path)
    # Spark also reads patterns; {a,b} is one that Python's glob does not know, so Spark alone can judge it.
    if local is not None and "{" not in local and not Path(local).exists() and not glob.glob(local):
        raise JobError(job.file, f"{place} path", f"there is nothing at {local}")
