"""Values of the wrong kind: each is one InputError that names the argument, before any work."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.loader import CachedLoader, ZipLoader

from foregather import InputError, Loader
from foregather.interop.pyg import NeighborLoader
from tests.loader.graphs import grouped, small_graph

WRONG = [
    *(("seed", value) for value in (1.5, None, "1", True, -1, 2**64)),
    *(("memory", value) for value in (1.5, True, 0, -5, 2**70, "1e400", "nan", [1])),
    *(("batch_size", value) for value in (None, 1.5, 2.0, "8", True, 0, -1)),
    *(("threads", value) for value in (1.5, -1, None, "all", 2**40, True)),
    *(("prefetch", value) for value in (1.5, -1, None, True, "many")),
    *(("bulk", value) for value in (1.5, 0, None, "many", True)),
    *(("device", value) for value in ("cuda:77", "bogus", 1.5, "cpu:x")),
    *(("shuffle", value) for value in ("no", 2, [])),
    *(("drop_last", value) for value in ("no", 2)),
    *(("replace", value) for value in ("no", None)),
    *(("edge_attr", value) for value in ("no", 2)),
    ("transform", 3),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_one_sentence(name, value):
    options = {"num_neighbors": [3, 2], "batch_size": 16, name: value}
    with pytest.raises(InputError, match="size" if name == "memory" else f"{name} is") as told:
        Loader(small_graph(), **grouped(options))
    assert "\n" not in str(told.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there():
    with pytest.raises(InputError, match="device is 'cuda', which torch cannot use here"):
        Loader(small_graph(), [2], device="cuda")


def test_what_is_a_whole_number_is_taken():
    loader = Loader(small_graph(), [2], batch_size=np.int64(16), seed=np.uint64(2**64 - 1))
    loader.set_epoch(np.int32(3))
    assert (loader.batch_size, loader.seed, loader.epoch) == (16, 2**64 - 1, 3)
    assert type(loader.seed) is int and len(list(loader)) == 8
    loader.set_epoch(2**63 - 1)
    assert len(list(loader)) == 8
    assert Loader(small_graph(), [2], device="cpu", shuffle=None).batch_size == 1


@pytest.mark.parametrize("epoch", ["a", 2**70, 2**63, 1.5, -1, None, True])
def test_epochs(epoch):
    with pytest.raises(InputError, match="epoch is"):
        Loader(small_graph(), [2]).set_epoch(epoch)


def test_states():
    loader = Loader(small_graph(), [2], batch_size=16)
    good = loader.state_dict()
    for state in (None, 3, [1], "epoch"):
        with pytest.raises(InputError, match=r"expected the result of state_dict"):
            loader.load_state_dict(state)
    with pytest.raises(InputError, match="the state was saved with"):
        loader.load_state_dict({})
    for name in ("epoch", "batch", "seed"):
        for value in (None, 1.5, -1, 2**70, "1"):
            with pytest.raises(InputError, match=f"{name} of the state is"):
                loader.load_state_dict({**good, name: value})
        with pytest.raises(InputError, match=f"{name} of the state is None"):
            loader.load_state_dict({key: good[key] for key in good if key != name})
    loader.load_state_dict(good)


def pyg_data() -> Data:
    rng = np.random.default_rng(0)
    return Data(x=torch.rand(40, 3), edge_index=torch.tensor(rng.integers(0, 40, (2, 200))))


def test_pygs_seat_refuses_them_too():
    for options in ({"batch_size": None}, {"seed": 1.5}, {"device": "bogus"}, {"shuffle": "no"}):
        with pytest.raises(InputError, match=f"{next(iter(options))} is"):
            NeighborLoader(pyg_data(), [2], **options)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["loader", "drop-in"])
def test_a_torch_dataloader_cannot_hold_a_loader(workers, kind):
    loader = (
        Loader(small_graph(), [2], batch_size=16)
        if kind == "loader"
        else NeighborLoader(pyg_data(), [2], batch_size=16)
    )
    for size in (None, 2):
        with pytest.raises(InputError, match="cannot be the dataset of a torch DataLoader; loop"):
            list(DataLoader(loader, batch_size=size, num_workers=workers))
    with pytest.raises(InputError, match="is iterable and has no items"):
        loader[0]
    assert len(list(loader)) == len(loader)


@pytest.mark.slow
def test_loops_and_pygs_loaders_work_as_before():
    loader = NeighborLoader(pyg_data(), [2], batch_size=16)
    assert len(list(iter(loader))) == 3 and len(list(CachedLoader(loader))) == 3
    other = NeighborLoader(pyg_data(), [2], batch_size=16)
    zipped = ZipLoader([loader, other], batch_size=20)
    assert [len(pair) for pair in zipped] == [2, 2]


@pytest.mark.parametrize("prefetch", [4097, 10**9, 2**62])
def test_a_prefetch_beyond_use_is_refused_at_once(prefetch):
    with pytest.raises(InputError, match="expected 0 to 4096 batches .* 2 to 8 are enough"):
        Loader(small_graph(), [2], prefetch=prefetch)
    assert len(list(Loader(small_graph(), [2], batch_size=16, prefetch=4096))) == 8


def test_input_nodes_are_hashed_once(monkeypatch):
    """A run asks for the state after every batch, and its input nodes may be millions."""
    from foregather import _core

    loader = Loader(small_graph(), [2], np.arange(50), batch_size=16)
    first = loader.state_dict()
    monkeypatch.setattr(_core, "xxh64", lambda *arguments: pytest.fail("hashed again"))
    assert [loader.state_dict() for _ in loader][-1]["input_nodes"] == first["input_nodes"]
    other = loader.beside(None).state_dict()
    assert other["input_nodes"] == "all"
    monkeypatch.undo()
    assert loader.beside(np.arange(49)).state_dict()["input_nodes"] != first["input_nodes"]
    np.testing.assert_array_equal(loader.input_nodes, np.arange(50))
    assert len(loader.beside(None).input_nodes) == small_graph().num_nodes
