"""Options that a sweep can set, by the names that they have in its file. Which there are, and what
they can be, the program says.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .errors import SweepError

Value = int | str | bool
"""The value of an option."""

# Prefixes of names of the workload's, a machine's or the cost model's options.
SETTING, PRICE = "set.", "price."
# As a value of `cost`: the machine's own model.
DEFAULT = "default"
# Fields of a run whose parts are options of their own.
SETTINGS, PRICES = "settings", "prices"
# Maximum number of names in a list; the rest is left out.
LISTED = 30


def suggestion(name: str, known: Collection[str], most: int = 1) -> str:
    """A sentence with the nearest of the `known` names, or all of them if they are few."""
    near = difflib.get_close_matches(name, known, most)
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = ", ..." if len(known) > LISTED else ""
    return f"there are: {', '.join(sorted(known)[:LISTED])}{more}"


@dataclasses.dataclass(frozen=True)
class Options:
    """The settable options, as the program lists them: those with one value each, and prices."""

    names: Sequence[str]
    prices: Sequence[str]

    def check_name(self, name: str, where: str) -> None:
        """Rejects a name that is not an option."""
        if name in self.names or name.startswith(SETTING) and len(name) > len(SETTING):
            return
        if name.startswith(PRICE) and len(name) > len(PRICE):
            price = name.removeprefix(PRICE)
            if price not in (*self.prices, "all"):
                near = suggestion(price, self.prices)
                raise SweepError(f"{where}: there is no price {price}; {near}")
            return
        known = [*self.names, "set.NAME", "price.NAME"]
        raise SweepError(f"{where}: there is no option {name}; {suggestion(name, known)}")


def field(name: str) -> str:
    """The field of a run that an option is."""
    return name.replace("-", "_")


def shown(name: str) -> str:
    """The option that a field of a run is."""
    return name.replace("_", "-")


def specification(options: Mapping[str, Value], bare: bool = False) -> dict[str, Any]:
    """The run that options say, as the program reads it. `bare`: without what they do not say."""
    run: dict[str, Any] = {} if bare else {SETTINGS: {}, PRICES: {}}
    for name, value in options.items():
        if name.startswith(SETTING):
            run.setdefault(SETTINGS, {})[name.removeprefix(SETTING)] = value
        elif name.startswith(PRICE):
            run.setdefault(PRICES, {})[name.removeprefix(PRICE)] = value
        elif name != "cost" or value != DEFAULT:
            run[field(name)] = value
    return run
