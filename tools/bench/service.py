#!/usr/bin/env python3
"""Measures the service under load. Runs streams of generation through gRPC and compares them with
the same model in process, with streams while another session reads a long prompt, and with peers.

    service.py --shape 200m --weights bf16,int8 --streams 1,4,16 --rounds 5
    service.py --peer llama.cpp=http://127.0.0.1:8080/completion --weights bf16

Makes a checkpoint with random weights (--checkpoint keeps it for the next run) and serves it. Each
round runs in turn: the step loop in process (`model_bench --serve`), the service with all streams
at once, the step loop again, and each peer. docs/performance-notes.md explains the figures. A round
is "quiet" if other processes used at most --quiet processors. Only quiet rounds count, unless there
are none.
"""

import argparse
import contextlib
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import http_load
from compare import Others, Program, ProgramError, named, process_seconds

MODEL = "bench"
PROMPT_VOCABULARY = 32000  # a peer's prompts use ids below this, which every shape has
FIRST_UNDISTURBED = 1.5  # seconds that streams run before the long prompt begins


# ---------------------------------------------------------------- figures of streams

def percentile(values, p):
    """Returns a percentile, interpolated linearly between the closest ranks."""
    ordered = sorted(values)
    rank = p * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def arrivals(stream):
    return [stream["start"] + seconds for seconds in stream["token_seconds"]]


def gaps(streams, begin=0.0, end=float("inf")):
    """Returns the seconds between successive tokens of each stream. Only tokens that arrived in
    [begin, end] count."""
    return [after - before for stream in streams
            for before, after in zip(arrivals(stream), arrivals(stream)[1:])
            if begin <= after <= end]


def total_rate(streams):
    """Returns the generated tokens per second, from the first request to the last token."""
    first = min(stream["start"] for stream in streams)
    last = max(arrivals(stream)[-1] for stream in streams)
    return sum(len(stream["token_seconds"]) for stream in streams) / (last - first)


def decode_rate(streams):
    """Returns the tokens per second of all streams during the interval in which all of them decode:
    from the first token of the stream that begins last to the last token of the stream that ends
    first. For each stream, only counts the tokens and the time between its first and last arrival
    in the interval, so that no partial gap at the borders counts."""
    begin = max(arrivals(stream)[0] for stream in streams)
    end = min(arrivals(stream)[-1] for stream in streams)
    rate = 0.0
    for stream in streams:
        inside = [arrival for arrival in arrivals(stream) if begin <= arrival <= end]
        if len(inside) < 2:
            return None  # the streams did not decode at the same time
        rate += (len(inside) - 1) / (inside[-1] - inside[0])
    return rate


def felt(streams):
    first = [stream["token_seconds"][0] for stream in streams]
    between = gaps(streams)
    return {"total": total_rate(streams), "decoding": decode_rate(streams),
            "ttft_ms": [1e3 * percentile(first, p) for p in (0.5, 0.99)],
            "itl_ms": [1e3 * percentile(between, p) for p in (0.5, 0.99)]}


# ---------------------------------------------------------------- programs

