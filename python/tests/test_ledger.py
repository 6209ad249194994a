"""Ledgers as tables and reports."""

import copy
import json
import os
from pathlib import Path

import matplotlib
import pandas
import polars
import pyarrow
import pytest

import trapless


@pytest.fixture
def folder(traps, tmp_path):
    """Ledgers of two machines with three seeds, as runs with guests would have written them."""
    traps.run()
    base = traps.ledger().data
    out = tmp_path / "out"
    out.mkdir()
    for machine, exits in ("sbi", 300), ("trapless", 10):
        several = []
        for seed in range(3):
            ledger = copy.deepcopy(base)
            ledger["run"] |= {"machine": machine, "workload": "ipi"}
            ledger["run"]["configuration"]["seed"] = str(seed)
            ledger["run"]["measurements"] = [{"name": "time", "value": 1.5 + seed, "unit": "ms"}]
            measured = copy.deepcopy(ledger["total"])
            measured |= {"guest_exits": exits + seed, "cycles": 1_000_000}
            measured["guest_interrupts"]["taken"] = {"software": 100}
            zero = {"host_traps": 0, "syscalls": 0, "cycles": {"HS": 5}, "firmware_traps": 2}
            measured["exits"] = {"ipi_send": {"exits": exits + seed} | zero}
            ledger["phases"] = [{"name": "workload", "from": 0, "totals": measured}]
            several.append(ledger)
        # One file for each run, or one with all of them.
        if machine == "sbi":
            (out / "sbi.json").write_text(json.dumps(several))
        else:
            for seed, ledger in enumerate(several):
                (out / f"trapless-{seed}.json").write_text(json.dumps(ledger))
    (out / "profile.json").write_text('{"profile": {"schema": "trapless-ledger/2"}}')
    return out


def test_a_folder_becomes_a_table_of_each_kind(folder):
    ledgers = trapless.load(folder)
    assert [(ledger.machine, ledger.seed) for ledger in ledgers] == [
        (machine, seed) for machine in ("sbi", "trapless") for seed in range(3)
    ]
    exits = ledgers.to_pandas("exits")
    assert list(exits["exits"]) == [300, 301, 302, 10, 11, 12]
    assert set(exits["reason"]) == {"ipi_send"} and set(exits["cycles"]) == {5}
    runs = ledgers.to_pandas("runs")
    assert list(runs["measurement.time"]) == [1.5, 2.5, 3.5] * 2
    assert list(runs["guest_exits"]) == [300, 301, 302, 10, 11, 12]
    assert runs["RAM"].unique().tolist() == ["64 MiB"] and runs["seconds"].unique() == [0.001]


