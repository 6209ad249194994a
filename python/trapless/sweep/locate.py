"""Lines of a TOML file. Python's parser does not report positions."""

from __future__ import annotations

import re
import tomllib
from typing import Any

KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def path_of(text: str) -> list[str]:
    """The keys of `[a.b]`, `[[a.b]]` or `a.b =` as a list."""
    table: Any = tomllib.loads(text)
    path = []
    while isinstance(table, (dict, list)) and table:
        if isinstance(table, list):
            table = table[0]
            continue
        key, table = next(iter(table.items()))
        path.append(key)
    return path


def lines(text: str) -> dict[tuple[str | int, ...], int]:
    """Line number of each key path, the first where there are several: `{("axes", "seed"): 7}`.

    In an array of tables the number of the table is part of the path: `("exclude", 1, "seed")`.
    """
    found: dict[tuple[str | int, ...], int] = {}
    header: list[str | int] = []
    tables: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.lstrip().startswith("["):
                header = list(path_of(line))
                if line.lstrip().startswith("[["):
                    count = tables.get(tuple(header), -1) + 1
                    tables[tuple(header)] = count
                    header = [*header, count]
                path = list(header)
            elif match := KEY.match(line):
                path = [*header, *path_of(match.group(1) + " = 0")]
            else:
                continue
        except tomllib.TOMLDecodeError:
            continue  # A line in the middle of a value.
        for depth in range(1, len(path) + 1):
            found.setdefault(tuple(path[:depth]), number)
    return found
