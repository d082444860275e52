"""simulate: a discrete-event model of ranks: what each computes, sends and waits for, in order.

A rank does one thing at a time. A message leaves when the rank's outgoing line is free, and arrives
after the latency and the time of its bytes, when the receiver's incoming line is free. Where a line
has a burst, each end saves up bytes while it is idle, and lets as many pass faster. The sender
continues at once or, if ranks have no core to spare for messages, after the work of sending it: by
bytes, and once for messages that are sent or received one after the other, whose waits overlap.
Ranks that share too few cores of one machine slow each other down while they work.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foregather.errors import InputError
from foregather.observe.plots import new_figure, save_figure
from foregather.plan.line import Line

__all__ = ["Action", "Run", "Timeline", "draw_timeline", "simulate"]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a rank does.

    Attributes:
        kind: "compute", "send" or "receive".
        seconds: seconds of computing.
        peer: the other rank of a message.
        bytes: bytes of a message.
        name: for the drawing, such as "f3" or "b3": phase and chunk.
    """

    kind: str
    seconds: float = 0.0
    peer: int = -1
    bytes: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One stretch of computing: rank, begin, end, name."""

    rank: int
    begin: float
    end: float
    name: str


@dataclass(slots=True)
class Timeline:
    """What a simulation found.

    Attributes:
        seconds: until the last rank ends.
        busy: seconds of computing, by rank.
        bytes: bytes that were sent, in total.
        runs: stretches of computing with a name.
    """

    seconds: float = 0.0
    busy: list[float] = field(default_factory=list)
    bytes: int = 0
    runs: list[Run] = field(default_factory=list)

    @property
    def bubble(self) -> float:
        """Share of the ranks' time in which nothing is computed."""
        whole = self.seconds * len(self.busy)
        return 1 - sum(self.busy) / whole if whole else 0.0


def simulate(programs: Sequence[Sequence[Action]], line: Line) -> Timeline:
    """Runs the programs of all ranks.

    Where the line says that fewer cores than ranks compute, they share them evenly.

    Raises:
        InputError: ranks wait for messages that nobody sends.
    """
    return _Simulation(programs, line).run()


@dataclass(slots=True)
class _End:
    """One end of a line: what a rank sends, or what it receives.

    Attributes:
        free: when the last message has passed.
        saved: bytes that might then pass faster.
    """

    free: float = 0.0
    saved: float = 0.0

    def ready(self, at: float, line: Line) -> tuple[float, float]:
        """When a message that is there at some time begins to pass, and what is saved up then."""
        begin = max(at, self.free)
        return begin, min(line.burst, self.saved + (begin - self.free) * line.rate)

    def passed(self, begin: float, saved: float, nbytes: int, end: float, line: Line) -> None:
        """Books a message."""
        left = saved + (end - begin) * line.rate - nbytes
        self.free, self.saved = end, max(0.0, min(line.burst, left))


@dataclass(slots=True)
class _Rank:
    """Where one rank is.

    Attributes:
        program: its actions.
        place: the next one.
        left: seconds of work until it can go on; 0: it can, or waits for a message.
        begun: when the present work began.
        name: of the present work.
        calls: "send" or "receive" after such a message, until other work or the other kind follows.
        out: what it sends.
        into: what it receives.
    """

    program: Sequence[Action]
    place: int = 0
    left: float = 0.0
    begun: float = 0.0
    name: str = ""
    calls: str = ""
    out: _End = field(default_factory=_End)
    into: _End = field(default_factory=_End)


