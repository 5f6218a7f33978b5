"""What layers already know: logit lenses, patchscopes, and relatives.

Names and signatures are those of nnterp, with numpy arrays in place of torch's; batches are ragged,
so nothing depends on padding.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .edits import Edit

if TYPE_CHECKING:
    from .model import Model

Floats = NDArray[np.float32]


def softmax(logits: Any) -> Floats:
    """Probabilities along the last axis, summed in double."""
    wide = np.asarray(logits, np.float64)
    exponentials = np.exp(wide - wide.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True), np.float32)


def prompts_of(prompts: Any) -> list[Any]:
    """A list of prompts from one or several."""
    from .interpretable import is_batch

    return list(prompts) if is_batch(prompts) else [prompts]


def logit_lens(
    model: Model, prompts: Any, remote: bool = False, return_inv_logits: bool = False
) -> Any:
    """What each layer would answer: probabilities ``[prompts, layers, vocab]`` of the next token, by
    the final norm and the head on what leaves each layer at the last position. The last layer's are
    the model's own. With ``return_inv_logits``, also those of the negated logits."""
    streams = last_streams(model, prompts)
    logits = model.project_on_vocab(streams)
    return (softmax(logits), softmax(-logits)) if return_inv_logits else softmax(logits)


def last_streams(model: Model, prompts: Any, index: int | str = "last") -> Floats:
    """What leaves each layer at one position of each prompt: ``[prompts, layers, hidden]``."""
    streams = []
    for prompt in prompts_of(prompts):
        with model.trace(prompt) as t:
            stream = t.layers[:].layer_output.at(index).save()
        streams.append(stream.numpy()[:, 0, 0])
    return np.stack(streams)


# Patchscopes.


@dataclass(frozen=True)
class TargetPrompt:
    """A prompt with a place where another run's stream is put in; negative: from its end."""

    prompt: Any
    index_to_patch: int


@dataclass(frozen=True)
class TargetPromptBatch:
    """Several of them."""

    prompts: list[Any]
    index_to_patch: list[int]

    @classmethod
    def from_target_prompts(cls, targets: Sequence[TargetPrompt]) -> TargetPromptBatch:
        return cls([t.prompt for t in targets], [t.index_to_patch for t in targets])

    @classmethod
    def from_target_prompt(cls, target: TargetPrompt, batch_size: int) -> TargetPromptBatch:
        return cls.from_target_prompts([target] * batch_size)

    @classmethod
    def auto(cls, target: Any, batch_size: int) -> TargetPromptBatch:
        """From one for all, a list, or a batch."""
        if isinstance(target, TargetPrompt):
            return cls.from_target_prompt(target, batch_size)
        batch = target if isinstance(target, cls) else cls.from_target_prompts(target)
        if len(batch) != batch_size:
            raise ValueError(f"{batch_size} sources need as many targets, and there are {len(batch)}")
        return batch

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, index: int) -> TargetPrompt:
        return TargetPrompt(self.prompts[index], self.index_to_patch[index])


def repeat_prompt(
    words: Sequence[str] | None = None,
    rel: str = " ",
    sep: str = "\n",
    placeholder: str = "?",
    index_to_patch: int = -1,
) -> TargetPrompt:
    """A prompt that asks for the placeholder again: "king king / 1135 1135 / hello hello / ?"."""
    words = words or ["king", "1135", "hello"]
    return TargetPrompt(sep.join(w + rel + w for w in words) + sep + placeholder, index_to_patch)


def it_repeat_prompt(
    tokenizer: Any,
    words: Sequence[str] | None = None,
    rel: str = " ",
    sep: str = "\n",
    placeholder: str = "?",
    user_instr: str = "I am going to provide you with a pattern and my input. "
    "Please complete my input.",
) -> TargetPrompt:
    """The same as a conversation whose answer has begun. ``tokenizer`` is a model or anything with
    ``chat_template.render`` and ``tokenizer.encode``."""
    target = repeat_prompt(words, rel, sep, placeholder)
    text = tokenizer.chat_template.render([{"role": "user", "content": user_instr}])
    return TargetPrompt(tokenizer.tokenizer.encode(text + target.prompt, add_special=False), -1)


def patched_stream(model: Model, target: TargetPrompt, layer: int, latent: Any) -> Edit:
    """The edit that puts a vector of the stream in where the target says."""
    count = len(model.encode(target.prompt))
    position = target.index_to_patch % count
    ref = _core.ValueRef.parse(f"layers[{layer}].layer_output").select(at=[position])
    return Edit.make(ref, "set", np.asarray(latent, np.float32))


def _latents(
    model: Model, source_prompts: Any, latents: Any, layers: Sequence[int]
) -> Floats:
    """``[layers, sources, hidden]``."""
    if (source_prompts is None) == (latents is None):
        raise ValueError("give source prompts or latents, and not both")
    if latents is None:
        return last_streams(model, source_prompts)[:, list(layers)].swapaxes(0, 1)
    array = np.asarray(latents, np.float32)
    if array.ndim != 3 or len(array) != len(layers):
        raise ValueError(f"latents are [{len(layers)} layers, sources, hidden], not {array.shape}")
    return array


