"""Conversations to prompts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from .images import with_tags

Message = Mapping[str, Any]
"""A message as everywhere: ``{"role": "user", "content": "..."}`` and whatever the template knows."""

# Code points that stand for no character, reserved for uses such as this one.
_NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
# Templates compare these; they are never shown to the model as they are.
_COMPARED = {"role", "type"}


class ChatTemplate:
    """A Jinja chat template. Immutable, and safe to share between threads."""

    def __init__(
        self, source: str | _core.ChatTemplate, tokens: Sequence[tuple[str, str]] = ()
    ) -> None:
        """From Jinja source; ``tokens`` are further variables, such as ``("bos_token", "<s>")``."""
        self._template = (
            source if isinstance(source, _core.ChatTemplate) else _core.ChatTemplate.parse(source)
        )
        self._tokens = list(tokens)

    @classmethod
    def builtin(cls, name: str) -> ChatTemplate:
        """One of the family's templates: see :meth:`builtin_names`."""
        return cls(_core.ChatTemplate.builtin(name))

    @staticmethod
    def builtin_names() -> list[str]:
        """The names that :meth:`builtin` knows."""
        return _core.ChatTemplate.builtin_names()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ChatTemplate:
        """The template of a checkpoint, which need not have weights."""
        return cls(_core.load_chat_template(os.fspath(path)))

    @property
    def source(self) -> str:
        """The Jinja source."""
        return self._template.source

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt, as text.

        The text ends where the answer begins (``add_generation_prompt``, the default) or with the
        last message's content (``continue_final_message``). Further keyword arguments are
        variables of the template, such as ``enable_thinking=False``.
        """
        return self._template.render_json(
            _request(messages, tools, add_generation_prompt, continue_final_message, variables),
            self._tokens,
        )

    def untraced(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> list[int]:
        """Indices of messages that the template leaves out, such as a system message where it
        knows no such role."""
        return self._template.untraced_json(
            _request(messages, tools, add_generation_prompt, continue_final_message, variables),
            self._tokens,
        )

    def __repr__(self) -> str:
        return f"ChatTemplate({len(self.source)} characters)"


@dataclass(frozen=True)
class ChatPrompt:
    """A rendered conversation."""

    text: str
    """As the template renders it."""
    ids: list[int]
    """What the model is given."""
    untraced: list[int]
    """Messages that the template leaves out: the user should be told."""


def chat_prompt(
    tokenizer: _core.Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    obey_markers: bool = False,
    images: Sequence[_core.Image] | None = None,
    **options: Any,
) -> ChatPrompt:
    """Renders a conversation and encodes it, without special tokens beyond the template's own.

    Markers such as ``<|end|>`` that a message spells out stay ordinary text, so that nobody can
    close a turn from inside one; with ``obey_markers`` they act. Of images, the messages have the
    tags ``<|image_n|>``; where they have none, the first message of the user gets them. ``None``:
    the model sees no images; those that do have the tokenizer's special tokens in front. Other
    options are those of :meth:`ChatTemplate.render`.
    """
    if images:
        messages = _tagged(messages, len(images))
    guard = None if obey_markers else _unused_noncharacter(messages)
    guarded = messages if guard is None else [_guarded(tokenizer, m, guard) for m in messages]
    text = template.render(guarded, **options)
    if images is not None:
        ids = _core.encode_with_images(tokenizer, text, images, guard=guard)
    else:
        ids = tokenizer.encode(text, add_special=False, guard=guard)
    if guard is not None:
        text = text.replace(guard, "")
    return ChatPrompt(text, ids, template.untraced(messages, **options))


def _tagged(messages: Sequence[Message], count: int) -> Sequence[Message]:
    texts = [m["content"] for m in messages if isinstance(m.get("content"), str)]
    if any(_core.image_tag(1) in text for text in texts):
        return messages
    first = next((i for i, m in enumerate(messages) if m.get("role") == "user"), 0)
    tagged = [dict(message) for message in messages]
    tagged[first]["content"] = with_tags(str(tagged[first]["content"]), count)
    return tagged


def _request(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
    add_generation_prompt: bool | None,
    continue_final_message: bool,
    variables: Mapping[str, Any],
) -> str:
    if add_generation_prompt is None:
        add_generation_prompt = not continue_final_message
    request = {
        **variables,
        "messages": list(messages),
        "tools": None if tools is None else list(tools),
        "add_generation_prompt": add_generation_prompt,
        "continue_final_message": continue_final_message,
    }
    return json.dumps(request)


def _unused_noncharacter(messages: Sequence[Message]) -> str:
    text = json.dumps(list(messages), ensure_ascii=False)
    return next((c for c in _NONCHARACTERS if c not in text), _NONCHARACTERS[0])


def _guarded(tokenizer: _core.Tokenizer, value: Any, guard: str) -> Any:
    if isinstance(value, str):
        return tokenizer.guard_markers(value, guard)
    if isinstance(value, Mapping):
        return {
            key: part if key in _COMPARED else _guarded(tokenizer, part, guard)
            for key, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_guarded(tokenizer, part, guard) for part in value]
    return value
