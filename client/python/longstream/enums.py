"""The enumerations of the wire contract, without the prefixes of their values."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias


class WireEnum(enum.IntEnum):
    """A value that this version of the package does not know is UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> WireEnum:
        return cls(0)


class Durability(WireEnum):
    """Whether a session outlives the server."""

    UNSPECIFIED = 0  # TURN if the server has a store
    TURN = 1  # each turn is in the store before its end is acknowledged
    MEMORY = 2  # the session ends with the server


class Recompute(WireEnum):
    """How the caches of a session are computed again after an eviction."""

    UNSPECIFIED = 0  # EXACT
    EXACT = 1  # later results are equal to the bit
    FAST = 2  # later results agree to rounding


class OnAbort(WireEnum):
    """Which tokens a session keeps from a turn that does not finish."""

    UNSPECIFIED = 0  # CONTINUE, as all turns of this package have ids; ROLLBACK in append()
    ROLLBACK = 1  # none
    KEEP = 2  # the prompt and all delivered tokens
    CONTINUE = 3  # the turn runs to its end without a reader; if it is cancelled: none


class PenaltyScope(WireEnum):
    """Which generated tokens presence_penalty and frequency_penalty count."""

    UNSPECIFIED = 0  # TURN
    TURN = 1
    SESSION = 2


class StopText(WireEnum):
    """Whether the session keeps the text of a stop string."""

    UNSPECIFIED = 0  # KEEP
    KEEP = 1
    DROP = 2


class Priority(WireEnum):
    """The share of the batch: high, normal and low in the proportion 16 : 4 : 1."""

    UNSPECIFIED = 0  # NORMAL
    LOW = 1
    NORMAL = 2
    HIGH = 3


class Attach(WireEnum):
    """How a call came to the turn that it reads."""

    UNSPECIFIED = 0
    NEW = 1  # it started the turn
    ATTACHED = 2  # the turn was running
    REPLAYED = 3  # the turn was committed
    FORCED = 4  # the turn was lost, and goes on behind the tokens that had been received
    RESTARTED = 5  # the turn was lost before a token was received, and starts over


class FinishReason(WireEnum):
    """Why a turn ended."""

    UNSPECIFIED = 0
    STOP_TOKEN = 1
    STOP_STRING = 2
    MAX_TOKENS = 3
    CONTEXT = 4  # the context is full
    ABORTED = 5  # the turn was cancelled, and OnAbort.KEEP kept its tokens
    FORMAT = 6  # the response format is complete, and the turn has no stop token


class RouteReason(WireEnum):
    """Why a route has chosen the model of a session."""

    UNSPECIFIED = 0
    LEAST_TIME = 1  # there are no budgets, and it takes the least time
    PREFERRED = 2  # the first arm is within all budgets
    FIRST_WITHIN = 3  # the arms before it are not
    LEAST_EXCESS = 4  # no arm is, and this one exceeds them by the least factor
    NOT_MEASURED = 5  # no arm has been measured yet


class RestoreSource(WireEnum):
    """Where the session's caches were read from."""

    UNSPECIFIED = 0
    STORE = 1  # the store of the server
    PEER = 2  # another replica, which had the session in its memory


class HistoryKind(WireEnum):
    """A part of a session's history."""

    UNSPECIFIED = 0
    PROMPT = 1  # what a turn has read that had no messages, or whose messages are not kept
    MESSAGE = 2
    ANSWER = 3  # what the model has written


class TurnState(WireEnum):
    """The state of a turn."""

    UNSPECIFIED = 0
    STARTED = 1  # is running, or was lost; a request with its id goes on with it
    COMMITTING = 2  # has ended, and its commit is not durable yet
    COMMITTED = 3  # its tokens are part of the session
    ABANDONED = 4  # was cancelled, or another turn was committed in its place


class ModelState(WireEnum):
    """The state of a model."""

    UNSPECIFIED = 0
    LOADING = 1
    READY = 2
    FAILED = 3
    DRAINING = 4  # is being unloaded: no session and no turn begins on it


# An option takes a value of its enumeration, or the word for it.
DurabilityLike: TypeAlias = Durability | Literal["turn", "memory"]
RecomputeLike: TypeAlias = Recompute | Literal["exact", "fast"]
OnAbortLike: TypeAlias = OnAbort | Literal["rollback", "keep", "continue"]
PenaltyScopeLike: TypeAlias = PenaltyScope | Literal["turn", "session"]
StopTextLike: TypeAlias = StopText | Literal["keep", "drop"]
PriorityLike: TypeAlias = Priority | Literal["low", "normal", "high"]