def test_five_lines_lead_from_a_folder_to_a_plot(folder, monkeypatch):
    """Promise: those of docs/python.md."""
    page = (Path(__file__).parent.parent.parent / "docs" / "python.md").read_text()
    code = page.split("to a plot\n\n```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 5
    matplotlib.use("agg")
    monkeypatch.chdir(folder.parent)
    names: dict = {}
    exec(code, names)
    assert names["table"].loc["ipi_send"].to_dict() == {"sbi": 301, "trapless": 11}
    bars = [bar.get_width() for bar in matplotlib.pyplot.gca().patches]
    assert bars == [301, 11]


def test_counters_have_units_and_phases(folder):
    ledgers = trapless.load(folder).where(machine="trapless", seed=1)
    counters = ledgers.to_polars()
    value = dict(counters.select("counter", "value").iter_rows())
    unit = dict(counters.select("counter", "unit").iter_rows())
    assert value["guest_exits"] == 11 and unit["guest_exits"] == "guest exits"
    assert value["exits.ipi_send.exits"] == 11 and unit["exits.ipi_send.exits"] == "guest exits"
    assert value["exits.ipi_send.cycles.HS"] == 5 and unit["exits.ipi_send.cycles.HS"] == "cycles"
    # Elements of lists are named by what distinguishes them.
    trap = next(name for name in value if name.startswith("traps.0.M.M."))
    assert value[trap] == 3, trap
    assert set(counters["phase"]) == {"workload"}
    every = ledgers.to_polars(phase=None)
    assert set(every["phase"]) == {"workload", "total"}
    total = ledgers.to_polars(phase="total").filter(polars.col("counter") == "guest_exits")
    assert total["value"].to_list() == [0]
    # Nothing is counted twice, and each counter of the ledger is there.
    assert counters["counter"].is_unique().all()


def test_tables_are_the_same_by_every_way(folder):
    """Promise: whoever knows Arrow's PyCapsule interface reads ledgers, without this package."""
    ledgers = trapless.load(folder)
    arrow = pyarrow.table(ledgers)
    assert arrow.equals(pyarrow.table(ledgers.to_arrow("counters")))
    assert arrow.num_rows == len(ledgers.to_arrow()) > 100
    assert polars.DataFrame(ledgers).equals(ledgers.to_polars())
    pandas.testing.assert_frame_equal(arrow.to_pandas(), ledgers.to_pandas())
    assert pyarrow.schema(ledgers.to_arrow("runs")).names == ledgers.to_arrow("runs").column_names
    assert len(ledgers[0].to_polars("exits")) == 1
    with pytest.raises(trapless.Error, match="no table exit; use counters, exits or runs"):
        ledgers.to_arrow("exit")


def test_a_comparison_has_the_figures_of_the_report(folder):
    comparison = trapless.load(folder).compare()
    assert comparison.columns == ["sbi", "trapless"]
    assert "trapless made 11 (10–12) exits in the measured part, 96 % fewer" in comparison.verdict
    table = comparison.to_pandas().set_index(["section", "figure", "column"])
    row = table.loc[("totals", "exits", "trapless")]
    assert (row["median"], row["low"], row["high"]) == (11, 10, 12)
    assert row["difference"] == "shown" and row["difference_percent"] < -96
    assert comparison.to_polars().height == len(comparison.rows()) > 10
    report = comparison.report(width=80)
    assert "sbi" in report and report == str(trapless.load(folder).report(80))
    assert comparison.html().startswith("<!DOCTYPE html>")
    assert "iframe" in comparison._repr_html_()


def test_ledgers_are_written_as_the_command_writes_them(folder, tmp_path):
    ledger = trapless.load(folder)[0]
    (tmp_path / "new").mkdir()
    (tmp_path / "victim").write_text("precious")
    planted = tmp_path / "new" / f".a.json.{os.getpid()}.part"
    planted.symlink_to(tmp_path / "victim")
    ledger.save(tmp_path / "new" / "a.json")
    assert (tmp_path / "victim").read_text() == "precious"
    planted.unlink()
    assert [f.name for f in (tmp_path / "new").iterdir()] == ["a.json"]
    again = trapless.load(tmp_path / "new")[0]
    assert again.data == ledger.data and again.to_json() == ledger.to_json()
    assert again.measurements == {"time": 1.5} and again.measured["guest_exits"] == 300


def test_what_is_no_ledger_is_refused(folder, tmp_path):
    with pytest.raises(trapless.Error, match="profile.json is not a ledger"):
        trapless.load(folder / "profile.json")
    with pytest.raises(trapless.Error, match="cannot read the ledger"):
        trapless.load(folder / "missing.json")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(trapless.Error, match="no ledgers in .*empty; `trapless run` writes"):
        trapless.load(empty)
    damaged = json.loads((folder / "trapless-0.json").read_text())
    damaged["total"]["guest_exits"] = "many"
    (folder / "damaged.json").write_text(json.dumps(damaged))
    with pytest.raises(trapless.Error, match="damaged.json is not a ledger: invalid type"):
        trapless.load(folder)


def test_machines_and_workloads_are_listed():
    assert {"sbi", "sstc", "aia", "trapless"} <= set(trapless.machines())
    assert trapless.machine("sstc", harts=3)["harts"] == 3
    ipi = trapless.workloads()["ipi"]
    assert ipi["parameters"]["loops"]["maximum"] == 100_000
