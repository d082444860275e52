"""prove: compares a model's accelerated pass with its plain one, once, before it is used.

On a small batch (`small`), a copy of the model in float64 runs plain and accelerated, with its own
weights and with random ones, with sums before linear maps and with maps before sums where a rule
may do either: the seeds' results and all gradients must agree to 1e-9. A convolution
for which they do not is left to its own code, step by step; a model for which nothing agrees is
left as it is. The model itself, its buffers and the random states are not touched.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from foregather.loader.batches.first_sums import FirstSums
from foregather.nn.accelerated.compare import Difference, Outcome, difference, run
from foregather.nn.accelerated.hops import Hops, Order
from foregather.nn.accelerated.inputs import Inputs
from foregather.nn.accelerated.passing import AnyPass, Pass, convolutions
from foregather.nn.accelerated.plan import Ended, Plain, Plan, Unfit, Way
from foregather.nn.accelerated.record import BaseRecorder, Recorder
from foregather.nn.accelerated.rows import CutRows
from foregather.nn.accelerated.small import SmallBatch
from foregather.nn.accelerated.typed.typed_hops import TypedHops
from foregather.nn.accelerated.typed.typed_inputs import TypedInputs
from foregather.nn.accelerated.typed.typed_passing import TypedPass
from foregather.nn.accelerated.typed.typed_record import TypedRecorder
from foregather.nn.accelerated.typed.typed_small import TypedSmall
from foregather.nn.aggregate import aggregate
from foregather.nn.norms import is_collective, mixing_norms, neutralize

__all__ = ["lazy_parts", "pass_over", "prove"]

_LARGEST = 1 << 27  # values of a model that is still copied
_NEXT: dict[Way, Way] = {"kernel": "pair", "pair": "square"}
Norms = Literal["exact", "needed"]


def lazy_parts(model: nn.Module) -> frozenset[str]:
    """Names of parameters and buffers without sizes."""
    named = (*model.named_parameters(), *model.named_buffers())
    return frozenset(name for name, part in named if is_lazy(part))


def pass_over(hops: Order, plan: Plan) -> AnyPass:
    """An accelerated pass over a batch of this order."""
    if isinstance(hops, TypedHops):
        return TypedPass(hops, plan)
    assert isinstance(hops, Hops)
    return Pass(hops, plan)


def prove(
    model: nn.Module,
    given: Inputs,
    hops: Order,
    norms: Norms,
    unused: frozenset[str] = frozenset(),
) -> Plan | Plain | None:
    """What may be done with a model that is called like this; None: not to be told yet.

    Args:
        model: the user's model, as it is now.
        given: what it is called with.
        hops: of that batch.
        norms: "needed": norms over nodes may be over the rows that later layers need.
        unused: parameters that had no sizes after a call either.
    """
    if not convolutions(model):
        return Plain("it has no convolutions", quiet=True)
    if lazy_parts(model) - unused:
        return None  # the first plain call gives its parameters their sizes
    if sum(part.numel() for part in model.parameters() if not is_lazy(part)) > _LARGEST:
        return Plain(f"it has more than {_LARGEST} parameters, too many to copy for the proof")
    with _apart():
        try:
            base = copy.deepcopy(model)
            for part in base.parameters():
                if is_lazy(part):
                    continue
                part.requires_grad_(part.is_floating_point() or part.is_complex())
                part.grad = None
            base = base.double()
        except Exception as error:
            return Plain(f"it cannot be copied in float64 ({_words(error)})", "")
        return _Proof(base, given, _small_batches(base, given, hops), norms).verdict()


def _recorder(hops: Order) -> BaseRecorder:
    if isinstance(hops, TypedHops):
        return TypedRecorder(hops)
    assert isinstance(hops, Hops)
    return Recorder(hops)


def _small_batches(base: nn.Module, given: Inputs, hops: Order) -> tuple[Any, Any]:
    """The batches of the proof: with the model's own weights, and with random ones."""
    if not isinstance(hops, TypedHops) or not isinstance(given, TypedInputs):
        assert isinstance(hops, Hops)
        small = SmallBatch(hops)
        return small, small
    parts = [part for part in (*base.parameters(), *base.buffers()) if not is_lazy(part)]
    parts += [value for _, _, value in given.leaves() if isinstance(value, torch.Tensor)]
    widths = frozenset(size for part in parts for size in part.shape[-2:])
    return TypedSmall(hops, 0, widths), TypedSmall(hops, 1, widths)


