"""final_links: the scores of a run on links, with its best weights, next to the baseline.

Over ranks the first computes them while the others wait, so they are of all links at once. They
use every edge: the rows of all nodes layer by layer, then the decoder over the candidates; with
times, the two trees of each pair with every edge that they may see. Where that is not
possible, neighbours are sampled as in training, and the result says so.
"""

from typing import TYPE_CHECKING

from foregather.errors import BudgetError, InputError, StorageError
from foregather.nn.links.model import LinkModel
from foregather.train.links.make_links import is_lookup
from foregather.train.links.node_rows import NodeRows, TreeScores
from foregather.train.links.pair_scores import PairScorer
from foregather.train.links.popularity import rate_baseline
from foregather.train.links.rate import rate_pairs, rate_rows
from foregather.train.runs.final_scores import best_weights
from foregather.train.trainers.trainer import Record

if TYPE_CHECKING:
    from foregather.train.trainers.linking import LinkTrainer

__all__ = ["check_exact_links", "final_links", "rate_split"]


def rate_split(trainer: "LinkTrainer", role: str, exact: bool) -> float:
    """The metric of a split with the present weights."""
    return _rate(trainer, [role], exact)[role]


def check_exact_links(trainer: "LinkTrainer") -> None:
    """Refuses, before training, exact scores that cannot be computed.

    Raises:
        BudgetError: the run's budget is too small; the message states the minimum.
        InputError: the model cannot be computed in parts of the graph.
    """
    model = trainer.training.model
    assert isinstance(model, LinkModel)
    NodeRows(model, trainer.data, trainer.settings, trainer.folder).check()


def _rate(trainer: "LinkTrainer", roles: list[str], exact: bool) -> dict[str, float]:
    data, settings, ratings = trainer.data, trainer.settings, trainer.ratings
    model = trainer.training.model
    assert isinstance(model, LinkModel)
    timed = settings.typed.time != "none" and not is_lookup(settings)
    if timed or (not exact and all(ratings[role].kind != "all" for role in roles)):
        trees = TreeScores(model, data, settings, exact)  # of the pairs alone
        return {role: rate_pairs(trees.pairs, data, role, ratings[role]) for role in roles}
    made = NodeRows(model, data, settings, trainer.folder)
    rows: PairScorer = made.exact() if exact else made.sampled()
    return {role: rate_rows(rows, data, role, ratings[role]) for role in roles}


def final_links(trainer: "LinkTrainer") -> Record:
    """Scores by split, how they were computed, what links were compared with, and the baseline."""
    roles = list(trainer.ratings)
    facts: Record = {**trainer.training.goal.facts(), "relation": _relation(trainer)}
    if not roles:
        return facts
    plain = {role: rate_baseline(trainer.data, role, trainer.ratings[role]) for role in roles}
    facts["baseline"] = {role: value for role, (value, _) in plain.items()}
    facts["baseline_is"] = " and ".join(sorted({name for _, name in plain.values()}))
    facts["candidates"] = {role: trainer.ratings[role].describe() for role in roles}
    if trainer.left_out:
        facts["left_out"] = {role: one.facts() for role, one in trainer.left_out.items()}
    return {**_scores(trainer, roles), **facts}


def _relation(trainer: "LinkTrainer") -> str:
    found = trainer.data.edge_type
    return "" if found is None else ", ".join(found)


def _scores(trainer: "LinkTrainer", roles: list[str]) -> Record:
    """Scores with every edge, or sampled, and which of the two."""
    why = ""
    with best_weights(trainer.training):
        if trainer.settings.train.final == "exact" or is_lookup(trainer.settings):
            try:
                if trainer.together.grid is None:
                    trainer.training.meter.give_back()
                return {**_rate(trainer, roles, True), "scored": "exact"}
            except (BudgetError, InputError, StorageError) as error:
                if is_lookup(trainer.settings):
                    raise
                why = str(error)
            trainer.say(f"the final scores are sampled, since not every edge can be used: {why}")
        scores: Record = dict(_rate(trainer, roles, False))
    return {**scores, "scored": "sampled"} | ({"why_sampled": why} if why else {})
