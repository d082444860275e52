"""simulate: a discrete-event model of ranks: what each computes, sends and waits for, in order.

A rank does one thing at a time. A message leaves when the rank's outgoing line is free, and arrives
after the latency and the time of its bytes, when the receiver's incoming line is free. The sender
continues at once or, if ranks have no core to spare for messages, after the work of its bytes.
"""

from collections import deque
from collections.abc import Sequence
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

    Raises:
        InputError: ranks wait for messages that nobody sends.
    """
    ranks = len(programs)
    clock, place = [0.0] * ranks, [0] * ranks
    out_free, in_free = [0.0] * ranks, [0.0] * ranks
    mail: dict[tuple[int, int], deque[tuple[float, float]]] = {}  # arrival, work
    found = Timeline(busy=[0.0] * ranks)
    while True:
        ready = [r for r in range(ranks) if _can_go(programs[r], place[r], r, mail)]
        if not ready:
            break
        rank = min(ready, key=lambda r: clock[r])
        action = programs[rank][place[rank]]
        place[rank] += 1
        if action.kind == "compute":
            begin, clock[rank] = clock[rank], clock[rank] + action.seconds
            found.busy[rank] += action.seconds
            if action.name:
                found.runs.append(Run(rank, begin, clock[rank], action.name))
        elif action.kind == "send":
            spent, work = action.bytes / line.rate, action.bytes * line.work
            begin = max(clock[rank], out_free[rank])
            clock[rank] += work
            out_free[rank] = begin + spent
            arrival = max(begin + line.latency, in_free[action.peer]) + spent
            in_free[action.peer] = arrival
            mail.setdefault((rank, action.peer), deque()).append((arrival, work))
            found.bytes += action.bytes
        else:
            arrival, work = mail[action.peer, rank].popleft()
            clock[rank] = max(clock[rank], arrival) + work
    stuck = [r for r in range(ranks) if place[r] < len(programs[r])]
    if stuck:
        raise InputError(f"rank {stuck[0]} of the simulation waits for a message that nobody sends")
    found.seconds = max(clock, default=0.0)
    return found


def _can_go(
    program: Sequence[Action],
    place: int,
    rank: int,
    mail: dict[tuple[int, int], deque[tuple[float, float]]],
) -> bool:
    if place == len(program):
        return False
    action = program[place]
    return action.kind != "receive" or bool(mail.get((action.peer, rank)))


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
