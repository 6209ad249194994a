"""Traces, read by Perfetto's own classes."""

import re
import sqlite3
from pathlib import Path

import pytest

import trapless

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The trace of a run with a guest, and its ledger."""
    file = tmp_path_factory.mktemp("trace") / "ipi.perfetto-trace"
    ledger = trapless.run("ipi", machine="sstc", settings={"loops": 5}, trace=file)
    return trapless.read_trace(file), ledger, file


def test_perfettos_classes_find_the_exits_of_the_ledger(run):
    """Promise: a trace is what Perfetto's format says, and agrees with the ledger."""
    trace, ledger, _ = run
    counted = {name: e["exits"] for name, e in ledger.data["total"]["exits"].items() if e["exits"]}
    found: dict = {}
    for taken in trace.exits():
        assert taken.begin <= taken.end and taken.track[2].startswith("vCPU ")
        found[taken.name] = found.get(taken.name, 0) + 1
    assert found == counted
    assert {"hart 0", "phases"} <= {track[-1] for track in trace.tracks}
    assert set(trace.to_pandas().query("category == 'exit'")["name"]) == set(counted)


def test_nothing_in_a_trace_is_unknown_to_perfetto(run):
    """Promise: every field that is written has the number that Perfetto gives it."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    message = perfetto_trace_pb2.Trace()
    message.ParseFromString(run[2].read_bytes())
    pending, seen = [message], 0
    while pending:
        part = pending.pop()
        seen += 1
        assert not len(UnknownFieldSet(part)), part
        for field, value in part.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending += value if field.is_repeated else [value]
    assert seen > 1000


def test_exits_per_vcpu_per_second(run):
    trace, ledger, _ = run
    table = trace.exits_per_second(every=0.05)
    assert all(name.split("/")[1] == f"vCPU {n}" for n, name in enumerate(table.columns))
    assert (table.to_numpy().sum() * 0.05).round() == ledger.data["total"]["guest_exits"]
    some = trace.exits_per_second(every=0.05, reason="ipi_send")
    sent = ledger.data["total"]["exits"]["ipi_send"]["exits"]
    assert (some.to_numpy().sum() * 0.05).round() == sent > 0
    with pytest.raises(trapless.Error, match="more than 0"):
        trace.exits_per_second(every=0)


def test_the_query_of_the_documentation_gives_the_same(run):
    """Promise: "exits per vCPU per second" is one query. Perfetto's tables are made by hand here:
    its trace processor is in no package.
    """
    trace, _, _ = run
    page = (DOCS / "tracing.md").read_text()
    query = next(q for q in re.findall(r"```sql\n(.*?)```", page, re.S) if "second" in q)
    base = sqlite3.connect(":memory:")
    base.execute("create table track (id, name, parent_id)")
    base.execute("create table slice (ts, dur, track_id, category, name)")
    numbers = {track: number for number, track in enumerate(trace.tracks)}
    for track, number in numbers.items():
        row = number, track[-1], numbers.get(track[:-1])
        base.execute("insert into track values (?, ?, ?)", row)
    for s in trace.slices:
        row = s.begin, s.end - s.begin, numbers[s.track], s.category, s.name
        base.execute("insert into slice values (?, ?, ?, ?, ?)", row)
    rows = {(f"{vm}/{vcpu}", second): n for vm, vcpu, second, n in base.execute(query)}
    table = trace.exits_per_second(every=1)
    cells = {(name, row): n for name in table for row, n in table[name].items() if n}
    assert rows == cells


def test_what_is_no_trace_is_refused(run, tmp_path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    whole = run[2].read_bytes()
    message = perfetto_trace_pb2.Trace()
    message.ParseFromString(whole)
    halves = [perfetto_trace_pb2.Trace() for _ in range(2)]
    for part, half in enumerate(halves):
        half.packet.extend(list(message.packet)[part * 1000 : (part + 1) * 1000])
    contents = [b"", b"{}" * 100, whole[:-3], *(half.SerializeToString() for half in halves)]
    for content in contents:
        file = tmp_path / "no.perfetto-trace"
        file.write_bytes(content)
        with pytest.raises(trapless.Error, match="--trace FILE"):
            trapless.read_trace(file)
