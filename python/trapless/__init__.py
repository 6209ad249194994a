"""Count every trap of virtual machines on a deterministic RISC-V computer.

    >>> import trapless
    >>> ledger = trapless.run("ipi", machine="sstc", settings={"pings": 10})
    >>> trapless.compare("mixed", machines=["sbi", "trapless"], seeds=5).verdict
    >>> trapless.load("out/").to_pandas("exits")
    >>> machine = trapless.Machine.boot(machine="sstc", harts=1)

The project folder, with images/ and experiments/, is that of the argument `project`, of the
environment variable TRAPLESS_PROJECT, or the source tree that the package was built from.
"""

import importlib
from typing import Any

try:
    from ._native import Error, Event, WorkloadError
    from .ledger import Comparison, Ledger, Ledgers, load
    from .machine import Hart, InterruptState, Machine, Stopped
    from .options import machine, machines, workloads
    from .runs import compare, run
    from .trace import Trace, read_trace
except ModuleNotFoundError as missing:
    # Sweeps need the command only: in the source tree there is no native module.
    if missing.name != "trapless._native":
        raise

__all__ = [
    "__version__",
    "Comparison",
    "Error",
    "Event",
    "Hart",
    "InterruptState",
    "Ledger",
    "Ledgers",
    "Machine",
    "Stopped",
    "Trace",
    "WorkloadError",
    "compare",
    "load",
    "machine",
    "machines",
    "read_trace",
    "run",
    "workloads",
]


def __getattr__(name: str) -> Any:
    # Sweeps have many requirements, which others need not have.
    if name == "sweep":
        return importlib.import_module(".sweep", __name__)
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
