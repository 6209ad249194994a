"""Errors, as sentences for the user."""

from __future__ import annotations

class SweepError(Exception):
    """A sentence with the problem and a remedy. `status`: exit status of the command."""

    def __init__(self, sentence: str, status: int = 2) -> None:
        super().__init__(sentence)
        self.status = status


class Interrupted(SweepError):
    """The user stopped the sweep; what was done is kept."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, 130)
