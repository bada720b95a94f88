"""Writes the tables of docs/length-extrapolation.md from the client's JSON results, and prints them.

Usage: eval_table.py DIRECTORY DOCUMENT
"""

import json
import pathlib
import sys

# (marker in the document, file, grid, figure, format)
TABLES = [
    ("accuracy by length", "text", "length", "accuracy", "{:.2%}"),
    ("accuracy by position", "text", "position", "accuracy", "{:.2%}"),
    ("perplexity by position", "text", "position", "perplexity", "{:.3f}"),
    ("passkey", "passkey", "length", "accuracy", "{:.0%}"),
    ("recall", "recall", "length", "accuracy", "{:.0%}"),
    ("listops", "listops", "length", "accuracy", "{:.0%}"),
]


def table(results, grid, figure, style):
    """Returns a Markdown table with a row for each position or length and a column for each
    model."""
    models = results["models"]
    lines = [f"| {grid} | " + " | ".join(f"`{name}`" for name in models) + " | n |"]
    lines.append("|---" * (len(models) + 2) + "|")
    for row in results[f"by_{grid}"]:
        figures = [row["models"][name] for name in models]
        # A row without predictions has no figures.
        cells = [row[grid]]
        cells += ["-" if found[figure] is None else style.format(found[figure]) for found in figures]
        cells.append(str(max(found["count"] for found in figures)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def replaced(document, name, text):
    """Returns the document with `text` between the two comments that have this name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, found_begin, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise SystemExit(f"the document has no {begin.strip()} ... {end.strip()}")
    return before + begin + text + end + after


def main():
    directory, path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    document = path.read_text()
    for name, file, *columns in TABLES:
        text = table(json.loads((directory / f"{file}.json").read_text()), *columns)
        print(f"\n{name}\n\n{text}", end="")
        document = replaced(document, name, text)
    path.write_text(document)


if __name__ == "__main__":
    main()
