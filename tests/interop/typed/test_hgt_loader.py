"""The drop-in HGTLoader: PyG's contents, all types present, exact resume, bad input."""

import copy

import pytest
import torch
from torch_geometric import loader as pyg_loader
from torch_geometric.data import Data
from torch_geometric.nn import HGTConv

from foregather import InputError
from foregather.interop.pyg import HGTLoader, PygFeatureStore, PygGraphStore
from tests.interop.typed.test_typed_seat import CITES, DATA, WRITES, check_filter
from tests.loader.hetero.batches import same_data, shop
from tests.some import some


def ours(data=DATA, num_samples=(4, 3), **options):
    usual = {"input_nodes": ("paper", DATA["paper"].train_mask), "batch_size": 6, "seed": 1}
    num_samples = list(num_samples) if isinstance(num_samples, tuple) else num_samples
    return HGTLoader(data, num_samples, **{**usual, **options})


def test_batches_are_what_pygs_own_filter_makes():
    loader = ours()
    assert isinstance(loader, pyg_loader.HGTLoader) and repr(loader) == "HGTLoader()"
    rows = []
    for batch in some(loader):
        check_filter(batch, DATA)
        paper = batch["paper"]
        assert paper.n_id[: paper.batch_size].tolist() == paper.input_id.tolist()
        assert paper.num_nodes <= paper.batch_size + 7 and batch["author"].num_nodes <= 7
        assert len(set(paper.n_id.tolist())) == paper.num_nodes
        assert "num_sampled_nodes" not in paper  # as in PyG: edges have no layers
        for name in some(DATA.edge_types):  # all edges between the nodes
            source, target = DATA[name].edge_index
            inside = torch.isin(source, batch[name[0]].n_id)
            inside &= torch.isin(target, batch[name[2]].n_id)
            assert sorted(batch[name].e_id.tolist()) == inside.nonzero().view(-1).tolist()
        rows += paper.input_id.tolist()
    assert sorted(rows) == DATA["paper"].train_mask.nonzero().view(-1).tolist()


def test_numbers_by_type_and_repeats():
    numbers = {"paper": [2, 2], "author": [0, 3], "venue": [1, 1]}
    (batch,) = ours(num_samples=numbers, input_nodes=("paper", [4, 7, 4]))
    check_filter(batch, DATA)
    assert batch["paper"].n_id[:3].tolist() == [4, 7, 4] and batch["paper"].batch_size == 3
    for name in some([CITES, WRITES]):
        into = [batch[name].e_id[batch[name].edge_index[1] == at].tolist() for at in (0, 2)]
        assert into[0] == into[1]


def test_resuming_calling_and_threads():
    whole = [list(loader) for loader in [ours(shuffle=True)] for _ in range(2)]
    going = ours(shuffle=True, num_workers=2, threads=2, bulk=3)
    assert all(map(same_data, list(going), whole[0]))
    for number, _ in enumerate(going):
        if number == 1:
            break
    again = ours(shuffle=True, seed=9)
    again.load_state_dict(going.state_dict())
    rest = list(again)
    assert len(rest) == 2 and all(map(same_data, rest, whole[1][2:]))
    check_filter(ours()([3, 3]), DATA)
    drawn = ours(sampler=[5, 1, 3], batch_size=2)
    assert [b["paper"].input_id.tolist() for b in drawn] == [[10, 2], [6]]


def test_a_model_trains_on_it():
    torch.manual_seed(0)
    data = copy.copy(DATA)
    data["author"].x = torch.nn.functional.pad(data["author"].x.float(), (0, 3))
    data["venue"].x = torch.randn(4, 6)
    conv = HGTConv(6, 8, data.metadata(), heads=2)
    for batch in some(ours(data)):
        out = conv(batch.x_dict, batch.edge_index_dict)["paper"][: batch["paper"].batch_size]
        out.sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in conv.parameters())


def test_graphs_and_stores_of_ours():
    graph = shop()
    (one,) = HGTLoader(graph, [5], ("user", [1, 2]), batch_size=2, seed=0)
    pair = (PygFeatureStore(graph), PygGraphStore(graph))
    (two,) = HGTLoader(pair, [5], ("user", [1, 2]), batch_size=2, seed=0)
    assert torch.equal(one["user"].x, two["user"].x)
    assert torch.equal(one["item"].n_id, two["item"].n_id) and one["item"].num_nodes > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_samples": {"paper": [1], "author": [1]}}, "no entry for node type 'venue'"),
        ({"num_samples": {"papr": [1]}}, "no node type 'papr'; the nearest is 'paper'"),
        ({"num_samples": 3}, "num_samples is a int"),
        ({"input_nodes": "papr"}, "no node type 'papr'; the nearest is 'paper'"),
        ({"input_time": torch.arange(20)}, "input_time"),
        ({"data": Data(num_nodes=3, edge_index=torch.zeros(2, 0).long())}, "one type of nodes"),
        ({"disjoint": True}, "disjoint is an option of the sampler"),
        ({"collate_fn": print}, "collate_fn"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        ours(**options)