class _Simulation:
    """Goes from event to event: work that ends, messages that arrive."""

    def __init__(self, programs: Sequence[Sequence[Action]], line: Line) -> None:
        self._ranks, self._line = [_Rank(program) for program in programs], line
        for rank in self._ranks:
            rank.out.saved = rank.into.saved = line.burst
        self._mail: dict[tuple[int, int], deque[tuple[float, float]]] = {}  # arrival, work
        self._now = 0.0
        self._found = Timeline(busy=[0.0] * len(programs))

    def run(self) -> Timeline:
        """Runs all programs to their ends."""
        while True:
            for number in range(len(self._ranks)):
                self._go_on(number)
            working = [rank for rank in self._ranks if rank.left > 0]
            speed = min(1.0, (self._line.cores or len(self._ranks)) / max(1, len(working)))
            ends = [self._now + rank.left / speed for rank in working]
            following = min([*ends, *self._arrivals()], default=None)
            if following is None:
                break
            for rank, end in zip(working, ends, strict=True):
                rank.left = 0.0 if end <= following else rank.left - (following - self._now) * speed
            self._now = following
        for number, rank in enumerate(self._ranks):
            if rank.place < len(rank.program):
                raise InputError(
                    f"rank {number} of the simulation waits for a message that nobody sends"
                )
        self._found.seconds = self._now
        return self._found

    def _go_on(self, number: int) -> None:
        """Takes a rank as far as it gets without time passing."""
        rank = self._ranks[number]
        while rank.left == 0:
            if rank.name:
                self._found.runs.append(Run(number, rank.begun, self._now, rank.name))
                rank.name = ""
            if rank.place == len(rank.program):
                return
            action = rank.program[rank.place]
            if action.kind == "compute":
                rank.left, rank.begun, rank.name = action.seconds, self._now, action.name
                self._found.busy[number] += action.seconds
                rank.calls = "" if action.name else rank.calls  # packing has no name
            elif action.kind == "send":
                rank.left = self._send(number, action) + self._call(rank, "send")
            else:
                mail = self._mail.get((action.peer, number))
                if not mail or mail[0][0] > self._now:
                    return
                rank.left = mail.popleft()[1] + self._call(rank, "receive")
            rank.place += 1

    def _call(self, rank: _Rank, kind: str) -> float:
        """Returns the work of a message whatever its bytes; those behind it add none."""
        first, rank.calls = rank.calls != kind, kind
        return self._line.call if first else 0.0

    def _send(self, number: int, action: Action) -> float:
        """Puts a message on its way; returns the work of sending it."""
        rank, other, line = self._ranks[number], self._ranks[action.peer], self._line
        size, work = action.bytes, action.bytes * line.work
        begin, saved = rank.out.ready(self._now, line)
        end = begin + line.spent(size, saved)
        rank.out.passed(begin, saved, size, end, line)
        first, saved = other.into.ready(begin + line.latency, line)
        last = max(first + line.spent(size, saved), end + line.latency)  # not before it has left
        other.into.passed(first, saved, size, last, line)
        self._mail.setdefault((number, action.peer), deque()).append((last, work))
        self._found.bytes += action.bytes
        return work

    def _arrivals(self) -> Iterator[float]:
        """Yields when the messages arrive that ranks wait for."""
        for number, rank in enumerate(self._ranks):
            if rank.left == 0 and rank.place < len(rank.program):
                mail = self._mail.get((rank.program[rank.place].peer, number))
                if mail:
                    yield mail[0][0]


def draw_timeline(timeline: Timeline, path: Path | str, title: str = "Stages by chunks") -> None:
    """Draws ranks against time, one colour per chunk, backward hatched; needs matplotlib.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    figure, axes = new_figure(title, "seconds", "rank")
    from matplotlib import colormaps

    colours = colormaps["tab20"]
    for run in timeline.runs:
        number = int(run.name[1:])
        axes.barh(
            run.rank,
            run.end - run.begin,
            left=run.begin,
            height=0.8,
            color=colours(number % 20),
            hatch="//" if run.name[0] == "b" else None,
            edgecolor="black",
            linewidth=0.3,
        )
    axes.set_yticks(range(len(timeline.busy)))
    axes.invert_yaxis()
    save_figure(figure, Path(path))
