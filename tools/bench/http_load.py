"""Streams of generation over HTTP from a peer's server: /completion (llama.cpp) or
/v1/completions."""

import http.client
import json
import random
import threading
import time
import urllib.parse


class LoadError(Exception):
    """Raised if the server refused a stream or a stream broke."""


def tokens_of(event):
    """Returns the number of tokens of an event: the number that it states, otherwise one if it has
    text."""
    if event.get("tokens") is not None:
        return len(event["tokens"])
    choices = event.get("choices") or [{}]
    return 1 if event.get("content") or choices[0].get("text") else 0


def total_of(event):
    """Returns the number of tokens of the whole stream, if its last event states it."""
    return event.get("tokens_predicted") or (event.get("usage") or {}).get("completion_tokens")


def events(response):
    """Yields the JSON objects of a stream of server-sent events."""
    for line in response:
        text = line.decode("utf-8").strip()
        if text.startswith("data:") and text[5:].strip() != "[DONE]":
            yield json.loads(text[5:])


def stream(url, prompt, output_tokens):
    """Runs one request. Returns {"start": Unix time of the request, "token_seconds": seconds from
    the start to the arrival of each token}. If the server holds text back, its events have fewer
    tokens than it generated; the missing tokens count as arrived with the last event."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=600)
    body = {"prompt": prompt, "stream": True, "temperature": 0, "ignore_eos": True,
            "n_predict": output_tokens, "max_tokens": output_tokens, "return_tokens": True,
            "cache_prompt": False, "stream_options": {"include_usage": True}}
    start, begin = time.time(), time.monotonic()
    try:
        connection.request("POST", parts.path or "/completion", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise LoadError(f"{url}: {response.status} {response.read(500)!r}")
        seconds, total = [], None
        for event in events(response):
            now = time.monotonic() - begin
            if "error" in event:
                raise LoadError(f"{url}: {event['error']}")
            seconds += [now] * tokens_of(event)
            total = total_of(event) or total
            last = now
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LoadError(f"{url}: {error}") from error
    finally:
        connection.close()
    if total is not None:
        seconds += [last] * (total - len(seconds))
    if len(seconds) < output_tokens:
        raise LoadError(f"{url}: expected {output_tokens} tokens, found {len(seconds)}")
    return {"start": start, "token_seconds": seconds[:output_tokens]}


def load(url, streams, prompt_tokens, output_tokens, vocabulary, seed=1):
    """Runs several streams at once, each with its own prompt."""
    results, failures = [], []

    def run(number):
        draw = random.Random(seed * 1_000_003 + number)
        prompt = [draw.randrange(vocabulary) for _ in range(prompt_tokens)]
        try:
            results.append(stream(url, prompt, output_tokens))
        except LoadError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