@contextmanager
def _apart() -> Iterator[None]:
    """Keeps random states, and leaves modes that change gradients or precision."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    try:
        with (
            torch.random.fork_rng(devices),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
        ):
            torch.manual_seed(0)
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


class _Proof:
    """One proof: the plain run, and accelerated runs until one agrees with it."""

    def __init__(
        self, base: nn.Module, given: Inputs, small: tuple[Any, Any], norms: Norms
    ) -> None:
        self.base, self.given, self.norms = base, given, norms
        self.batches, self.small = small, small[0]
        self.names = list(convolutions(base))
        self.neutral: tuple[str, ...] = ()

    def verdict(self) -> Plan | Plain:
        """What was proven."""
        alone = any(is_collective(part) for part in self.base.modules())
        if alone and self.norms == "exact":
            name = next(n for n, part in self.base.named_modules() if is_collective(part))
            return self._plain(Difference(name, "mixes nodes, of all ranks"))
        if alone:
            self.neutral = tuple(mixing_norms(self.base))
        plan = self._agreed()
        if isinstance(plan, Difference) and self.norms == "needed" and not self.neutral:
            self.neutral = tuple(mixing_norms(self.base))
            plan = self._agreed() if self.neutral else plan
        return self._plain(plan) if isinstance(plan, Difference) else plan

    def _agreed(self) -> Plan | Difference:
        self.small = self.batches[0]
        self.small.hops.set_order("sums first")
        found = self._search(self._prepared("own"), None)
        if isinstance(found, Difference):
            return found
        self.small = self.batches[1]
        self.small.hops.set_order("maps first")
        return self._search(self._prepared("random"), found)

    def _prepared(self, weights: str) -> nn.Module:
        model = copy.deepcopy(self.base)
        if weights == "random":
            generator = torch.Generator().manual_seed(7)
            with torch.no_grad():
                for part in model.parameters():
                    if is_lazy(part):
                        continue
                    noise = torch.randn(part.shape, generator=generator, dtype=torch.float64)
                    noise = noise.to(part.device)
                    wide = part.shape[-1] if part.ndim > 1 else 1
                    part.copy_(noise / wide**0.5 if part.ndim > 1 else part + 0.3 * noise)
        neutralize(model, self.neutral)
        return model

    # ---- the runs --------------------------------------------------------------------------

    def _search(self, model: nn.Module, known: Plan | None) -> Plan | Difference:
        """Finds ways with which the model agrees with its plain run."""
        recorder, plain = self._plain_run(model)
        if isinstance(plain.error, Ended):
            return Difference(plain.error.module, plain.error.reason)
        if plain.error is not None:
            text = f"cannot be run on a small batch in float64 ({_words(plain.error)})"
            return Difference(plain.at or "", text)
        if not recorder.seen:
            return Difference(None, "none of its convolutions is called")
        steps = recorder.steps(plain.result)
        plan = known or Plan(steps, dict.fromkeys(self.names, "kernel"), neutral=self.neutral)
        while True:
            fast, joins = self._fast_run(model, plan)
            found = difference(plain, fast, self.small.hops)
            if found is None:
                found = self._without_leaves(model, plan, plain)
            if found is None:
                return replace(plan, joins=plan.joins and (joins or known is not None))
            other = self._other(plan, found, recorder, plain)
            if other is None:
                return found
            plan = other

    def _plain_run(self, model: nn.Module) -> tuple[BaseRecorder, Outcome]:
        """The model's own run; without counts if it cannot be run with them."""
        for trimmed in (True, False):
            made = copy.deepcopy(model)
            inputs = self.small.inputs(self.given)
            hops = self.small.hops
            inputs = inputs if trimmed else inputs.untrimmed(made, hops)
            recorder = _recorder(hops)
            leaves, watched = self.small.leaves, convolutions(made)
            outcome = run(made, inputs, leaves, hops, recorder, watched)
            if outcome.error is None:
                break
        return recorder, outcome

    def _fast_run(self, model: nn.Module, plan: Plan) -> tuple[Outcome, bool]:
        model = copy.deepcopy(model)
        inputs = self.small.inputs(self.given)
        hops = self.small.hops
        current = pass_over(hops, plan)
        fixed = [id(part) for part in (*model.parameters(), *model.buffers())]
        mode = CutRows(current, fixed)
        outcome = run(
            model,
            inputs.untrimmed(model, hops),
            self.small.leaves,
            hops,
            current,
            convolutions(model),
            lambda: mode,
        )
        if current.ended is not None:
            outcome.error = current.ended
            outcome.at = current.ended.module if outcome.at is None else outcome.at
        return outcome, mode.used

    def _without_leaves(self, model: nn.Module, plan: Plan, plain: Outcome) -> Difference | None:
        """Where a batch has sums in place of rows of leaves: whether the model needs no more."""
        if (given := self.small.sums) is None:
            return None
        model, inputs, hops = copy.deepcopy(model), self.small.inputs(self.given), self.small.hops
        x, weight = inputs.find("x"), inputs.find("edge_weight") if given.weighted else None
        near = hops.neighborhoods(hops.num_nodes, hops.nodes[-2])
        part = None if weight is None else weight.detach()[: near.num_edges]
        total = aggregate(x.detach(), near, "sum", part)
        rows = x.detach()[: hops.nodes[-2]].clone()
        inputs = inputs.mapped(lambda _, value: rows if value is x else value)
        current = Pass(hops, plan)
        mode = CutRows(current, [id(one) for one in (*model.parameters(), *model.buffers())])
        hops.sums = FirstSums(rows, total, weight)
        try:
            watched, made = convolutions(model), inputs.untrimmed(model, hops)
            fast = run(model, made, {}, hops, current, watched, lambda: mode)
        finally:
            hops.sums = None
        if current.ended is not None:
            fast.error = current.ended
        grads = {name: plain.grads[name] for name in fast.grads}  # x and weights get none
        return difference(replace(plain, grads=grads), fast, hops)

    def _other(
        self, plan: Plan, found: Difference, recorder: BaseRecorder, plain: Outcome
    ) -> Plan | None:
        """The next plan to try; None if there is none."""
        ways = dict(plan.ways)
        by_order = recorder.steps(plain.result, by_order=True)
        short = isinstance(found.error, Ended) and not isinstance(found.error, Unfit)
        if short and plan.steps != by_order:
            return replace(plan, steps=by_order)
        if found.module in ways and ways[found.module] in _NEXT:
            ways[found.module] = _NEXT[ways[found.module]]
            return replace(plan, ways=ways)
        if found.module is None and "kernel" in ways.values():
            return replace(plan, ways={n: _NEXT.get(way, way) for n, way in ways.items()})
        return None

    def _plain(self, found: Difference) -> Plain:
        """Names the module at fault, and the norm in it if there is one."""
        name, what = found.module, found.what
        if name is None:
            return Plain(what)
        for norm in mixing_norms(self.base):
            inside = name in self.names and norm.startswith(f"{name}.")
            if inside or name == norm or name.startswith(f"{norm}."):
                hint = 'accelerate(model, norms="needed") takes them over the rows needed later'
                return Plain(f"mixes nodes by its statistics; {hint}", norm)
        return Plain(what, name)


def _words(error: Any) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
