"""The words of the language that are more than syntax: reserved words, names of types and units of time."""

from __future__ import annotations

from panewise.aggregates.types import Type

# A name that equals one of these, in any case, must be double-quoted. NAME of the grammar excludes the same.
RESERVED = frozenset(
    {"AND", "AS", "BETWEEN", "BY", "CREATE", "DISTINCT", "DROP", "FALSE", "FROM", "GROUP", "HAVING"}
    | {"IN", "IS", "LIKE", "NOT", "NULL", "OR", "SELECT", "TRUE", "WHERE", "WITHIN"}
)

TYPES = {
    "BOOLEAN": Type.BOOLEAN,
    "BIGINT": Type.BIGINT,
    "INT": Type.BIGINT,
    "INTEGER": Type.BIGINT,
    "LONG": Type.BIGINT,
    "DOUBLE": Type.DOUBLE,
    "FLOAT": Type.DOUBLE,
    "REAL": Type.DOUBLE,
    "STRING": Type.STRING,
    "VARCHAR": Type.STRING,
    "TEXT": Type.STRING,
    "TIMESTAMP": Type.TIMESTAMP,
}

_NO_DECIMAL = "sums of BIGINT are exact: count in the smallest unit, such as cents, or write DOUBLE"
_NO_DATE = "write TIMESTAMP; a date is the beginning of its day, UTC"
# What to write for types of other systems.
TYPE_HINTS = {
    "DECIMAL": _NO_DECIMAL,
    "NUMERIC": _NO_DECIMAL,
    "MONEY": _NO_DECIMAL,
    "DATE": _NO_DATE,
    "TIME": _NO_DATE,
    "DATETIME": "write TIMESTAMP; for integers with their unit, as in TIMESTAMP(ms)",
    "TIMESTAMPTZ": "write TIMESTAMP; times are UTC, and those in another zone are converted",
    "SMALLINT": "write BIGINT",
    "TINYINT": "write BIGINT",
    "BOOL": "write BOOLEAN",
    "CHAR": "write STRING",
    "FLOAT64": "write DOUBLE",
    "INT64": "write BIGINT",
}

# From the shortest to the longest, in microseconds; each also has a plural.
UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}

# What USING may name: rings over indexes, indexes over storages. The list of panewise.indexes is the same (a test).
STORAGES = ("list", "aggr", "hash", "group")
INDEXES = ("l_index", "t_index", "h_index", "g_index")
RINGS = ("forward", "auxiliary", "backward", "dirty_bits")

TIMEGRAM = "timegram"
"""The name that USING takes for answers as intervals, in a query with WITHIN."""

# The other names that USING may take in a query of aggregates. The list of panewise.structures is the same (a test).
STRUCTURES = (
    "base_intervals",
    "landmark_intervals",
    "running_intervals",
    "sorted_base_intervals",
    "search_tree",
    "materialize_all",
    "recompute",
)
