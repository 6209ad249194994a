"""A real run: host, KVM, VMM and guest, once; access to it while it runs step by step."""

import signal
import threading
import time

import pytest

import trapless

SETTINGS = {"loops": 5}


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """A run that has come to its measured part, saved there, and its ledger at the end."""
    machine = trapless.Machine.workload("ipi", "sstc", seed=2, settings=SETTINGS)
    while not machine.measuring:
        assert machine.run(until=machine.now + 5_000_000).reason == "limit"
    file = tmp_path_factory.mktemp("run") / "workload.checkpoint"
    machine.save(file)
    exits = sum(event.exit for event in machine.events("trap"))
    return file, machine, exits


def test_a_workload_in_pieces_has_its_ledger(halfway):
    """Promise: events that Python sees are those that the ledger counts."""
    _, machine, exits = halfway
    ledger = machine.ledger()
    assert ledger.measurements["messages"] == 4 * 4 * 5 and ledger.seed == 2
    phases = {phase["name"]: phase["totals"]["guest_exits"] for phase in ledger.data["phases"]}
    assert 0 < phases["workload"] <= exits <= phases["workload"] + phases["after"]
    assert ledger.to_pandas("exits")["exits"].sum() == phases["workload"]
    assert "OpenSBI" in machine.console


def test_a_run_does_not_depend_on_who_looks_at_it(halfway):
    """Promise: the ledger depends on the arguments alone, also of runs side by side."""
    _, machine, _ = halfway
    lines = []
    comparison = trapless.compare(
        "ipi", ["sstc"], seeds=1, first_seed=2, settings=SETTINGS, progress=lines.append
    )
    assert comparison.columns == ["sstc"] and "ipi on sstc, seed 2, took" in lines[0]
    mine, other = comparison.ledgers[0].data, machine.ledger().data
    mine.pop("host")
    other.pop("host")
    assert mine == other


def test_the_checkpoint_ends_in_the_same_ledger(halfway):
    file, machine, _ = halfway
    again = trapless.Machine.restore(file)
    assert again.measuring and again.run().reason == "off"
    assert again.ledger().data["phases"] == machine.ledger().data["phases"]


def test_ctrl_c_ends_all_runs_of_a_comparison():
    """Promise: KeyboardInterrupt comes within seconds, and no run continues in the background."""
    timer = threading.Timer(1.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        trapless.compare("ipi", ["sbi", "sstc"], seeds=10, jobs=2)
    assert time.monotonic() - begun < 30
    assert not [t for t in threading.enumerate() if t.name.startswith("trapless")]


def test_workloads_that_cannot_run_say_why():
    with pytest.raises(trapless.Error, match="no workload named `ip`; known: .*ipi"):
        trapless.run("ip", machine="sstc")
    with pytest.raises(trapless.Error, match="loops"):
        trapless.run("ipi", machine="sstc", settings={"loops": 0})
    with pytest.raises(trapless.Error, match="aia.guests belongs to the machine aia"):
        trapless.run("ipi", machine="sstc", settings={"aia.guests": 3})
    with pytest.raises(trapless.WorkloadError, match="did not end within 0 s"):
        trapless.run("ipi", machine="sstc", time_limit=0)
