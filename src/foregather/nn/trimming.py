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


#: Activations and norms whose results for a row depend on that row alone.
_BY_ROW = frozenset(
    (
        *("ReLU", "LeakyReLU", "PReLU", "RReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish"),
        *("Tanh", "Sigmoid", "Softplus", "Softsign", "Hardtanh", "ReLU6", "LogSigmoid", "Identity"),
        *("Hardswish", "Hardsigmoid", "Tanhshrink", "Dropout", "Linear", "LayerNorm", "RMSNorm"),
    )
)


def trims_alike(model: nn.Module) -> bool:
    """Whether trimming changes nothing for the seeds, as far as is known of the model's parts.

    True for models that are not PyG's: what such a model does with counts is its own.
    """
    model = getattr(model, "accelerated_model", model)
    if not any(base.__name__ == "BasicGNN" for base in type(model).__mro__):
        return True
    if mixing_norms(model) or not _is_by_row(getattr(model, "act", None)):
        return False
    if not all(map(_is_by_row, getattr(model, "norms", None) or ())):
        return False
    return all(_is_local(part) for part in model.modules() if hasattr(part, "propagate"))


def _is_by_row(part: object) -> bool:
    kind = type(part)
    known = kind.__module__.startswith(("torch.nn.modules.", "torch_geometric.nn."))
    return part is None or (known and kind.__name__ in _BY_ROW)


def _is_local(conv: nn.Module) -> bool:
    kind = type(conv)
    if getattr(conv, "flow", None) != "source_to_target":  # edges are sampled into targets
        return False
    if kind.__name__ == "GCNConv":  # by degrees, unless weights were given
        return not getattr(conv, "normalize", True)
    return kind.__module__.startswith("torch_geometric.nn.conv") and kind.__name__ in _LOCAL
