"""The history of a session: what Session.history answers, and the requests. Does no IO."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from longstream.calls import Call
from longstream.enums import HistoryKind
from longstream.inputs import Message
from longstream.v1 import longstream_pb2 as pb


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A part of a session's history.

    Attributes:
        turn_id: the turn that has brought it.
        kind: PROMPT and ANSWER have a text, MESSAGE has a message.
        text: of the tokens, without end ids.
        message: as it was sent.
        position: with PROMPT and ANSWER: the session's position behind it.
    """

    turn_id: str
    kind: HistoryKind
    text: str = ""
    message: Message | None = None
    position: int = 0


class Reading:
    """Reads the pages of a history, one call after the other.

    Attributes:
        entries: those of the pages that were read.
        ended: there are no more pages.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._version = 0  # of the session, when the last page was read
        self._begin()

    def _begin(self) -> None:
        self._page_token = ""
        self._continues = False  # the last text goes on
        self.entries: list[HistoryEntry] = []
        self.ended = False

    def call(self) -> Call[None]:
        """Read the next page. If the session has changed, the history begins again."""
        request = pb.ReadHistoryRequest(session_id=self._session_id, page_token=self._page_token)
        return Call("ReadHistory", lambda: request, self._take, session_id=self._session_id)

    def _take(self, answer: pb.ReadHistoryResponse) -> None:
        if self._page_token and answer.version != self._version:
            self._begin()
            return
        self._version = answer.version
        for entry in answer.entries:
            self._add(entry)
        self._page_token = answer.next_page_token
        self.ended = not self._page_token

    def _add(self, entry: pb.HistoryEntry) -> None:
        text = entry.text.decode(errors="replace")
        if self._continues:
            last = self.entries[-1]
            self.entries[-1] = replace(last, text=last.text + text)
        else:
            message = _message(entry.message) if entry.HasField("message") else None
            kind = HistoryKind(entry.kind)
            self.entries.append(HistoryEntry(entry.turn_id, kind, text, message, entry.position))
        self._continues = entry.continued


def _message(message: pb.Message) -> Message:
    content = message.content.decode(errors="replace") if message.HasField("content") else None
    members = json.loads(message.json) if message.json else {}
    return Message(message.role.decode(errors="replace"), content, members)
