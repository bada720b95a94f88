#!/usr/bin/env python3
"""Runs slices of work in several programs in turn, on one machine, and prints ratios of their
speeds.

Every program is a command that speaks the protocol of `model_bench --serve` (see "The protocol of
slices" in docs/performance-notes.md). --ours is our program. In each row, it is compared with the
fastest peer.

    compare.py --ours 'build/release/bench/model_bench --serve --plan dense --threads 2' \\
               --peer name='COMMAND' --slice 'decode 0 32' --slice 'prefill 0 512' --rounds 5

A pair is our slice and the peer's slice of the same round. A pair is "fast" if memory was read at
--fast GB/s or more before and after both slices. A round is "quiet" if other processes used at most
--quiet processors. The program runs rounds until every slice has --rounds quiet rounds, but at most
--most-rounds. Only quiet rounds count, unless there are none.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Returns the seconds since boot during which processors were busy or the host gave them to
    other machines."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def process_seconds(pid):
    """Returns the processor seconds of all threads of a process since its start."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Others:
    """Measures `processors`: how many processors other processes used in a with-block.
    `own_seconds()` returns the processor seconds of our own processes."""

    def __init__(self, own_seconds):
        self._own_seconds = own_seconds

    def __enter__(self):
        self._begin, self._busy = time.monotonic(), self._seconds()
        return self

    def __exit__(self, *_):
        self.processors = (self._seconds() - self._busy) / (time.monotonic() - self._begin)

    def _seconds(self):
        return machine_seconds() - self._own_seconds()


class ProgramError(Exception):
    """Raised if a program ended or answered with an error."""


class Program:
    """A process that reads a line and answers with a line of JSON."""

    def __init__(self, name, command):
        self.name = name
        self._process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            ready = self._answer()
            if "ready" not in ready:
                raise ProgramError(f"{name}: expected a line with \"ready\", found {ready}")
        except ProgramError:
            self._process.kill()
            self.close()
            raise
        self.ready = ready["ready"]

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise ProgramError(f"{self.name}: ended with code {self._process.wait()}")
        try:
            return json.loads(line)
        except json.JSONDecodeError as error:
            raise ProgramError(f"{self.name}: no JSON: {line.rstrip()}") from error

    def run(self, line):
        """Runs a slice. Returns its answer {"tokens", "seconds", "bytes", "probes_gbps"} with
        "tokens_per_second" and "others", the number of processors that other processes used during
        the slice."""
        with Others(self._seconds) as others:
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass  # _answer reports the exit code
            answer = self._answer()
        if "error" in answer:
            raise ProgramError(f"{self.name}: {line}: {answer['error']}")
        answer["tokens_per_second"] = answer["tokens"] / answer["seconds"]
        answer["others"] = others.processors
        return answer

    def _seconds(self):
        if self._process.poll() is not None:
            return 0.0  # _answer reports the exit code
        return process_seconds(self._process.pid)

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def seek(seconds):
    """Keeps all processors busy for some seconds. A host that moves virtual processors tends to
    give busy ones a path to memory that they do not share."""
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count())]
    for process in busy:
        process.wait()


def quiet_rounds(answers, line, quiet):
    """Returns the indices of the quiet rounds of a line, or of all rounds if none is quiet."""
    rounds = list(zip(*(of[line] for of in answers.values())))
    kept = [i for i, of in enumerate(rounds) if max(answer["others"] for answer in of) <= quiet]
    return kept, kept or list(range(len(rounds)))


def measure(programs, lines, rounds, most_rounds, quiet, seek_seconds=0.0, report=lambda text: None):
    """Returns name -> line -> answers, one per round. The order of the programs rotates with each
    round. The first round is not counted: it makes contexts and touches memory. `seek` runs before
    every slice."""
    answers = {program.name: {line: [] for line in lines} for program in programs}
    lacking = list(lines)
    for turn in range(-1, most_rounds):
        for line in lacking:
            first = turn % len(programs)
            for program in programs[first:] + programs[:first]:
                if seek_seconds > 0:
                    seek(seek_seconds)
                answer = program.run(line)
                if turn >= 0:
                    answers[program.name][line].append(answer)
        found = {line: len(quiet_rounds(answers, line, quiet)[0]) for line in lines}
        lacking = [line for line in lines if found[line] < rounds]
        report(f"round {turn + 1}; quiet: {', '.join(str(found[line]) for line in lines)}")
        if not lacking:
            break
    return answers


def speed(answers):
    return statistics.median(answer["tokens_per_second"] for answer in answers)


def probe(answers):
    return statistics.median(
        statistics.mean(answer["probes_gbps"]) for answer in answers)


def fraction(answers):
    """Returns the rate of bytes as a fraction of the probe's rate, or None if memory is not the
    limit."""
    if not answers[0]["bytes"]:
        return None
    return statistics.median(
        answer["bytes"] / answer["seconds"] / 1e9 / statistics.mean(answer["probes_gbps"])
        for answer in answers)


def ratios(ours, theirs, fast):
    """Returns the ratios of tokens/s of all pairs, and the ratios of fast pairs."""
    pairs = list(zip(ours, theirs))
    value = lambda pair: pair[0]["tokens_per_second"] / pair[1]["tokens_per_second"]
    is_fast = lambda pair: min(pair[0]["probes_gbps"] + pair[1]["probes_gbps"]) >= fast
    return [value(pair) for pair in pairs], [value(pair) for pair in pairs if is_fast(pair)]


