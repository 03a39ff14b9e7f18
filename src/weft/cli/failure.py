"""What went wrong in Spark, in a line or two instead of two stack traces."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
# Where a message ends and what follows is for debugging: stack frames, plans, states.
_REST = re.compile(r"\n\s*at |\n=== |\n== |;\n'|\n\s*SQLSTATE: | SQLSTATE: |\n\nDriver stacktrace:")
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] .*?terminated with exception: ", re.DOTALL)
_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*: ")
_NO_TOPIC = "This server does not host this topic-partition"
_NO_TOPIC_HINT = "\n  hint: create the sink's topic, or write its name in [sink] options.topic as the broker has it"
_NO_FORMAT_HINT = '\n  hint: Spark fetches the package of a format that is named as [spark] "spark.jars.packages"'


def root_cause(error: BaseException) -> str:
    """The innermost message of an error that Spark raised."""
    text = str(error)
    if _TRACEBACK in text:
        return _last_python_error(text)
    if "Caused by: " in text:
        text = text.rpartition("Caused by: ")[2]
    elif text.startswith("An error occurred while calling "):
        text = text.partition("\n: ")[2]
    message = _cut(_CLASS.sub("", _WRAPPING.sub("", text))) or type(error).__name__
    if _NO_TOPIC in message:
        return message + _NO_TOPIC_HINT
    return message + (_NO_FORMAT_HINT if "find" in message and "data source" in message else "")


def _last_python_error(text: str) -> str:
    """The error that ends the last Python traceback in a text: from its first line that is not indented."""
    lines = text.rpartition(_TRACEBACK)[2].splitlines()[1:]
    while lines and (lines[0].startswith(" ") or not lines[0]):
        lines.pop(0)
    message = _cut("\n".join(lines))
    # Weft's own errors are sentences already; of another library's the class is part of what it says.
    return re.sub(r"^weft\.[\w.]+: ", "", message)


def _cut(text: str) -> str:
    return _REST.split(text, maxsplit=1)[0].strip()
