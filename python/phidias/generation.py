"""Answers: options, results, streams, and many callers on one engine."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from numpy.typing import NDArray

from . import _core
from .edits import Edit
from .errors import CancelledError
from .progress import Teller
from .trace import joined
from .values import Value, key_of, near


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
    max_bytes: int
    """Of what is read of one answer; more is refused with the figure."""


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


Kept = tuple[str, _core.ValueRef, tuple[int, ...]]
"""What an answer keeps: its key, the value, and the axes that integers have taken."""


@dataclass
class Request:
    """The library's request, and what Python has to know of it."""

    core: _core.GenerateRequest
    kept: list[Kept] = field(default_factory=list)
    raised: _core.Raised = field(default_factory=_core.Raised)
    """By its functions on live rows."""


def request_of(
    ids: Sequence[int],
    options: GenerateOptions,
    *,
    images: Sequence[_core.Image] = (),
    edits: Sequence[Edit] = (),
    kept: Sequence[Kept] = (),
) -> Request:
    """The request for these options, images, edits and reads."""
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
    request.max_read_bytes = given.pop("max_bytes", request.max_read_bytes)
    sampling = _core.SamplingOptions()
    for name in _SAMPLING:
        if name in given:
            setattr(sampling, name, given.pop(name))
    for token, bias in given.pop("logit_bias", {}).items():
        sampling.add_logit_bias(token, bias)
    request.sampling = sampling
    for name in given:
        raise TypeError(f"{name}: no such option; {near(name, GenerateOptions.__annotations__)}")
    whole = Request(request, list(kept))
    for image in images:
        request.add_image(image)
    for edit in edits:
        request.add_edit(edit.compiled(whole.raised))
    for _, ref, _ in kept:
        request.add_read(ref)
    return whole


class Generation:
    """Answers to one prompt. ``str()`` is the first one's text."""

    def __init__(self, result: _core.GenerateResult, kept: Sequence[Kept] = ()) -> None:
        self._result = result
        self._kept = kept
        self._values: dict[int, dict[str, NDArray[Any]]] = {}

    @property
    def values(self) -> Mapping[str, NDArray[Any]]:
        """What was read of the first answer, by path; ``generation[path]`` too. Axes of positions
        have all that were run: the prompt's and the answer's, but for its last token's."""
        return self.values_of(0)

    def values_of(self, choice: int) -> Mapping[str, NDArray[Any]]:
        """What was read of an answer. The prompt's positions are the same in all."""
        if choice not in self._values:
            parts: list[list[NDArray[Any]]] = [[] for _ in self._kept]
            for read, _, _, array in self.choices[choice].traced.take_entries():
                parts[read].append(array)
            self._values[choice] = {
                key: joined(part, ref.many_layers, dropped)
                for (key, ref, dropped), part in zip(self._kept, parts)
            }
        return self._values[choice]

    @property
    def touched(self) -> list[int]:
        """Positions that each edit touched, in the first answer."""
        return list(self.choices[0].traced.rows)

    @property
    def choices(self) -> Sequence[_core.Choice]:
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

    def __getitem__(self, value: str | Value) -> NDArray[Any]:
        return self.values[key_of(value, self.values)]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Generation({self.text!r}, finish_reason={self.finish_reason!r})"


@dataclass(eq=False)
class Ticket:
    """A request on its way: what it has brought and nobody has fetched yet."""

    number: int
    raised: _core.Raised
    events: deque[_core.Event] = field(default_factory=deque)
    result: _core.GenerateResult | None = None


