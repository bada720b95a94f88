"""The protocol between run.py and a peer's program. The program prints a line of JSON with "ready"
when its model is loaded, then answers each line of standard input with a line of JSON:

    streams COUNT PROMPT OUTPUT SEED

runs COUNT requests at once. Each has a prompt of PROMPT random tokens and generates OUTPUT tokens,
greedily and without regard to the end-of-text token. The answer is {"tokens", "seconds", "streams":
[{"start", "token_seconds"}]}: `start` is the Unix time of the request, `token_seconds` are the
seconds from the start to each token. If the slice fails, the answer is {"error": SENTENCE}.
"""

import json
import os
import random
import sys
import time

FIRST_TOKEN, VOCABULARY = 256, 151000  # the ids of prompts


class Arrivals:
    """Records when the tokens of several requests that start now arrive."""

    def __init__(self, count):
        self._start, self._begin = time.time(), time.monotonic()
        self._seconds = [[] for _ in range(count)]

    def have(self, number, tokens):
        """Request `number` has generated `tokens` tokens by now."""
        seconds = self._seconds[number]
        seconds += [time.monotonic() - self._begin] * (tokens - len(seconds))

    def add(self, number, tokens):
        self.have(number, len(self._seconds[number]) + tokens)

    def streams(self):
        return [{"start": self._start, "token_seconds": seconds} for seconds in self._seconds]


def prompts(count, tokens, seed):
    draw = random.Random(seed)
    return [[draw.randrange(FIRST_TOKEN, VOCABULARY) for _ in range(tokens)] for _ in range(count)]


def answer_to(line, run):
    word, *numbers = line.split()
    if word != "streams" or len(numbers) != 4:
        raise ValueError(f"expected streams COUNT PROMPT OUTPUT SEED, found {line.strip()}")
    count, prompt, output, seed = map(int, numbers)
    streams = run(prompts(count, prompt, seed), output)
    found = [len(stream["token_seconds"]) for stream in streams]
    if found != [output] * count:
        raise ValueError(f"expected {output} tokens for each of {count} streams, found {found}")
    return {"tokens": count * output, "streams": streams,
            "seconds": max(stream["token_seconds"][-1] for stream in streams)}


def serve(name, load):
    """Answers slices until standard input ends. `load()` loads the model and returns
    run(prompts, output), which returns the streams of a slice. Whatever libraries print to standard
    output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    run = load()
    say({"ready": name})
    for line in sys.stdin:
        try:
            say(answer_to(line, run))
        except Exception as error:  # every library has its own errors
            say({"error": " ".join(f"{type(error).__name__}: {error}".split())})
