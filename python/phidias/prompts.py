"""Prompts with targets, and activations at one position: nnterp's names and signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .lenses import Floats, layers_of, logit_lens, prompts_of

if TYPE_CHECKING:
    from .model import Model


class TokenizationError(ValueError):
    """A word whose first token says nothing about it."""


def get_first_tokens(
    words: str | Sequence[str], model_or_tokenizer: Any, use_hacky_implementation: bool = False
) -> list[int]:
    """The ids that an answer with one of these words may begin with: the first token of the word and
    of the word behind a space. A token that is only the space is left out.
    ``use_hacky_implementation``: the word is read behind a pear, where no tokenizer puts a space of
    its own in front (as that of Phi-3 does)."""
    tokenizer = getattr(model_or_tokenizer, "tokenizer", model_or_tokenizer)
    if use_hacky_implementation:
        tokenizer = PrefixFreeTokenizer(tokenizer)
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


class PrefixFreeTokenizer:
    """A tokenizer that never puts a space in front of a text, whatever the wrapped one does; else the
    same."""

    _PEAR = "\N{PEAR}"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special: bool = False, markers: bool = True) -> list[int]:
        """The ids of a text as it would go on behind another. Raises TokenizationError where the
        text melts into what it stands behind."""
        before = self._tokenizer.encode(self._PEAR, add_special=False)
        ids: list[int] = self._tokenizer.encode(self._PEAR + text, add_special=False, markers=markers)
        if ids[: len(before)] != before:
            raise TokenizationError(f"{text!r} has no tokens of its own behind another text")
        return ids[len(before) :]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


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
    """The mass of each target set of each prompt: ``{target: [prompts, layers]}``.

    ``get_probs_func(model, prompts, **func_kwargs)`` gives probabilities ``[prompts, layers, vocab]``,
    as :func:`logit_lens` does; by default those of the model's own answer, one "layer"."""
    if not prompts:
        return {}
    names = list(prompts[0].target_tokens)
    if any(set(prompt.target_tokens) != set(names) for prompt in prompts):
        raise ValueError("all prompts need the same targets")
    get_probs = get_probs_func or _own_probabilities
    found: dict[str, list[Any]] = {name: [] for name in names}
    starts: Any = range(0, len(prompts), batch_size)
    for start in starts if tqdm is None else tqdm(starts):
        batch = prompts[start : start + batch_size]
        probabilities = get_probs(model, [p.prompt for p in batch], **(func_kwargs or {}))
        for prompt, one in zip(batch, probabilities):
            for name, mass in prompt.get_target_probs(np.asarray(one)[None]).items():
                found[name].append(mass[0])
    return {name: np.stack(rows) for name, rows in found.items()}


def _own_probabilities(model: Model, prompts: Any) -> Floats:
    return compute_next_token_probs(model, prompts)[:, None]


def compute_next_token_probs(model: Model, prompt: Any, remote: bool = False) -> Floats:
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
    layers: int | Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] | None = None,
    remote: bool = False,
    idx: int | str | None = -1,
    tracer: Any = None,
) -> Any:
    """A value at one position of each prompt: ``[layers, prompts, width]``.

    ``get_activations`` is its name, or a function of (model, layer) that returns a value to index;
    by default what leaves the layer. With a trace whose block is open (``tracer``) nothing is run
    here: the result is a list of what it saves, one for each layer."""
    chosen = layers_of(model, layers)
    name = "layer_output" if get_activations is None else get_activations
    position = -1 if idx is None else idx

    def saved(trace: Any) -> list[Any]:
        return [
            (getattr(trace.layers[i], name) if isinstance(name, str) else name(trace, i))
            .at(position)
            .save()
            for i in chosen
        ]

    if tracer is not None:
        return saved(tracer)
    if prompts is None:
        raise ValueError("give prompts, or the trace whose block is open as `tracer`")
    columns = []
    for prompt in prompts_of(prompts):
        with model.trace(prompt) as t:
            found = saved(t)
        columns.append(np.stack([one.numpy().reshape(-1) for one in found]))
    return np.stack(columns, 1)


def collect_token_activations_batched(
    model: Model,
    prompts: Sequence[Any],
    batch_size: int,
    layers: int | Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] | None = None,
    remote: bool = False,
    idx: int | str | None = None,
    tqdm: Any = None,
    use_session: bool = True,
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
    batch_size: int,
    layers: int | Sequence[int] | None = None,
    get_activations: str | Callable[..., Any] | None = None,
    remote: bool = False,
    idx: int | str | None = None,
) -> Floats:
    """The same at the last position, unless ``idx`` says another."""
    return collect_token_activations_batched(
        model, prompts, batch_size, layers, get_activations, idx=idx
    )
