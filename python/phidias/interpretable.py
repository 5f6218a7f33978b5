"""What can be looked into and changed of a model: its values, traces, live runs, and helpers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _core, lenses
from .accessors import ACCESSORS, Tree
from .arrays import floats
from .chat import Message
from .edits import Edit, edits_of, steer
from .errors import CancelledError, CapacityExceededError
from .live import Body, Driver
from .progress import Progress
from .prompts import PrefixFreeTokenizer
from .trace import Trace, current_trace
from .values import SIZES, Layers, Node

if TYPE_CHECKING:
    from .model import Model

Prompt = str | Sequence[int] | Sequence[Message]
"""A text to go on with, ids, or a conversation."""


class Interpretable(Tree):
    """The part of :class:`Model` that is about its insides."""

    _weights: _core.Model
    _engine: _core.Engine

    def __init__(self) -> None:
        self._side_engine: _core.Engine | None = None
        self._lasting_edits: list[Edit] = []

    @property
    def info(self) -> _core.ModelInfo:
        """What the checkpoint's headers say."""
        return self._weights.info

    def new_engine(self, **options: Any) -> _core.Engine:
        """Another engine on the same weights."""
        raise NotImplementedError

    def encode(
        self, prompt: Prompt, *, obey_markers: bool = False, images: Sequence[Any] = ()
    ) -> list[int]:
        """The ids of a prompt."""
        raise NotImplementedError

    def encode_image(self, image: Any) -> _core.Image:
        """An image as the model sees it."""
        raise NotImplementedError

    @property
    def tokenizer(self) -> _core.Tokenizer:
        """Its tokenizer."""
        raise NotImplementedError

    # Its values.

    @property
    def num_layers(self) -> int:
        """Blocks."""
        return self.info.num_layers

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.info.hidden_size

    @property
    def num_heads(self) -> int:
        """Query heads."""
        return self.info.num_heads

    @property
    def num_kv_heads(self) -> int:
        """Key and value heads."""
        return self.info.num_kv_heads

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.info.head_dim

    @property
    def qk_head_dim(self) -> int:
        """Width of a head's queries and keys."""
        return self.info.qk_head_dim

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding; not tokens."""
        return self.info.vocab_size

    @property
    def intermediate_size(self) -> int:
        """Neurons of an MLP."""
        return self.info.intermediate_size

    @property
    def layers(self) -> Layers:
        """The blocks, with their values: ``model.layers[3].layer_output``."""
        return Layers(self)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *Node(self, "", "model").__dir__(), *ACCESSORS]

    def __str__(self) -> str:
        return _core.describe(self._weights)

    def __repr__(self) -> str:
        return str(self)

    def support(self, layer: int | None = None) -> dict[str, Any]:
        """Which values there are: ``{name: None}`` where a value is there, else ``{name: {layer:
        reason}}``; with a layer ``{name: reason}`` of its values alone."""
        found: dict[str, Any] = {}
        for one in self._supported():
            on_layer = one.value.module.startswith("layers")
            if layer is not None:
                if on_layer:
                    found[one.value.name] = one.missing
            elif one.missing is None:
                found[one.name] = None
            else:
                layers = range(self.num_layers) if on_layer else range(1)
                found[one.name] = dict.fromkeys(layers, one.missing)
        return found

    @property
    def attn_probs_available(self) -> bool:
        """Always: patterns are there under every load. (A name of nnterp's.)"""
        return True

    @property
    def add_prefix_false_tokenizer(self) -> PrefixFreeTokenizer:
        """The tokenizer, but one that never puts a space in front of a text. (A name of nnterp's.)"""
        return PrefixFreeTokenizer(self.tokenizer)

    def _supported(self) -> list[_core.Support]:
        return _core.support(self._weights)

    def _size(self, name: str) -> int:
        if name not in SIZES and name != "vision_layers":
            raise AttributeError(name)
        return int(getattr(self.info, name))

    def _trace(self) -> Trace:
        return current_trace(self._model())

    # Looking into runs, and changing them.

    def trace(
        self,
        prompt: Any,
        *,
        edits: Any = None,
        generate: int = 0,
        chunk: int = 0,
        rope_switch: str = "reprefill",
        max_bytes: int = 8 << 30,
        images: Sequence[Any] = (),
        engine: _core.Engine | None = None,
        progress: Progress = None,
    ) -> Trace:
        """One run of a prompt, with some of its values kept and some changed::

            with model.trace("The Eiffel Tower is in") as t:
                stream = t.layers[3].layer_output.save()
                t.layers[5].self_attn.attention_head_outputs[:, :, 2] = 0

        The run takes place where the block ends. Inside, the model's own tree may be used in place
        of ``t``'s. Of a list of prompts, each is run, and results are lists.

        Args:
            edits: data, in front of what the block records: edits, JSON objects, lines.
            generate: then so many greedy tokens; end tokens are not obeyed.
            chunk: feed the prompt in chunks; changes no bit.
            max_bytes: of what is kept; more is refused with the figure.
            images: that the prompt shows, as :meth:`Model.generate` takes them.
            engine: another engine of this model.
            progress: of several prompts, as each is done: see :mod:`phidias.progress`.
        """
        batch = is_batch(prompt)
        shown = [self.encode_image(image) for image in images]
        return Trace(
            self._model(),
            [self.encode(one, images=shown) for one in (prompt if batch else [prompt])],
            batch=batch,
            edits=[*self._lasting_edits, *edits_of(edits)],
            engine=engine or self._engine,
            generate=generate,
            chunk=chunk,
            rope_switch=rope_switch,
            max_bytes=max_bytes,
            images=shown,
            progress=progress,
        )

    def run(
        self,
        prompt: Prompt,
        body: Body,
        *,
        generate: int = 0,
        patterns: int | Iterable[int] = (),
        engine: _core.Engine | None = None,
    ) -> Trace:
        """A run that code looks at and decides in: see :mod:`phidias.live`. ``body(m)`` is begun
        anew for each pass: for the prompt, then for every generated token.

        ``patterns``: layers whose scores or probabilities the body may wait for. Their attention is
        computed one query after another, and each wait in the prompt's pass runs the text once more
        up to that layer."""
        engine = engine or self._engine
        layers = [int(patterns)] if isinstance(patterns, (int, np.integer)) else list(patterns)
        driver = Driver(self._model(), body, engine, layers)
        trace = self.trace(prompt, edits=driver.edits(), generate=generate, engine=engine)
        rows = engine.options["step_rows"]
        if len(trace.ids) > rows:
            raise CapacityExceededError(
                f"the prompt has {len(trace.ids)} tokens and one pass takes {rows}: a live run "
                f"needs step_rows={len(trace.ids)}"
            )
        trace.read("logits[at=last]")  # else the run would end before them
        try:
            trace.run()
        except CancelledError:
            if driver.stopped_at is None:
                raise
            trace._stop_at(driver.stopped_at)
        else:
            driver.finish()
        return trace

    def side_engine(self, engine: _core.Engine | None = None) -> _core.Engine:
        """An engine with the same options as the model's, or as another: for what is computed while
        that one runs. It takes no cache memory until it is used."""
        if engine is not None and engine is not self._engine:
            return self.new_engine(**engine.options)
        if self._side_engine is None:
            self._side_engine = self.new_engine()
        return self._side_engine

    @contextlib.contextmanager
    def edited(self, edits: Any) -> Iterator[Model]:
        """Edits that are in force inside the block, in every trace and generation."""
        before = self._lasting_edits
        self._lasting_edits = [*before, *edits_of(edits)]
        try:
            yield self._model()
        finally:
            self._lasting_edits = before

    # Helpers, by nnterp's names.

    def project_on_vocab(self, hidden: Any) -> NDArray[np.float32]:
        """Logits of vectors of the residual stream ``[..., hidden_size]``, by the final norm and the
        head: at the last layer's output, the model's own. Works inside and outside of traces."""
        array = np.ascontiguousarray(floats(hidden))
        if array.ndim == 0 or array.shape[-1] != self.hidden_size:
            raise ValueError(f"vectors are [..., {self.hidden_size}], not {array.shape}")
        shape = (*array.shape[:-1], self.vocab_size)
        if array.size == 0:
            return np.empty(shape, np.float32)
        engine = self.side_engine() if self._engine.in_callback else self._engine
        return _core.project_on_vocab(engine, array).reshape(shape)

    def probs_to_dict(self, probs: Any, k: int = 5) -> dict[str, float]:
        """The k likeliest tokens of probabilities ``[vocab]``, by their texts. Those whose text
        another has already are keyed by their bytes."""
        array = floats(probs)
        if array.size != array.shape[-1]:
            raise ValueError(f"probabilities are [vocab], not {array.shape}: index one of them")
        array = array.reshape(-1)
        found: dict[str, float] = {}
        for token in np.argsort(-array, kind="stable")[:k]:
            text = self.tokenizer.decode([int(token)])
            if text in found:
                text = repr(self.tokenizer.token_bytes(int(token)))
            found[text] = float(array[token])
        return found

    def get_topk_closest_tokens(self, hidden: Any, k: int = 5) -> list[dict[str, float]]:
        """The likeliest tokens of vectors of the residual stream, ``{text: probability}`` for each."""
        logits = self.project_on_vocab(np.atleast_2d(floats(hidden)))
        probabilities = lenses.softmax(logits.reshape(-1, self.vocab_size))
        return [self.probs_to_dict(one, k) for one in probabilities]

    def steer(
        self,
        layers: int | Iterable[int],
        vector: Any,
        factor: float = 1.0,
        token_positions: int | Sequence[int] | str | None = None,
        batch_index: None = None,
    ) -> None:
        """In a trace: adds ``factor * vector [hidden]`` to what leaves layers. (Outside of traces,
        :func:`phidias.steer` makes the edit.)"""
        if batch_index is not None:
            raise ValueError("a trace treats its prompts alike: trace that prompt by itself")
        at = "all" if token_positions is None else token_positions
        self._trace().edit(steer(layers, vector, factor, at=at))

    def skip_layers(self, start: int, end: int, skip_with: Any = None) -> None:
        """In a trace: layers ``start`` to ``end`` (included, negative from the end) hand the stream
        through, or ``skip_with`` in its place."""
        trace = self._trace()
        first, last = start % self.num_layers, end % self.num_layers
        trace.edit(Edit.skip(first, last))
        if skip_with is not None:
            trace.layers[last].layer_output = skip_with

    def skip_layer(self, layer: int, skip_with: Any = None) -> None:
        """In a trace: one layer."""
        self.skip_layers(layer, layer, skip_with)

    def lens(
        self, prompt: Prompt, layers: int | Sequence[int] | None = None, topk: int = 5
    ) -> lenses.Lens:
        """The logit lens at every position: a table to print, in colours in a notebook."""
        return lenses.lens(self._model(), prompt, layers, topk)

    def _model(self) -> Model:
        return self  # type: ignore[return-value]


def is_batch(prompt: Any) -> bool:
    """Whether it is several prompts: a list of texts, of lists of ids, or of conversations."""
    if isinstance(prompt, str) or len(prompt) == 0:
        return False
    first = prompt[0]
    return isinstance(first, str) or not (isinstance(first, Mapping) or hasattr(first, "__index__"))
