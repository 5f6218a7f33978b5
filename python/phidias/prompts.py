"""Prompts with targets, and activations at one position: nnterp's names and signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .lenses import Floats, logit_lens, prompts_of

if TYPE_CHECKING:
    from .model import Model


class TokenizationError(ValueError):
    """A word whose first token says nothing about it."""


def get_first_tokens(
    words: str | Sequence[str], model_or_tokenizer: Any, use_hacky_implementation: bool = False
) -> list[int]:
    """The ids that an answer with one of these words may begin with: the first token of the word and
    of the word behind a space. A token that is only the space is left out."""
    tokenizer = getattr(model_or_tokenizer, "tokenizer", model_or_tokenizer)
    found: list[int] = []
    for word in [words] if isinstance(words, str) else words:
        for text in (word, " " + word):
            ids = tokenizer.encode(text, add_special=False, markers=False)
            spelled = [i for i in ids if tokenizer.token_bytes(i).strip() not in (b"", "▁".encode())]
            if not spelled:
                raise TokenizationError(f"{word!r} has no token of its own")
            if spelled[0] not in found:
                found.append(spelled[0])
    return found


@dataclass
class Prompt:
    """A prompt with named sets of tokens that answer it."""

    prompt: Any
    target_tokens: dict[str, list[int]]
    target_strings: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def from_strings(
        cls,
        prompt: Any,
        target_strings: Mapping[str, str | Sequence[str]] | str | Sequence[str],
        tokenizer: Any,
    ) -> Prompt:
        """From words: see :func:`get_first_tokens`. Without names they are all one "target"."""
        if not isinstance(target_strings, Mapping):
            target_strings = {"target": target_strings}
        strings = {k: [v] if isinstance(v, str) else list(v) for k, v in target_strings.items()}
        tokens = {name: get_first_tokens(words, tokenizer) for name, words in strings.items()}
        return cls(prompt, tokens, strings)

    def has_no_collisions(self, ignore_targets: str | Sequence[str] | None = None) -> bool:
        """Whether no token is in two sets."""
        ignored = [ignore_targets] if isinstance(ignore_targets, str) else ignore_targets or []
        tokens = [i for name, ids in self.target_tokens.items() if name not in ignored for i in ids]
        return len(tokens) == len(set(tokens))

    def get_target_probs(self, probs: Any, layer: int | None = None) -> dict[str, NDArray[Any]]:
        """The mass of each set: of probabilities ``[prompts, layers, vocab]`` (one layer where that
        is given)."""
        array = np.asarray(probs)
        if layer is not None:
            array = array[:, layer]
        return {name: array[..., ids].sum(-1) for name, ids in self.target_tokens.items()}

    def run(self, model: Model, get_probs: Callable[..., Any] = logit_lens) -> dict[str, Any]:
        """The mass of each set, layer by layer."""
        return self.get_target_probs(get_probs(model, self.prompt))


def run_prompts(
    model: Model,
    prompts: Sequence[Prompt],
    batch_size: int = 32,
    get_probs_func: Callable[..., Any] | None = None,
    func_kwargs: Mapping[str, Any] | None = None,
    remote: bool = False,
    tqdm: Any = None,
) -> dict[str, Floats]:
    """The mass of each target set of each prompt: ``{target: [prompts, layers]}``."""
    get_probs = get_probs_func or logit_lens
    found: dict[str, list[Any]] = {name: [] for name in prompts[0].target_tokens}
    starts: Any = range(0, len(prompts), batch_size)
    for start in starts if tqdm is None else tqdm(starts):
        batch = prompts[start : start + batch_size]
        probabilities = get_probs(model, [p.prompt for p in batch], **(func_kwargs or {}))
        for prompt, one in zip(batch, probabilities):
            for name, mass in prompt.get_target_probs(np.asarray(one)[None]).items():
                found[name].append(mass[0])
    return {name: np.stack(rows) for name, rows in found.items()}


def compute_next_token_probs(model: Model, prompt: Any) -> Floats:
    """Probabilities ``[prompts, vocab]`` of the next token."""
    found = []
    for one in prompts_of(prompt):
        with model.trace(one) as t:
            probabilities = t.next_token_probs.save()
        found.append(probabilities[0])
    return np.stack(found)


def get_token_activations(
    model: Model,
    prompts: Any = None,
    layers: Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] = "layer_output",
    remote: bool = False,
    idx: int | str = -1,
    tracer: Any = None,
) -> Floats:
    """A value at one position of each prompt: ``[layers, prompts, width]``. ``get_activations`` is
    its name, or a function of (trace, layer) that returns a value to index."""
    chosen = list(range(model.num_layers)) if layers is None else list(layers)
    columns = []
    for prompt in prompts_of(prompts):
        with model.trace(prompt) as t:
            saved = []
            for layer in chosen:
                value = (
                    getattr(t.layers[layer], get_activations)
                    if isinstance(get_activations, str)
                    else get_activations(t, layer)
                )
                saved.append(value.at(idx).save())
        columns.append(np.stack([one.numpy().reshape(-1) for one in saved]))
    return np.stack(columns, 1)


def collect_token_activations_batched(
    model: Model,
    prompts: Sequence[Any],
    batch_size: int = 32,
    layers: Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] = "layer_output",
    remote: bool = False,
    idx: int | str = -1,
    tqdm: Any = None,
) -> Floats:
    """The same, with a progress bar over batches."""
    starts: Any = range(0, len(prompts), batch_size)
    parts = [
        get_token_activations(
            model, prompts[start : start + batch_size], layers, get_activations, idx=idx
        )
        for start in (starts if tqdm is None else tqdm(starts))
    ]
    return np.concatenate(parts, 1)


def collect_last_token_activations_session(
    model: Model,
    prompts: Sequence[Any],
    batch_size: int = 32,
    layers: Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] = "layer_output",
    remote: bool = False,
) -> Floats:
    """The same at the last position."""
    return collect_token_activations_batched(model, prompts, batch_size, layers, get_activations)
