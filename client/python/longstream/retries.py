"""When a call that was lost is made again. Does no IO."""

from __future__ import annotations

import dataclasses
import logging
import random
import time

from longstream import errors

_log = logging.getLogger("longstream")

_LONGEST_TRY = 1e8  # seconds. gRPC takes times of centuries for times that have passed.

# A server that is killed may look like these, but they may also be the end of the call itself.
_DOUBTFUL = (errors.AbortedError, errors.InternalError, errors.UnknownError)


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How long a lost call is made again, and how often.

    The pause before each try is random, between half of a bound and the bound. The bound begins
    with first_pause, and doubles up to longest_pause. If the server's error has a retry_after, the
    pause is at least as long, and if that is beyond the timeout, the error is raised at once.

    Attributes:
        timeout: seconds without anything new, after which the error is raised. 0: at once.
        first_pause: seconds.
        longest_pause: seconds.
        most_failures: tries without anything new that may end with ABORTED, INTERNAL or UNKNOWN.
            They do not always mean that the server was lost.
    """

    timeout: float = 60.0
    first_pause: float = 0.05
    longest_pause: float = 0.5
    most_failures: int = 5


class Retries:
    """The tries of one call.

    `timeout`: seconds for all tries together, from the first one on; None: no limit.
    """

    def __init__(self, policy: RetryPolicy, timeout: float | None = None) -> None:
        self._policy = policy
        self._timeout = timeout
        self._deadline: float | None = None
        self._last: errors.LongstreamError | None = None
        self.progressed()

    def progressed(self) -> None:
        """Note that the call got further: something new has arrived."""
        self._lost_since: float | None = None
        self._failures = 0
        self._bound = self._policy.first_pause

    def time_left(self) -> float | None:
        """Return the seconds for the next try; None: no limit."""
        if self._timeout is None:
            return None
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._timeout
        return max(0.0, self._deadline - now)

    def begin(self) -> float | None:
        """Return the seconds for the next try; None: no limit. Raise if there are none left.

        A call without time must not be sent: the server might do it all the same.
        """
        left = self.time_left()
        if left == 0.0:
            last = f"; the last try ended with {self._last}" if self._last else ""
            raise errors.DeadlineExceededError(
                f"the timeout of {self._timeout:g} s has passed{last}"
            )
        return None if left is None else min(left, _LONGEST_TRY)

    def pause(self, error: errors.LongstreamError) -> float:
        """Return the seconds to wait before the next try. Raise `error` if there is none."""
        self._last = error
        self._failures += isinstance(error, _DOUBTFUL)
        if not (isinstance(error, (errors.UnavailableError, *_DOUBTFUL)) or _never_began(error)):
            raise error
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            if self._policy.timeout > 0:
                _log.warning("%s; trying again for %g s", error, self._policy.timeout)
        lost = now - self._lost_since
        if lost >= self._policy.timeout or self._failures > self._policy.most_failures:
            raise error
        bound, self._bound = self._bound, min(2 * self._bound, self._policy.longest_pause)
        # A server that says when it wants the call again gets it no earlier.
        pause = max(bound * random.uniform(0.5, 1.0), error.retry_after or 0.0)
        if lost + pause > self._policy.timeout and error.retry_after:
            raise error
        left = self.time_left()
        return pause if left is None else min(pause, left)


def _never_began(error: errors.LongstreamError) -> bool:
    """Whether the service has not seen the call.

    gRPC cancels calls, with this text, that reach a server which is just ending. A turn that
    somebody has cancelled has another text.
    """
    return isinstance(error, errors.CancelledError) and error.message == "CANCELLED"
