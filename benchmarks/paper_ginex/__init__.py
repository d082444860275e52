"""paper_ginex: Ginex's figures, scaled to this machine."""

from .ablation import ablation
from .costs import cost, neighbour_cache, planning_share, trace_files
from .end_to_end import end_to_end
from .sweeps import cache_size, feature_width, superbatch

__all__ = ["FIGURES"]

FIGURES = [
    end_to_end,
    ablation,
    cache_size,
    superbatch,
    feature_width,
    planning_share,
    neighbour_cache,
    trace_files,
    cost,
]
