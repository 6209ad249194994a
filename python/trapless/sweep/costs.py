"""Cost models that a sweep makes, as files for the commands that repeat its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from .store import told, write_file


def name(text: str) -> str:
    """Where a cost model is in its folder: by its content."""
    return f"cost/{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"


def write(texts: Iterable[str | None], folder: Path) -> None:
    """Writes the cost models that there are below `folder`."""
    for text in sorted({text for text in texts if text is not None}):
        path = folder / name(text)
        with told(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text.encode())
