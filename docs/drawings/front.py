"""front: the two drawings of the README: the idea, and three figures."""

from pen import EDGE, WIDE, Drawing

__all__ = ["idea", "three_figures"]

_LEFT = 76  # where the lanes begin
_TO, _TIMES = "\u2013", "\u00d7"


def idea() -> str:
    """Batches made on demand, and batches planned ahead, in the same time."""
    made = Drawing(
        "Decide all data movement first, then run it",
        "On demand, each batch is sampled, read and computed in turn, and the model waits: four "
        "batches. Planned, a bulk of batches is sampled, a plan says which rows move when, and the "
        "disk reads ahead while the model computes: eight batches in the same time.",
    )
    made.text(EDGE, 32, "On demand", "head")
    made.text(EDGE, 51, "each step sees its data for the first time", "soft")
    _lanes(made, 64)
    x = float(_LEFT)
    for number in range(4):
        made.box((x, 64, 50, 22), "wait faint")
        made.box((x, 120, 13, 22), "sample")
        made.box((x + 14, 92, 36, 22), "read")
        made.box((x + 51, 64, 34, 22), "forward", str(number + 1), "on")
        x += 87
    made.rule(162)
    made.text(EDGE, 192, "Planned", "head")
    made.lines(
        EDGE,
        211,
        ["a bulk of samples says exactly which rows are read,", "and when each is needed again"],
    )
    _lanes(made, 242)
    for x in (_LEFT, _LEFT + 152):
        made.box((x, 298, 26, 22), "sample")
        made.box((x + 27, 298, 13, 22), "plan")
    for number in range(9):
        made.box((_LEFT + 41 + 34 * number, 270, 33, 22), "read")
    made.box((_LEFT, 242, 74, 22), "wait faint")
    for number in range(8):
        made.box((_LEFT + 75 + 34.2 * number, 242, 33, 22), "forward", str(number + 1), "on")
    made.rule(338)
    entries = [
        ("sample", "sample"),
        ("plan", "plan"),
        ("read", "read"),
        ("forward", "compute"),
        ("wait faint", "wait"),
    ]
    made.legend(354, entries, 83)
    return made.svg(384)


def _lanes(made: Drawing, y: float) -> None:
    for row, name in enumerate(("model", "disk", "sampler")):
        made.text(EDGE, y + 28 * row + 16, name, "soft")


def three_figures() -> str:
    """Three measured figures; README says of what and on which machine."""
    made = Drawing(
        "Three measured figures",
        "Making batches: 7.4 times as fast as PyG's loader with pyg-lib. A training step: 3.9 to "
        "4.8 times as fast as PyG's trimmed model. Training with nine tenths of the features on "
        "disk: 1.01 times the time of training in memory.",
    )
    fast = "compared with PyG's "
    disk = ["the time: nine tenths of features on", "disk, compared with all in memory"]
    y = 20.0
    for big, said, names, theirs, ours in (
        (f"7.4 {_TIMES}", ["as fast: making batches in memory,", fast + "loader with pyg-lib"],
         ("PyG", "foregather"), 1.0, (1 / 7.4, 1 / 7.4)),
        (f"3.9{_TO}4.8 {_TIMES}", ["as fast: a GraphSAGE step, same loss,", fast + "trimmed model"],
         ("PyG", "foregather"), 1.0, (1 / 4.8, 1 / 3.9)),
        (f"1.01 {_TIMES}", disk,
         ("memory", "disk"), 1 / 1.01, (1.0, 1.0)),
    ):  # fmt: skip
        made.text(EDGE, y + 26, big, "big")
        made.lines(EDGE + 130, y + 13, said)
        _pair(made, y + 46, names, theirs, ours)
        made.rule(y + 98)
        y += 112
    made.text(EDGE, y + 6, "bars: time, shorter is faster", "soft")
    return made.svg(y + 24)


def _pair(
    made: Drawing, y: float, names: tuple[str, str], theirs: float, ours: tuple[float, float]
) -> None:
    """Two bars below each other; of ours, the least and the most are shown."""
    left, room = EDGE + 80, WIDE - 2 * EDGE - 80
    for row, name in enumerate(names):
        made.text(EDGE, y + 21 * row + 12, name, "soft")
    made.box((left, y, room * theirs, 15), "other")
    made.box((left, y + 21, room * ours[1], 15), "forward faint")
    made.box((left, y + 21, room * ours[0], 15), "forward")
