"""A checkpoint, ready to run."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack, overload

from . import _core
from .chat import ChatPrompt, ChatTemplate, Message, chat_prompt
from .edits import edits_of
from .errors import NotFoundError
from .generation import GenerateOptions, Generation, Runner, Stream, TracedResult, complete, request_of
from .interpretable import Interpretable, Prompt, is_batch

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
        self._weights = _core.Model.load(find(name), weights=weights, threads=threads)
        self._engine_options: dict[str, Any] = {
            "threads": threads,
            "numerics": numerics,
            "kv": kv,
            "context": context,
            "cache_budget": cache_budget,
            "step_rows": step_rows,
            "page_positions": page_positions,
            "isa": isa,
        }
        self._engine = _core.Engine.create(self._weights, **self._engine_options)
        self._runner = Runner(self._engine)
        super().__init__()
        for notice in self.info.notices:
            warnings.warn(notice, stacklevel=2)

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
        return _core.Engine.create(self._weights, **{**self._engine_options, **options})

    # Text to ids.

    def encode(self, prompt: Prompt, *, obey_markers: bool = False) -> list[int]:
        """The ids of a prompt: of a text, with what the tokenizer puts in front; of a conversation,
        by the chat template; ids as they are."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        if len(prompt) > 0 and isinstance(prompt[0], Mapping):
            return self.chat_prompt(prompt, obey_markers=obey_markers).ids  # type: ignore[arg-type]
        return [int(token) for token in prompt]  # type: ignore[arg-type]

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of ids."""
        return self.tokenizer.decode(ids, skip_special=skip_special)

    def chat_prompt(
        self, messages: Sequence[Message], *, obey_markers: bool = False, **options: Any
    ) -> ChatPrompt:
        """A conversation as the model is given it: see :func:`phidias.chat_prompt`. Warns where
        the template leaves a message out."""
        prompt = chat_prompt(
            self.tokenizer, self.chat_template, messages, obey_markers=obey_markers, **options
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
        edits: Any = None,
        read: Sequence[str] = (),
        **options: Unpack[GenerateOptions],
    ) -> Generation: ...
    @overload
    def generate(
        self,
        prompt: Sequence[Prompt],
        *,
        edits: Any = None,
        read: Sequence[str] = (),
        **options: Unpack[GenerateOptions],
    ) -> list[Generation]: ...
    def generate(
        self,
        prompt: Any,
        *,
        edits: Any = None,
        read: Sequence[str] = (),
        **options: Unpack[GenerateOptions],
    ) -> Any:
        """Goes on with a prompt: a text, ids, or a conversation; or with a list of these, side by
        side. Greedily and for 256 tokens at most, unless the options say otherwise.

        An error of one prompt among several is in its result's ``error``; of a single prompt it is
        raised.

        Args:
            edits: changes of named values, in force for the prompt and every step. Answers are
                greedy then.
            read: paths of values to keep: ``result[path]`` has every position that was computed,
                once. Answers are greedy then.
        """
        if edits is not None or read or self._lasting_edits:
            prompts = prompt if is_batch(prompt) else [prompt]
            results = [self._generate_traced(p, edits, read, options) for p in prompts]
            return results if is_batch(prompt) else results[0]
        if is_batch(prompt):
            return complete(self._runner, [request_of(self.encode(p), options) for p in prompt])
        (result,) = complete(self._runner, [request_of(self.encode(prompt), options)])
        if result.error is not None:
            raise result.error
        return result

    def _generate_traced(
        self, prompt: Prompt, edits: Any, read: Sequence[str], options: GenerateOptions
    ) -> Generation:
        request = request_of(self.encode(prompt), options)
        unknown = set(options) - {"max_new_tokens", "stop_ids", "skip_special", "rope_switch"}
        if unknown - {"temperature"} or request.sampling.temperature != 0:
            raise ValueError(
                "with edits or reads an answer is greedy and has the options max_new_tokens, "
                f"stop_ids, skip_special and rope_switch; leave out {', '.join(sorted(unknown))}"
            )
        began = time.perf_counter()
        room = self._engine.context - len(request.prompt)
        wanted = min(request.max_tokens or room, room)
        with self.trace(
            request.prompt, edits=edits, generate=wanted, rope_switch=request.rope_switch
        ) as t:
            saved = {path: t.read(path) for path in read}
        stops = self.stop_ids if request.stop_ids is None else request.stop_ids
        count = next((i + 1 for i, token in enumerate(t.tokens) if token in stops), wanted)
        ids = t.tokens[:count]
        stopped = ids[-1] in stops
        result = TracedResult(
            ids=ids,
            text=self.decode(ids[:-1] if stopped else ids, skip_special=request.skip_special)
            if self._weights.tokenizer is not None
            else "",
            finish_reason="stop" if stopped else "length",
            prompt_tokens=len(request.prompt),
            total_seconds=time.perf_counter() - began,
        )
        rows = len(request.prompt) + count - 1
        return Generation(result, {p: one.first_rows(rows) for p, one in saved.items()}, t.touched)

    def stream(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream:
        """As :meth:`generate` for one prompt, piece by piece::

            for piece in model.stream("Once upon a time").text():
                print(piece, end="", flush=True)
        """
        return Stream(self._runner, request_of(self.encode(prompt), options))

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        system: str | None = None,
        obey_markers: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """The answer to a question or a conversation."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if system is not None:
            messages = [{"role": "system", "content": system}, *messages]
        prompt = self.chat_prompt(
            messages, obey_markers=obey_markers, tools=tools, **(template_variables or {})
        )
        return self.generate(prompt.ids, **options)

    def perplexity(
        self,
        text: str | Sequence[int],
        *,
        window: int = 512,
        save: str | os.PathLike[str] = "",
        against: str | os.PathLike[str] = "",
        rope_switch: str = "reprefill",
        progress: Callable[[int, int], bool] | None = None,
    ) -> dict[str, Any]:
        """How well the model predicts a text, in windows without overlap: ``perplexity``,
        ``tokens`` and ``windows`` (negative log-likelihoods).

        ``save`` keeps the log-probabilities in a file; ``against`` such a file of another run adds
        ``kl_mean``, ``kl_p99`` and ``same_best``. ``progress(done, of)`` returns False to stop.
        """
        ids = self.tokenizer.encode(text) if isinstance(text, str) else list(text)
        return self._engine.perplexity(
            ids,
            window=window,
            save=os.fspath(save),
            against=os.fspath(against),
            rope_switch=rope_switch,
            progress=progress,
        )


def find(name: str | os.PathLike[str]) -> str:
    """The path of a model: as given where it exists, else by its name in the hub cache."""
    path = os.fspath(name)
    if os.path.exists(path):
        return path
    try:
        return _core.find_cached_model(path)
    except ValueError:
        raise NotFoundError("there is no such file or folder", file=path) from None
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no such file or folder, and in the hub cache: {error.message}", file=path
        ) from None
