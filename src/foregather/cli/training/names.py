"""names: what a run can be told by name: models, samplers, tasks and metrics, a line each."""

__all__ = ["describe_names"]


def describe_names() -> str:
    """The lists, for `foregather train --help`; imports torch, so only there."""
    from foregather.nn.by_name import PLAIN_MODELS
    from foregather.nn.hetero.by_name import TYPED_MODELS
    from foregather.nn.links.decoders import DECODER_LINES
    from foregather.train.hetero.make import TYPED_SAMPLERS
    from foregather.train.links.make_links import LINK_MODELS
    from foregather.train.metrics.by_name import FAMILIES, METRICS
    from foregather.train.settings.samplers import SAMPLERS
    from foregather.train.tasks.find import TASKS

    every = METRICS | {f"{name}@K": make(20) for name, make in FAMILIES.items()}
    metrics = {name: f"{one.about} ({', '.join(one.tasks)})" for name, one in every.items()}
    typed = dict.fromkeys(TYPED_MODELS, "for graphs with node types")
    lists = {
        "model.kind": {
            **PLAIN_MODELS,
            **typed,
            **LINK_MODELS,
            "module:Class": "your own, or PyG's",
        },
        "sampler.kind": {**SAMPLERS, "hgt": TYPED_SAMPLERS["hgt"], "module:Class": "your own"},
        "train.task": TASKS,
        "train.metric": {"auto": "accuracy, micro_f1, rmse or mrr, by the task", **metrics},
        "link.decoder": DECODER_LINES,
    }
    parts = []
    for setting, names in lists.items():
        lines = [f"  {name}: {about}" for name, about in names.items()]
        parts.append("\n".join([f"{setting}:", *lines]))
    return "\n\n".join(parts)
