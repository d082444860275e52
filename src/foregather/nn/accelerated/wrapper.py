"""wrapper: the module that `accelerate` returns: the user's model, called on fewer rows.

It holds the same parameters, buffers and submodules under the same names, so that it can be
trained, saved, copied and moved like the model itself, and changes to one are changes to both.
"""

import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from operator import is_not
from typing import Any, Literal

import torch
from torch import nn

from foregather.errors import AccelerateWarning, InputError
from foregather.nn.accelerated.hops import Hops, Order, remember_counts
from foregather.nn.accelerated.inputs import Inputs, is_batch
from foregather.nn.accelerated.linears import fast_linears
from foregather.nn.accelerated.passing import convolutions, is_watched, watching
from foregather.nn.accelerated.plan import Ended, Known, Plain, Plan, parts_of
from foregather.nn.accelerated.prove import lazy_parts, pass_over, prove
from foregather.nn.accelerated.rows import CutRows
from foregather.nn.accelerated.typed.typed_inputs import TypedInputs, has_types
from foregather.nn.accelerated.verdicts import Verdicts, explain_plain, explain_verdicts
from foregather.nn.arguments import (
    call_arguments,
    is_typed_batch,
    parameters_of,
    typed_arguments,
)

__all__ = ["Accelerated", "accelerate"]

_OWN = ("accelerated_model", "norms", "_verdicts", "_unknown", "_warned", "_known", "_unused")
_FEW = "the batch has hops of one node, or none"


