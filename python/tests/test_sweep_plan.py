"""From the file of a sweep to its runs."""

import pytest
from sweep_helpers import BASE, PACKAGES, bench  # noqa: F401
from trapless.sweep import SweepError, plan, program


def planned(bench, text):  # noqa: F811
    return plan.plan(bench.file(text), str(bench.program))


def values(found, name):
    return [point.options.get(name) for point in found.points]


def refused(bench, text):  # noqa: F811
    with pytest.raises(SweepError) as error:
        planned(bench, text)
    return str(error.value)


def test_axes_are_crossed_and_zipped_ones_go_together(bench):
    """Promise: the runs are the combinations that the file says, in its order."""
    found = planned(bench, BASE + """
set.rounds = [1, 2]
seed = { from = 3, count = 2 }
[zip.size]
guest-harts = [1, 2]
host-harts = [2, 4]
[[exclude]]
machine = "sbi"
set.rounds = 2
""")
    assert len(found.points) == len(found.runs) == (2 * 2 - 1) * 2 * 2
    assert values(found, "seed")[:4] == [3, 3, 4, 4]
    pairs = set(zip(values(found, "guest-harts"), values(found, "host-harts"), strict=True))
    assert pairs == {(1, 2), (2, 4)}
    assert ("sbi", 2) not in set(zip(values(found, "machine"), values(found, "set.rounds"),
                                     strict=True))
    spec = list(found.runs.values())[0].spec
    assert spec["host_harts"] == 2 and spec["settings"] == {"rounds": 1}


def test_prices_vary_alone_and_equal_runs_are_made_once(bench):
    """Promise: one price at a time, by cycles or factor; what is the same is one run."""
    found = planned(bench, BASE + """
[one-at-a-time]
price.trap = [5, 50]
price.csr = ["x0.5"]
""")
    variations = [point.variation for point in found.points][:4]
    assert variations == ["base", "price.trap=5", "price.trap=50", "price.csr=x0.5"]
    # A trap costs 5 cycles already.
    assert len(found.points) == 8 and len(found.runs) == 6
    assert found.points[3].prices["csr"] == 2
    assert found.runs[found.points[3].key].spec["prices"] == {"csr": "x0.5"}
    assert found.runs[found.points[0].key].spec["prices"] == {}
    found = planned(bench, BASE + "[one-at-a-time]\nprice.all = ['x2']")
    assert len(found.points) == 2 * (1 + 5)
    assert found.points[1].variation == "price.simple=x2"


def test_a_run_is_named_by_all_that_determines_it(bench, monkeypatch):  # noqa: F811
    """Promise: another revision, seed, option or price is another result; another path is not."""
    def key(text="", name="sweep.toml"):
        text = BASE.replace("[axes]", text + "\n[axes]")
        file = bench.file(text, name)
        return plan.plan(file, str(bench.program)).points[0].key

    usual = key()
    assert key(name="other.toml") == usual
    assert key("seed = 0") == usual
    assert len({usual, key("seed = 1"), key("set.x = 1"), key("price.trap = 6"),
                key("quantum = 5")}) == 5
    bench.file("[trap]\ncycles = 6\n", "a.toml")
    bench.file("# The same.\n[trap]\ncycles = 6 # cycles\n", "b.toml")
    assert key("cost = 'a.toml'") == key("cost = 'b.toml'") == key("price.trap = 6")
    monkeypatch.setenv("FAKE_REVISION", "def")
    other = key()
    assert other != usual
    # A changed source has no name but its program's bytes.
    monkeypatch.setenv("FAKE_REVISION", "def-dirty")
    dirty = key()
    with open(bench.program, "a") as file:
        file.write("# changed\n")
    program.digest.cache_clear()
    assert key() != dirty


@pytest.mark.parametrize("text, expected", [
    ("[axes]\nmachine = ['sbi']\n[rum]\n",
     "sweep.toml, line 3: unknown key rum; did you mean run?"),
    ("[run]\nmachine = 'sbi'\nworkload = 'x'\nguest-hart = 2\n",
     "line 4: there is no option guest-hart; did you mean guest-harts?"),
    (BASE + "seed = []", "line 6: seed is []"),
    (BASE + "seed = { from = 1, cuont = 2 }", "line 6: unknown key cuont; did you mean count?"),
    (BASE + "seed = [1, 1]", "line 6: seed has a value twice"),
    (BASE + "workload = ['y']", "line 6: workload is set twice, also in run"),
    (BASE + "[zip.a]\nseed = [1, 2]\nram = ['1G']",
     "line 6: lists of zip.a must have the same length"),
    (BASE + "[[exclude]]\nmachine = 'sbi'\n[[exclude]]\nset.x = 1\n",
     "line 9: set.x is not varied"),
    (BASE + "price.trap = [-1]", "line 6: price.trap is -1: "),
    (BASE + "price.all = [2]", "line 6: price.all belongs to [one-at-a-time]"),
    (BASE + "[one-at-a-time]\nmachine = ['x']", "line 7: machine is an axis already"),
    ("[run]\nworkload = 'x'\n", "names no machine"),
    ("[run\n", "is not TOML"),
    (BASE + "price.tarp = [3]", "line 6: there is no price tarp; did you mean trap?"),
    (BASE + "price.trap = [0]", "at least 1 cycle"),
    (BASE + "cost = ['none.toml']", "none.toml"),
    ("[run]\nworkload = 'x'\nmachine = 'none'\n", "there is no machine none"),
    (BASE + "[report]\nbaseline = 'aia'", "line 7: no run has the machine aia"),
    (BASE + "[[exclude]]\nmachine = ['sbi', 'trapless']", "every combination is excluded"),
])
def test_errors_name_their_place(bench, text, expected):  # noqa: F811
    """Promise: a mistake in a sweep's file is a sentence that says where it is and what to do."""
    assert expected in refused(bench, text)


def test_every_option_of_run_is_known_or_left_out_for_a_reason():
    """Promise: whatever changes a run can be an axis; new options are not forgotten."""
    import re
    import subprocess

    real = PACKAGES.parent / "target/release/trapless"
    if not real.exists():
        pytest.skip("trapless is not built")
    printed = subprocess.run([real, "run", "--help"], capture_output=True, text=True).stdout
    there = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", printed, re.M))
    # Where results go, what is only shown, what the sweep does itself, and kernels of the user's
    # own, whose files do not travel to the workers of a cluster.
    other = {"set", "price", "console", "project", "seeds", "jobs", "ledger", "trace", "json",
             "checkpoint", "help", "log", "gdb", "gdb-history", "at", "diagram", "dump-code",
             "profile", "identity", "no-checkpoint", "checkpoint-cache", "host-kernel",
             "host-modules", "guest-kernel", "guest-modules"}
    assert there - other == set(program.options(str(real)).names)
    wrong = program.wrong_values(str(real), [
        ("ram", "1G"), ("ram", "lots"), ("vmm", "xen"), ("guest-harts", -1), ("set.x", "native"),
        ("set.x", -1), ("price.trap", "x0.5"), ("price.trap", -1), ("price.trap", 1 << 40)])
    assert [expected is not None for expected in wrong] == [
        False, True, True, True, False, True, False, True, True]
