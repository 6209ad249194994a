"""Traces, read with the classes that Perfetto generates from its own format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas

    from .options import Path

# Command that installs everything that `read_trace` needs.
_INSTALL = "pip install perfetto"
# Nanoseconds in a second.
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Slice:
    """A span of time on a track."""

    track: tuple[str, ...]
    """Names from the group of the machine to the track itself: ("machine sbi", "VM 1", "vCPU 0")."""
    name: str
    category: str
    """"exit", "guest", "host", ...: see docs/tracing.md."""
    begin: int
    """Virtual time in nanoseconds since reset."""
    end: int
    """Virtual time in nanoseconds since reset."""


def read_trace(file: Path) -> Trace:
    """Reads what `trapless run --trace FILE` has written; needs the package perfetto.

    Raises Error if the file is no trace of Trapless, or is cut off.
    """
    try:
        from google.protobuf.message import DecodeError
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        # Either may be missing: google.protobuf comes with protobuf, on which perfetto depends.
        raise ImportError(f"traces need a package that is missing: {_INSTALL}") from error
    message = perfetto_trace_pb2.Trace()
    try:
        message.ParseFromString(FilePath(file).read_bytes())
        return Trace(message.packet)
    except (DecodeError, _NoTrace) as error:
        raise _native.Error(
            f"{file} is no trace of Trapless, or is cut off; `trapless run --trace FILE` writes one"
        ) from error


class _NoTrace(Exception):
    """Packets that Trapless does not write."""


class Trace:
    """The activity of a machine over time."""

    def __init__(self, packets: Any) -> None:
        self.slices: list[Slice] = []
        """Of all tracks, in order of their ends."""
        self._tracks: dict[int, tuple[str, ...]] = {}
        try:
            self._read(packets)
        except LookupError as error:
            raise _NoTrace from error

    def _read(self, packets: Any) -> None:
        open_slices: dict[int, list[tuple[str, str, int]]] = {}
        for packet in packets:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                above = self._tracks[track.parent_uuid] if track.HasField("parent_uuid") else ()
                self._tracks[track.uuid] = (*above, track.name)
                continue
            if not packet.HasField("track_event"):
                raise _NoTrace
            event = packet.track_event
            stack = open_slices.setdefault(event.track_uuid, [])
            if event.type == event.TYPE_SLICE_BEGIN:
                category = event.categories[0] if event.categories else ""
                stack.append((event.name, category, packet.timestamp))
            elif event.type == event.TYPE_SLICE_END:
                name, category, begin = stack.pop()
                path = self._tracks[event.track_uuid]
                self.slices.append(Slice(path, name, category, begin, packet.timestamp))

        # Every slice ends before the end of the file.
        if not self._tracks or any(open_slices.values()):
            raise _NoTrace

    @property
    def tracks(self) -> list[tuple[str, ...]]:
        """All tracks and groups of tracks, in order of their first appearance."""
        return list(self._tracks.values())

    def exits(self) -> Iterator[Slice]:
        """Exits of guests: a slice on the track of its vCPU for each, named by its reason, from the
        trap to the next entry.
        """
        return (found for found in self.slices if found.category == "exit")

    def __repr__(self) -> str:
        return f"<trace of {len(self.tracks)} tracks with {len(self.slices)} slices>"

    def to_pandas(self) -> pandas.DataFrame:
        """All slices, a row each; `track` is joined by "/"."""
        pandas = _pandas()
        rows = [vars(found) | {"track": "/".join(found.track)} for found in self.slices]
        return pandas.DataFrame(rows, columns=["track", "name", "category", "begin", "end"])

    def exits_per_second(self, every: float = 0.01, reason: str | None = None) -> pandas.DataFrame:
        """How often each vCPU exits: a column for each vCPU, a row for each `every` seconds of
        virtual time, named by the time at which they begin. `reason`: of this reason only.

        The last row may be of a shorter time than the others, and is then too low.
        """
        if not every > 0:
            raise _native.Error(f"every={every}: give seconds, more than 0")
        pandas = _pandas()
        width = max(1, round(every * _SECOND))
        counts: dict[str, Counter[int]] = {}
        for track in self.tracks:
            if len(track) == 3 and track[2].startswith("vCPU "):
                counts["/".join(track[1:])] = Counter()
        for found in self.exits():
            if reason in (None, found.name):
                counts["/".join(found.track[1:])][found.begin // width] += 1
        last = max((found.end for found in self.slices), default=0) // width
        table = pandas.DataFrame(
            {name: [count[row] for row in range(last + 1)] for name, count in counts.items()},
            index=pandas.Index([row * width / _SECOND for row in range(last + 1)], name="seconds"),
        )
        return table * _SECOND / width


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("pandas is not installed: pip install pandas") from error
    return pandas
