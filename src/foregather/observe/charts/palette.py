"""palette: one colour for one meaning, in all charts of a page, for light and dark backgrounds.

A name that has no meaning here, such as one from a stranger's trace, is grey.
"""

__all__ = ["ALONE", "MEANINGS", "STYLE", "kind_of"]

#: colour on light and on dark backgrounds, by meaning
MEANINGS = {
    "loss": ("#475569", "#cbd5e1"),
    "train": ("#94a3b8", "#7c8ba3"),
    "valid": ("#2563eb", "#60a5fa"),
    "test": ("#047857", "#34d399"),
    "baseline": ("#a16207", "#ca8a04"),
    "wait": ("#ea580c", "#fb923c"),
    "forward": ("#0e7490", "#0e8fb0"),
    "backward": ("#22b1cf", "#4fd0ea"),
    "step": ("#99dfec", "#b5eef8"),
    "evaluate": ("#8b5cf6", "#a78bfa"),
    "sample": ("#be185d", "#f472b6"),
    "plan": ("#f0a3c4", "#fbcfe8"),
    "gather": ("#92400e", "#d08b4f"),
    "assemble": ("#d6a97a", "#ecd0ab"),
    "read": ("#dc2626", "#f87171"),
    "bound": ("#64748b", "#94a3b8"),
    "sent": ("#7e22ce", "#c084fc"),
    "predicted": ("#64748b", "#94a3b8"),
    "error": ("#a21caf", "#e879f9"),
    "cosine": ("#4d7c0f", "#a3e635"),
    "other": ("#9ca3af", "#6b7280"),
    "run1": ("#2563eb", "#60a5fa"),
    "run2": ("#ea580c", "#fb923c"),
    "run3": ("#047857", "#34d399"),
    "run4": ("#a21caf", "#e879f9"),
    "run5": ("#a16207", "#facc15"),
    "run6": ("#0e7490", "#22d3ee"),
    "run7": ("#dc2626", "#f87171"),
    "run8": ("#475569", "#cbd5e1"),
}
_SAME = {
    "epoch": "forward",
    "blocks read": "read",
    "lower bound": "bound",
    "error of history": "error",
    "cosine of the gradient": "cosine",
    "compute": "forward",
    "rows of features, links": "sent",
    "rows": "sent",
    "samples, links": "wait",
    "links": "wait",
    "weights": "plan",
    "agreements": "other",
    "frontier": "assemble",
    "probability": "cosine",
    "picks": "sample",
    "extraction": "evaluate",
    "again": "step",
    "receive": "wait",
    "agree": "wait",
    "send": "sent",
    "exchange": "sent",
    "sum": "sent",
}


def kind_of(name: str) -> str:
    """The meaning whose colour a name has."""
    base = name.partition(" (")[0]
    base = _SAME.get(base, base)
    return base if base in MEANINGS else "other"


def _variables(which: int) -> str:
    return ";".join(f"--{name}:{pair[which]}" for name, pair in MEANINGS.items())


#: colours of text and background, which a chart in a file has from no page
ALONE = (
    ":root{color-scheme:light dark;color:#16202e}"
    "@media (prefers-color-scheme:dark){:root{color:#e6eaf0}}"
)
#: styles that every chart needs, whether in a page or as a file
STYLE = (
    f":root{{{_variables(0)};--grid:#8883;--on:#fff}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(1)};--grid:#9994;--on:#0b1220}}}}"
    "svg.chart{font:12.5px system-ui,sans-serif}svg.chart text{fill:currentColor}"
    "svg.chart .on{fill:var(--on)}"
    "svg.chart .soft{opacity:.72}svg.chart .head{font-weight:600;font-size:14px}"
    "svg.chart .grid{stroke:var(--grid);stroke-width:1;fill:none}"
    + "".join(f".f-{n}{{fill:var(--{n})}}.s-{n}{{stroke:var(--{n});fill:none}}" for n in MEANINGS)
)
