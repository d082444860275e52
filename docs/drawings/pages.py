"""pages: drawings of pages where a paragraph explains a shape: disks, ranks and typed tables."""

from collections.abc import Sequence

from pen import EDGE, MIDDLE, WIDE, Drawing

__all__ = ["out_of_core", "ranks", "typed"]

_BATCHES = ("ACD", "AB", "CE", "AE")  # blocks of rows that four batches need
_SLOTS = 2
_COLUMNS = (84, 188, 270, 352)  # where tiles of the batches begin


def _plan(batches: Sequence[str], slots: int) -> tuple[list[str], list[str]]:
    """What is read for each batch, and what is kept after it: what is needed again soonest."""
    kept, read, after = "", [], []
    for number, needed in enumerate(batches):
        read.append("".join(block for block in needed if block not in kept))
        there = sorted({*kept, *needed})
        later = ["".join(batches[number + 1 :]).find(block) for block in there]
        again = sorted((at, block) for at, block in zip(later, there, strict=True) if at >= 0)
        kept = "".join(sorted(block for _, block in again[:slots]))
        after.append(kept)
    return read, after


def _tiles(
    made: Drawing, y: float, rows: Sequence[str], kind: str, on: str, slots: int = 0
) -> None:
    """Blocks as tiles, in a column for each batch; empty slots are outlined."""
    for column, blocks in enumerate(rows):
        x = _COLUMNS[column]
        for place in range(max(len(blocks), slots)):
            block = blocks[place] if place < len(blocks) else ""
            made.box(
                (x + 26 * place, y, 24, 24), kind if block else "box", block, on if block else ""
            )


def out_of_core() -> str:
    """A bulk, its plan, and the reads that follow from it."""
    read, kept = _plan(_BATCHES, _SLOTS)
    made = Drawing(
        "A bulk of samples, its plan, and the reads that follow",
        f"Four batches need the blocks {', '.join(_BATCHES)}. With {_SLOTS} slots, the plan reads "
        f"{', '.join(one or 'nothing' for one in read)} and keeps after each batch what is needed "
        "again soonest. Rows go from the feature file to staging or a cache slot, then to a batch.",
    )
    made.text(EDGE, 32, "1  Sample a bulk of batches", "head")
    made.text(EDGE, 51, "before anything is read", "soft")
    for number, x in enumerate(_COLUMNS):
        made.text(x, 76, f"batch {number + 1}", "soft")
    made.text(EDGE, 101, "needs", "soft")
    _tiles(made, 84, _BATCHES, "sample", "on")
    made.rule(124)
    made.text(EDGE, 154, "2  Plan it", "head")
    uses, reads = sum(map(len, _BATCHES)), sum(map(len, read))
    made.text(EDGE, 173, f"{uses} uses of blocks, {reads} reads: the next use is known", "soft")
    made.text(EDGE, 204, "reads", "soft")
    _tiles(made, 187, read, "read", "on")
    made.text(EDGE, 236, "keeps", "soft")
    _tiles(made, 219, kept, "plan", "dark", _SLOTS)
    made.rule(259)
    made.text(EDGE, 289, "3  Run it, ahead of the model", "head")
    _run(made, 304)
    return made.svg(428)


def _run(made: Drawing, y: float) -> None:
    """The way of a row from the file to the model."""
    made.box((EDGE, y + 4, 92, 44), "box", "feature file")
    made.box((138, y + 4, 92, 44), "read faint", "staging")
    made.box((258, y + 4, 64, 44), "box", "batch")
    made.box((350, y + 4, 72, 44), "forward", "model", "on")
    made.box((138, y + 70, 92, 36), "plan faint", "cache slots")
    for x, end in ((110, 136), (230, 256), (322, 348)):
        made.arrow((x, y + 26), (end, y + 26))
    made.arrow((184, y + 48), (184, y + 68))
    made.arrow((230, y + 88), (290, y + 88), (290, y + 50))
    made.lines(EDGE, y + 84, ["within one", "budget"])
    made.lines(308, y + 84, ["two threads work", "ahead of it"])


