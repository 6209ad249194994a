"""Progress of a sweep: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from .plan import Run

SECONDS_BETWEEN_LINES = 10


def note(text: str) -> None:
    """Prints a message to standard error; standard output is for data."""
    print(text, file=sys.stderr, flush=True)


class Quiet:
    """Shows nothing; holds the futures until their results are stored."""

    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def begin(self, runs: int, workers: int | None) -> None:
        """Before workers start."""

    def sent(self, future: Any) -> None:
        """A run was submitted."""
        self.held[future.key] = future

    def futures(self) -> list[Any]:
        """Those that are held."""
        return list(self.held.values())

    def done(self, future: Any, run: Run, error: str | None) -> None:
        """The result of `run` is stored, or the run has failed."""
        self.held.pop(future.key, None)

    def close(self) -> None:
        """Called at the end, also after errors."""


class Lines(Quiet):
    """A line every few seconds, for logs."""

    def begin(self, runs: int, workers: int | None) -> None:
        self.runs, self.ready, self.start = runs, 0, time.monotonic()
        self.last = self.start
        where = f", {workers} at a time" if workers else ""
        note(f"Making {runs} runs{where}")

    def done(self, future: Any, run: Run, error: str | None) -> None:
        super().done(future, run, error)
        self.ready += 1
        if error is not None:
            note(f"A run failed: {error.splitlines()[0]}")
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES and self.ready < self.runs:
            self.last = now
            left = (now - self.start) / self.ready * (self.runs - self.ready)
            note(f"{self.ready} of {self.runs} runs, {left:.0f} s left")


class Bar(Quiet):
    """A bar with the time that is left."""

    def begin(self, runs: int, workers: int | None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TextColumn("runs,"), TimeElapsedColumn(), TextColumn("gone,"),
                   TimeRemainingColumn(), TextColumn("left"))
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        where = f"{workers} at a time" if workers else "on the cluster"
        self.task = self.bar.add_task(where, total=runs)
        self.bar.start()

    def done(self, future: Any, run: Run, error: str | None) -> None:
        super().done(future, run, error)
        self.bar.advance(self.task)
        if error is not None:
            self.bar.console.print(f"A run failed: {error.splitlines()[0]}", markup=False)

    def close(self) -> None:
        if bar := getattr(self, "bar", None):
            bar.stop()


def of(wanted: bool) -> Quiet:
    """The display for standard error."""
    if not wanted:
        return Quiet()
    return Bar() if sys.stderr.isatty() else Lines()
