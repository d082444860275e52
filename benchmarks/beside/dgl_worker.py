"""dgl_worker: does rounds of work with DGL and GraphBolt, in an interpreter that has them.

`process.py` starts it and speaks JSON, a line a message: {"make": NAME, "kind": ..., ...}
prepares some work, {"run": NAME, "round": N} does it once and answers with the seconds and the
sizes. It needs the standard library, NumPy, torch and DGL only, of the versions DGL 2.1 wants, so
nothing of foregather is imported here. An error is answered as {"error": SENTENCE}.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

import dgl
import dgl.graphbolt as gb
import dgl.nn.pytorch as dglnn
import numpy as np
import torch
from torch.nn import functional

CLASSES = 40


class Graphs:
    """Graphs that were read, each once for a kind of ids."""

    def __init__(self):
        self.kept = {}

    def topology(self, folder, ids):
        """The arrays of a case."""
        indptr, indices = (np.load(Path(folder) / f"{name}.npy") for name in ("indptr", "indices"))
        kind = np.int32 if ids == "int32" else np.int64
        return torch.from_numpy(indptr), torch.from_numpy(indices.astype(kind))

    def get(self, system, folder, ids):
        """The graph of a case, as the system wants it."""
        key = (system, folder, ids)
        if key not in self.kept:
            indptr, indices = self.topology(folder, ids)
            if system == "dgl":
                kind = torch.int32 if ids == "int32" else torch.int64
                made = dgl.graph(("csc", (indptr.to(kind), indices, [])), idtype=kind)
            else:
                made = gb.fused_csc_sampling_graph(indptr, indices)
            self.kept[key] = made
        return self.kept[key]

    def features(self, folder):
        """Its feature rows."""
        key = ("x", folder)
        if key not in self.kept:
            self.kept[key] = torch.from_numpy(np.load(Path(folder) / "x.npy"))
        return self.kept[key]


GRAPHS = Graphs()


def weigh(system, graph, path):
    """Gives the edges weights under the name "w"; returns that name, or None without a file."""
    if path is None:
        return None
    weights = torch.from_numpy(np.load(path))
    if system == "dgl":
        graph.edata["w"] = weights
    else:
        graph.edge_attributes = {"w": weights}
    return "w"


class Sampling:
    """Minibatches of a sampler, and nothing else."""

    def __init__(self, given):
        self.system = given["system"]
        self.graph = GRAPHS.get(self.system, given["folder"], given["ids"])
        self.weights = weigh(self.system, self.graph, given.get("weights"))
        self.seeds = [torch.from_numpy(part) for part in np.load(given["seeds"])]
        if given["ids"] == "int32":
            self.seeds = [part.int() for part in self.seeds]
        self.fanouts = given["fanouts"]
        if self.system == "dgl":  # made once: it keeps a table of the graph's nodes
            self.rule = dgl.dataloading.NeighborSampler(
                self.fanouts[::-1], prob=self.weights, fused=given["fused"]
            )

    def sizes(self):
        """Nodes and edges of one minibatch after the other."""
        if self.system == "dgl":
            for seeds in self.seeds:
                nodes, _, blocks = self.rule.sample(self.graph, seeds)
                yield len(nodes), sum(block.num_edges() for block in blocks)
        else:
            yield from sizes_of(self.pipe())

    def pipe(self):
        """GraphBolt's stages."""
        items = gb.ItemSet(torch.cat(self.seeds), names="seed_nodes")
        pipe = gb.ItemSampler(items, batch_size=len(self.seeds[0]))
        fanouts = [torch.LongTensor([number]) for number in self.fanouts[::-1]]
        return pipe.sample_neighbor(self.graph, fanouts, prob_name=self.weights)

    def run(self, number):
        """Samples all minibatches once."""
        begin = time.perf_counter()
        made = list(self.sizes())
        return answer(time.perf_counter() - begin, made)


def sizes_of(batches):
    for batch in batches:
        edges = sum(one.sampled_csc.indices.numel() for one in batch.sampled_subgraphs)
        yield batch.input_nodes.numel(), edges


