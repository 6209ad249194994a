"""The `trapless` program: requests to it before anything runs. It takes requests as JSON
(`trapless call`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import SweepError
from .options import PRICES, SETTINGS, Options, Value, shown, specification
from .statistics import Interval

# Variables with paths that must mean the same in another folder.
PATHS = ("TRAPLESS_PROJECT", "TRAPLESS_CACHE")


@dataclasses.dataclass
class Place:
    """Where files were written: `root` stands for /, and runs start in `folder`."""

    root: str
    folder: str
    environment: dict[str, str]


@dataclasses.dataclass
class About:
    """The program's description of a run."""

    identity: dict[str, Any]
    prices: dict[str, int]
    command: str
    memory: int


def find(named: str | None = None) -> str:
    """Path of the program: the one that is named, or the one that a shell would start."""
    path = shutil.which(named or "trapless")
    if path is None:
        what = named or "trapless, which is not on PATH,"
        raise SweepError(f"cannot find the program {what}; name it with --program")
    return os.path.abspath(path)


def environment() -> dict[str, str]:
    """Variables whose paths are relative, made absolute: runs have folders of their own."""
    return {name: os.path.abspath(os.environ[name]) for name in PATHS if os.environ.get(name)}


def call(program: str, request: Mapping[str, Any], place: Place | None = None) -> Any:
    """The answer to a request, made where files were written to, or here."""
    try:
        result = subprocess.run(
            [program, "call"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            cwd=place.folder if place else None,
            env={**os.environ, **(place.environment if place else {})},
        )
    except OSError as error:
        raise SweepError(f"cannot start {program}: {error.strerror}") from None
    if result.returncode != 0:
        message = result.stderr.strip().removeprefix("trapless: ")
        message = message.replace(place.root, "") if place else message
        raise SweepError(message or f"{program} ended with status {result.returncode}")
    try:
        return json.loads(result.stdout)
    except ValueError:
        raise SweepError(f"{program} is too old: it does not describe its runs") from None


def counters(program: str, ledger: Path) -> list[dict[str, Any]]:
    """The parts of a run with all their counters, by the program that wrote its ledger.

    Raises `RuntimeError` with the program's error message.
    """
    command = [program, "report", "--counters", str(ledger)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        [parts] = json.loads(result.stdout)
    except ValueError:
        message = result.stderr.strip().removeprefix("trapless: ")
        raise RuntimeError(f"it cannot list its counters: {message}") from None
    found: list[dict[str, Any]] = parts
    return found


def intervals(program: str, runs: Iterable[int]) -> dict[int, Interval]:
    """Ranks of the intervals of medians, by number of runs."""
    counts = sorted(set(runs))
    answer = call(program, {"intervals": {"runs": counts}})
    return {count: Interval(*rule) for count, rule in zip(counts, answer, strict=True)}


def options(program: str) -> Options:
    """What can be set."""
    answer = call(program, {"options": {"values": []}})
    names = [shown(name) for name in answer["names"] if name not in (SETTINGS, PRICES)]
    return Options(names, answer["prices"])


def wrong_values(program: str, values: Iterable[tuple[str, Value]]) -> list[str | None]:
    """The error of each value of an option, or `None`."""
    fields = [specification({name: value}, bare=True) for name, value in values]
    answer = call(program, {"options": {"values": fields}})
    found: list[str | None] = answer["wrong"]
    return found


def identify(program: str, specs: Sequence[Mapping[str, Any]], place: Place) -> list[About]:
    """What the program says of runs: what determines their results, which is its revision, its
    images and the user's own workload by content, and the machine; and their prices. Makes the
    images if there are none.
    """
    answer = call(program, {"identify": {"specs": specs}}, place)
    identities = [precise(found, program) for found in answer["identities"]]
    found = []
    for run in answer["runs"]:
        command = renamed(run["command"], program)
        if "error" in run:
            raise SweepError(f"{command}: {run['error'].replace(place.root, '')}")
        identity = identities[run["identity"]]
        found.append(About(identity, run["prices"], command, run["memory"]))
    return found


def precise(found: dict[str, Any], program: str) -> dict[str, Any]:
    """Adds the program's own bytes where its revision does not name its source."""
    revision = found.get("revision", "unknown")
    known = revision != "unknown" and not revision.endswith("-dirty")
    if not known or Path(program).name != "trapless":
        found["file"] = digest(program)
    return found


@functools.cache
def digest(path: str) -> str:
    """The checksum of a file that does not change while this process runs."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def renamed(command: str, program: str) -> str:
    """A command as text for messages. The user's own program has another name."""
    return command if Path(program).name == "trapless" else f"{program}{command[len('trapless'):]}"
