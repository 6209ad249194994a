"""What runs and comparisons refuse, and what they pass to a command of one's own."""

import os
import signal
import sys
import threading
import time

import pytest
import riscv

import trapless

# Stands for a command that was built with a machine of its own.
COMMAND = """#!{python}
import json, os, sys, time
assert sys.argv[-1] == "call"
[(command, request)] = json.load(sys.stdin).items()
spec = request["spec"]
if "slow" in spec.get("settings", {{}}):
    open({started!r}, "w").close()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
machines = request.get("machines") or [spec["machine"]]
if "none" in machines:
    sys.exit(print("Making images\\ntrapless: there is no machine none", file=sys.stderr) or 2)
def ledger(machine, seed):
    found = json.load(open({template!r}))
    found["run"] |= {{"machine": machine, "workload": spec["workload"]}}
    found["run"]["configuration"]["seed"] = str(seed)
    found["run"]["counters"] = {{"fields": len(spec)}}
    return found
first, count = spec["seed"], request.get("seeds", 1)
made = [ledger(m, s) for m in machines for s in range(first, first + count)]
if command == "run":
    json.dump(made[0], open(request["ledger"], "w"))
else:
    print("timer on clint2, seed 0, took 1.0 s", file=sys.stderr)
    json.dump(made, open(request["ledgers"], "w"))
if "fail" in spec.get("settings", {{}}):
    sys.exit(print("trapless: 1 of 4 runs failed", file=sys.stderr) or 1)
"""


@pytest.fixture
def own(tmp_path, traps):
    """A command with the machine `clint2`."""
    traps.run()
    traps.ledger().save(tmp_path / "template.json")
    file = tmp_path / "clint2"
    file.write_text(
        COMMAND.format(
            python=sys.executable,
            template=str(tmp_path / "template.json"),
            started=str(tmp_path / "started"),
        )
    )
    file.chmod(0o755)
    return file


def refused(function, *args, **options):
    with pytest.raises(trapless.Error) as error:
        function(*args, **options)
    return str(error.value)


def test_nonsense_is_refused_with_a_sentence():
    """Promise: what cannot be compared is refused before anything runs, and says what to give."""
    compare = trapless.compare
    assert "name at least one" in refused(compare, "timer", [])
    assert "name at least one" in refused(compare, "timer", "")
    assert "seeds is 0; give a whole number, 1 or more" in refused(
        compare, "timer", ["sbi"], seeds=0
    )
    assert "jobs is 0" in refused(compare, "timer", ["sbi"], jobs=0)
    assert "first_seed is -1" in refused(compare, "timer", ["sbi"], first_seed=-1)
    assert "sbi twice" in refused(compare, "timer", ["sbi", "sbi"])
    assert "machine is 5" in refused(compare, "timer", ["sbi", 5])
    assert "one machine" in refused(trapless.run, "timer", ["sbi", "sstc"])
    assert "seed is 1.5" in refused(trapless.run, "timer", "sbi", seed=1.5)
    assert "trapless.workloads()" in refused(trapless.run, None, "sbi")
    assert "no ledgers to compare" in refused(trapless.Ledgers([]).compare)
    # A single name is one machine, not its letters.
    assert "sbx" in refused(compare, "timer", machines="sbx")
    with pytest.raises(TypeError, match="it has .*first_seed, .*machines, .*workload"):
        compare("timer", ["sbi"], repeat=3)
    with pytest.raises(TypeError, match="it has append, .*disks, .*kernel, .*share"):
        trapless.Machine.boot(disk="x.img")


def test_options_with_hints_are_those_of_the_program():
    """Promise: what an editor completes is what the program takes."""
    from trapless import _native
    from trapless.options import HartOptions, WorkloadOptions

    others = {"machine", "workload", "seed", "host_harts"}
    hinted = {*HartOptions.__annotations__, *WorkloadOptions.__annotations__}
    assert set(_native.option_names("run")) - others == hinted
    assert set(HartOptions.__annotations__) <= set(_native.option_names("boot"))


def test_options_take_what_their_hints_say(boot):
    """Promise: a value of each type that a hint names is one that the program takes."""
    from trapless.options import HartOptions

    values = {
        "ram": (1 << 26, "64M"),
        "isa": ("-svadu",),
        "cost": ({"trap": 5},),
        "prices": ({"trap": 5}, {"trap": "x0.5"}),
        "trap_misaligned": (True, False),
        "quantum": (5000,),
        "engine": ("jit", "interp"),
        "hot": (0,),
        "region": (0, 20_000, "never"),
        "code_cache": (1 << 25, "32M"),
    }
    assert set(values) == set(HartOptions.__annotations__)
    for name, given in values.items():
        for value in given:
            boot(riscv.traps(1), **{name: value}).run()
    wrong = refused(boot, riscv.traps(1), region="nie")
    assert "nie is neither a number of cycles nor never" in wrong


def test_errors_name_arguments_and_no_temporary_file():
    wrong = refused(trapless.run, "timer", "sbi", cost={"trop": 1})
    assert "cost=trop:1" in wrong and "/tmp" not in wrong, wrong
    assert "trap is 1.5; give whole cycles" in refused(
        trapless.run, "timer", "sbi", cost={"trap": 1.5}
    )


def test_a_command_of_ones_own_makes_runs_and_comparisons(own, tmp_path):
    """Promise: machines that only a command of one's own has run from Python, too."""
    ledger = trapless.run("timer", "clint2", program=own, seed=3, settings={"wakeups": 5})
    assert (ledger.machine, ledger.seed, ledger.file) == ("clint2", 3, "")
    lines = []
    comparison = trapless.compare(
        "timer", ["sbi", "clint2"], program=own, seeds=2, progress=lines.append
    )
    assert comparison.columns == ["sbi", "clint2"] and len(comparison.ledgers) == 4
    assert lines == ["timer on clint2, seed 0, took 1.0 s"]
    assert refused(trapless.run, "timer", "none", program=own) == "there is no machine none"
    assert "cannot start" in refused(trapless.run, "timer", "sbi", program=tmp_path / "nothing")
    with pytest.raises(trapless.WorkloadError, match="1 of 4 runs failed") as failed:
        trapless.compare("timer", ["sbi", "clint2"], program=own, seeds=2, settings={"fail": 1})
    assert len(failed.value.ledgers) == 4


@pytest.fixture
def ctrl_c():
    """SIGINT interrupts, also where tests run in the background of a shell, which ignores it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    signal.signal(signal.SIGINT, former)


def test_ctrl_c_ends_a_command_of_ones_own(own, tmp_path, ctrl_c):
    def interrupt():
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        ctrl_c()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        trapless.run("timer", "clint2", program=own, settings={"slow": 1})
    thread.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_comparisons_are_saved_and_read_again(own, tmp_path):
    comparison = trapless.compare("timer", ["sbi", "clint2"], program=own, seeds=2)
    comparison.save(tmp_path / "both.json")
    again = trapless.load(tmp_path / "both.json")
    assert again.compare().figures == comparison.figures
    assert repr(again) == "<4 ledgers: timer on sbi, timer on clint2>"
    comparison.save(tmp_path / "both.html")
    assert "<html" in (tmp_path / "both.html").read_text()
    assert "no ledgers" in refused(trapless.Ledgers([]).save, tmp_path / "none.json")
