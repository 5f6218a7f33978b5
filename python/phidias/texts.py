"""Tokens as people see them."""

from __future__ import annotations

from typing import Any

_SIGNS = {" ": "\u2423", "\n": "\u21b5", "\t": "\u2192"}


def visible(text: str) -> str:
    """White space and control characters as signs that can be seen."""
    return "".join(_SIGNS.get(c, c if c.isprintable() else "\u00b7") for c in text)


def token_text(model_or_tokenizer: Any, token: int) -> str:
    """A token's text, to be shown: of a model, of its tokenizer, or of one with transformers'
    ``convert_ids_to_tokens``. An image's token, and any of a model without a tokenizer, is a number."""
    if token < 0:
        return f"image {-token}"
    tokenizer = model_or_tokenizer
    if hasattr(tokenizer, "_weights"):
        tokenizer = tokenizer._weights.tokenizer
    if tokenizer is None:
        return str(token)
    if hasattr(tokenizer, "token_bytes"):
        return visible(tokenizer.token_bytes(token).decode("utf-8", "replace"))
    return str(tokenizer.convert_ids_to_tokens(token))
