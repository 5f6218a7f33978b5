"""Answers: options, results, streams, and many callers on one engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from numpy.typing import NDArray

from . import _core


class GenerateOptions(TypedDict, total=False):
    """How an answer is made. What is left out keeps its default; the defaults choose greedily."""

    max_new_tokens: int
    """Tokens of each answer at most; 0: until the context is full. Default 256."""
    n: int
    """Answers to the one prompt, 1 to 128."""
    temperature: float
    """0: the likeliest token; otherwise logits are divided by it."""
    top_k: int
    """Keep the k likeliest tokens; 0: off."""
    top_p: float
    """Keep a token while the mass of those likelier is less than this; 1: off."""
    min_p: float
    """Keep what has at least this share of the likeliest token's probability; 0: off."""
    typical_p: float
    """Keep this mass of the tokens whose surprisal is nearest to the entropy; 1: off."""
    repetition_penalty: float
    """Divides positive logits of tokens seen before and multiplies negative ones; 1: off."""
    repetition_last: int
    """It looks at so many last tokens; 0: at all."""
    repetition_answer_only: bool
    """It looks at the answer alone, not at the prompt."""
    presence_penalty: float
    """Subtracted once from the logit of a token that the answer holds."""
    frequency_penalty: float
    """Subtracted once per occurrence in the answer."""
    logit_bias: Mapping[int, float]
    """Added to logits; ``-math.inf`` bans a token."""
    seed: int
    """Draws depend on it, the choice, the position and the token, and on nothing else."""
    stop: str | Sequence[str]
    """The text ends before the first of these that occurs."""
    stop_ids: Sequence[int]
    """In place of the model's own; empty: none."""
    logprobs: int
    """Log-probabilities of each token and of so many alternatives."""
    skip_special: bool
    """Leave special tokens out of the text. Default True."""
    rope_switch: str
    """LongRoPE models: ``reprefill``, ``keep``, ``short``, ``long``."""


_SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "repetition_last",
    "repetition_answer_only",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)


def request_of(ids: Sequence[int], options: GenerateOptions) -> _core.GenerateRequest:
    """The library's request for these options."""
    given: dict[str, Any] = dict(options)
    request = _core.GenerateRequest()
    request.prompt = list(ids)
    request.max_tokens = given.pop("max_new_tokens", 256)
    request.choices = given.pop("n", 1)
    stop = given.pop("stop", ())
    request.stop_strings = [stop] if isinstance(stop, str) else list(stop)
    stop_ids = given.pop("stop_ids", None)
    request.stop_ids = None if stop_ids is None else list(stop_ids)
    request.top_log_probabilities = given.pop("logprobs", None)
    request.skip_special = given.pop("skip_special", True)
    request.rope_switch = given.pop("rope_switch", "reprefill")
    sampling = _core.SamplingOptions()
    for name in _SAMPLING:
        if name in given:
            setattr(sampling, name, given.pop(name))
    for token, bias in given.pop("logit_bias", {}).items():
        sampling.add_logit_bias(token, bias)
    request.sampling = sampling
    if given:
        raise TypeError(
            f"{', '.join(sorted(given))}: no such option; there are "
            f"{', '.join(GenerateOptions.__annotations__)}"
        )
    return request


@dataclass(frozen=True)
class TracedResult:
    """The answer of a traced run: one, greedy."""

    ids: list[int]
    text: str
    finish_reason: str
    prompt_tokens: int
    total_seconds: float
    first_token_seconds: float = 0.0
    stopped_by: str = ""
    tokens: tuple[_core.Token, ...] = ()
    error: Exception | None = None

    @property
    def choices(self) -> list[TracedResult]:
        return [self]

    @property
    def generated_tokens(self) -> int:
        return len(self.ids)


class Generation:
    """Answers to one prompt. ``str()`` is the first one's text."""

    values: Mapping[str, NDArray[Any]]
    """What was read, by path; ``generation[path]`` too."""
    touched: list[int]
    """Positions that each edit touched."""

    def __init__(
        self,
        result: _core.GenerateResult | TracedResult,
        values: Mapping[str, NDArray[Any]] | None = None,
        touched: list[int] | None = None,
    ) -> None:
        self._result = result
        self.values = values or {}
        self.touched = touched or []

    @property
    def choices(self) -> Sequence[_core.Choice | TracedResult]:
        """All answers; ``text``, ``ids`` and so on are those of the first."""
        return self._result.choices

    @property
    def text(self) -> str:
        """Without the stop id's text and without the stop string."""
        return self.choices[0].text

    @property
    def ids(self) -> list[int]:
        """With the stop id, if one ended it."""
        return self.choices[0].ids

    @property
    def tokens(self) -> Sequence[_core.Token]:
        """The ids with their log-probabilities, where these were asked for."""
        return self.choices[0].tokens

    @property
    def finish_reason(self) -> str:
        """``stop``, ``length``, ``cancelled`` or ``error``."""
        return self.choices[0].finish_reason

    @property
    def error(self) -> Exception | None:
        """What ended an answer with ``error``."""
        return next((c.error for c in self.choices if c.error is not None), None)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return self._result.prompt_tokens

    @property
    def generated_tokens(self) -> int:
        """Tokens of all answers."""
        return self._result.generated_tokens

    @property
    def first_token_seconds(self) -> float:
        """From submission to the first token."""
        return self._result.first_token_seconds

    @property
    def total_seconds(self) -> float:
        """From submission to the end."""
        return self._result.total_seconds

    def __getitem__(self, path: str) -> NDArray[Any]:
        return self.values[path]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Generation({self.text!r}, finish_reason={self.finish_reason!r})"


