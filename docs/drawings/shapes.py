"""shapes: drawings of whole ideas: three papers, the packages, and full-graph training."""

from collections.abc import Callable, Sequence

from pen import EDGE, MIDDLE, WIDE, Drawing

__all__ = ["flow", "full_graph", "why"]

_CHUNKS, _LAYERS, _STAGES = 4, 3, 2


def full_graph() -> str:
    """The orders of chunks and layers, chunks in stages, and which rows are fresh."""
    made = Drawing(
        "Chunks of nodes through layers and stages",
        "In exact mode all chunks pass one layer, then the next. In fast mode a chunk passes all "
        "layers before the next one begins, so stages of layers work at the same time: forward in "
        "order, then backward in reverse. A chunk reads fresh rows of the chunks before it and "
        "rows of history of those after it.",
    )
    made.text(EDGE, 32, "Two orders of the same work", "head")
    orders: list[tuple[str, str, float, Callable[[int, int], int]]] = [
        ("exact", "a layer at a time", 74, lambda layer, chunk: _CHUNKS * layer + chunk + 1),
        ("fast", "a chunk at a time", 266, lambda layer, chunk: _LAYERS * chunk + layer + 1),
    ]
    for name, said, x, step in orders:
        made.text(x, 56, name)
        made.text(x, 74, said, "soft")
        for layer in range(_LAYERS):
            for chunk in range(_CHUNKS):
                place = (x + 39 * chunk, 84 + 27 * layer, 36, 24)
                made.box(place, "forward faint", str(step(layer, chunk)))
        for chunk in range(_CHUNKS):
            made.text(x + 39 * chunk + 18, 181, f"c{chunk + 1}", "soft", "middle")
    for layer in range(_LAYERS):
        made.text(EDGE, 101 + 27 * layer, f"layer {layer + 1}", "soft")
    made.rule(197)
    made.text(EDGE, 227, "fast, in two stages of layers", "head")
    _stages(made, 242)
    made.rule(330)
    made.text(EDGE, 360, "What chunk c3 reads in a layer", "head")
    for number, (kind, said) in enumerate(
        [
            ("forward faint", "fresh"),
            ("forward faint", "fresh"),
            ("forward", "itself"),
            ("wait faint", "history"),
        ]
    ):
        x = EDGE + 104 * number
        made.box((x, 376, 92, 30), kind, f"c{number + 1}", "on" if kind == "forward" else "")
        made.text(x + 46, 426, said, "soft", "middle")
    made.lines(
        EDGE,
        456,
        ["fresh: computed in this epoch; history: as the chunk", "was when it last passed"],
    )
    return made.svg(492)


def _stages(made: Drawing, y: float) -> None:
    """Ticks of the stages: chunks forward in order, then backward in reverse."""
    ticks, wide, left = 2 * _CHUNKS + 2 * _STAGES - 2, 34.6, 76
    for stage in range(_STAGES):
        made.text(EDGE, y + 28 * stage + 17, f"stage {stage + 1}", "soft")
        at = {stage + chunk: ("forward", chunk) for chunk in range(_CHUNKS)}
        last = ticks - 1 - stage
        at |= {last - chunk: ("backward", chunk) for chunk in range(_CHUNKS)}
        for tick in range(ticks):
            kind, chunk = at.get(tick, ("wait faint", -1))
            on = {"forward": "on", "backward": "dark"}.get(kind, "")
            place = (left + wide * tick, y + 28 * stage, wide - 2, 24)
            made.box(place, kind, f"c{chunk + 1}" if chunk >= 0 else "", on)
    made.legend(
        y + 62, [("forward", "forward"), ("backward", "backward"), ("wait faint", "wait")], 104
    )