def ranks() -> str:
    """A grid of eight ranks with replication 2, and one exchange in it."""
    high, wide = 4, 2
    asks = (2, 0)
    made = Drawing(
        "Eight ranks as a grid of p/c = 4 rows and c = 2 columns",
        "Ranks 0 and 1 hold block 0, ranks 2 and 3 block 1, ranks 4 and 5 block 2, ranks 6 and 7 "
        "block 3. Rank 4 sends ids to ranks 0, 2 and 6 of its column and gets rows from them.",
    )
    made.text(EDGE, 32, "Who holds what", "head")
    made.text(EDGE, 51, "p = 8 ranks, c = 2: a grid of p/c rows and c columns", "soft")
    left, top, step = 150, 92, 56
    for column in range(wide):
        made.text(left + 60 + 140 * column, 80, f"column {column}", "soft", "middle")
    for row in range(high):
        y = top + step * row
        made.text(EDGE, y + 17, f"grid row {row}", "soft")
        made.text(EDGE, y + 35, f"block {row}", "plain")
        for column in range(wide):
            here = (row, column) == asks
            kind = "forward" if here else "sent faint" if column == asks[1] else "box"
            words = f"rank {row * wide + column}"
            made.box((left + 140 * column, y, 120, 42), kind, words, "on" if here else "")
    x = left - 12
    own = top + step * asks[0] + 21
    for row in range(high):
        if row != asks[0]:
            y = top + step * row + 21
            made.arrow((left, own), (x, own), (x, y), (left - 1, y))
    y = top + step * high + 6
    made.rule(y)
    made.text(EDGE, y + 30, "One exchange, planned for a whole bulk", "head")
    after = made.lines(
        EDGE,
        y + 50,
        [
            "1  rank 4 sends ids to the owners in its column",
            "2  each owner sends back rows, in rounds that fit",
            "3  what is needed again soonest stays in a cache",
        ],
    )
    made.lines(
        EDGE,
        after + 8,
        ["A column holds every row of the graph, so no rank", "asks outside its own."],
    )
    return made.svg(after + 44)


def typed() -> str:
    """Two tables, and the node types and relations that they become."""
    made = Drawing(
        "Tables become node types, foreign keys become relations and their reverses",
        "Table orders has rows 17, 18 and 19, with the user ids ann, ann and none; table users has "
        "the rows ann and bob. Each row is a node. Orders 17 and 18 are linked with ann by the "
        "relation f2p_user_id and its reverse; order 19 and bob have no edge.",
    )
    made.text(EDGE, 32, "Tables", "head")
    _table(
        made,
        (EDGE, 46),
        "orders",
        ("id", "user_id", "price"),
        [("17", "ann", "9.50"), ("18", "ann", "3.00"), ("19", "NULL", "7.20")],
        (44, 84, 62),
    )
    _table(made, (262, 46), "users", ("id", "age"), [("ann", "31"), ("bob", "27")], (84, 76))
    made.rule(196)
    made.text(EDGE, 226, "Graph", "head")
    made.text(EDGE, 245, "a row is a node, a foreign key is an edge each way", "soft")
    places = {
        "17": (82, 292),
        "18": (82, 338),
        "19": (82, 384),
        "ann": (358, 315),
        "bob": (358, 361),
    }
    for name, (x, y) in places.items():
        kind = "forward" if x < MIDDLE else "cosine"
        made.box((x - 30, y - 15, 60, 30), kind, name, "on")
    for name in ("17", "18"):
        y = places[name][1]
        made.arrow((112, y - 4), (240, y - 4), (240, 309), (326, 309))
        made.arrow((328, 321), (226, 321), (226, y + 4), (114, y + 4))
    made.text(82, 424, "orders", "soft", "middle")
    made.text(358, 424, "users", "soft", "middle")
    made.rule(440)
    made.text(EDGE, 464, "(orders, f2p_user_id, users)", "code")
    made.text(EDGE, 484, "(users, rev_f2p_user_id, orders)", "code")
    made.lines(
        EDGE,
        508,
        [
            "price and age are the features x of their types;",
            "NULL is no edge: order 19 stands alone",
        ],
    )
    return made.svg(544)


def _table(
    made: Drawing,
    at: tuple[float, float],
    name: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
) -> None:
    x, y = at
    made.text(x, y + 12, name, "code")
    made.box((x, y + 20, sum(widths), 26 * (len(rows) + 1)), "box")
    for number, row in enumerate([head, *rows]):
        line = y + 20 + 26 * number
        if number:
            made.parts.append(f'<path d="M{x:g} {line:g}h{sum(widths)}" class="line"/>')
        left = x
        for cell, wide in zip(row, widths, strict=True):
            made.text(left + 8, line + 18, cell, "soft" if number == 0 else "")
            left += wide
    assert x + sum(widths) <= WIDE - EDGE
