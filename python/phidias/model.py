"""A checkpoint, ready to run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, overload

from numpy.typing import NDArray

from . import _core
from .chat import ChatPrompt, ChatTemplate, Message, chat_prompt
from .edits import edits_of
from .errors import NotFoundError
from .generation import GenerateOptions, Generation, Kept, Request, Runner, Stream, complete, request_of
from .hub import find
from .images import image_file, with_tags
from .interpretable import Interpretable, Prompt, is_batch
from .progress import Progress, told
from .texts import token_text
from .trace import joined
from .values import Value, value_of

_WEIGHTS_OF_DTYPE = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


class Model(Interpretable):
    """A model: weights, tokenizer, chat template, and an engine that runs them.

    It may be used from several threads; generations run side by side in one engine, and the
    interpreter's lock is free while it works.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        dtype: Any = None,
        weights: str = "file",
        numerics: str = "fast",
        kv: str = "",
        context: int = 0,
        threads: int = 0,
        cache_budget: int = 0,
        step_rows: int = 512,
        page_positions: int = 64,
        isa: str = "",
    ) -> None:
        """Loads a checkpoint; every tensor is checked first.

        Args:
            name: a Hugging Face folder, a ``.gguf`` file, or a model in the hub cache
                (``owner/name``; see :func:`phidias.pull`).
            dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"`` (or torch's and numpy's names of
                them): the same as ``weights`` with ``f32``, ``bf16``, ``f16``.
            weights: type of the weights in memory: ``file`` (as they lie, mapped) or a number
                format such as ``f32``, ``q8_0``, ``q4_0``.
            numerics: ``fast``, or ``exact``: the reference's mathematics in f32.
            kv: type of the cache: ``f32``, ``f16``, ``bf16``, ``q8``; default f16, in ``exact`` f32.
            context: positions of the longest sequence; 0: what the model states.
            threads: 0: the physical cores that this process may use.
            cache_budget: bytes of the cache; 0: the memory that is free.
            step_rows: rows of one pass through the weights.
            page_positions: positions of a cache page.
            isa: kernel table; "": the best of this CPU.
        """
        if dtype is not None:
            short = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
            if short not in _WEIGHTS_OF_DTYPE:
                known = ", ".join(_WEIGHTS_OF_DTYPE)
                raise ValueError(f"dtype is {dtype}; {known} are known, others by `weights`")
            weights = _WEIGHTS_OF_DTYPE[short]
        self._weights_type = weights
        self._open(
            _core.Model.load(find(name), weights=weights, threads=threads),
            {
                "threads": threads,
                "numerics": numerics,
                "kv": kv,
                "context": context,
                "cache_budget": cache_budget,
                "step_rows": step_rows,
                "page_positions": page_positions,
                "isa": isa,
            },
        )
        for notice in self.info.notices:
            warnings.warn(notice, stacklevel=2)

    def _open(self, weights: _core.Model, options: dict[str, Any]) -> None:
        self._weights = weights
        self._engine_options = options
        self._engine = _core.Engine.create(weights, **options)
        self._runner = Runner(self._engine)
        super().__init__()

    def with_options(self, **options: Any) -> Model:
        """The same weights in another configuration: ``model.with_options(numerics="exact")``. A model
        of its own, with an engine of its own; the weights are shared, and take no memory again.

        Options as in the constructor, from ``numerics`` on; what is left out is as here. Edits in force
        (:meth:`edited`) stay with this model."""
        other = Model.__new__(Model)
        other._weights_type = self._weights_type
        other._open(self._weights, self._with(options))
        return other

    def _with(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for name in options:
            if name not in self._engine_options:
                known = ", ".join(self._engine_options)
                raise TypeError(f"{name} is no option of an engine; there are {known}")
        return {**self._engine_options, **options}

    def __reduce__(self) -> Any:
        """Pickled it is its place and its options: another process opens the same files."""
        options = {**self._engine_options, "weights": self._weights_type}
        return _opened, (self.info.path, options)

    def __deepcopy__(self, memo: Any) -> Model:
        return self.with_options()

    # What it is.

    @property
    def info(self) -> _core.ModelInfo:
        """What the checkpoint's headers say."""
        return self._weights.info

    @property
    def tokenizer(self) -> _core.Tokenizer:
        """Its tokenizer. Raises NotFoundError where it has none."""
        tokenizer = self._weights.tokenizer
        if tokenizer is None:
            raise NotFoundError(
                "the checkpoint has no tokenizer; give token ids", file=self.info.path
            )
        return tokenizer

    @property
    def chat_template(self) -> ChatTemplate:
        """The file's own, else the family's. Raises NotFoundError where there is neither."""
        template = self._weights.chat_template
        if template is None:
            raise NotFoundError(
                "the checkpoint has no chat template; write the whole prompt as a text",
                file=self.info.path,
            )
        return ChatTemplate(template, self.tokenizer.template_tokens)

    @property
    def engine(self) -> _core.Engine:
        """The engine that runs it, for sequences of one's own."""
        return self._engine

    @property
    def stop_ids(self) -> list[int]:
        """Ids that end an answer."""
        return self._weights.stop_ids

    def new_engine(self, **options: Any) -> _core.Engine:
        """Another engine on the same weights. Options as in the constructor, from ``numerics`` on;
        what is left out is as there."""
        return _core.Engine.create(self._weights, **self._with(options))

    # Text to ids.

    def encode(
        self, prompt: Prompt, *, obey_markers: bool = False, images: Sequence[Any] = ()
    ) -> list[int]:
        """The ids of a prompt: of a text, with what the tokenizer puts in front; of a conversation,
        by the chat template; ids as they are. The id -n is a token of the n-th image."""
        shown = [self.encode_image(image) for image in images]
        if isinstance(prompt, str):
            if shown:
                text = with_tags(prompt, len(shown))
                return _core.encode_with_images(self.tokenizer, text, shown)
            return self.tokenizer.encode(prompt)
        if len(prompt) > 0 and isinstance(prompt[0], Mapping):
            messages: Any = prompt
            return self.chat_prompt(messages, obey_markers=obey_markers, images=shown).ids
        return [int(token) for token in prompt]  # type: ignore[arg-type]

    def encode_image(
        self,
        image: Any,
        *,
        crops: int = 0,
        progress: Progress = None,
    ) -> _core.Image:
        """An image as a vision model sees it, to be shown in any number of prompts.

        Args:
            image: a path, the bytes of a JPEG, PNG or WebP file, a PIL image, an array ``[height,
                width, 3]`` of uint8, or what this method has returned.
            crops: tiles at most that it is cut into; 0: as the checkpoint states.
            progress: as tiles are done: see :mod:`phidias.progress`.
        """
        if isinstance(image, _core.Image):
            return image
        file, name = image_file(image)
        with told(progress, "encoding") as tell:
            return _core.encode_image(self._engine, file, name=name, crops=crops, progress=tell)

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of ids."""
        return self.tokenizer.decode(ids, skip_special=skip_special)

    def token_texts(self, prompt: Prompt) -> list[str]:
        """The text of each token of a prompt, white space as signs that can be seen: labels."""
        return [token_text(self, token) for token in self.encode(prompt)]

    def trace_image(
        self,
        image: Any,
        read: str | Value | Sequence[str | Value],
        *,
        edits: Any = None,
        crops: int = 0,
    ) -> tuple[_core.Image, dict[str, NDArray[Any]]]:
        """An image with some of the tower's values kept and some changed, such as
        ``vision.layers[5].block_output``: what the model then sees of it, and ``{path: array}``. For
        the source's kinds see :meth:`encode_image`."""
        file, name = image_file(image)
        reads = [read] if isinstance(read, (str, Value)) else list(read)
        values = [value_of(self, one) for one in reads]
        raised = _core.Raised()
        try:
            seen, traced = _core.trace_image(
                self._engine,
                file,
                [value._ref for value in values],
                [edit.compiled(raised) for edit in edits_of(edits)],
                name=name,
                crops=crops,
            )
        finally:
            raised.rethrow()
        parts: list[list[NDArray[Any]]] = [[] for _ in values]
        for number, _, _, array in traced.take_entries():
            parts[number].append(array)
        return seen, {
            one if isinstance(one, str) else one.path: joined(part, value._ref.many_layers, value._dropped)
            for one, value, part in zip(reads, values, parts)
        }

    def chat_prompt(
        self,
        messages: Sequence[Message],
        *,
        obey_markers: bool = False,
        images: Sequence[Any] = (),
        **options: Any,
    ) -> ChatPrompt:
        """A conversation as the model is given it: see :func:`phidias.chat_prompt`. Warns where
        the template leaves a message out."""
        prompt = chat_prompt(
            self.tokenizer,
            self.chat_template,
            messages,
            obey_markers=obey_markers,
            images=[self.encode_image(image) for image in images] if self.info.vision else None,
            **options,
        )
        for index in prompt.untraced:
            warnings.warn(
                f"the chat template leaves out message {index} (role {messages[index]['role']})",
                stacklevel=3,
            )
        return prompt

    # Answers.

    @overload
    def generate(  # type: ignore[overload-overlap]
        self,
        prompt: Prompt,
        *,
        images: Sequence[Any] = (),
        edits: Any = None,
        read: str | Value | Sequence[str | Value] = (),
        **options: Unpack[GenerateOptions],
    ) -> Generation: ...
    @overload
    def generate(
        self,
        prompt: Sequence[Prompt],
        *,
        images: Sequence[Any] = (),
        edits: Any = None,
        read: str | Value | Sequence[str | Value] = (),
        progress: Progress = None,
        **options: Unpack[GenerateOptions],
    ) -> list[Generation]: ...
    def generate(
        self,
        prompt: Any,
        *,
        images: Sequence[Any] = (),
        edits: Any = None,
        read: str | Value | Sequence[str | Value] = (),
        progress: Progress = None,
        **options: Unpack[GenerateOptions],
    ) -> Any:
        """Goes on with a prompt: a text, ids, or a conversation; or with a list of these, side by
        side. Greedily and for 256 tokens at most, unless the options say otherwise.

        An error of one prompt among several is in its result's ``error``; of a single prompt it is
        raised.

        Args:
            images: that the prompt shows, as :meth:`encode_image` takes them. In text the tag
                ``<|image_n|>`` stands for the n-th, from 1; where it has none they come first. Of
                several prompts, each shows them all.
            edits: changes of named values, in force for the prompt and every step of every answer.
            read: values to keep: ``result[path]`` has every position that was computed, once.
            progress: of several prompts, as each is answered: see :mod:`phidias.progress`.
        """
        if is_batch(prompt):
            requests = [self._request(one, images, edits, read, options) for one in prompt]
            with told(progress, "generating") as tell:
                return complete(self._runner, requests, tell)
        (result,) = complete(self._runner, [self._request(prompt, images, edits, read, options)])
        if result.error is not None:
            raise result.error
        return result

    def stream(
        self,
        prompt: Prompt,
        *,
        images: Sequence[Any] = (),
        edits: Any = None,
        read: str | Value | Sequence[str | Value] = (),
        **options: Unpack[GenerateOptions],
    ) -> Stream:
        """As :meth:`generate` for one prompt, piece by piece::

            for piece in model.stream("Once upon a time").text():
                print(piece, end="", flush=True)
        """
        return Stream(self._runner, self._request(prompt, images, edits, read, options))

    def generate_each(self, ids: Sequence[int], edits: Sequence[Any], count: int) -> list[list[int]]:
        """One prompt under each of some edits, side by side: the ids of ``count`` greedy tokens, end
        tokens not obeyed."""
        options: GenerateOptions = {"max_new_tokens": count, "stop_ids": []}
        requests = [self._request(ids, (), one, (), options) for one in edits]
        results = complete(self._runner, requests)
        for result in results:
            if result.error is not None:
                raise result.error
        return [result.ids for result in results]

    def stop(self) -> None:
        """Ends all answers that are on their way, at the engine's next step: they finish as
        ``cancelled``. Any thread may call it, and a signal handler."""
        self._runner.stop_all()

    def _request(
        self, prompt: Prompt, images: Any, edits: Any, read: Any, options: GenerateOptions
    ) -> Request:
        shown = [self.encode_image(image) for image in images]
        reads = [read] if isinstance(read, (str, Value)) else read
        kept: list[Kept] = []
        for one in reads:
            value = value_of(self, one)
            kept.append((one if isinstance(one, str) else value.path, value._ref, value._dropped))
        return request_of(
            self.encode(prompt, images=shown),
            options,
            images=shown,
            edits=[*self._lasting_edits, *edits_of(edits)],
            kept=kept,
        )

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        system: str | None = None,
        obey_markers: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        images: Sequence[Any] = (),
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """The answer to a question or a conversation, about images where some are given."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if system is not None:
            messages = [{"role": "system", "content": system}, *messages]
        shown = [self.encode_image(image) for image in images]
        prompt = self.chat_prompt(
            messages,
            obey_markers=obey_markers,
            tools=tools,
            images=shown,
            **(template_variables or {}),
        )
        return self.generate(prompt.ids, images=shown, **options)

    def perplexity(
        self,
        text: str | Sequence[int],
        *,
        window: int = 512,
        save: str | os.PathLike[str] = "",
        against: str | os.PathLike[str] = "",
        rope_switch: str = "reprefill",
        progress: Progress = None,
    ) -> dict[str, Any]:
        """How well the model predicts a text, in windows without overlap: ``perplexity``,
        ``tokens`` and ``windows`` (negative log-likelihoods).

        ``save`` keeps the log-probabilities in a file; ``against`` such a file of another run adds
        ``kl_mean``, ``kl_p99`` and ``same_best``. ``progress`` is told of windows: see
        :mod:`phidias.progress`.
        """
        ids = self.tokenizer.encode(text) if isinstance(text, str) else list(text)
        with told(progress, "perplexity") as tell:
            return self._engine.perplexity(
                ids,
                window=window,
                save=os.fspath(save),
                against=os.fspath(against),
                rope_switch=rope_switch,
                progress=tell,
            )


def _opened(path: str, options: dict[str, Any]) -> Model:
    return Model(path, **options)
