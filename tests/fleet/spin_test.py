#!/usr/bin/env python3
"""Searches the model of session ownership (ownership.pml) with spin.

First the model itself: every assertion in every state, then, with weak fairness, that every turn is
acknowledged or abandoned in the end. Then each mutation of the model: spin must find its error. A
search of the model that did not see all states is a failure. Prints states and seconds."""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).with_name("ownership.pml")

# A search is for failed assertions and invalid ends in all states, or for cycles in which some turn
# is never acknowledged.
SAFETY = "safety"
LIVENESS = "liveness"

# The faults of the model that a search may leave out, so that it has fewer states.
NO_CRASH = "CRASHES=0"
NO_PAUSE = "PAUSES=0"
NO_LOSS = "LOSSES=0"
NO_UNKNOWN = "UNKNOWNS=0"

# (search, switches of the model)
RIGHT = [
    (SAFETY, (NO_UNKNOWN,)),
    (SAFETY, (NO_LOSS, NO_CRASH)),
    (SAFETY, (NO_LOSS, NO_PAUSE)),
    (LIVENESS, (NO_LOSS, NO_UNKNOWN)),
    (LIVENESS, (NO_CRASH, NO_PAUSE, NO_UNKNOWN)),
    (LIVENESS, (NO_CRASH, NO_PAUSE, NO_LOSS)),
]
# The first switch is an error that the search must find.
WRONG = [
    (SAFETY, ("NO_FENCE",)),
    (SAFETY, ("NO_EPOCHS",)),
    (SAFETY, ("CLAIM_LIVING",)),
    (SAFETY, ("NO_TRANSFER",)),
    (SAFETY, ("UNKNOWN_IS_MADE",)),
    (SAFETY, ("ANSWER_EARLY",)),
    (SAFETY, ("OLD_COPY",)),
    (LIVENESS, ("DISOWN",)),
    (LIVENESS, ("GIVE_FOREVER", NO_CRASH, NO_PAUSE, NO_UNKNOWN)),
    (LIVENESS, ("WAIT_FOREVER", NO_CRASH, NO_PAUSE, NO_UNKNOWN)),
    (LIVENESS, ("RUN_ABANDONED", NO_PAUSE, NO_LOSS, NO_UNKNOWN)),
]
# With all faults, for --all.
ALL = [(SAFETY, ())]
# The words that pan prints if it has not seen all states, in lower case.
UNFINISHED = ("search not completed", "out of memory", "memlim", "max search depth too small")


def run(command, directory):
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def search(kind, switches, is_right, is_large):
    """Returns (the number of errors, states, seconds, output)."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        output = run(["spin", *(f"-D{switch}" for switch in switches), "-a", str(MODEL)], directory)
        if "Error" in output:
            sys.exit(f"spin: {output}")
        # The compiler's time counts most, but for the large searches.
        options = ["-O2" if is_large else "-O0", "-w", "-DVECTORSZ=1024", "-DMEMLIM=6000"]
        options += ["-DSAFETY", "-DNOCLAIM"] if kind == SAFETY else ["-DNFAIR=3"]
        output = run(["gcc", *options, "-o", "pan", "pan.c"], directory)
        arguments = ["-m1000000", "-w22"]
        arguments += [] if kind == SAFETY else ["-a", "-f"]
        output += run(["./pan", *arguments], directory)
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"(\d+) states, stored", output)
    is_unfinished = is_right and any(words in output.lower() for words in UNFINISHED)
    if errors is None or states is None or is_unfinished:
        sys.exit(f"{kind} {' '.join(switches)}: the search did not end: {output}")
    return int(errors.group(1)), int(states.group(1)), time.monotonic() - start, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true",
                        help="search all states with all faults too: minutes, 6 GB")
    parser.add_argument("--jobs", type=int, default=2, help="searches at once; default: 2")
    arguments = parser.parse_args()
    jobs = arguments.jobs
    searches = [(*each, True, True) for each in (ALL if arguments.all else [])]
    searches += [(*each, True, False) for each in RIGHT]
    searches += [(*each, False, False) for each in WRONG]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda each: search(*each), searches)
        for asked, (errors, states, seconds, output) in zip(searches, results):
            kind, switches, is_right, _ = asked
            as_expected = (errors == 0) == is_right
            failed += not as_expected
            verdict = "no error" if errors == 0 else "an error is found"
            print(f"{kind:9} {' '.join(switches) or 'all faults':42} {states:9} states "
                  f"{seconds:6.1f} s  {verdict}{'' if as_expected else ': WRONG'}", flush=True)
            if not as_expected:
                print(output)
    print(f"{len(searches)} searches, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
