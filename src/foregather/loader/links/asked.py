"""asked: one batch of links: its seeds, where the ends of links are among them, and its labels."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.loader.links.placed import Drawn, Placed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Asked", "LinkRows", "tree_rows"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The links of one batch.

    Attributes:
        input_id: which of the links they are.
        drawn: their ends and those of their negatives.
        placed: the same as seeds.
        triplet: negatives are other targets of the same source.
        label: one row per link, or None.
        time: what each link may see, or None.
        keys: what the trees of sources and of targets are keyed by; None without disjoint trees.
        leaves_out: what sampling leaves out: "edges" or "pairs"; None: nothing.
        edge: which edges of the graph the links are; None if they are others.
    """

    input_id: Ids
    drawn: Drawn
    placed: Placed
    triplet: bool
    label: "Tensor | None"
    time: Ids | None
    keys: tuple[Ids, Ids] | None
    leaves_out: str | None
    edge: Ids | None

    @property
    def num_links(self) -> int:
        """Links, without negatives."""
        return self.drawn.count

    def link_of_tree(self, sources_first: bool = True) -> Ids:
        """For each tree, in the order of seeds, the link of the batch that it belongs to."""
        parts = self.drawn.source_link, self.drawn.target_link
        return np.concatenate(parts if sources_first else parts[::-1])

    def links_of(self, trees: "Tensor", sources_first: bool = True) -> "Tensor":
        """The links that these trees belong to: each to that of its seed."""
        import torch

        # by NumPy: threads of torch beside those that sample make both slower
        return torch.from_numpy(self.link_of_tree(sources_first)[trees.numpy()])

    def labels(self) -> dict[str, Any]:
        """What a batch says about its links, under PyG's names."""
        return self._triplets() if self.triplet else self._pairs()

    def _pairs(self) -> dict[str, Any]:
        import torch

        drawn, placed = self.drawn, self.placed
        label, missing = self.label, drawn.source.size - drawn.count
        if missing and label is None:
            known = np.zeros(drawn.source.size, np.float32)
            known[: drawn.count] = 1
            label = torch.from_numpy(known)
        elif missing and label is not None:
            label = torch.cat([label, label.new_zeros((missing, *label.shape[1:]))])
        time = None if self.time is None else _long(self.time[drawn.source_link])
        both = np.empty((2, drawn.source.size), np.int64)
        both[0], both[1] = placed.source, placed.target
        index = torch.from_numpy(both)
        return {"edge_label_index": index, "edge_label": label, "edge_label_time": time}

    def _triplets(self) -> dict[str, Any]:
        count, target = self.drawn.count, self.placed.target
        negative = np.ascontiguousarray(target[count:].reshape(-1, count).T)
        return {
            "src_index": _long(self.placed.source),
            "dst_pos_index": _long(target[:count]),
            "dst_neg_index": _long(negative[:, 0] if negative.shape[1] == 1 else negative),
            "seed_time": None if self.time is None else _long(self.time),
        }


class LinkRows(tuple[Ids, Ids]):
    """Seeds and `input_id` of a batch of links: a tuple of two, and what was asked.

    Attributes:
        asked: the links; not an entry of the tuple.
    """

    asked: Asked

    def __new__(cls, asked: Asked) -> "LinkRows":
        """Creates the tuple with one additional attribute."""
        made = super().__new__(cls, (asked.placed.source_seeds, asked.input_id))
        made.asked = asked
        return made


def tree_rows(rows: tuple[Ids, Ids]) -> Ids:
    """What the trees of a batch are keyed by: `input_id`, or a number for each end of its links."""
    if not isinstance(rows, LinkRows):
        return rows[1]
    assert rows.asked.keys is not None
    return np.concatenate(rows.asked.keys)


def _long(values: npt.NDArray[Any]) -> "Tensor":
    import torch

    return torch.from_numpy(np.array(values, np.int64))