def accelerate(model: nn.Module, *, norms: Literal["exact", "needed"] = "exact") -> "Accelerated":
    """Makes a model compute, at each layer, only the rows that later layers need.

    The result is called like the model, `fast(batch.x, batch.edge_index)`, or with a batch,
    `fast(batch)`, and returns at least the rows of the seeds: `fast(batch)[:batch.batch_size]`.
    How many nodes and edges each hop has is known of the batches of a `Loader`, and of every batch
    with `num_sampled_nodes` and `num_sampled_edges`; without these the model runs as it is.

    Before the first accelerated pass, and again in the other of training and evaluation mode, the
    seeds' results and all gradients are compared with those of the plain model in float64. What
    does not agree is left plain, with one `AccelerateWarning` that names the module and the reason;
    `explain()` says what was chosen for each convolution.

    Args:
        model: any module; convolutions of PyG and of `foregather.nn` in it are accelerated.
        norms: "exact": a model with norms over all nodes (batch norm in training) is left plain.
            "needed": their statistics are taken over the rows that later layers need.

    Raises:
        InputError: `model` is not a module, or `norms` is neither of the two.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"accelerate was given {type(model).__name__}, expected a torch module")
    if norms not in ("exact", "needed"):
        raise InputError(f'norms is {norms!r}, expected "exact" or "needed"')
    if isinstance(model, Accelerated):
        model = model.accelerated_model
    return Accelerated(model, norms)


class Accelerated(nn.Module):
    """A model that computes only the rows that later layers need; see `accelerate`.

    Attributes:
        accelerated_model: the user's model, which shares all parameters.
        norms: see `accelerate`.
    """

    accelerated_model: nn.Module
    norms: Literal["exact", "needed"]
    _verdicts: Verdicts
    _unknown: str | None
    _warned: bool
    _known: Known | None
    _unused: frozenset[str]

    def __init__(self, model: nn.Module, norms: Literal["exact", "needed"] = "exact") -> None:
        super().__init__()
        own = self.__dict__
        own["accelerated_model"], own["norms"] = model, norms
        own["_verdicts"], own["_unknown"] = Verdicts(), None
        own["_warned"], own["_known"], own["_unused"] = False, None, frozenset()
        for shared in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[shared] = getattr(model, shared)

    # ---- the model's own face ----------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Parameters, submodules and everything else that the model has."""
        if "accelerated_model" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["accelerated_model"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets attributes of the model, but for the wrapper's own."""
        if name in _OWN or "accelerated_model" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.accelerated_model, name, value)

    @property
    def training(self) -> bool:
        """The model's own, which may be changed there."""
        return self.accelerated_model.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "accelerated_model" in self.__dict__:  # torch sets it before there is a model
            self.accelerated_model.training = mode

    def train(self, mode: bool = True) -> "Accelerated":
        """Sets training mode for the model."""
        self.accelerated_model.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own."""
        return self.accelerated_model.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Loads the model's own."""
        return self.accelerated_model.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.accelerated_model._load_from_state_dict(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Accelerated({self.accelerated_model!r})"

    # ---- what was decided --------------------------------------------------------------------

    @property
    def plain(self) -> str | None:
        """Why the model runs as it is in its present mode; None if it is accelerated.

        Also None before the first call.
        """
        if (static := self._static()) is not None:
            return static.reason
        now = [verdict for mode, verdict in self._verdicts.by_mode() if mode == self.training]
        if not now:
            return self._unknown
        return self._sentence(now[-1]) if isinstance(now[-1], Plain) else None

    def accelerated_state(self) -> list[dict[str, Any]]:
        """For checkpoints: for which kinds of calls the model runs as it is, and why."""
        return self._verdicts.state()

    def load_accelerated_state(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Goes back to a saved state, so that such calls run the model as it is again."""
        self._verdicts.load(state)

    def take_accelerated_state(self, state: Iterable[Mapping[str, Any]], where: str = "") -> None:
        """Adds what was decided elsewhere, on another rank; `where` is added to the reasons."""
        self._verdicts.take(state, where)

    def explain(self) -> str:
        """A table of what was chosen for each convolution, in training and in evaluation."""
        if (static := self._static()) is not None:
            return f"plain: {static.reason}"
        if not (verdicts := self._verdicts.by_mode()):
            return f"not proven yet: {self._unknown or 'it was not called'}"
        return explain_verdicts(self.accelerated_model, verdicts)

    def _sentence(self, verdict: Plain) -> str:
        return explain_plain(self.accelerated_model, verdict)

    def _static(self) -> Plain | None:
        model = self.accelerated_model
        if isinstance(model, torch.jit.ScriptModule):
            return Plain("the model is scripted by TorchScript, so its layers cannot be reached")
        if type(model).__name__ == "OptimizedModule":
            return Plain("the model is compiled by torch.compile, so its layers cannot be reached")
        if isinstance(model, nn.parallel.DistributedDataParallel):
            return Plain("the model is distributed; use DistributedDataParallel(accelerate(model))")
        return None

    # ---- a pass ------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's result, at least for the seeds."""
        model = self.accelerated_model
        if len(args) == 1 and not kwargs:
            args, kwargs = self._picked(args[0])
        if torch.compiler.is_compiling() or is_watched():  # in a pass, that pass decides
            return model(*args, **kwargs)
        static = self._static()
        if static is not None:
            self._warn(static)
            return model(*args, **kwargs)
        given = _named(model, args, kwargs)
        hops = given.hops()
        summed = self._has_sums(given, hops)
        early = isinstance(hops, str) or (hops.has_small_hops and not summed and not hops.typed)
        if isinstance(hops, str) or hops.depth == 0 or early:
            # with one row, rows of different layers would be broadcast, and not be refused
            self._unknown = hops if isinstance(hops, str) else _FEW
            return model(*args, **kwargs)
        known = self._modules_now()
        key, verdict = self._verdict(known, given, hops)
        if isinstance(verdict, Plan):
            few = verdict.joins and hops.has_small_hops
            if summed and few:
                raise _too_few_rows("it joins rows of layers, and the batch has hops of one node")
            if not few or not hops.typed:
                return self._accelerated(verdict, key, given, hops, known)
        if summed:
            raise _too_few_rows(self._sentence(verdict) if isinstance(verdict, Plain) else None)
        out = model(*args, **kwargs)  # if this fails, the model is not to be called like this
        if isinstance(verdict, Plain):
            self._decide(key, verdict)
        elif verdict is None and hops.typed:
            self._unused = lazy_parts(model)
        return out

    def prove(self, *args: Any, **kwargs: Any) -> str | None:
        """Makes the proof for calls like this in the present mode, without calling the model.

        Returns:
            Why such calls run the model as it is; None if they are accelerated, or if the proof
            can only be made in a call (parameters without sizes).
        """
        model = self.accelerated_model
        if len(args) == 1 and not kwargs:
            args, kwargs = self._picked(args[0])
        if (static := self._static()) is not None:
            return static.reason
        given = _named(model, args, kwargs)
        hops = given.hops()
        if isinstance(hops, str) or hops.depth == 0:
            return hops if isinstance(hops, str) else _FEW
        key, verdict = self._verdict(self._modules_now(), given, hops)
        if isinstance(verdict, Plain):
            self._verdicts[key] = verdict
            return self._sentence(verdict)
        return None

    def _verdict(self, known: Known, given: Inputs, hops: Order) -> tuple[Any, Plan | Plain | None]:
        """What was proven for calls like this, now if it was not before; its key first."""
        shape = tuple(
            (type(part), part.training, len(part._forward_hooks), len(part._forward_pre_hooks))
            for part in known.parts
        )
        key = (self.training, shape, given.signature(), *hops.kind)
        verdict = self._verdicts.find(key)
        if verdict is None:
            verdict = prove(self.accelerated_model, given, hops, self.norms, self._unused)
            if isinstance(verdict, Plan):
                self._verdicts[key] = verdict
        return key, verdict

    @staticmethod
    def _has_sums(given: Inputs, hops: Order | str) -> bool:
        """Whether the batch has sums in place of the rows of leaves.

        Raises:
            InputError: the model is called with other rows than those of the batch.
        """
        if not isinstance(hops, Hops) or hops.sums is None:
            return False
        x = given.find("x")
        reason = hops.sums.unfit(x)
        if reason is None:
            return True
        rows = x.shape[0] if isinstance(x, torch.Tensor) and x.ndim > 0 else -1
        if rows == hops.num_nodes:
            hops.sums = None  # rows of all nodes, from elsewhere
            return False
        raise _too_few_rows(reason)

    def _picked(self, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model is called with for a batch; anything else is its one argument."""
        if is_typed_batch(batch):
            return typed_arguments(self, batch, self._dtype())
        if not is_batch(batch):
            return (batch,), {}
        takes = [
            p
            for p in parameters_of(self).values()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        needed = [p.name for p in takes if p.default is p.empty]
        if len(needed) <= 1 and (not takes or takes[0].name not in ("x", "edge_index")):
            return (batch,), {}
        args, kwargs = call_arguments(self, batch, self._dtype())
        if not torch.compiler.is_compiling():
            remember_counts(batch)  # of other loaders' batches; not every model takes them
        return args, kwargs

    def _dtype(self) -> torch.dtype:
        floats = (part.dtype for part in self.parameters() if part.is_floating_point())
        return next(floats, torch.get_default_dtype())

    def _modules_now(self) -> Known:
        """The modules of the model, looked up again only if some were replaced."""
        model, known = self.accelerated_model, self._known
        parts = parts_of(model)
        if known is None or len(known.parts) != len(parts) or any(map(is_not, known.parts, parts)):
            known = self._known = Known(parts, convolutions(model))
        return known

    def _decide(self, key: Any, verdict: Plain) -> None:
        self._verdicts[key] = verdict
        self._warn(verdict)

    def _warn(self, verdict: Plain) -> None:
        if not self._warned and not verdict.quiet:
            self._warned = True
            text = f"the model is not accelerated: {self._sentence(verdict)}"
            warnings.warn(text, AccelerateWarning, stacklevel=5)

    def _accelerated(self, plan: Plan, key: Any, given: Inputs, hops: Order, known: Known) -> Any:
        model, watched = self.accelerated_model, known.convolutions
        current = pass_over(hops, plan)
        inputs = given.untrimmed(model, hops)
        if plan.neutral:
            watched = watched | {name: model.get_submodule(name) for name in plan.neutral}
        mode: Any = nullcontext()
        if plan.joins:
            fixed = [id(part) for part in (*model.parameters(), *model.buffers())]
            mode = CutRows(current, fixed)
        undo = known.undo()
        try:
            with watching(current, watched), fast_linears(known.linears), mode:
                out = model(*inputs.args, **inputs.kwargs)
            if current.ended is None:
                return out
            ended: Exception = current.ended
        except Exception as error:
            if not current.begun:  # all rows are there, so it is the model's own error
                raise
            ended = error
        undo()
        if hops.sums is not None:
            told = current.ended or ended
            where = getattr(told, "module", None)
            raise _too_few_rows(f"{where}: {told}" if where else str(told)) from ended
        out = model(*given.args, **given.kwargs)  # if this fails too, it is the model's error
        reason = current.ended or ended
        if isinstance(reason, Ended):
            self._decide(key, Plain(reason.reason, reason.module))
        else:
            words = f"{type(reason).__name__}: {' '.join(str(reason).split())[:200]}"
            self._decide(key, Plain(f"fails on only the rows needed ({words})", ""))
        return out


def _named(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs:
    kind = TypedInputs if has_types(args, kwargs) else Inputs
    return kind.of(model, args, kwargs)


def _too_few_rows(reason: str | None) -> InputError:
    return InputError(
        "the batch has sums in place of the rows of leaves, which this model cannot use "
        f"({reason or 'its parameters have no sizes yet'}); use leaves='rows'"
    )
