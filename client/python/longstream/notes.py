"""Notes: what Client.find_notes answers, and the requests. Does no IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from longstream.calls import Call
from longstream.checks import checked
from longstream.reading import read
from longstream.v1 import longstream_pb2 as pb

Key: TypeAlias = str | bytes  # a str is sent in UTF-8
Value: TypeAlias = str | bytes | bytearray | memoryview | None
# The type of the keys of one mapping, because a dict[str, V] is no Mapping[str | bytes, V].
K = TypeVar("K", bound=Key)

_KEYS_OF_A_CALL = 64


@dataclass(frozen=True, slots=True)
class Note:
    """A value that a program keeps with a session, and finds by its key. `time`: of its writing."""

    key: bytes
    value: bytes
    session_id: str
    time: datetime.datetime | None


def put_notes(session_id: str, values: Mapping[K, Value]) -> Call[None]:
    """Write notes. A repeat writes the same ones."""
    notes = [pb.Note(key=key, value=value) for key, value in checked("values", values)]
    request = pb.PutNotesRequest(session_id=session_id, notes=notes)
    return Call("PutNotes", lambda: request, lambda _: None, session_id=session_id)


class Search:
    """Looks for the notes with some keys, in as many calls as the answers need.

    Attributes:
        keys: no answer was about these yet. Empty: the search has ended.
        notes: those that were found, in the order of the keys.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys: list[bytes] = checked("keys", keys)
        self.notes: list[Note] = []

    def call(self) -> Call[None]:
        """Look for the first of the keys that are left."""
        request = pb.FindNotesRequest(keys=self.keys[:_KEYS_OF_A_CALL])

        def take(answer: pb.FindNotesResponse) -> None:
            self.notes += [read(Note, note) for note in answer.notes]
            del self.keys[: answer.keys_looked_for]

        return Call("FindNotes", lambda: request, take)
