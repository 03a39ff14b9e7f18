"""`panewise format`: files of statements in one manner."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from panewise.errors import FileAccessError
from panewise.language.layout import laid_out
from panewise.language.reader import read_text


def lay_out(files: Sequence[Path], *, is_dry: bool) -> list[Path]:
    """Write files anew whose layout differs, and return them. If one cannot be read, none is written."""
    texts = {file: read_text(file) for file in files}
    changed = {file: new for file, text in texts.items() if (new := laid_out(text)) != text}
    if not is_dry:
        for file, new in changed.items():
            _replace(file, new)
    return list(changed)


def _replace(file: Path, text: str) -> None:
    """Put a text in the place of a file's, whole or not at all."""
    # A link stays a link.
    target = file.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise FileAccessError(f"{file} cannot be written: {error.strerror or error}; make it writable") from None
