"""Reads messages of the wire into the dataclasses of values.py, field by field, by their names."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import types
import typing
from typing import Any, TypeVar

from google.protobuf import duration_pb2, message, timestamp_pb2

T = TypeVar("T")


def read(kind: type[T], source: message.Message) -> T:
    """Return the value of the dataclass `kind` that `source` has."""
    return kind(
        **{
            name: None
            if optional and not source.HasField(name)
            else _value(getattr(source, name), hint)
            for name, hint, optional in _fields(kind)  # type: ignore[arg-type]  # types are hashable
        }
    )


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Return the name of each field, its type without None, and whether it can be None."""
    hints = typing.get_type_hints(kind)
    return tuple(
        (field.name, typing.get_args(hint)[0], True)
        if isinstance(hint := hints[field.name], types.UnionType)
        else (field.name, hint, False)
        for field in dataclasses.fields(kind)
    )


def _value(value: Any, hint: Any) -> Any:
    if isinstance(value, duration_pb2.Duration):
        return value.seconds + value.nanos * 1e-9
    if isinstance(value, timestamp_pb2.Timestamp):
        return value.ToDatetime(datetime.UTC)
    if isinstance(value, message.Message):
        return read(hint, value)
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        return tuple(_value(each, element) for each in value)
    if hint is str and isinstance(value, bytes):
        return value.decode(errors="replace")
    return hint(value)
