"""The interpreter of each peer: an environment with only its packages, made when it is missing or out of date.

`requirements/<peer>.txt` pins what an environment holds; a copy of that file inside it shows whether it is up to date.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
PINS = "pins.txt"


class NotInstalledError(Exception):
    """A peer's packages could not be installed."""


def default_folder() -> Path:
    """Where environments are kept: `panewise/peers` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "panewise" / "peers"


def interpreter(peer: str | None, folder: Path) -> Path:
    """The Python of a peer's environment, which is made if necessary; without a peer, the Python of this process."""
    if peer is None:
        return Path(sys.executable)
    pins = (REQUIREMENTS / f"{peer}.txt").read_text()
    home = folder / f"{peer}-{sys.version_info.major}.{sys.version_info.minor}"
    python, made_from = home / "bin" / "python", home / PINS
    if made_from.exists() and made_from.read_text() == pins:
        return python
    print(f"panewise bench peers: making the environment of {peer} in {home}", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    _command(peer, [sys.executable, "-m", "venv", str(home)])
    _command(
        peer,
        [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "-r",
            str(REQUIREMENTS / f"{peer}.txt"),
        ],
    )
    made_from.write_text(pins)
    return python


def _command(peer: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise NotInstalledError(f"{peer} could not be installed: {lines[-1]}")
