"""`python -m trapless.sweep`: what `trapless sweep` starts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C and SIGTERM end a sweep in an orderly way; a second one at once."""
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, lambda *_: os._exit(130))
    raise KeyboardInterrupt


def command(arguments: Sequence[str]) -> int:
    """The command, where there is what it needs."""
    from . import needs
    from .errors import SweepError

    try:
        needs.check()
    except SweepError as error:
        print(f"trapless: {error}", file=sys.stderr)
        return error.status
    from .cli import main as whole

    return whole(arguments)


def main() -> None:
    """Replaces this process by the command."""
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, interrupted)
    try:
        # `trapless sweep` blocks them before it starts Python.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        status = command(sys.argv[1:])
    except KeyboardInterrupt:
        print("trapless: interrupted; kept results stay, and the same command continues from there",
              file=sys.stderr)
        status = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Dask's threads would take seconds to end, and have no work left.
    os._exit(status)


if __name__ == "__main__":
    main()
