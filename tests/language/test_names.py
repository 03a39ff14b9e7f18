"""Names that share a large part behave as a dict, and a change of one copy is not seen in another."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.language import names
from panewise.language.names import SharingNames, copy_of

NAMES = [f"q{number}" for number in range(8)]


@given(st.lists(st.tuples(st.sampled_from(["put", "drop", "copy"]), st.sampled_from(NAMES)), max_size=40))
def test_copies_are_dicts_of_their_own(steps: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "MOST_CHANGES", 3)
        here = copy_of(dict.fromkeys(NAMES[:5], 0))
        assert isinstance(here, SharingNames)
        plain = dict.fromkeys(NAMES[:5], 0)
        kept: list[tuple[Mapping[str, int], dict[str, int]]] = []
        for number, (step, name) in enumerate(steps):
            if step == "put":
                here[name] = number
                plain.pop(name, None)
                plain[name] = number
            elif step == "drop":
                assert here.pop(name, None) == plain.pop(name, None)
            else:
                kept.append((here, dict(plain)))
                here = copy_of(here)
            assert list(here.items()) == list(plain.items())
            assert len(here) == len(plain)
            assert [name in here for name in NAMES] == [name in plain for name in NAMES]
        assert here == plain
        for before, wanted in kept:
            assert list(before.items()) == list(wanted.items())


def test_a_missing_name_is_refused() -> None:
    made = SharingNames({"a": 1}, set(), {})
    del made["a"]
    for name in ("a", "b"):
        with pytest.raises(KeyError):
            made[name]
        with pytest.raises(KeyError):
            del made[name]


def test_few_names_are_a_dict() -> None:
    assert type(copy_of({"a": 1})) is dict
