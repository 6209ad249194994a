"""Options of `trapless run` that a sweep can set, by the names that they have in its file."""

import difflib
import re

from .errors import SweepError

TEXT, NUMBER, SIZE, SWITCH = "text", "number", "size", "switch"

# Those that change what is run or counted. Where results go, and what only shows something, is the
# sweep's own business; a test compares this with `trapless run --help`.
OPTIONS = {
    "machine": TEXT,
    "workload": TEXT,
    "guest-harts": NUMBER,
    "host-harts": NUMBER,
    "vmm": TEXT,
    "time-limit": NUMBER,
    "ram": SIZE,
    "isa": TEXT,
    "cost": TEXT,
    "trap-misaligned": SWITCH,
    "quantum": NUMBER,
    "seed": NUMBER,
    "engine": TEXT,
    "hot": NUMBER,
    "code-cache": SIZE,
}
# Prefixes of names that the workload, a machine or the cost model has.
SETTING, PRICE = "set.", "price."
# As a value of `cost`: the machine's own model.
DEFAULT = "default"
FACTOR = re.compile(r"x(\d+(?:\.\d+)?)\Z")
MOST_CYCLES = 100_000


# Names that a list has before the rest is left out.
LISTED = 30


def suggestion(name, known, most=1):
    """A sentence with the nearest of the `known` names, or all of them if they are few."""
    near = difflib.get_close_matches(name, known, most)
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = ", ..." if len(known) > LISTED else ""
    return f"there are: {', '.join(sorted(known)[:LISTED])}{more}"


def check_name(name, where):
    """Refuses what is no option."""
    if name in OPTIONS:
        return
    for prefix in (SETTING, PRICE):
        if name.startswith(prefix) and len(name) > len(prefix):
            return
    known = [*OPTIONS, "set.NAME", "price.NAME"]
    raise SweepError(f"{where}: there is no option {name}; {suggestion(name, known)}")


def check_value(name, value, where):
    """Refuses a value that the option cannot have."""

    def wrong(expected):
        raise SweepError(f"{where}: {name} is {value!r}, not {expected}")

    number = isinstance(value, int) and not isinstance(value, bool)
    if name.startswith(PRICE):
        factor = isinstance(value, str) and FACTOR.match(value)
        if not factor and not (number and 0 <= value <= MOST_CYCLES):
            wrong(f"cycles (0 to {MOST_CYCLES}) or a factor as in \"x0.5\"")
    elif name.startswith(SETTING):
        if not (number and value >= 0) and not (isinstance(value, str) and value):
            wrong("a number or a word")
    elif OPTIONS[name] == SWITCH:
        if not isinstance(value, bool):
            wrong("true or false")
    elif OPTIONS[name] == NUMBER:
        if not (number and 0 <= value < 1 << 64):
            wrong("a number")
    elif OPTIONS[name] == SIZE:
        if not (number and value > 0) and not (isinstance(value, str) and value):
            wrong("a size as in \"1G\"")
    elif not (isinstance(value, str) and value):
        wrong("a word in quotation marks")


def words(options):
    """The options as words of a command line. Prices are in a file and have none."""
    result = []
    for name, value in options.items():
        if name.startswith(PRICE) or name == "cost":
            continue
        if name.startswith(SETTING):
            result += ["--set", f"{name.removeprefix(SETTING)}={value}"]
        elif OPTIONS[name] == SWITCH:
            result += [f"--{name}"] if value else []
        else:
            # One word, for values like `-svadu`.
            result.append(f"--{name}={value}")
    return result
