#!/usr/bin/env python3
"""Checks or writes the table of families in docs/checkpoints.md, from the measurements of the
parity tests.

    build/release/tests/backend_golden_test --gtest_output=json:golden.json
    tools/golden_table.py golden.json [--write]

A row is a case of tests/golden. It has the family, the note from tests/golden/README.md, and the
largest |Δ logit| over all ways to feed the tokens and all kernel libraries, rounded up to a power
of ten. Without --write, the table in the file must have these rows. A power of ten may be off by
one, because machines have different instruction sets.
"""

import argparse
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "checkpoints.md"
GOLDEN = ROOT / "tests" / "golden"
BEGIN, END = "<!-- golden table: begin -->\n", "<!-- golden table: end -->\n"
README_ROW = re.compile(r"^\| `(\w+)` \| \w+ \| (\w+) \| (.*) \|$")
TABLE_ROW = re.compile(r"^(\| .* \| )10⁻([⁰¹²³⁴⁵⁶⁷⁸⁹]) \|$")
DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def distances(results):
    """Returns the largest distance of each case in GoogleTest's JSON."""
    largest = {}
    for suite in results["testsuites"]:
        for test in suite["testsuite"]:
            name, _, parameter = test["name"].partition("/")
            if name != "LogitsAndGreedyTokens":
                continue
            case = parameter.rpartition("_")[0]
            # The test records a distance for each way to feed the tokens, beside GoogleTest's keys.
            found = [float(value) for key, value in test.items() if key.startswith("distance")]
            if not found:
                raise SystemExit(f"{test['name']} recorded no distance")
            largest[case] = max(found + [largest.get(case, 0.0)])
    return largest


def table(largest):
    """Returns the lines of the table without their last cell, and the power of ten in that cell."""
    rows = []
    for line in (GOLDEN / "README.md").read_text().splitlines():
        match = README_ROW.match(line)
        if not match:
            continue
        case, source, note = match.groups()
        if case not in largest:
            raise SystemExit(f"{case} is in tests/golden/README.md but not among the results")
        config = json.loads((GOLDEN / case / "config.json").read_text())
        exponent = min(9, math.floor(-math.log10(max(largest[case], 1e-9))))
        cells = f"| `{config['model_type']}` | `{case}` | {note} | {source} | "
        rows.append((config["model_type"], case, cells, exponent))
    return [row[2:] for row in sorted(rows)]


def stated(text):
    rows = []
    for line in text.splitlines():
        match = TABLE_ROW.match(line)
        if match:
            rows.append((match[1], DIGITS.index(match[2])))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = table(distances(json.loads(args.results.read_text())))
    document = DOCUMENT.read_text()
    before, _, rest = document.partition(BEGIN)
    found, _, after = rest.partition(END)
    if args.write:
        head = "| family | case | what it exercises | logits from | max \\|Δ logit\\| ≤ |\n"
        head += "|---|---|---|---|---|\n"
        lines = "".join(f"{cells}10⁻{DIGITS[exponent]} |\n" for cells, exponent in rows)
        DOCUMENT.write_text(before + BEGIN + head + lines + END + after)
        return 0
    there = stated(found)
    if [cells for cells, _ in there] != [cells for cells, _ in rows]:
        print("the table in docs/checkpoints.md has other rows: run tools/golden_table.py --write")
        return 1
    failures = 0
    for (cells, old), (_, new) in zip(there, rows):
        if abs(old - new) > 1:
            print(f"{cells}measured 10⁻{DIGITS[new]}, but the table says 10⁻{DIGITS[old]}")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
