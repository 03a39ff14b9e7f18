"""Claims of TR1536 that are made once for uniform and once for skewed data."""

from __future__ import annotations

from functools import partial

from experiments.claims import Claim, average, least, steps, worst
from experiments.response_time import ALL, ONE, time_us, times_faster
from experiments.tables import Table

NOISE = 1.5
"""Times that should be equal may differ by this factor."""
MUCH = 2.0


def against_ratio(data: str) -> tuple[Claim, ...]:
    """TimeGram against the update-to-lookup ratio (Figures 3 and 5)."""

    def times(table: Table, algorithm: str) -> list[list[float]]:
        ratios, aggregates = table.distinct("ratio"), table.distinct("aggregate")
        return [
            [time_us(table, algorithm, data=data, aggregate=each, ratio=ratio) for ratio in ratios]
            for each in aggregates
        ]

    def faster(table: Table) -> list[list[float]]:
        return [
            [naive / timegram for naive, timegram in zip(*pair)]
            for pair in zip(times(table, "naive"), times(table, "timegram-64"))
        ]

    return (
        Claim(
            "the response time of the naive approach does not depend on the ratio",
            "its greatest time to its least, the worst",
            lambda table: worst([max(each) / min(each) for each in times(table, "naive")]),
            at_most=NOISE,
        ),
        Claim(
            "the response time of TimeGram falls as lookups become rarer",
            "its time at a ratio to that at the ratio before, the worst",
            lambda table: worst([step for each in times(table, "timegram-64") for step in steps(each)]),
            at_most=NOISE,
        ),
        Claim(
            "the difference between the two grows as lookups become rarer",
            "naive to TimeGram at the greatest ratio, to the same at 1:1, the least",
            lambda table: least([each[-1] / each[0] for each in faster(table)]),
            at_least=MUCH,
        ),
        Claim(
            "TimeGram is much faster than the naive approach at every ratio, 1:1 too",
            "naive to TimeGram, the least",
            lambda table: least([min(each) for each in faster(table)]),
            at_least=MUCH,
        ),
        Claim(
            "TimeGram is much faster than the naive approach at 100:1",
            "naive to TimeGram, the least",
            lambda table: least(
                [
                    times_faster(table, "timegram-64", data=data, aggregate=each, ratio=100)
                    for each in table.distinct("aggregate")
                ]
            ),
            at_least=MUCH,
        ),
    )


def growth(table: Table, algorithm: str, data: str, asked: str, first: int | None = None) -> float:
    """The ratio of the time for most queries to that for `first` queries, or for the fewest."""
    sizes = table.distinct("queries")
    few, many = (
        time_us(table, algorithm, data=data, asked=asked, queries=size) for size in (first or sizes[0], sizes[-1])
    )
    return many / few


def flatter(algorithm: str, name: str, data: str, asked: str) -> Claim:
    """The claim that an algorithm grows less with the number of queries than the naive approach does."""
    return Claim(
        f"the response time of {name} grows less with the number of queries, a lookup asks {asked}",
        f"growth of naive to growth of {name}, fewest queries to most",
        lambda table: growth(table, "naive", data, asked) / growth(table, algorithm, data, asked),
        at_least=MUCH,
    )


def faster_at_most_queries(algorithm: str, name: str, data: str, asked: str) -> Claim:
    """The claim that an algorithm is faster than the naive approach at the largest number of queries."""
    return Claim(
        f"{name} is much faster than the naive approach for most queries, a lookup asks {asked}",
        f"naive to {name}",
        lambda table: times_faster(table, algorithm, data=data, asked=asked, queries=table.distinct("queries")[-1]),
        at_least=MUCH,
    )


def naive_grows(data: str) -> Claim:
    """The claim that the naive approach takes longer for more queries."""
    return Claim(
        "the response time of the naive approach grows with the number of queries",
        "time for most queries to time for fewest",
        lambda table: growth(table, "naive", data, ONE),
        at_least=MUCH,
    )


def timegram_against_queries(data: str) -> tuple[Claim, ...]:
    """TimeGram against the number of queries (Figures 4 and 6)."""
    name = "TimeGram"
    return (
        naive_grows(data),
        flatter("timegram-64", name, data, ONE),
        flatter("timegram-64", name, data, ALL),
        faster_at_most_queries("timegram-64", name, data, ONE),
        faster_at_most_queries("timegram-64", name, data, ALL),
    )


def ordered_sharing_against_queries(data: str) -> tuple[Claim, ...]:
    """OrderedSharing against the number of queries (Figures 9 and 10)."""
    name = "OrderedSharing"
    return (
        naive_grows(data),
        *(
            Claim(
                f"after 2 queries the response time of OrderedSharing is about constant, a lookup asks {asked}",
                "time for most queries to time for 2",
                partial(growth, algorithm="ordered_sharing", data=data, asked=asked, first=2),
                at_most=MUCH,
            )
            for asked in (ONE, ALL)
        ),
        faster_at_most_queries("ordered_sharing", name, data, ONE),
        faster_at_most_queries("ordered_sharing", name, data, ALL),
    )


def skewed_to_uniform(table: Table, algorithm: str) -> list[float]:
    """The ratio of the response times on skewed and on uniform data, case by case."""
    found: dict[tuple[object, ...], dict[str, float]] = {}
    for row in table.where(algorithm=algorithm).rows:
        place = tuple(row[name] for name in ("aggregate", "queries", "ratio", "asked"))
        found.setdefault(place, {})[row["data"]] = row["us_per_event"]
    return [each["gaussian"] / each["uniform"] for each in found.values() if len(each) == 2]


SKEW_DOES_NOT_MATTER = Claim(
    "the response time of TimeGram is about the same on skewed data as on uniform data",
    "time on skewed data to time on uniform data, the mean of all cases",
    lambda table: average(skewed_to_uniform(table, "timegram-64")),
    at_least=1 / NOISE,
    at_most=NOISE,
)
