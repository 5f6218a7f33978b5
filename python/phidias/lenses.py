"""What layers already know: logit lenses, patchscopes, and relatives.

Names and signatures are those of nnterp, with numpy arrays in place of torch's; batches are ragged,
so nothing depends on padding.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from .arrays import array_of, floats
from .display import Panel, Picture
from .edits import Edit
from .texts import token_text

if TYPE_CHECKING:
    from .model import Model

Floats = NDArray[np.float32]


def softmax(logits: Any) -> Floats:
    """Probabilities along the last axis, summed in double."""
    wide = np.asarray(array_of(logits), np.float64)
    exponentials = np.exp(wide - wide.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True), np.float32)


def prompts_of(prompts: Any) -> list[Any]:
    """A list of prompts from one or several."""
    from .interpretable import is_batch

    return list(prompts) if is_batch(prompts) else [prompts]


def layers_of(model: Model, layers: int | Sequence[int] | None) -> list[int]:
    """The numbers of one layer, of several or of all (None); negative ones count from the end."""
    if layers is None:
        return list(range(model.num_layers))
    numbers = [layers] if isinstance(layers, (int, np.integer)) else layers
    return [int(layer) % model.num_layers for layer in numbers]


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
    def from_prompts(cls, prompts: Any, index_to_patch: int | Sequence[int]) -> TargetPromptBatch:
        several = prompts_of(prompts)
        indices = np.broadcast_to(np.asarray(index_to_patch), (len(several),))
        return cls(several, [int(index) for index in indices])

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

    def __iter__(self) -> Iterator[TargetPrompt]:
        return (self[index] for index in range(len(self)))


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
    complete_prompt: bool = True,
    add_user_instr: bool = True,
    use_system_prompt: bool = True,
) -> TargetPrompt:
    """The same as a conversation whose answer has begun: with the whole prompt where
    ``complete_prompt``, else with nothing. ``tokenizer`` is a model, or whatever has
    ``chat_template.render`` and ``tokenizer.encode``."""
    prompt = repeat_prompt(words, rel, sep, placeholder).prompt
    task = "Go on with the pattern of the text. Answer with what comes next and nothing else."
    messages = [{"role": "system", "content": "You continue patterns."}] if use_system_prompt else []
    if add_user_instr:
        messages += [{"role": "user", "content": task}, {"role": "assistant", "content": "Ok."}]
        messages.append({"role": "user", "content": prompt})
    else:
        messages.append({"role": "user", "content": f"{task}\n{prompt}"})
    text = tokenizer.chat_template.render(messages) + (prompt if complete_prompt else "")
    return TargetPrompt(tokenizer.tokenizer.encode(text, add_special=False), -1)


def patched_stream(model: Model, target: TargetPrompt, layer: int, latent: Any) -> Edit:
    """The edit that puts a vector of the stream in where the target says."""
    count = len(model.encode(target.prompt))
    position = target.index_to_patch % count
    ref = _core.ValueRef.parse(f"layers[{layer}].layer_output").select(at=[position])
    return Edit.make(ref, "set", latent)


def _latents(
    model: Model, source_prompts: Any, latents: Any, layers: Sequence[int]
) -> Floats:
    """``[layers, sources, hidden]``."""
    if (source_prompts is None) == (latents is None):
        raise ValueError("give source prompts or latents, and not both")
    if latents is None:
        return last_streams(model, source_prompts)[:, list(layers)].swapaxes(0, 1)
    array = floats(latents)
    if array.ndim != 3 or len(array) != len(layers):
        raise ValueError(f"latents are [{len(layers)} layers, sources, hidden], not {array.shape}")
    return array


def patchscope_lens(
    model: Model,
    source_prompts: Any = None,
    target_patch_prompts: Any = None,
    layers: int | Sequence[int] | None = None,
    latents: Any = None,
    remote: bool = False,
) -> Floats:
    """What a target prompt makes of a source's stream, layer by layer: probabilities ``[sources,
    layers, vocab]`` of its next token when what leaves layer l of the source at its last position
    is put in at layer l of the target. ``latents [layers, sources, hidden]`` in place of prompts."""
    layers = layers_of(model, layers)
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
    layers: int | Sequence[int] | None = None,
    remote: bool = False,
    max_batch_size: int = 32,
) -> dict[int, list[list[int]]]:
    """The text that a target goes on with, likewise patched: ``{layer: ids of each prompt}``, with
    the target's own in front. ``max_batch_size`` of them run side by side."""
    layers = layers_of(model, layers)
    vectors = _latents(model, prompts, None, layers)
    ids = model.encode(target_patch_prompt.prompt)
    edits = [
        (layer, patched_stream(model, target_patch_prompt, layer, vector))
        for i, layer in enumerate(layers)
        for vector in vectors[i]
    ]
    found: dict[int, list[list[int]]] = {layer: [] for layer in layers}
    for begin in range(0, len(edits), max_batch_size):
        part = edits[begin : begin + max_batch_size]
        for (layer, _), answer in zip(part, model.generate_each(ids, [e for _, e in part], max_length)):
            found[layer].append(ids + answer)
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


