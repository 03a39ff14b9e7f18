"""`panewise format`: files of statements in one manner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from panewise.errors import FileAccessError
from panewise.language.layout import laid_out
from panewise.language.reader import read_text


def lay_out(files: Sequence[Path], *, is_dry: bool) -> list[Path]:
    """Write files anew whose layout differs, and return them. If one cannot be read, none is written."""
    texts = {file: read_text(file) for file in files}
    changed = {file: new for file, text in texts.items() if (new := laid_out(text)) != text}
    if is_dry:
        return list(changed)
    for file, new in changed.items():
        try:
            file.write_text(new, encoding="utf-8")
        except OSError as error:
            raise FileAccessError(f"{file} cannot be written: {error.strerror or error}; make it writable") from None
    return list(changed)