def why() -> str:
    """What three papers decide first, and the idea that they share."""
    made = Drawing(
        "Three papers, one idea",
        "Bulk sampling: k minibatches at once, as one matrix product. Ginex: sample first, gather "
        "later; the trace makes the cache optimal. GNNPipe: which chunk passes which stage when. "
        "Together: from the seed follows every access, from these a plan, and then it is run.",
    )
    said = [
        ("Bulk sampling", "k minibatches at once,", "as one sparse matrix product"),
        ("Ginex", "sample first, gather later: the cache", "knows every next use"),
        ("GNNPipe", "which chunk passes which stage when:", "only boundaries cross links"),
    ]
    for number, (name, *lines) in enumerate(said):
        y = 18 + 92 * number
        made.text(142, y + 22, name, "head")
        made.lines(142, y + 43, lines)
        made.rule(y + 84)
    for row in range(4):
        made.box((EDGE, 26 + 15 * row, 40, 12), "sample")
        for column in range(4):
            kind = "sample" if (row * 3 + column * 2) % 5 < 2 else "box"
            made.box((EDGE + 54 + 13 * column, 26 + 15 * row, 11, 12), kind)
    for place, (block, kind) in enumerate(
        zip("ABAC", ("read", "read", "plan", "read"), strict=True)
    ):
        made.box((EDGE + 27 * place, 118, 24, 24), kind, block, "on" if kind == "read" else "dark")
    for place in range(2):
        made.box((EDGE + 27 * (place + 1), 152, 24, 24), "plan", "AC"[place], "dark")
    for stage in range(3):
        for chunk in range(3):
            made.box((EDGE + 21 * (stage + chunk), 214 + 19 * stage, 19, 15), "forward")
    made.arrow((MIDDLE, 296), (MIDDLE, 320))
    made.box(
        (EDGE, 324, WIDE - 2 * EDGE, 38),
        "forward",
        "Decide all data movement first, then run it",
        "on",
    )
    steps = ["seed", "every access", "plan", "run"]
    x = float(EDGE)
    for place, (step, wide) in enumerate(zip(steps, (64, 122, 64, 64), strict=True)):
        made.box((x, 382, wide, 34), "plan faint" if step == "plan" else "box", step)
        x += wide
        if place < len(steps) - 1:
            made.arrow((x, 399), (x + 30, 399))
            x += 30
    return made.svg(434)


def flow() -> str:
    """Packages in the order in which data passes them."""
    made = Drawing(
        "The flow and the rooms of foregather",
        "A graph is sampled into bulks, a plan says which bytes move when, executors move them, "
        "and batches reach the model; a full graph goes through chunks, a schedule and an engine. "
        "In each step stands the room that it lives in.",
    )
    sampled = [
        ("Graph", "graph/", "box"),
        ("Bulk", "sampling/", "sample faint"),
        ("Plan", "plan/", "plan faint"),
        ("Executor", "gather/", "read faint"),
        ("Batch", "loader/", "box"),
        ("model, run", "nn/ train/", "forward faint"),
    ]
    whole = [
        ("Graph", "graph/", "box"),
        ("chunks", "pipeline/partition/", "sample faint"),
        ("order, stages, plan", "pipeline/planning/", "plan faint"),
        ("Engine", "pipeline/passes/", "read faint"),
        ("layers", "nn/", "forward faint"),
    ]
    _column(made, EDGE, "Sampled training", sampled)
    _column(made, 229, "Full-graph training", whole)
    made.rule(446)
    made.text(EDGE, 476, "One source of batches, three makers", "head")
    makers = [
        ("memory", "loader/source.py"),
        ("disk, by plan", "loader/disk/ gather/"),
        ("ranks, together", "dist/"),
    ]
    for row, (name, room) in enumerate(makers):
        y = 490 + 40 * row
        made.box((EDGE, y, WIDE - 2 * EDGE, 34), "box")
        made.text(EDGE + 14, y + 22, name)
        made.text(180, y + 22, room, "code")
    made.rule(624)
    made.text(EDGE, 654, "csrc/", "code")
    made.lines(
        EDGE,
        676,
        [
            "base, parallel, graph, sampling, plan, io: C++20 that",
            "knows nothing of Python or torch; python: bindings",
        ],
    )
    return made.svg(712)


def _column(made: Drawing, x: float, head: str, steps: Sequence[tuple[str, str, str]]) -> None:
    made.text(x, 32, head, "head")
    for row, (name, room, kind) in enumerate(steps):
        y = 46 + 66 * row
        made.box((x, y, 193, 50), kind)
        made.text(x + 96.5, y + 21, name, "", "middle")
        made.text(x + 96.5, y + 40, room, "code", "middle")
        if row:
            made.arrow((x + 96.5, y - 16), (x + 96.5, y - 1))
