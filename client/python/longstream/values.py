"""What the server answers, as dataclasses. longstream.proto describes their fields.

Durations are seconds; times are in UTC; an absent field is None.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass

from longstream.enums import (
    Attach,
    Durability,
    FinishReason,
    RestoreSource,
    RouteReason,
    TurnState,
)


@dataclass(frozen=True, slots=True)
class SessionBytes:
    """Memory that one session holds, in bytes."""

    kv: int
    window: int
    state: int
    host: int


@dataclass(frozen=True, slots=True)
class ArmPrediction:
    """What a route expects of a request on one model, on a server that does nothing else."""

    model: str
    measured: bool
    prompt_tokens: int
    time_to_first_token: float | None
    time_per_token: float | None
    total_time: float | None
    session_bytes: int
    exceeds: str  # the budget that it exceeds by the largest factor; empty: none


@dataclass(frozen=True, slots=True)
class Routing:
    """Why the route of an alias has chosen the model of a session."""

    reason: RouteReason
    text: str
    arms: tuple[ArmPrediction, ...]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as it stood when the server answered."""

    session_id: str
    model: str
    position: int
    context_limit: int
    turn_running: bool
    bytes: SessionBytes
    create_time: datetime.datetime | None
    last_use_time: datetime.datetime | None
    idle_timeout: float | None
    forked_from: str
    durability: Durability
    ttl: float | None  # None: the session is not in the store
    version: int
    head_turn_id: str
    stored_bytes: int  # known only from Session.info()
    recompute_tokens: int
    alias: str
    routing: Routing | None  # of a session whose model a route has chosen
    owner: str  # a replica that has the session, and alone knows its bytes; empty: this one
    owner_ended: bool  # the lease of the owner is over: no replica has the session now


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """A turn of a session, as turns() lists it."""

    turn_id: str
    state: TurnState
    running: bool
    start_position: int
    position: int
    finish_reason: FinishReason
    prompt_tokens: int
    generated_tokens: int
    start_time: datetime.datetime | None
    end_time: datetime.datetime | None


@dataclass(frozen=True, slots=True)
class TwinStarted:
    """The twin of a turn. If it is not comparable, it is lost already."""

    model: str
    comparable: bool
    not_comparable_reason: str


@dataclass(frozen=True, slots=True)
class TwinRow:
    """What the session's model and the twin say at a generated token."""

    token_id: int
    log_prob: float
    twin_log_prob: float
    rank: int
    twin_rank: int
    best_token: int
    twin_best_token: int
    kl: float | None
    same_best: bool
    delta_p: float
    token: bytes
    twin_best: bytes


@dataclass(frozen=True, slots=True)
class Thoughts:
    """The marks between which a model writes its thoughts, as the begin of an answer.

    Attributes:
        begin: "<think>".
        end: "</think>".
        begun: the prompt ends behind `begin`, so the answer begins with thoughts.
    """

    begin: str
    end: str
    begun: bool


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The server has admitted the turn."""

    position: int
    prompt_tokens: int
    seed: int
    turn_id: str
    how: Attach
    twin: TwinStarted | None
    thoughts: Thoughts | None  # None: the model's chat template has no marks of thoughts
    model: str


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """How many tokens of the prompt the model has read."""

    done_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class TopToken:
    """One of the most probable tokens at a step."""

    token_id: int
    token: bytes
    log_prob: float


@dataclass(frozen=True, slots=True)
class TokenLogProb:
    """A generated token. `token`: its bytes, which may be a part of a character."""

    token_id: int
    token: bytes
    log_prob: float
    top: tuple[TopToken, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer. str(delta) is its text, which is empty within a character."""

    text: str
    token_ids: tuple[int, ...]
    position: int
    log_probs: tuple[TokenLogProb, ...]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The tokens, times and memory of a turn."""

    prompt_tokens: int
    generated_tokens: int
    reused_tokens: int
    recomputed_tokens: int
    recompute_reason: str
    queue_time: float | None
    prefill_time: float | None
    decode_time: float | None
    time_to_first_token: float | None
    bytes: SessionBytes
    restored_tokens: int
    restore_source: RestoreSource
    forced_tokens: int


@dataclass(frozen=True, slots=True)
class TwinSummary:
    """The twin of a turn over all its rows. `code`: 0, or why it was lost."""

    model: str
    code: int
    error: str
    rows: int
    kl_rows: int
    sum_kl: float
    max_kl: float
    same_best: int
    first_difference: int | None
    sum_log_prob: float
    sum_twin_log_prob: float
    usage: TurnUsage | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a turn. `stop_string` and `stop_token` have a value if they were the reason."""

    reason: FinishReason
    position: int
    stop_string: str
    stop_token: int
    usage: TurnUsage
    kept_text_bytes: int
    incomplete_character: bytes
    twin: TwinSummary | None


