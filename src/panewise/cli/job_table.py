"""Tables of a job file, read strictly: every error names the file, the table and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panewise.cli.nearest import did_you_mean
from panewise.errors import PanewiseError
from panewise.language.literals import LONGEST_DURATION_US
from panewise.language.words import UNITS

_DURATION = re.compile(r"(\d+) ([A-Za-z]+?)S?", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class JobError(PanewiseError):
    """A job file that cannot be run, and the place of the error in it."""

    def __init__(self, file: Path, place: str, message: str) -> None:
        self.file = file
        self.place = place
        super().__init__(f"{file}: {place}: {message}" if place else f"{file}: {message}")


@dataclass(frozen=True)
class Table:
    """A table of the file, with the place to name in errors."""

    file: Path
    name: str
    content: Mapping[str, Any]

    def fail(self, key: str, message: str) -> JobError:
        """The error to raise for a key of this table."""
        place = f"[{self.name}] {key}".strip() if self.name else key
        return JobError(self.file, place, message)

    def expect_keys(self, known: Iterable[str], hint: str = "") -> None:
        """Raise if there is an unknown key."""
        known = list(known)
        for key in self.content:
            if key not in known:
                raise self.fail(key, f"unknown key{did_you_mean(key, known)}{hint}")

    def text(self, key: str) -> str | None:
        """A string that is not empty, or None if the key is absent."""
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"must be text in quotes and not empty, got {value!r}")
        return value

    def required_text(self, key: str, example: str) -> str:
        """A string that is not empty."""
        value = self.text(key)
        if value is None:
            raise self.fail(key, f"is missing; write for example: {key} = {example}")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        """One of some strings, or None if the key is absent."""
        value = self.text(key)
        if value is not None and value not in choices:
            one_of = " or ".join(f'"{choice}"' for choice in choices)
            raise self.fail(key, f'must be {one_of}, got "{value}"{did_you_mean(value, choices)}')
        return value

    def whole_number(self, key: str, low: int, high: int | None = None) -> int | None:
        """A whole number within bounds, or None if the key is absent."""
        value = self.content.get(key)
        if value is None:
            return None
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value
        if not fits or (high is not None and value > high):
            bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise self.fail(key, f"must be a whole number {bounds}, got {value!r}")
        return int(value)

    def number(self, key: str, *, low: float, is_open: bool = False) -> float | None:
        """A number of at least `low`, or above it if that is open; None if the key is absent."""
        value = self.content.get(key)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not (value > low or (value == low and not is_open)):
            raise self.fail(key, f"must be a number {'above' if is_open else 'of at least'} {low:g}, got {value!r}")
        return float(value)

    def flag(self, key: str) -> bool | None:
        """True or false, or None if the key is absent."""
        value = self.content.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, got {value!r}")
        return value

    def duration_us(self, key: str, or_word: str | None = None) -> int | None:
        """A length of time, written as in statements: "10 minutes". An error names `or_word` as another choice."""
        value = self.text(key)
        if value is None:
            return None
        parts = _DURATION.fullmatch(value)
        unit_us = UNITS.get(parts[2].upper()) if parts else None
        if parts is None or unit_us is None:
            choice = "" if or_word is None else f', or "{or_word}"'
            raise self.fail(key, f'must be like "10 minutes"{choice}, got "{value}"')
        if (us := int(parts[1]) * unit_us) > LONGEST_DURATION_US:
            raise self.fail(key, f"{value} is too long; at most 2**60 microseconds")
        return us

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names; empty if the key is absent."""
        value = self.content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self.fail(key, f'must be a list of names, like ["query", "aggregate"], got {value!r}')
        return tuple(value)

    def path(self, key: str) -> str | None:
        """A path, made absolute from the folder of the job file unless it carries a scheme."""
        value = self.text(key)
        if value is None or _SCHEME.match(value):
            return value
        return str(self.file.absolute().parent / Path(value).expanduser())

    def local_path(self, key: str) -> Path | None:
        """A path that Python itself opens."""
        value = self.path(key)
        if value is not None and _SCHEME.match(value):
            raise self.fail(key, f"must be a path without a scheme, on a disk or a mounted file system, got {value}")
        return None if value is None else Path(value)

    def table(self, key: str) -> Table:
        """A table in this one; empty when absent."""
        value = self.content.get(key, {})
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(value, dict):
            raise self.fail(key, f"must be a table, written as [{name}], got {value!r}")
        return Table(self.file, name, value)

    def settings(self) -> dict[str, str]:
        """The table as Spark settings: `a.b = 1` without quotes is a table in TOML, and means "a.b"."""
        found: dict[str, str] = {}
        for key, value in self.content.items():
            if isinstance(value, dict):
                inner = Table(self.file, f"{self.name}.{key}", value).settings()
                found |= {f"{key}.{name}": setting for name, setting in inner.items()}
            elif isinstance(value, bool):
                found[key] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[key] = str(value)
            else:
                raise self.fail(key, f"must be text, a number, true or false, got {value!r}")
        return found


def read_table(file: Path) -> Table:
    """A file of TOML as its outermost table."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise JobError(file, "", "there is no such job file") from None
    except OSError as error:
        raise JobError(file, "", f"the job file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise JobError(file, "", f"the job file is not UTF-8: byte {error.start} is {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise JobError(file, "", f"the job file is not TOML: {error}") from error
    return Table(file, "", content)
