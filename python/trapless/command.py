"""Runs by a separate command, with machines that this package was not built with."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from . import _native
from .ledger import Ledger, Ledgers, load
from .options import encoded

if TYPE_CHECKING:
    from .options import Path

# Exit statuses of the command; others are mistakes (`trapless --help`).
_FAILED, _INTERRUPTED = 1, 130
# Beginning of the line with the error.
_WRONG = "trapless: "


class Command:
    """A command like `trapless` with additional machines: see docs/own-machines.md."""

    def __init__(self, program: Path, project: Path | None) -> None:
        # With a folder: a bare name would be searched for in PATH only.
        self._program = os.path.join(os.curdir, os.fspath(program))
        self._project = project

    def run(
        self,
        fields: Mapping[str, Any],
        machine: str,
        seed: int,
        trace: Path | None,
    ) -> Ledger:
        """The ledger of a run."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            file = FilePath(folder, "ledger.json")
            spec = {**fields, "machine": machine, "seed": seed}
            self._call({"run": {"spec": spec, "ledger": file, "trace": trace}}, None)
            return _without_file(load(file))[0]

    def compare(
        self,
        fields: Mapping[str, Any],
        machines: Sequence[str],
        seeds: range,
        jobs: int | None,
        progress: Callable[[str], object] | None,
    ) -> Ledgers:
        """The ledgers of runs with each of the seeds on each machine."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            made = FilePath(folder, "comparison.json")
            request = {
                "spec": {**fields, "seed": seeds.start},
                "machines": machines,
                "seeds": len(seeds),
                "jobs": jobs,
                "ledgers": made,
            }
            try:
                self._call({"compare": request}, progress)
            except _native.WorkloadError as error:
                done = _without_file(load(made)) if made.exists() else Ledgers([])
                error.ledgers = done  # type: ignore[attr-defined]
                raise
            return _without_file(load(made))

    def _call(
        self,
        request: Mapping[str, Any],
        progress: Callable[[str], object] | None,
    ) -> None:
        """Sends a request to the command. Lines of its standard error go to `progress`."""
        project = [] if self._project is None else [f"--project={os.fspath(self._project)}"]
        try:
            process = subprocess.Popen(
                [self._program, *project, "call"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise _native.Error(
                f"cannot start program={self._program}: {error.strerror}; name a command that "
                "takes the options of trapless (docs/own-machines.md)"
            ) from None
        lines: list[str] = []
        with process:
            try:
                assert process.stdin is not None and process.stderr is not None
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(encoded(request))
                for line in map(str.rstrip, process.stderr):
                    lines.append(line)
                    if progress and line:
                        progress(line)
            except BaseException:
                # On a terminal the command has received SIGINT, too; otherwise only this process.
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        self._check_status(process.returncode, lines)

    def _check_status(self, status: int, lines: list[str]) -> None:
        """Raises the exception for an exit status, with the last lines of standard error."""
        if status == 0:
            return
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        last = [at for at, line in enumerate(lines) if line.startswith(_WRONG)]
        text = "\n".join(lines[last[-1] if last else -10 :]).strip().removeprefix(_WRONG)
        if status == _FAILED:
            raise _native.WorkloadError(text)
        raise _native.Error(text or f"{self._program} ended with status {status}")


def _without_file(ledgers: Ledgers) -> Ledgers:
    """Ledgers without their file, which is temporary."""
    return Ledgers(Ledger(ledger._native) for ledger in ledgers)
