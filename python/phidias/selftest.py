"""Checks of a model, on the model itself: that its values are what their names say, that edits reach
the output, that looking changes nothing.

    python -m phidias run_tests -m MODEL...        # or, in Python:
    for check in phidias.selftest.run(model): print(check)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .layouts import LAYOUTS
from .values import INFOS

if TYPE_CHECKING:
    from .model import Model

_IDS = [1, 17, 23, 5, 42, 17, 8]
_ROUNDING = 8 * float(np.finfo(np.float32).eps)


class CheckFailed(AssertionError):
    """What a check has found."""


@dataclass(frozen=True)
class Check:
    """What became of one of them."""

    name: str
    failure: str | None

    def __str__(self) -> str:
        return f"{'FAILED' if self.failure else 'ok':>6}  {self.name}" + (
            f": {self.failure}" if self.failure else ""
        )


def support_is_true(model: Model) -> None:
    """Every value that support() has can be read, in its layout; every other gives its reason."""
    for name, reasons in model.support().items():
        info = INFOS[name.rpartition(".")[2]]
        if info.module.startswith("vision"):
            continue
        path = name.replace("layers.", "layers[0].", 1)
        try:
            with model.trace(_IDS) as t:
                saved = t.read(path)
        except NotImplementedError as error:
            reason = next(iter(reasons.values())) if reasons else "nothing"
            _check(reason in str(error), f"{path} is refused: {error}")
            continue
        _check(reasons is None, f"{path} can be read, and support() says: {reasons}")
        _check(
            info.layout == "Size" or isinstance(saved, LAYOUTS[info.layout]),
            f"{path} is no {info.layout}: {saved!r}",
        )


def contributions_add_up(model: Model) -> None:
    """What enters a block, and what its attention and its MLP add, is what leaves it."""
    with model.trace(_IDS) as t:
        parts = [
            t.layers[:].layer_input.save(),
            t.layers[:].self_attn.attention_output.save(),
            t.layers[:].mlp.mlp_output.save(),
        ]
        out = t.layers[:].layer_output.save()
    _close((parts[0] + parts[1]) + parts[2], out, "layer_output is not the sum of its parts")
    _close(out[:-1], parts[0][1:], "a block does not begin where the one before ends")


def branches_read_their_norms(model: Model) -> None:
    """The MLP reads the output of its norm."""
    with model.trace(_IDS) as t:
        normed, read = t.layers[:].mlp_norm_output.save(), t.layers[:].mlp_input.save()
    _close(normed, read, "mlp_input is not mlp_norm_output")


def patterns_are_distributions(model: Model) -> None:
    """Probabilities of each query sum to 1, and none is on a later key."""
    with model.trace(_IDS) as t:
        patterns = t.layers[:].self_attn.attention_probabilities.save()
    _check(bool(np.allclose(patterns.sum(-1), 1, atol=1e-3)), "patterns do not sum to 1")
    _check(not np.triu(patterns, 1).any(), "a query sees a later key")


def patterns_reach_the_output(model: Model) -> None:
    """A pattern that is overwritten changes the logits."""
    with model.trace(_IDS) as t:
        t.layers[0].self_attn.attention_probabilities = np.eye(len(_IDS))
        edited = t.logits.save()
    _check(not np.array_equal(edited, _logits(model)), "an edited pattern changes nothing")


def looking_changes_nothing(model: Model) -> None:
    """Logits are the same bits with and without reads, and those of generation."""
    with model.trace(_IDS) as t:
        t.layers[:].self_attn.attention_probabilities.save()
        t.layers[:].layer_output.save()
        logits = t.logits.save()
    _check(np.array_equal(logits, _logits(model)), "reads change the logits")
    sequence = model.engine.open(prompt_tokens=len(_IDS))
    plain = sequence.append(_IDS)
    _check(np.array_equal(logits[0, -1], plain), "a trace is not the run itself")


def the_last_lens_is_the_model(model: Model) -> None:
    """The norm and the head on what leaves the last block give the logits."""
    with model.trace(_IDS) as t:
        stream, logits = t.layers[-1].layer_output.save(), t.logits.save()
    _check(np.array_equal(model.project_on_vocab(stream), logits), "the last lens is not the model")


def ids_can_be_replaced(model: Model) -> None:
    """Assigned ids give the logits of the prompt that they are."""
    with model.trace(_IDS[::-1]) as t:
        t.input_ids = np.asarray([_IDS])
        logits = t.logits.save()
    _check(np.array_equal(logits, _logits(model)), "assigned ids are not run")


def names_are_aliases(model: Model) -> None:
    """Native names and TransformerLens' hooks are the same places."""
    layer = model.layers[0]
    for name, value in (
        ("blocks.0.hook_resid_post", layer.layer_output),
        ("blocks.0.attn.hook_pattern", layer.self_attn.attention_probabilities),
        ("model.layers.0.mlp.down_proj.input", layer.mlp.mlp_neurons),
        ("lm_head.output", model.lm_head_output),
    ):
        _check(model[name].path == value.path, f"{name} is not {value.path}")


CHECKS: dict[str, Callable[[Model], None]] = {
    check.__name__: check
    for check in (
        support_is_true,
        contributions_add_up,
        branches_read_their_norms,
        patterns_are_distributions,
        patterns_reach_the_output,
        looking_changes_nothing,
        the_last_lens_is_the_model,
        ids_can_be_replaced,
        names_are_aliases,
    )
}


def run(model: Model, checks: list[str] | None = None) -> Iterator[Check]:
    """Runs all checks, or those with these names; one result after another."""
    for name in CHECKS if checks is None else checks:
        try:
            CHECKS[name](model)
        except (CheckFailed, ValueError, RuntimeError, NotImplementedError) as failure:
            yield Check(name, str(failure))
        else:
            yield Check(name, None)


def _logits(model: Model) -> Any:
    with model.trace(_IDS) as t:
        logits = t.logits.save()
    return logits.numpy()


def _check(holds: bool, failure: str) -> None:
    if not holds:
        raise CheckFailed(failure)


def _close(a: Any, b: Any, failure: str) -> None:
    a, b = np.asarray(a), np.asarray(b)
    worst = float(np.abs(a - b).max(initial=0))
    _check(worst <= _ROUNDING * float(np.abs(b).max(initial=0)), f"{failure}: off by {worst:.3g}")