class Server:
    """Runs longstream-server with one model, and `longstream bench` on it."""

    def __init__(self, build, directory, weights, threads, log):
        self._client = [str(build / "bin/longstream")]
        self._log = log
        options = f"cache_bytes=4GiB,options.weights={weights}"
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                [str(build / "bin/longstream-server"), "--model", f"{MODEL}={directory},{options}",
                 "--listen", "127.0.0.1:0", "--metrics-listen", "", "--threads", str(threads)],
                stderr=file)
        try:
            self._client += ["--server", f"127.0.0.1:{self._port()}", "--wait", "300", "--json"]
            self.bench(1, 8, 2)  # waits until the model is loaded
        except BaseException:
            self.close()
            raise

    def _events(self):
        lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last may be cut off

    def _port(self):
        while self._process.poll() is None:
            for event in self._events():
                if event["event"] == "listening":
                    return event["port"]
            time.sleep(0.05)
        raise ProgramError(f"longstream-server: {self._log.read_text(encoding='utf-8')}")

    def start(self, streams, prompt_tokens, output_tokens):
        """Starts several greedy streams at once. Pass the result to `finish`."""
        command = ["bench", "-m", MODEL, "--streams", streams, "--requests", streams,
                   "--prompt-tokens", prompt_tokens, "--output-tokens", output_tokens,
                   "--temperature", 0, "--times"]
        return subprocess.Popen(self._client + [str(word) for word in command],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(running):
        out, err = running.communicate()
        if running.returncode != 0:
            raise ProgramError(f"longstream bench: {err.strip()}")
        return json.loads(out)["times"]

    def bench(self, streams, prompt_tokens, output_tokens):
        return self.finish(self.start(streams, prompt_tokens, output_tokens))

    def cpu_seconds(self):
        """Returns the processor seconds of the server and of the clients that have ended."""
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        return process_seconds(self._process.pid) + clients.ru_utime + clients.ru_stime

    def close(self):
        self._process.terminate()
        self._process.wait()


# ---------------------------------------------------------------- measurements

def in_process(program, line, slices):
    return [program.run(line) for _ in range(slices)]


def measure_load(server, loop, peers, streams, arguments):
    """Runs a round: the service between two halves of the step loop, then each peer."""
    middle = arguments.prompt_tokens + arguments.output_tokens // 2
    line = f"decode {middle} {arguments.output_tokens}"
    slices = in_process(loop, line, arguments.slices)
    with Others(server.cpu_seconds) as others:
        ours = felt(server.bench(streams, arguments.prompt_tokens, arguments.output_tokens))
    slices += in_process(loop, line, arguments.slices)
    row = dict(ours, others=max([others.processors] + [each["others"] for each in slices]),
               in_process=statistics.median(each["tokens_per_second"] for each in slices),
               probe_gbps=statistics.median(
                   probe for each in slices for probe in each["probes_gbps"]))
    row["ratio"] = row["decoding"] / row["in_process"] if row["decoding"] else None
    row["peers"] = {
        name: felt(http_load.load(url, streams, arguments.prompt_tokens, arguments.output_tokens,
                                  PROMPT_VOCABULARY)) for name, url in peers}
    return row


def beside_streams(server, streams, tokens, arguments):
    """Runs a long prompt beside streams of `tokens` tokens. Returns the prompt's stream and the
    other streams."""
    running = server.start(streams, arguments.prompt_tokens, tokens)
    time.sleep(FIRST_UNDISTURBED)
    prompt = server.bench(1, arguments.prefill, 1)[0]
    return prompt, server.finish(running)


def measure_prefill(server, streams, arguments):
    """Runs a round: a long prompt alone, then a long prompt beside streams that decode."""
    prefill = lambda: server.bench(1, arguments.prefill, 1)[0]
    with Others(server.cpu_seconds) as disturbance:
        alone = [prefill()]
        # Steps that also read a prompt take several times as long. Generate enough tokens for twice
        # the time of the prompt if a token takes three times as long as without a prompt.
        between = statistics.median(gaps(server.bench(streams, arguments.prompt_tokens, 32)))
        seconds = FIRST_UNDISTURBED + 1 + alone[0]["token_seconds"][0] * 2 / 3
        for attempt in range(3):
            tokens = int(seconds / between) << attempt
            beside, others = beside_streams(server, streams, tokens, arguments)
            begin, end = beside["start"], arrivals(beside)[0]
            decoding = max(arrivals(stream)[0] for stream in others)
            ended = min(arrivals(stream)[-1] for stream in others)
            if decoding < begin and ended > end:
                break
        else:
            raise ProgramError("the streams did not decode throughout the long prompt")
        alone.append(prefill())
    undisturbed = gaps(others, decoding, begin) + gaps(others, end + 0.5, ended)
    disturbed = gaps(others, begin, end)
    speed = lambda stream: arguments.prefill / stream["token_seconds"][0]
    median = statistics.median(undisturbed)
    p99 = percentile(disturbed, 0.99)
    before = statistics.mean(speed(each) for each in alone)
    return {"others": disturbance.processors, "itl_ms": 1e3 * median, "p99_ms": 1e3 * p99,
            "max_ms": 1e3 * max(disturbed), "stretch": p99 / median, "gaps": len(disturbed),
            "alone": before, "beside": speed(beside), "kept": speed(beside) / before}


def counted(rows, quiet):
    """Returns the quiet rounds, or all rounds if none is quiet."""
    return [row for row in rows if row["others"] <= quiet] or rows


def median_of(rows, key):
    values = [row[key] for row in rows if row[key] is not None]
    return statistics.median(values) if values else float("nan")


# ---------------------------------------------------------------- tables

def load_table(results, quiet):
    lines = [f"{'streams':>7} {'tokens/s':>9} {'decoding':>9} {'in process':>10} {'ratio':>6} "
             f"{'least':>6} {'most':>6}  {'TTFT p50':>8} {'p99 ms':>7}  {'ITL p50':>7} "
             f"{'p99 ms':>7}  {'GB/s':>5}  quiet"]
    for streams, rows in results.items():
        kept = counted(rows, quiet)
        ratios = [row["ratio"] for row in kept if row["ratio"] is not None] or [float("nan")]
        pair = lambda key, i: statistics.median(row[key][i] for row in kept)
        num_quiet = sum(row["others"] <= quiet for row in rows)
        lines.append(
            f"{streams:>7} {median_of(kept, 'total'):9.1f} {median_of(kept, 'decoding'):9.1f} "
            f"{median_of(kept, 'in_process'):10.1f} {statistics.median(ratios):6.3f} "
            f"{min(ratios):6.3f} {max(ratios):6.3f}  {pair('ttft_ms', 0):8.1f} "
            f"{pair('ttft_ms', 1):7.1f}  {pair('itl_ms', 0):7.2f} {pair('itl_ms', 1):7.2f}  "
            f"{median_of(kept, 'probe_gbps'):5.1f}  {num_quiet} of {len(rows)}")
        for name in rows[0]["peers"]:
            theirs = statistics.median(row["peers"][name]["total"] for row in kept)
            times = [row["total"] / row["peers"][name]["total"] for row in kept]
            lines.append(f"{'':>7} {name}: {theirs:.1f} tokens/s, ours {statistics.median(times):.2f} "
                         f"times as many ({min(times):.2f} to {max(times):.2f})")
    return "\n".join(lines)


def prefill_table(results, quiet, prefill):
    lines = [f"{'streams':>7} {'ITL alone':>9} {'p99 ms':>8} {'max ms':>8} {'ratio':>6} {'most':>6}  "
             f"{'alone':>7} {'beside':>7} {'kept':>6} {'least':>6}  quiet   (prompt of {prefill})"]
    for streams, rows in results.items():
        kept = counted(rows, quiet)
        num_quiet = sum(row["others"] <= quiet for row in rows)
        lines.append(
            f"{streams:>7} {median_of(kept, 'itl_ms'):9.2f} {median_of(kept, 'p99_ms'):8.2f} "
            f"{median_of(kept, 'max_ms'):8.2f} {median_of(kept, 'stretch'):6.2f} "
            f"{max(row['stretch'] for row in kept):6.2f}  {median_of(kept, 'alone'):7.1f} "
            f"{median_of(kept, 'beside'):7.1f} {median_of(kept, 'kept'):6.3f} "
            f"{min(row['kept'] for row in kept):6.3f}  {num_quiet} of {len(rows)}")
    return "\n".join(lines)


# ---------------------------------------------------------------- the whole

def measure(arguments, weights, directory, log):
    """Runs all measurements for one type of weights and prints the tables."""
    bench = str(arguments.build / "bench/model_bench")
    with contextlib.ExitStack() as stack:
        loops = {}
        for streams in arguments.streams:
            loops[streams] = Program("model_bench", f"{bench} --serve --shape {arguments.shape} "
                                     f"--plan {arguments.plan} --weights {weights} --batch {streams} "
                                     f"--threads {arguments.threads}")
            stack.callback(loops[streams].close)
        server = Server(arguments.build, directory, weights, arguments.threads, log)
        stack.callback(server.close)
        load = {streams: [] for streams in arguments.streams}
        prefill = {streams: [] for streams in arguments.beside if arguments.prefill}
        for number in range(-1, arguments.rounds):  # round -1 touches memory, not counted
            for streams, rows in load.items():
                row = measure_load(server, loops[streams], arguments.peer, streams, arguments)
                if number >= 0:
                    rows.append(row)
            print(f"{weights}: round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        for _ in range(arguments.prefill_rounds):
            for streams, rows in prefill.items():
                rows.append(measure_prefill(server, streams, arguments))
    print(f"\n{arguments.shape} {arguments.plan}, weights {weights}, {arguments.threads} threads, "
          f"{arguments.prompt_tokens} + {arguments.output_tokens} tokens a stream")
    print(load_table(load, arguments.quiet), flush=True)
    if prefill and arguments.prefill_rounds:
        print(prefill_table(prefill, arguments.quiet, arguments.prefill), flush=True)
    return {"weights": weights, "load": load, "prefill": prefill}


def whole_numbers(text):
    return [int(item) for item in text.split(",")]


def arguments_of(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    add("--shape", default="200m", help="as for model_bench")
    add("--plan", default="dense", help="as for model_bench")
    add("--weights", default="bf16", type=lambda text: text.split(","), help="bf16,int8,int4")
    add("--threads", default=2, type=int)
    add("--streams", default=[1, 16], type=whole_numbers,
        help="numbers of streams at once, such as 1,4,16")
    add("--prompt-tokens", default=64, type=int)
    add("--output-tokens", default=128, type=int)
    add("--rounds", default=5, type=int)
    add("--slices", default=2, type=int, help="slices of the step loop before and after")
    add("--prefill", default=8192, type=int, help="tokens of the long prompt; 0: no long prompt")
    add("--prefill-rounds", default=3, type=int)
    add("--beside", default=[1, 16], type=whole_numbers,
        help="numbers of streams beside the long prompt")
    add("--peer", action="append", default=[], metavar="NAME=URL",
        type=named("http://HOST:PORT/PATH", "http://"),
        help="/completion (llama.cpp) or /v1/completions of a running server")
    add("--quiet", type=float, default=0.2,
        help="processors that other processes may use in a quiet round")
    add("--checkpoint", type=pathlib.Path,
        help="directory of the checkpoint; made if it does not exist")
    add("--json", type=pathlib.Path, help="file for all figures")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = arguments_of(argv)
    result = {key: str(value) for key, value in vars(arguments).items()}
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.checkpoint or pathlib.Path(scratch) / "checkpoint"
        try:
            if not (directory / "config.json").exists():
                subprocess.run([str(arguments.build / "bench/model_bench"), "--shape",
                                arguments.shape, "--plan", arguments.plan, "--checkpoint",
                                str(directory)], check=True)
            log = pathlib.Path(scratch) / "server.log"
            result["measured"] = [measure(arguments, weights, directory, log)
                                  for weights in arguments.weights]
        except (OSError, ProgramError, http_load.LoadError,
                subprocess.CalledProcessError) as error:
            print(f"service.py: {error}", file=sys.stderr)
            return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