@dataclass
class _Ticket:
    """What a request has brought and nobody has fetched yet."""

    running: int
    events: deque[_core.Event] = field(default_factory=deque)


class Runner:
    """One generator for all who use an engine: their requests run side by side in its steps.

    Whoever waits for something does the stepping, and leaves what belongs to others with their
    tickets.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._generator = _core.Generator(engine)
        self._lock = threading.Lock()
        self._tickets: dict[int, _Ticket] = {}
        self._abandoned: deque[int] = deque()

    def submit(self, request: _core.GenerateRequest) -> int:
        """Enters a request, which is then to be finished, cancelled or abandoned."""
        with self._lock:
            number = self._generator.submit(request)
            self._tickets[number] = _Ticket(request.choices)
            return number

    def next(self, number: int) -> _core.Event | None:
        """The next event of a request; None when it has ended."""
        ticket = self._tickets[number]
        while not ticket.events:
            with self._lock:
                if ticket.events:
                    break
                if ticket.running == 0:
                    return None
                self._step()
        return ticket.events.popleft()

    def finish(self, number: int) -> _core.GenerateResult:
        """Runs a request to its end."""
        ticket = self._tickets[number]
        while True:
            with self._lock:
                if ticket.running == 0:
                    del self._tickets[number]
                    return self._generator.take(number)
                self._step()

    def cancel(self, number: int) -> _core.GenerateResult:
        """Ends a request now: what there is of it."""
        with self._lock:
            self._generator.cancel(number)
        return self.finish(number)

    def abandon(self, number: int) -> None:
        """Ends a request that nobody waits for, at the next step. Never waits, so that it may be
        called from anywhere, as when an object is collected."""
        self._abandoned.append(number)

    def _step(self) -> None:
        while self._abandoned:
            self._generator.cancel(self._abandoned[0])
            del self._tickets[self._abandoned.popleft()]
        for event in self._generator.step():
            ticket = self._tickets.get(event.request)
            if ticket is None:
                if event.finish_reason is not None:
                    self._generator.take(event.request)
                continue
            ticket.events.append(event)
            if event.finish_reason is not None:
                ticket.running -= 1


class Stream(Iterator[_core.Event]):
    """An answer as it comes: an iterator of events with ``text``, ``token`` and ``choice``.

    Leaving it early (``close()``, ``with``, or letting go of it) ends the request; ``result`` is
    then what there is.
    """

    def __init__(self, runner: Runner, request: _core.GenerateRequest) -> None:
        self._result: Generation | None = None
        self._runner = runner
        self._number = runner.submit(request)

    def __next__(self) -> _core.Event:
        while self._result is None:
            event = self._runner.next(self._number)
            if event is None:
                self._result = Generation(self._runner.finish(self._number))
            elif event.token is not None or event.text or event.finish_reason is not None:
                return event
        raise StopIteration

    def text(self) -> Iterator[str]:
        """The text alone, piece by piece, of the first answer."""
        return (event.text for event in self if event.text and event.choice == 0)

    def close(self) -> None:
        """Ends the request if it has not ended."""
        if self._result is None:
            self._result = Generation(self._runner.cancel(self._number))

    @property
    def result(self) -> Generation:
        """The whole, once the stream has ended."""
        if self._result is None:
            raise RuntimeError("the stream has not ended; iterate to its end or close() it")
        return self._result

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_number") and self._result is None:
            self._runner.abandon(self._number)


def complete(runner: Runner, requests: Sequence[_core.GenerateRequest]) -> list[Generation]:
    """Runs requests side by side to their end. The first invalid one is an error, and none runs."""
    waiting: deque[int] = deque()
    try:
        for request in requests:
            waiting.append(runner.submit(request))
        results = []
        while waiting:
            results.append(Generation(runner.finish(waiting[0])))
            waiting.popleft()
        return results
    finally:
        for number in waiting:  # interrupted, or not even begun
            runner.abandon(number)
