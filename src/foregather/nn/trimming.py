"""trimming: whether PyG's own models give the seeds the same scores where they trim their layers.

Counts of sampled nodes and edges let `torch_geometric.nn.models` drop, layer by layer, what the
seeds no longer depend on. That only saves work where a node's row depends on its in-edges and their
sources alone. Degrees of sources are others in what is left, and so are statistics over nodes.
"""

from torch import nn

from foregather.nn.norms import mixing_norms

__all__ = ["trims_alike"]

#: Convolutions whose rows depend on nothing but in-edges and their sources.
_LOCAL = frozenset(
    (
        *("SAGEConv", "GraphConv", "GINConv", "GINEConv", "EdgeConv", "PNAConv", "NNConv"),
        *("GATConv", "GATv2Conv", "TransformerConv", "ResGatedGraphConv", "LEConv"),
    )
)


def trims_alike(model: nn.Module) -> bool:
    """Whether trimming changes nothing for the seeds; True for models that are not PyG's."""
    model = getattr(model, "accelerated_model", model)
    if not any(base.__name__ == "BasicGNN" for base in type(model).__mro__):
        return True  # what such a model does with counts is its own
    convolutions = [part for part in model.modules() if hasattr(part, "propagate")]
    return all(map(_is_local, convolutions)) and not mixing_norms(model)


def _is_local(conv: nn.Module) -> bool:
    kind = type(conv)
    if kind.__name__ == "GCNConv":  # by degrees, unless weights were given
        return not getattr(conv, "normalize", True)
    return kind.__module__.startswith("torch_geometric.nn.conv") and kind.__name__ in _LOCAL
