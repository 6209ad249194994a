"""Where and how a sweep is made; no effect on its results."""

from __future__ import annotations

import dataclasses
import os
from typing import Any


@dataclasses.dataclass
class Settings:
    """Where runs are made, and where results go."""

    program: str | None = None
    worker_program: str | None = None
    store: str | os.PathLike[str] | None = None
    out: str | os.PathLike[str] | None = None
    jobs: int | None = None
    scheduler: str | None = None
    jobqueue: str | None = None
    client: Any = None
    show_progress: bool = False

    def remote(self) -> bool:
        """Whether workers may be on other computers."""
        return bool(self.scheduler or self.jobqueue or self.client)
