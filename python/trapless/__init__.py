"""Count every trap of virtual machines on a deterministic RISC-V computer.

    >>> import trapless
    >>> ledger = trapless.run("ipi", machine="sstc", settings={"pings": 10})
    >>> trapless.compare("mixed", machines=["sbi", "trapless"], seeds=5).verdict
    >>> trapless.load("out/").to_pandas("exits")
    >>> machine = trapless.Machine.boot(machine="sstc", harts=1)

The project folder, with images/ and experiments/, is that of the argument `project`, of the
environment variable TRAPLESS_PROJECT, or the source tree that the package was built from.
"""

from ._native import Error, Event, WorkloadError
from .ledger import Comparison, Ledger, Ledgers, load
from .machine import Hart, Machine, Stopped
from .options import machine, machines, workloads
from .runs import compare, run

__all__ = [
    "Comparison",
    "Error",
    "Event",
    "Hart",
    "Ledger",
    "Ledgers",
    "Machine",
    "Stopped",
    "WorkloadError",
    "compare",
    "load",
    "machine",
    "machines",
    "run",
    "workloads",
]