@dataclass(frozen=True, repr=False)
class Lens:
    """The likeliest tokens after each position, as each layer would have it.

    ``ids`` and ``probabilities`` are ``[layers, positions, k]``; ``print(lens)`` is a table, a
    notebook shows it in colours, and ``lens.save("lens.html")`` writes that."""

    ids: NDArray[np.int64]
    probabilities: Floats
    prompt_texts: list[str]
    texts: list[list[str]]
    """The likeliest tokens' texts, ``[layers][positions]``."""
    layers: list[int]
    tips: list[list[str]]
    """All ``k`` of each cell, a line each."""

    def __str__(self) -> str:
        width = min(14, max(8, *(len(text) for row in self.texts for text in row)))
        lines = ["layer " + " ".join(f"{t[:width]:>{width}}" for t in self.prompt_texts)]
        for layer, texts in reversed(list(zip(self.layers, self.texts))):
            cells = (f"{text[:width]:>{width}}" for text in texts)
            lines.append(f"{layer:5} " + " ".join(cells))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def picture(self, title: str = "Logit lens") -> Picture:
        """In colours: blue where the layer is sure of its token."""
        panel = Panel(
            shades=self.probabilities[::-1, :, 0].astype(np.float64),
            rows=[str(layer) for layer in reversed(self.layers)],
            columns=self.prompt_texts,
            texts=self.texts[::-1],
            tips=self.tips[::-1],
            corner="layer",
        )
        return Picture(title, [panel])

    def save(self, path: str | os.PathLike[str], title: str = "Logit lens") -> pathlib.Path:
        """Writes the picture: see :meth:`phidias.display.Picture.save`."""
        return self.picture(title).save(path)

    def _repr_html_(self) -> str:
        return self.picture("")._repr_html_()


def lens(
    model: Model, prompt: Any, layers: int | Sequence[int] | None = None, topk: int = 5
) -> Lens:
    """The logit lens at every position. Only the ``topk`` likeliest tokens are kept."""
    ids = model.encode(prompt)
    chosen = layers_of(model, layers)
    edits = [edit.data for edit in model._lasting_edits]
    best, likely = _core.logit_lens(model.engine, ids, top=topk, edits=edits)
    best, likely = best[chosen], likely[chosen]
    names = {int(token): token_text(model, int(token)) for token in np.unique(best)}
    texts = [[names[int(cell[0])] for cell in row] for row in best]
    tips = [
        ["\n".join(f"{names[int(i)]} {p:.4f}" for i, p in zip(*cell)) for cell in zip(row, rates)]
        for row, rates in zip(best, likely)
    ]
    return Lens(best, likely, [token_text(model, i) for i in ids], texts, chosen, tips)
