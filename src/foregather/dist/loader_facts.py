"""loader_facts: everything that a Loader's batches depend on, as texts that ranks compare.

Threads, device, transform and the form of a batch (PyG's Data, `EdgeIndex`) may differ between
ranks: they change no value of a batch and nothing that is sent.
"""

from typing import TYPE_CHECKING

from foregather.sampling.identity import values_of

if TYPE_CHECKING:
    from foregather.graph.graph import Graph
    from foregather.loader.batch_recipe import BatchRecipe
    from foregather.loader.seeds import Seeds

__all__ = ["facts_of", "seed_facts"]


def facts_of(maker: "BatchRecipe") -> dict[str, str]:
    """The graph, the rule, the input nodes and what a batch holds."""
    form = maker.assembler
    return {
        "graph": _describe(maker.graph),
        "graph (its digest)": maker.graph.digest,
        "sampler": values_of(maker.sampler),
        "disjoint": f"{maker.disjoint}",
        **seed_facts(maker.seeds),
        "labels of a batch": form.labels,
        "edge_attr of a batch": f"{form.edge_attr}",
        "norm": f"{form.norm}",
        "leaves of a batch": form.leaves,
    }


def seed_facts(seeds: "Seeds") -> dict[str, str]:
    """The input nodes and how they are divided into batches."""
    return {
        "input nodes": f"{seeds.count} with digest {seeds.digest}",
        "input_id": "positions" if seeds.by_position else "node ids",
        "batch size": f"{seeds.batch_size}",
        "shuffle": f"{seeds.shuffle}",
        "drop_last": f"{bool(seeds.drop_last)}",
        "seed": f"{seeds.seed}",
    }


def _describe(graph: "Graph") -> str:
    rows = graph.features
    features = "no features" if rows is None else f"features {rows.width} x {rows.dtype}"
    held = [
        name
        for name in ("edge_weight", "edge_features", "labels")
        if getattr(graph, name) is not None
    ]
    return (
        f"{graph.num_nodes} nodes, {graph.num_edges} edges of {graph.indices.dtype}, {features}, "
        f"{', '.join(held) or 'nothing else'}"
    )
