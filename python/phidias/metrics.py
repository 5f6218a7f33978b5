"""Numbers to differentiate: what a run's gradients are of.

    t.metric = phidias.logit_diff(" Paris", " Rome") - 0.1 * phidias.divergence(reference)

Tokens are ids, or texts that are one token each (tried as given, then without the leading space).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from .arrays import array_of
from .edits import positions_of

if TYPE_CHECKING:
    from .model import Model
    from .values import Value

Token = int | str
Positions = str | int | Sequence[int]


class Metric:
    """A weighted sum of terms, as data. Metrics add, subtract and scale."""

    def __init__(self, terms: list[dict[str, Any]]) -> None:
        self.terms = terms

    def compiled(self, model: Model) -> _core.Metric:
        """As the library takes it. Raises InvalidArgumentError for what is no token of the model."""
        return _core.Metric.from_json(json.dumps(self.terms), model._weights)

    def __add__(self, other: Metric) -> Metric:
        return Metric(self.terms + other.terms)

    def __mul__(self, factor: float) -> Metric:
        return Metric([{**term, "weight": float(factor) * term.get("weight", 1)} for term in self.terms])

    __rmul__ = __mul__

    def __neg__(self) -> Metric:
        return self * -1

    def __sub__(self, other: Metric) -> Metric:
        return self + -other

    def __repr__(self) -> str:
        kinds = (next(k for k in term if k not in ("at", "weight")) for term in self.terms)
        return f"Metric({', '.join(kinds)})"


def logit(token: Token, at: Positions = "last") -> Metric:
    """The logit of a token, summed over positions."""
    return Metric([{"logit": _token(token), "at": positions_of(at)}])


def logit_diff(token: Token, other: Token, at: Positions = "last") -> Metric:
    """How far one token's logit is above another's."""
    return Metric([{"logit_diff": [_token(token), _token(other)], "at": positions_of(at)}])


def log_prob(token: Token, at: Positions = "last") -> Metric:
    """The log-probability of a token."""
    return Metric([{"log_prob": _token(token), "at": positions_of(at)}])


def divergence(reference: Any, at: Positions = "last") -> Metric:
    """The Kullback-Leibler divergence of the run's distribution from a reference's, ``[vocab]``
    probabilities."""
    return Metric([{"kl": array_of(reference).reshape(-1).tolist(), "at": positions_of(at)}])


def dot(value: Value | str, vector: Any) -> Metric:
    """The dot product of a value with a vector, summed over the value's positions: a probe, a
    feature. Select with ``value.at("last")``."""
    path = value if isinstance(value, str) else value.path
    vector = array_of(vector).reshape(-1).tolist()
    return Metric([{"dot": {"value": path, "vector": vector}}])


def _token(token: Token) -> Token:
    return token if isinstance(token, str) else int(token)