class Loader:
    """Minibatches with their feature rows, as a training loop has them."""

    def __init__(self, given):
        self.system = given["system"]
        self.graph = GRAPHS.get(self.system, given["folder"], given["ids"])
        self.x = GRAPHS.features(given["folder"])
        seeds = torch.from_numpy(np.load(given["seeds"]))
        self.y = torch.arange(self.x.shape[0]) % CLASSES
        self.fanouts, self.workers = given["fanouts"], given["workers"]
        self.size = seeds.shape[1]
        kind = torch.int32 if given["ids"] == "int32" else torch.int64
        self.seeds = seeds.reshape(-1).to(kind)
        self.loader = None
        self.kept = not given.get("anew", False)

    def make(self):
        """The loader, made at the first call, or at each."""
        if self.loader is not None and self.kept:
            return self.loader
        if self.system == "dgl":
            # fused with ids of 32 bits and several threads it returns fewer nodes: other work
            rule = dgl.dataloading.NeighborSampler(
                self.fanouts[::-1], fused=self.seeds.dtype == torch.int64
            )
            self.loader = dgl.dataloading.DataLoader(
                self.graph,
                self.seeds,
                rule,
                batch_size=self.size,
                shuffle=True,
                num_workers=self.workers,
                persistent_workers=self.workers > 0,
            )
        else:
            items = gb.ItemSet(self.seeds, names="seed_nodes")
            pipe = gb.ItemSampler(items, batch_size=self.size, shuffle=True)
            fanouts = [torch.LongTensor([number]) for number in self.fanouts[::-1]]
            pipe = pipe.sample_neighbor(self.graph, fanouts)
            store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(self.x)})
            pipe = pipe.fetch_feature(store, node_feature_keys=["feat"])
            self.loader = gb.DataLoader(pipe, num_workers=self.workers)
        return self.loader

    def batches(self):
        """(rows, labels of the seeds, blocks or subgraphs, nodes, edges) one after the other."""
        if self.system == "dgl":
            for nodes, seeds, blocks in self.make():
                rows = self.x[nodes.long()]
                edges = sum(block.num_edges() for block in blocks)
                yield rows, self.y[seeds.long()], blocks, len(nodes), edges
        else:
            for batch in self.make():
                edges = sum(one.sampled_csc.indices.numel() for one in batch.sampled_subgraphs)
                rows = batch.node_features["feat"]
                yield rows, None, None, batch.input_nodes.numel(), edges

    def run(self, number):
        """Takes the batches of an epoch."""
        begin = time.perf_counter()
        made = [batch[3:] for batch in self.batches()]
        return answer(time.perf_counter() - begin, made)


class First(Loader):
    """The first minibatch of a loader that is made for it."""

    def run(self, number):
        """Takes one batch."""
        begin = time.perf_counter()
        batches = self.batches()
        made = [next(batches)[3:]]
        return answer(time.perf_counter() - begin, made)


class Net(torch.nn.Module):
    """Convolutions of DGL on blocks, which are bipartite as they come."""

    def __init__(self, kind, widths):
        super().__init__()
        last = len(widths) - 2
        self.convs = torch.nn.ModuleList()
        for number, (width, out) in enumerate(itertools.pairwise(widths)):
            self.convs.append(conv_of(kind, width, out, number == last))

    def forward(self, x, blocks):
        """Class scores of the seeds."""
        for number, (conv, block) in enumerate(zip(self.convs, blocks, strict=True)):
            if number:
                x = x.relu()
            x = conv(block, (x, x[: block.num_dst_nodes()]))
            if x.dim() == 3:
                x = x.flatten(1) if number + 1 < len(self.convs) else x.mean(1)
        return x


def conv_of(kind, width, out, last):
    if kind == "SAGE":
        return dglnn.SAGEConv(width, out, "mean")
    if kind == "GCN":
        return dglnn.GraphConv(width, out, norm="right", allow_zero_in_degree=True)
    if kind == "GIN":
        steps = (torch.nn.Linear(width, out), torch.nn.ReLU(), torch.nn.Linear(out, out))
        return dglnn.GINConv(torch.nn.Sequential(*steps), "sum")
    each = out if last else out // 4
    return dglnn.GATConv(width, each, 4, allow_zero_in_degree=True)


class Epoch(Loader):
    """An epoch of training."""

    def __init__(self, given):
        super().__init__(given)
        torch.manual_seed(0)
        widths = [self.x.shape[1], *[given["hidden"]] * (len(self.fanouts) - 1), CLASSES]
        self.model = Net(given["model"], widths)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def run(self, number):
        """Trains on every batch once."""
        begin, made, total = time.perf_counter(), [], 0.0
        for rows, labels, blocks, nodes, edges in self.batches():
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.model(rows, blocks), labels)
            loss.backward()
            self.optimizer.step()
            total += float(loss.detach())
            made.append((nodes, edges))
        return {**answer(time.perf_counter() - begin, made), "loss": total / len(made)}


class Memory(Loader):
    """Bytes that an epoch needs above the data that is loaded before it."""

    def run(self, number):
        """Takes the batches of an epoch, and watches the peak."""
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        made = [batch[3:] for batch in self.batches()]
        return {**answer(0.0, made), "bytes": resident("VmHWM") - before}


def resident(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {name}")


def answer(seconds, made):
    nodes, edges = (sum(one[k] for one in made) for k in (0, 1))
    return {"seconds": seconds, "batches": len(made), "nodes": int(nodes), "edges": int(edges)}


KINDS = {
    "sampling": Sampling,
    "loader": Loader,
    "first": First,
    "epoch": Epoch,
    "memory": Memory,
}


def main():
    """Answers a line for every line, until the other side closes the pipe."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    torch.set_num_threads(int(sys.argv[1]))
    works = {}
    print(json.dumps({"version": dgl.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        try:
            if "make" in given:
                works[given["make"]] = KINDS[given["kind"]](given)
                said = {}
            elif "drop" in given:
                works.clear()
                GRAPHS.kept.clear()
                said = {}
            else:
                said = works[given["run"]].run(given["round"])
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
