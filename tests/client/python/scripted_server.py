"""A server of the wire contract, in this process, that fails as a test says."""

import concurrent.futures
import threading

import grpc
from google.protobuf import any_pb2

from longstream.v1 import error_details_pb2, longstream_pb2_grpc
from longstream.v1 import longstream_pb2 as pb
from private_host import private_host

PROMPT = 3  # tokens of each prompt


class Failure:
    """Ends a call of Generate behind so many tokens of the turn, or before its start (None).

    `message`: what the server says in the second case. None: it is not the server's own answer.
    """

    def __init__(self, tokens, code=grpc.StatusCode.UNAVAILABLE, message=None):
        self.tokens, self.code, self.message = tokens, code, message


class ScriptedServer(longstream_pb2_grpc.LongstreamServicer):
    """One turn has the tokens 0, 1, 2, ... and the text "a", "b", "c", ...

    `failures`: how the next calls of Generate end. `fail`: codes with which the next calls of the
    other methods end. `requests`, `metadata`: of all calls. `cancelled`: ids of turns. With `hangs`, turns
    send no more after their tokens; with `silent`, they send nothing. `turn`: answers CancelTurn.
    `message`: of the errors with those codes. `models`: of ListModels; `lists`: its calls.
    With `lists_hang`, ListModels does not answer.
    """

    def __init__(self, credentials=None, port=0):
        self.tokens = 8
        self.failures, self.fail, self.requests, self.cancelled = [], [], [], []
        self.metadata = []
        self.hangs = self.silent = False
        self.turn = pb.Turn(state=pb.TURN_STATE_ABANDONED)
        self.details, self.message = None, "the script says so"
        self.models, self.lists = [], 0
        self.lists_hang = False
        self.released = threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        longstream_pb2_grpc.add_LongstreamServicer_to_server(self, self.server)
        address = f"{private_host()}:{port}"
        self.port = (self.server.add_secure_port(address, credentials) if credentials
                     else self.server.add_insecure_port(address))
        self.address = f"{private_host()}:{self.port}"
        self.server.start()

    def stop(self):
        self.released.set()
        self.server.stop(0).wait()

    def take(self, request, context):
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        if self.fail:
            trailing = [("x-request-id", "call-7")]
            if self.details:
                trailing.append(("grpc-status-details-bin", self.details))
            context.set_trailing_metadata(tuple(trailing))
            context.abort(self.fail.pop(0), self.message)

    def OpenSession(self, request, context):
        self.take(request, context)
        return pb.Session(session_id=request.session_id, model=request.model, context_limit=100)

    def ForkSession(self, request, context):
        self.take(request, context)
        return pb.Session(session_id=request.new_session_id, forked_from=request.session_id)

    def RewindSession(self, request, context):
        self.take(request, context)
        return pb.Session(session_id=request.session_id, position=request.position)

    def CloseSession(self, request, context):
        self.take(request, context)
        return pb.CloseSessionResponse()

    def ListModels(self, request, context):
        self.lists += 1
        if self.lists_hang:
            self.released.wait(60)
        return pb.ListModelsResponse(models=self.models)

    def CancelTurn(self, request, context):
        self.take(request, context)
        self.cancelled.append(request.turn_id)
        return self.turn

    def Append(self, requests, context):
        requests = list(requests)
        self.take(requests, context)
        return pb.AppendResponse(position=len(requests), turn_id=requests[0].turn_id)

    def ExportSession(self, request, context):
        yield pb.ExportSessionResponse(data=b"half")
        self.take(request, context)
        yield pb.ExportSessionResponse(data=b"way")

    def PutNotes(self, request, context):
        self.take(request, context)
        return pb.PutNotesResponse()

    def FindNotes(self, request, context):
        """Finds each key but "none" with the value "v". An answer is about 3 keys at most."""
        self.take(request, context)
        keys = request.keys[:3]
        return pb.FindNotesResponse(
            notes=[pb.Note(key=key, value=b"v") for key in keys if key != b"none"],
            keys_looked_for=len(keys))

    def Score(self, request, context):
        yield pb.ScoreResponse(tokens=[pb.TokenScore(token_id=5)])
        self.take(request, context)
        yield pb.ScoreResponse(first_index=1, tokens=[pb.TokenScore(token_id=6, log_prob=-1.5)],
                               summary=pb.ScoreSummary(tokens=1, sum_log_prob=-1.5))

    def Compare(self, request, context):
        yield pb.CompareResponse(started=pb.CompareStarted(
            arms=[pb.CompareArmStarted(model=arm.model) for arm in request.arms]))
        for index, text in enumerate("ab"):
            tokens = [pb.CompareToken(arm=arm, token_id=index, token=text.encode(), text=text,
                                      log_prob=-1.5) for arm in (0, 1)]
            yield pb.CompareResponse(rows=pb.CompareRows(first_index=index, rows=[
                pb.CompareRow(tokens=tokens, pairs=[pb.ComparePair(arm=1, kl=0.25)])]))
        self.take(request, context)
        for arm in (1, 0):
            yield pb.CompareResponse(arm_end=pb.CompareArmEnd(
                arm=arm, tokens=2, sum_log_prob=-3.0, text_bytes=2))
        yield pb.CompareResponse(finish=pb.CompareFinish(
            pairs=[pb.ComparePairSummary(arm=1, rows=2, sum_kl=0.5)]))

    def Generate(self, request, context):
        self.requests.append(pb.GenerateRequest.FromString(request.SerializeToString()))
        self.metadata.append(dict(context.invocation_metadata()))
        failure = self.failures.pop(0) if self.failures else Failure(self.tokens + 1)
        if self.silent:
            self.released.wait(60)
        if failure.tokens is None:
            context.set_trailing_metadata((("x-request-id", "call-7"),) if failure.message else ())
            context.abort(failure.code, failure.message or "before the start")
        known = len(request.resume.token_ids)
        how = pb.ATTACH_FORCED if known else pb.ATTACH_NEW
        yield pb.GenerateResponse(started=pb.TurnStarted(
            prompt_tokens=PROMPT, turn_id=request.turn_id, how=how, seed=request.sampling.seed))
        yield pb.GenerateResponse(prefill=pb.PrefillProgress(done_tokens=3, total_tokens=PROMPT))
        for token in range(known, self.tokens):
            if token == failure.tokens:
                context.abort(failure.code, "in the middle")
            yield pb.GenerateResponse(delta=pb.Delta(
                text=chr(ord("a") + token), token_ids=[token], position=PROMPT + token + 1))
        if failure.tokens == self.tokens:
            context.abort(failure.code, "before the end")
        if self.hangs:
            self.released.wait(60)
        yield pb.GenerateResponse(finish=pb.Finish(
            reason=pb.FINISH_REASON_MAX_TOKENS, position=PROMPT + self.tokens,
            usage=pb.TurnUsage(generated_tokens=self.tokens)))


def elsewhere(address):
    """The error details of a session that another server has."""
    info = error_details_pb2.ErrorErrorInfo(reason="SESSION_ELSEWHERE", domain="longstream",
                                            metadata={"owner": "a/1", "address": address})
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                         value=info.SerializeToString())
    return error_details_pb2.ErrorStatus(code=9, details=[detail]).SerializeToString()


def retry_info(seconds):
    """The error details of RESOURCE_EXHAUSTED, as the server sends them."""
    retry = error_details_pb2.ErrorRetryInfo()
    retry.retry_delay.seconds = seconds
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo",
                         value=retry.SerializeToString())
    return error_details_pb2.ErrorStatus(code=8, details=[detail]).SerializeToString()