def patchscope_lens(
    model: Model,
    source_prompts: Any = None,
    target_patch_prompts: Any = None,
    layers: Sequence[int] | None = None,
    latents: Any = None,
    remote: bool = False,
) -> Floats:
    """What a target prompt makes of a source's stream, layer by layer: probabilities ``[sources,
    layers, vocab]`` of its next token when what leaves layer l of the source at its last position
    is put in at layer l of the target. ``latents [layers, sources, hidden]`` in place of prompts."""
    layers = range(model.num_layers) if layers is None else layers
    vectors = _latents(model, source_prompts, latents, layers)
    targets = TargetPromptBatch.auto(target_patch_prompts or repeat_prompt(), vectors.shape[1])
    found = np.empty((len(targets), len(layers), model.vocab_size), np.float32)
    for source in range(len(targets)):
        for i, layer in enumerate(layers):
            edit = patched_stream(model, targets[source], layer, vectors[i, source])
            with model.trace(targets[source].prompt, edits=edit) as t:
                probabilities = t.next_token_probs.save()
            found[source, i] = probabilities[0]
    return found


def patchscope_generate(
    model: Model,
    prompts: Any,
    target_patch_prompt: TargetPrompt,
    max_length: int = 50,
    layers: Sequence[int] | None = None,
    remote: bool = False,
    max_batch_size: int = 32,
) -> dict[int, list[list[int]]]:
    """The text that a target goes on with, likewise patched: ``{layer: ids of each prompt}``, with
    the target's own in front."""
    layers = range(model.num_layers) if layers is None else layers
    vectors = _latents(model, prompts, None, layers)
    ids = model.encode(target_patch_prompt.prompt)
    found: dict[int, list[list[int]]] = {}
    for i, layer in enumerate(layers):
        found[layer] = []
        for vector in vectors[i]:
            edit = patched_stream(model, target_patch_prompt, layer, vector)
            with model.trace(ids, edits=edit, generate=max_length) as t:
                pass
            found[layer].append(ids + t.tokens)
    return found


def patch_object_attn_lens(
    model: Model,
    source_prompts: Any,
    target_prompts: Any,
    attn_idx_patch: int,
    num_patches: int = 5,
) -> Floats:
    """What attention alone carries over: probabilities ``[targets, layers, vocab]`` of the targets'
    next token when, from layer l on and in ``num_patches`` layers, what the attention reads at
    position ``attn_idx_patch`` is what it reads at the source's last position."""
    sources, targets = prompts_of(source_prompts), prompts_of(target_prompts)
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources for {len(targets)} targets")
    count = model.num_layers
    found = np.empty((len(targets), count, model.vocab_size), np.float32)
    for n, (source, target) in enumerate(zip(sources, targets)):
        with model.trace(source) as t:
            normed = t.layers[:].attention_norm_output.at("last").save()
        ids = model.encode(target)
        position = attn_idx_patch % len(ids)
        for layer in range(count):
            with model.trace(ids) as t:
                for patched in range(layer, min(count, layer + num_patches)):
                    t.layers[patched].attention_norm_output[0, position] = normed[patched, 0, 0]
                probabilities = t.next_token_probs.save()
            found[n, layer] = probabilities[0]
    return found


# The lens as a picture.


@dataclass(frozen=True)
class Lens:
    """The likeliest tokens after each position, as each layer would have it.

    ``ids`` and ``probabilities`` are ``[layers, positions, k]``; ``print(lens)`` is a table, and a
    notebook shows it in colours."""

    ids: NDArray[np.int64]
    probabilities: Floats
    prompt_texts: list[str]
    texts: list[list[str]]

    def __str__(self) -> str:
        width = max(8, *(len(text) for row in self.texts for text in row)) if self.texts else 8
        width = min(width, 14)
        lines = ["layer " + " ".join(f"{t[:width]:>{width}}" for t in self.prompt_texts)]
        for layer in reversed(range(len(self.texts))):
            cells = (f"{text[:width]:>{width}}" for text in self.texts[layer])
            lines.append(f"{layer:5} " + " ".join(cells))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in self.prompt_texts)
        rows = []
        for layer in reversed(range(len(self.texts))):
            cells = "".join(
                f'<td style="background:rgba(70,120,220,{p:.3f})" title="{p:.3f}">'
                f"{html.escape(text)}</td>"
                for text, p in zip(self.texts[layer], self.probabilities[layer, :, 0])
            )
            rows.append(f"<tr><th>{layer}</th>{cells}</tr>")
        return (
            '<table style="font-family:monospace;border-collapse:collapse">'
            f"<tr><th>layer</th>{head}</tr>{''.join(rows)}</table>"
        )


def lens(model: Model, prompt: Any, layers: Any = None, topk: int = 5) -> Lens:
    """The logit lens at every position. Only the ``topk`` likeliest tokens are kept."""
    ids = model.encode(prompt)
    chosen = list(range(model.num_layers)) if layers is None else list(layers)
    with model.trace(ids) as t:
        streams = t.layers[:].layer_output.save()
    rows = streams[chosen, 0].reshape(-1, model.hidden_size)
    best: NDArray[np.int64] = np.empty((len(rows), topk), np.int64)
    likely = np.empty((len(rows), topk), np.float32)
    for begin in range(0, len(rows), 128):  # of a large vocabulary little is held at once
        part = slice(begin, begin + 128)
        probabilities = softmax(model.project_on_vocab(rows[part]))
        best[part] = np.argsort(-probabilities, axis=-1, kind="stable")[:, :topk]
        likely[part] = np.take_along_axis(probabilities, best[part], -1)
    best = best.reshape(len(chosen), len(ids), topk)
    texts = [[_shown(model, row[0]) for row in layer] for layer in best]
    shown = [_shown(model, i) for i in ids]
    return Lens(best, likely.reshape(best.shape), shown, texts)


def _shown(model: Model, token: int) -> str:
    text = model.tokenizer.token_bytes(int(token)).decode("utf-8", "replace")
    return repr(text)[1:-1]
