"""`python -m trapless.sweep`: what `trapless sweep` starts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


class Interruption:
    """Ctrl-C and SIGTERM end a sweep in an orderly way; a second one at once."""

    signals = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.happened = False
        for number in self.signals:
            signal.signal(number, self.interrupt)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handles the first signal."""
        self.happened = True
        for again in self.signals:
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
    interruption = Interruption()
    status = 1
    try:
        # `trapless sweep` blocks them before it starts Python.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interruption.signals)
        status = command(sys.argv[1:])
    except BaseException:
        # Code in C may have made another exception of KeyboardInterrupt, as imports of modules do.
        if not interruption.happened:
            raise
    # A sweep that has begun says itself how much is kept.
    if interruption.happened and status != 130:
        status = 130
        print("trapless: interrupted; kept results stay, and the same command continues from there",
              file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Dask's threads would take seconds to end, and have no work left.
    os._exit(status)


if __name__ == "__main__":
    main()
