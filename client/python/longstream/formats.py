"""The form that an answer must have: TurnOptions.response_format.

session.generate("A point: ", response_format={"type": "object", "properties": {...}})
session.generate("Yes or no? ", response_format=formats.any_of("yes", "no"))
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from longstream.v1 import longstream_pb2 as pb


@dataclasses.dataclass(frozen=True)
class Format:
    """A set of texts. The functions of this module make formats.

    Attributes:
        message: as the wire has it.
    """

    message: pb.ResponseFormat


# A mapping is a JSON Schema, a class with `model_json_schema` (pydantic's models have it) stands
# for its schema, and a str for exactly this text.
FormatLike: TypeAlias = Format | Mapping[str, Any] | str | type


def text(exactly: str) -> Format:
    """Return the format of this text alone."""
    return Format(pb.ResponseFormat(text=exactly.encode()))


def text_without(part: str) -> Format:
    """Return the format of all texts, also the empty one, in which `part` does not occur."""
    return Format(pb.ResponseFormat(text_without=part.encode()))


def json_object() -> Format:
    """Return the format of all JSON objects."""
    return Format(pb.ResponseFormat(json_object=pb.ResponseFormat.JsonObject()))


def json_schema(schema: Mapping[str, Any] | bool | str | bytes) -> Format:
    """Return the format of the JSON that fits a JSON Schema, given as an object or as text."""
    if isinstance(schema, str):
        schema = schema.encode()
    if not isinstance(schema, bytes):
        schema = json.dumps(schema).encode()
    return Format(pb.ResponseFormat(json_schema=schema))


def regex(pattern: str) -> Format:
    """Return the format of the texts that a regular expression matches as a whole."""
    return Format(pb.ResponseFormat(regex=pattern.encode()))


def grammar(gbnf: str) -> Format:
    """Return the format of the texts of a grammar in the notation of llama.cpp (GBNF)."""
    return Format(pb.ResponseFormat(grammar=gbnf.encode()))


def sequence(*parts: FormatLike) -> Format:
    """Return the format of texts that have these formats one after the other."""
    return Format(pb.ResponseFormat(sequence=_formats(parts)))


def any_of(*options: FormatLike) -> Format:
    """Return the format of texts that have one of these formats."""
    return Format(pb.ResponseFormat(any_of=_formats(options)))


def repeat(part: FormatLike, least: int = 0, most: int | None = None) -> Format:
    """Return the format of `least` to `most` texts of a format. most None: without a limit."""
    message = pb.ResponseFormat.Repeat(format=as_format(part).message, least=least, most=most)
    return Format(pb.ResponseFormat(repeat=message))


def as_format(value: FormatLike) -> Format:
    """Return the format that the value stands for. Raises TypeError if it stands for none."""
    if isinstance(value, Format):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return json_schema(value)
    schema = getattr(value, "model_json_schema", None)
    if not isinstance(value, type) or schema is None:
        raise TypeError
    return json_schema(schema())


def _formats(parts: tuple[FormatLike, ...]) -> pb.ResponseFormat.Formats:
    return pb.ResponseFormat.Formats(formats=[as_format(part).message for part in parts])
