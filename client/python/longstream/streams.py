"""What the streams of a turn have in common, sync and async: the view of what has arrived."""

from __future__ import annotations

from longstream.turn import Turn
from longstream.values import Finish, TurnStarted, TwinRow


class TurnView:
    """What has arrived of a turn so far."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @property
    def turn_id(self) -> str:
        """The id of the turn."""
        return self._turn.id

    @property
    def text(self) -> str:
        """The text that has arrived."""
        return self._turn.text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens that have arrived."""
        return tuple(self._turn.token_ids)

    @property
    def twin_rows(self) -> tuple[TwinRow, ...]:
        """What the twin has said so far: a row for each token, from the first one on."""
        return tuple(self._turn.twin_rows)

    @property
    def started(self) -> TurnStarted | None:
        """How the latest call came to the turn. None: it has not started."""
        return self._turn.started

    @property
    def finish(self) -> Finish | None:
        """The end of the turn. None: it has not ended."""
        return self._turn.finish
