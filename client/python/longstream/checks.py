"""Checks the values of options. An error names the option, the value, and what is expected."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longstream import enums, formats

_MAX_ID = 2**31 - 1
_MAX_32_BITS = 2**32 - 1
_MAX_64_BITS = 2**64 - 1
_MAX_SECONDS = 315_576_000_000  # of google.protobuf.Duration


@dataclasses.dataclass(frozen=True)
class _Check:
    """What an option may be.

    Attributes:
        expected: in words.
        take: returns the value in the form in which requests are made of it. Raises TypeError,
            ValueError or OverflowError, whose message is not used.
    """

    expected: str
    take: Callable[[Any], Any]


def checked(option: str, value: Any) -> Any:
    """Return the value of an option. Raises TypeError or ValueError.

    REQUIRES: the option is in CHECKS.
    """
    check = CHECKS[option]
    try:
        return check.take(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong(type(error), option, check.expected, value) from None


def wrong(kind: type[Exception], option: str, expected: str, found: object) -> Exception:
    """Return the error for the value of an option."""
    shown = reprlib.Repr()
    shown.maxstring = shown.maxother = 80
    kind = TypeError if issubclass(kind, TypeError) else ValueError
    return kind(f"{option}: expected {expected}, found {shown.repr(found)}")


def as_json(option: str, value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{option}: expected values of JSON: {error}") from None


def _kind(accepted: bool) -> None:
    if not accepted:
        raise TypeError


def _range(accepted: bool) -> None:
    if not accepted:
        raise ValueError


def _whole(most: int) -> _Check:
    def take(value: Any) -> int:
        _kind(not isinstance(value, bool))
        number = operator.index(value)
        _range(0 <= number <= most)
        return number

    return _Check(f"a whole number from 0 to {most}", take)


def _number(value: Any) -> float:
    _kind(isinstance(value, numbers.Real) and not isinstance(value, bool))
    return float(value)


def _finite(value: Any) -> float:
    number = _number(value)
    _range(math.isfinite(number))
    return number


def _duration(value: Any) -> float:
    number = _finite(value)
    _range(abs(number) <= _MAX_SECONDS)
    return number


def _positive(value: Any) -> float:
    number = _finite(value)
    _range(number > 0)
    return number


def _switch(value: Any) -> bool:
    _kind(isinstance(value, int))
    _range(value in (0, 1))
    return bool(value)


def _text(value: Any) -> str:
    _kind(isinstance(value, str))
    return str(value)


def _word(kind: type[enums.WireEnum]) -> _Check:
    """Check a value of an enumeration, its number, or its name in lower case."""
    words = {member.name.lower(): member for member in kind if member.value}

    def take(value: Any) -> enums.WireEnum:
        if isinstance(value, str):
            _range(value in words)
            return words[value]
        _kind(isinstance(value, kind) or type(value) is int)
        _range(any(value == member.value for member in kind))
        return kind(value)

    listed = ", ".join(repr(word) for word in words)
    return _Check(f"a longstream.{kind.__name__}, or one of {listed}", take)


def _strings(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [_text(each) for each in _listed(value)]


def _listed(value: Any) -> list[Any]:
    _kind(not isinstance(value, str | bytes | bytearray | memoryview | Mapping))
    return list(value)


def _ids(value: Any) -> list[int]:
    return [_TOKEN_ID.take(each) for each in _listed(value)]


def _biases(value: Any) -> dict[int, float]:
    _kind(isinstance(value, Mapping))
    return {_TOKEN_ID.take(token): _number(bias) for token, bias in value.items()}


def _objects(value: Any) -> list[Any]:
    _kind(isinstance(value, Sequence) and not isinstance(value, str | bytes))
    _kind(all(isinstance(each, Mapping) for each in value))
    return list(value)


def _object(value: Any) -> dict[str, Any]:
    _kind(isinstance(value, Mapping))
    return dict(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    _kind(isinstance(value, bytes | bytearray | memoryview))
    return bytes(value)


def _keys(value: Any) -> list[bytes]:
    return [_bytes(each) for each in _listed(value)]


def _notes(value: Any) -> list[tuple[bytes, bytes]]:
    _kind(isinstance(value, Mapping))
    return [(_bytes(key), b"" if each is None else _bytes(each)) for key, each in value.items()]


_TOKEN_ID = _whole(_MAX_ID)
_NUMBER = _Check("a number", _number)
_SECONDS = _Check(f"a number of seconds, at most {_MAX_SECONDS}", _duration)
_SWITCH = _Check("True or False", _switch)
_MODEL = _Check("a str, the name of a model", _text)
_COUNT = _whole(_MAX_32_BITS)
_LONG_COUNT = _whole(_MAX_64_BITS)

# Limits that depend on more than the type are the server's, such as that of the temperature.
CHECKS: Mapping[str, _Check] = {
    # sampling
    "temperature": _NUMBER,
    "top_k": _whole(_MAX_ID),
    "top_p": _NUMBER,
    "min_p": _NUMBER,
    "repetition_penalty": _NUMBER,
    "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER,
    "penalty_scope": _word(enums.PenaltyScope),
    "logit_bias": _Check("a mapping from token ids to numbers", _biases),
    "seed": _LONG_COUNT,
    # answers
    "max_tokens": _COUNT,
    "stop": _Check("a str or a sequence of them", _strings),
    "stop_token_ids": _Check(f"a sequence of whole numbers from 0 to {_MAX_ID}", _ids),
    "ignore_eos": _SWITCH,
    "min_tokens": _COUNT,
    "stop_text": _word(enums.StopText),
    "top_log_probs": _COUNT,
    "priority": _word(enums.Priority),
    "parse_special": _SWITCH,
    "add_special": _SWITCH,
    "skip_special": _SWITCH,
    "count_only": _SWITCH,
    "pieces": _SWITCH,
    # turns
    "log_probs": _SWITCH,
    "response_format": _Check(
        "a mapping (a JSON Schema), a model of pydantic, or a longstream.formats.Format",
        lambda value: formats.as_format(value).message,
    ),
    "twin_model": _MODEL,
    "timeout": _Check("a number of seconds above 0", _positive),
    "turn_id": _Check("a str of 32 hexadecimal digits", _text),
    "expected_position": _LONG_COUNT,
    "on_abort": _word(enums.OnAbort),
    # messages
    "tools": _Check("a sequence of mappings", _objects),
    "template_arguments": _Check("a mapping", _object),
    "add_generation_prompt": _SWITCH,
    "continue_final_message": _SWITCH,
    "whole_conversation": _SWITCH,
    "require_unchanged": _SWITCH,
    # sessions and comparisons
    "model": _MODEL,
    "alias": _Check("a str, the name of an alias", _text),
    "session_id": _Check("a str of 32 hexadecimal digits", _text),
    "idle_timeout": _SECONDS,
    "ttl": _Check("a number of seconds above 0", _positive),
    "durability": _word(enums.Durability),
    "recompute": _word(enums.Recompute),
    "position": _LONG_COUNT,
    "expected_version": _LONG_COUNT,
    "sealed": _SWITCH,
    "expect.prompt_tokens": _LONG_COUNT,
    "expect.prompt_bytes": _LONG_COUNT,
    "expect.max_tokens": _LONG_COUNT,
    "expect.max_time_to_first_token": _SECONDS,
    "expect.max_time_per_token": _SECONDS,
    "expect.max_session_bytes": _LONG_COUNT,
    "answer_of": _COUNT,
    "prompt_from": _LONG_COUNT,
    # notes
    "keys": _Check("a sequence of str or bytes", _keys),
    "values": _Check("a mapping from keys (str or bytes) to str, bytes or None", _notes),
}