def compare(answers, ours, lines, fast, quiet):
    """Returns a row for each line, which compares our program with the fastest peer."""
    rows = []
    for line in lines:
        kept, counted = quiet_rounds(answers, line, quiet)
        of_line = {name: [of[line][i] for i in counted] for name, of in answers.items()}
        mine = of_line[ours]
        row = {"slice": line, "tokens_per_second": speed(mine), "probe_gbps": probe(mine),
               "fraction": fraction(mine), "rounds": len(answers[ours][line]),
               "quiet_rounds": len(kept)}
        peers = [name for name in answers if name != ours]
        if peers:
            best = max(peers, key=lambda name: speed(of_line[name]))
            every, quick = ratios(mine, of_line[best], fast)
            row.update({"peer": best, "peer_tokens_per_second": speed(of_line[best]),
                        "peer_probe_gbps": probe(of_line[best]),
                        "ratio": statistics.median(every), "least": min(every),
                        "most": max(every), "pairs": len(every), "fast_pairs": len(quick),
                        "fast_ratio": statistics.median(quick) if quick else None})
        rows.append(row)
    return rows


def growth(answers, lines, base, quiet):
    """Returns program -> line -> time per token divided by the time per token of the line `base`.
    Both are medians of the counted rounds."""
    def median(of, line):
        return speed([of[line][i] for i in quiet_rounds(answers, line, quiet)[1]])
    return {name: {line: median(of, base) / median(of, line) for line in lines if line != base}
            for name, of in answers.items()}


def table(rows):
    lines = [f"{'slice':<20} {'ours':>9} {'GB/s':>6} {'of it':>6}  {'peer':<14} {'tokens/s':>9} "
             f"{'GB/s':>6} {'ratio':>6}  {'least':>6} {'most':>6}  fast pairs     quiet rounds"]
    for row in rows:
        part = f"{100 * row['fraction']:.0f} %" if row["fraction"] else "-"
        text = (f"{row['slice']:<20} {row['tokens_per_second']:9.2f} {row['probe_gbps']:6.1f} "
                f"{part:>6}")
        if "peer" in row:
            quick = f"{row['fast_ratio']:.2f} " if row["fast_ratio"] else ""
            pairs = f"{quick}({row['fast_pairs']} of {row['pairs']})"
            text += (f"  {row['peer']:<14} {row['peer_tokens_per_second']:9.2f} "
                     f"{row['peer_probe_gbps']:6.1f} {row['ratio']:6.2f}  {row['least']:6.2f} "
                     f"{row['most']:6.2f}  {pairs:<14}")
        lines.append(f"{text} {row['quiet_rounds']} of {row['rounds']}")
    return "\n".join(lines)


def named(value_name, prefix=""):
    """Parses NAME=VALUE; the value begins with `prefix`."""
    def parse(text):
        name, _, value = text.partition("=")
        if not name or not value.startswith(prefix) or not value:
            raise argparse.ArgumentTypeError(f"expected NAME={value_name}, found {text}")
        return name, value
    return parse


def arguments_of(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, metavar="COMMAND")
    parser.add_argument("--peer", action="append", default=[], type=named("COMMAND"),
                        metavar="NAME=COMMAND")
    parser.add_argument("--slice", action="append", required=True, dest="slices", metavar="LINE")
    parser.add_argument("--rounds", type=int, default=5, help="quiet rounds for each slice")
    parser.add_argument("--most-rounds", type=int, default=15)
    parser.add_argument("--quiet", type=float, default=0.2,
                        help="processors that other processes may use in a quiet round")
    parser.add_argument("--seek", type=float, default=0.0, metavar="SECONDS",
                        help="keep all processors busy for so long before every slice")
    parser.add_argument("--base", metavar="LINE",
                        help="a slice: print each program's time per token relative to it")
    parser.add_argument("--fast", type=float, default=45.0, help="GB/s that makes a pair fast")
    parser.add_argument("--json", type=pathlib.Path, help="file for all answers")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.rounds <= arguments.most_rounds:
        parser.error("--rounds: must be at least 1 and at most --most-rounds")
    if arguments.base is not None and arguments.base not in arguments.slices:
        parser.error("--base: must be one of the slices")
    names = ["ours"] + [name for name, _ in arguments.peer]
    if len(set(names)) < len(names):
        parser.error("--peer: every program needs a different name, and the name ours is taken")
    return arguments


def main(argv=None):
    arguments = arguments_of(argv)
    programs = []
    try:
        for name, command in [("ours", arguments.ours)] + arguments.peer:
            programs.append(Program(name, command))
            print(f"{name}: {programs[-1].ready}", flush=True)
        answers = measure(programs, arguments.slices, arguments.rounds, arguments.most_rounds,
                          arguments.quiet, arguments.seek,
                          lambda text: print(text, file=sys.stderr, flush=True))
    except (OSError, ProgramError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 1
    finally:
        for program in programs:
            program.close()
    rows = compare(answers, "ours", arguments.slices, arguments.fast, arguments.quiet)
    print(table(rows))
    result = {"programs": {program.name: program.ready for program in programs}, "rows": rows,
              "answers": answers}
    if arguments.base is not None:
        result["growth"] = growth(answers, arguments.slices, arguments.base, arguments.quiet)
        for name, of in result["growth"].items():
            for line, value in of.items():
                print(f"{name}: time per token, {line} / {arguments.base}: {value:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
