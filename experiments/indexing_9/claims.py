"""What the paper claims about Figure 9."""

from __future__ import annotations

from experiments.claims import Claim, ends, least
from experiments.index_costs import slower
from experiments.tables import Table

NAMES = {"forward": "the ring (FW)", "auxiliary": "AUX", "backward": "BW", "dirty_bits": "DB"}


def _beats(measure: str, slow: str, fast: str, text: str, at_least: float = 1.0) -> Claim:
    return Claim(
        text,
        f"{NAMES.get(slow, slow)} to {NAMES[fast]}, the least",
        lambda table: least(slower(table, measure, _way(slow), f"ring {fast}")),
        at_least=at_least,
    )


def _way(name: str) -> str:
    return f"ring {name}" if name in NAMES else "none over list"


def _with_fewer_values(table: Table) -> float:
    few, many = ends(table.distinct("values"))
    gaps = [least(slower(table, "deletion", "ring forward", "ring dirty_bits", values=each)) for each in (few, many)]
    return gaps[0] / gaps[1]


def _with_basic_windows(table: Table) -> float:
    shown = table.where(measure="sorted_scan", way="ring dirty_bits")
    few, many = ends(shown.distinct("basic_windows"))
    return shown.mean("ns_per_tuple", basic_windows=many) / shown.mean("ns_per_tuple", basic_windows=few)


CLAIMS = (
    _beats("deletion", "forward", "backward", "deletion is cheaper with BW than with the ring (FW)"),
    _beats("deletion", "backward", "dirty_bits", "deletion is cheaper with DB than with BW"),
    Claim(
        "the differences in deletion are larger with fewer values",
        "FW to DB with the fewest values, to the same with the most",
        _with_fewer_values,
        at_least=1,
    ),
    _beats(
        "maintenance",
        "forward",
        "dirty_bits",
        "maintenance of the traditional ring is an order of magnitude dearer than with DB",
        10,
    ),
    _beats("sorted_scan", "backward", "dirty_bits", "the sorted window is cheaper with DB than with BW"),
    _beats("sorted_scan", "the window sorted each time", "dirty_bits", "DB beats sorting the window"),
    Claim(
        "the sorted window is dearer, the more basic windows there are",
        "DB with the most basic windows to DB with the fewest",
        _with_basic_windows,
        at_least=1,
    ),
)
