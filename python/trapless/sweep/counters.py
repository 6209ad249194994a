"""Counters of a ledger, by dotted names: `exits.timer_set.firmware_traps`."""

import typing

from .store import Damaged

# Of the parts of a ledger. Chains, threads and single harts are in the ledger itself: their names
# differ from run to run.
LEFT_OUT = {"chains", "threads", "returns", "traps", "harts", "buckets"}
# The part that `trapless report` shows, and what follows the measured part.
PHASE = "workload"
END = "after"
# A figure that is absent where nothing was measured; other absent counters are 0.
OPTIONAL = ("latency.", "measurement.", "per_interrupt.", "per_work.", ".latency")


class Found(typing.NamedTuple):
    """Counters of a run: of `phase`, and by name of the phases that its workload began after it."""

    phase: str
    counters: dict
    more: dict


def of_kept(content):
    """Counters of the ledger in what a store has kept.

    Raises `Damaged` if there is none.
    """
    try:
        return of(content["ledger"])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError,
            RecursionError) as error:
        raise Damaged(f"it has no ledger: {error!r}") from None


def of(ledger):
    """All counters of the measured part, which is the whole run if none is marked."""
    parts = ledger.get("phases", [])
    names = [part["name"] for part in parts]
    start = names.index(PHASE) if PHASE in names else None
    section, phase = (ledger["total"], "total") if start is None else (
        parts[start]["totals"], PHASE)
    run = ledger.get("run", {})
    work = (run.get("work") or {}).get("count", 0)
    counters = of_section(section)
    for result in run.get("measurements", []):
        counters[f"measurement.{result['name']}"] = result["value"]
    if work:
        counters["work"] = work
    derive(counters, section, work)
    more = {}
    for part in parts[start + 1:] if start is not None else []:
        if part["name"] == END:
            break
        found = of_section(part["totals"])
        derive(found, part["totals"], 0)
        more[unused(part["name"], more)] = found
    return Found(phase, counters, more)


def unused(name, taken):
    """A name for a phase: a second one that is called the same gets a number."""
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name} {number}"
    return result


def of_section(section):
    """What the ledger counts in one part of a run."""
    counters = {}
    flatten("", section, counters)
    for hart in section.get("harts", []):
        for mode, cycles in hart.get("cycles", {}).items():
            add(counters, f"cycles.{mode}", cycles)
    return counters


def add(counters, name, value):
    counters[name] = counters.get(name, 0) + value


def flatten(prefix, table, counters):
    """Numbers of a table and of those within it."""
    for name, value in table.items():
        if name in LEFT_OUT or value is None:
            continue
        if isinstance(value, dict):
            if "buckets" in value and not value.get("count"):
                counters[f"{prefix}{name}.count"] = 0
                continue  # Nothing was measured: no least, no median.
            flatten(f"{prefix}{name}.", value, counters)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            counters[prefix + name] = value


def derive(counters, section, work):
    """Rates by which runs can be compared, as `trapless report` has them."""
    taken = {name: c.get("taken", 0) for name, c in section.get("interrupts", {}).items()}
    exits = section.get("guest_exits", 0)
    firmware = section.get("firmware", {}).get("charged_to_exits", 0)
    interrupts = sum(taken.values())
    if interrupts:
        counters["per_interrupt.exits"] = exits / interrupts
        counters["per_interrupt.firmware_traps"] = firmware / interrupts
    for name, count in taken.items():
        if count:
            counters[f"per_interrupt.{name}.exits"] = \
                section["interrupts"][name].get("exits", 0) / count
    if work:
        counters["per_work.exits"] = exits / work
        counters["per_work.cycles"] = section.get("cycles", 0) / work


def optional(name):
    """Whether an absent counter is unknown, not 0."""
    return name.startswith(OPTIONAL[:4]) or OPTIONAL[4] in name