class Runner:
    """One generator for all who use an engine: their requests run side by side in its steps.

    Whoever waits for something does the stepping; what belongs to others goes to their tickets, also
    where the one who steps is interrupted.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._generator = _core.Generator(engine)
        self._engine = engine
        memory, self._page = engine.memory, engine.options["page_positions"]
        self.room = memory["cache_budget"] // (memory["cache_per_position"] * self._page)
        """Cache pages of all requests together."""
        self._lock = threading.Lock()
        self._queues: dict[int, deque[_core.Event]] = {}
        self._stopped: deque[int] = deque()
        self._abandoned: deque[int] = deque()

    def submit(self, request: Request) -> Ticket:
        """Enters a request, which is then to be finished or abandoned."""
        with self._lock:
            ticket = Ticket(self._generator.submit(request.core), request.raised)
            self._queues[ticket.number] = ticket.events
            return ticket

    def pages(self, request: Request) -> int:
        """Cache pages that a request may come to take."""
        core, context = request.core, self._engine.context
        longest = min(context, len(core.prompt) + (core.max_tokens or context))
        pages: int = -(-longest // self._page)
        return core.choices * pages

    def next(self, ticket: Ticket) -> _core.Event | None:
        """The next event of a request; None when it has ended."""
        while not ticket.events:
            with self._lock:
                if ticket.events:
                    break
                if self._generator.finished(ticket.number):
                    return None
                self._step()
        return ticket.events.popleft()

    def finish(self, ticket: Ticket) -> _core.GenerateResult:
        """Runs a request to its end. What a function of its edits has raised is raised here."""
        while ticket.result is None:
            with self._lock:
                if not self._generator.finished(ticket.number):
                    self._step()
                elif ticket.result is None:
                    ticket.result = self._generator.take(ticket.number)
                    self._queues.pop(ticket.number, None)
        ticket.raised.rethrow()
        return ticket.result

    def stop(self, ticket: Ticket) -> None:
        """Ends a request at the next step. Never waits: any thread may call it, a callback or a
        signal handler too."""
        self._stopped.append(ticket.number)

    def stop_all(self) -> None:
        """The same of all that are running."""
        self._stopped.extend(list(self._queues))

    def abandon(self, ticket: Ticket) -> None:
        """Ends a request that nobody waits for. Never waits, so that it may be called from
        anywhere, as when an object is collected."""
        self._abandoned.append(ticket.number)

    def _step(self) -> None:
        # A signal's handler may raise at any line: what is undone is done at the next step.
        while self._stopped:
            self._generator.cancel(self._stopped[0])
            self._stopped.popleft()
        while self._abandoned:
            self._queues.pop(self._abandoned[0], None)
            self._generator.abandon(self._abandoned[0])
            self._abandoned.popleft()
        self._generator.step(self._queues)


class Stream(Iterator[_core.Event]):
    """An answer as it comes: an iterator of events with ``text``, ``token`` and ``choice``; with
    ``async for`` too.

    Leaving it early (``close()``, ``with``, or letting go of it) ends the request, and so does
    ``stop()`` from any thread; ``result`` is then what there is.
    """

    def __init__(self, runner: Runner, request: Request) -> None:
        self._result: Generation | None = None
        self._runner = runner
        self._kept = request.kept
        self._ticket = runner.submit(request)

    def __next__(self) -> _core.Event:
        event = self._next()
        if event is None:
            raise StopIteration
        return event

    def _next(self) -> _core.Event | None:
        while self._result is None:
            event = self._runner.next(self._ticket)
            if event is None:
                self._finish()
            elif event.token is not None or event.text or event.finish_reason is not None:
                return event
        return None

    def _finish(self) -> None:
        self._result = Generation(self._runner.finish(self._ticket), self._kept)

    def __repr__(self) -> str:
        return "<Stream, on its way>" if self._result is None else f"<Stream of {self._result!r}>"

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> _core.Event:
        try:
            event = await asyncio.to_thread(self._next)
        except asyncio.CancelledError:
            self.stop()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    def text(self) -> Iterator[str]:
        """The text alone, piece by piece, of the first answer."""
        return (event.text for event in self if event.text and event.choice == 0)

    def stop(self) -> None:
        """Ends the request at the engine's next step, and the iteration with it. Never waits: any
        thread may call it."""
        self._runner.stop(self._ticket)

    def close(self) -> None:
        """Ends the request if it has not ended, and waits for that."""
        if self._result is None:
            self.stop()
            self._finish()

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
        if hasattr(self, "_ticket") and self._result is None:
            self._runner.abandon(self._ticket)


def complete(
    runner: Runner, requests: Sequence[Request], tell: Teller | None = None
) -> list[Generation]:
    """Runs requests side by side to their end, as many at a time as the cache has room for. The first
    invalid one is an error, and ends the others."""
    waiting = deque(requests)
    running: deque[tuple[Ticket, Request, int]] = deque()
    taken = 0
    results = []
    try:
        while waiting or running:
            while waiting and (not running or taken + runner.pages(waiting[0]) <= runner.room):
                request = waiting.popleft()
                running.append((runner.submit(request), request, runner.pages(request)))
                taken += running[-1][2]
            ticket, request, pages = running[0]
            results.append(Generation(runner.finish(ticket), request.kept))
            running.popleft()
            taken -= pages
            if tell is not None and not tell(len(results), len(requests)):
                raise CancelledError(f"stopped with {len(results)} of {len(requests)} answers")
        return results
    finally:
        for ticket, _, _ in running:  # interrupted, or not even begun
            runner.abandon(ticket)