@dataclass(frozen=True, slots=True)
class Generation:
    """The whole answer of a turn."""

    text: str
    token_ids: tuple[int, ...]
    log_probs: tuple[TokenLogProb, ...]
    started: TurnStarted
    finish: Finish

    @property
    def usage(self) -> TurnUsage:
        """The tokens, times and memory of the turn."""
        return self.finish.usage


@dataclass(frozen=True, slots=True)
class Appended:
    """The end of a turn that only added input."""

    position: int
    usage: TurnUsage
    turn_id: str


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token of a scored text. The first token has no log_prob."""

    token_id: int
    log_prob: float | None
    top1: bool
    top: tuple[TopToken, ...]


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Sums over the scored tokens: all but the first."""

    tokens: int
    sum_log_prob: float
    top1_tokens: int
    bytes: SessionBytes
    model: str


@dataclass(frozen=True, slots=True)
class Score:
    """The log-probabilities of a text."""

    tokens: tuple[TokenScore, ...]
    summary: ScoreSummary


@dataclass(frozen=True, slots=True)
class CompareArmStarted:
    """An arm of a comparison, as it begins. The first arm is the baseline."""

    model: str
    tokenizer_fingerprint: str
    prompt_tokens: int
    seed: int
    comparable: bool
    not_comparable_reason: str
    same_prompt: bool


@dataclass(frozen=True, slots=True)
class CompareAnswer:
    """How an arm has generated the answer that all arms read (`answer_of`)."""

    arm: int
    reason: FinishReason
    usage: TurnUsage
    seed: int


@dataclass(frozen=True, slots=True)
class CompareStarted:
    """The beginning of a comparison."""

    arms: tuple[CompareArmStarted, ...]
    answer: CompareAnswer | None


@dataclass(frozen=True, slots=True)
class CompareToken:
    """The token of one arm at one place. `token`: its bytes, maybe a part of a character."""

    arm: int
    token_id: int
    token: bytes
    text: str
    log_prob: float
    rank: int
    best_token: int
    top: tuple[TopToken, ...]
    interval: float | None


@dataclass(frozen=True, slots=True)
class ComparePair:
    """An arm and the baseline at one place. `kl` is in nats, over the whole vocabulary."""

    arm: int
    kl: float
    same_best: bool
    delta_p: float


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One place: the tokens of all arms that have one, and the pairs that can be compared."""

    tokens: tuple[CompareToken, ...]
    pairs: tuple[ComparePair, ...]


@dataclass(frozen=True, slots=True)
class CompareArmEnd:
    """The end of an arm. `code`: a status code of gRPC; if it is not 0, the arm is lost."""

    arm: int
    code: int
    error: str
    reason: FinishReason
    usage: TurnUsage
    tokens: int
    sum_log_prob: float
    best_tokens: int
    text_bytes: int

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per byte of the text that the arm has read. None: it is lost, or generated."""
        if self.code or self.usage.generated_tokens or not self.text_bytes:
            return None
        return -self.sum_log_prob / math.log(2) / self.text_bytes


@dataclass(frozen=True, slots=True)
class ComparePairSummary:
    """All rows of an arm against the baseline."""

    arm: int
    rows: int
    sum_kl: float
    max_kl: float
    same_best: int
    first_difference: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several models on one text.

    Attributes:
        started: the arms as they began.
        rows: one for each place, the first one behind the prompt.
        arms: how each arm has ended.
        pairs: each comparable arm against the baseline.
    """

    started: CompareStarted
    rows: tuple[CompareRow, ...]
    arms: tuple[CompareArmEnd, ...]
    pairs: tuple[ComparePairSummary, ...]

    def tokens(self, arm: int) -> tuple[CompareToken, ...]:
        """Return the tokens of one arm."""
        return tuple(each for row in self.rows for each in row.tokens if each.arm == arm)

    def text(self, arm: int) -> str:
        """Return the text of one arm: its answer, or the text that it has read."""
        tokens = self.tokens(arm)
        if self.arms[arm].usage.generated_tokens:
            return "".join(each.text for each in tokens)
        return b"".join(each.token for each in tokens).decode(errors="replace")
