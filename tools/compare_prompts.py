"""Writes prompts of held-out text for `longstream compare --prompts`, one JSON object a line.

Usage: compare_prompts.py TEXT COUNT BYTES... > FILE

For each number of BYTES there are COUNT prompts of this length, each with the 64 bytes that follow
it in the text as its continuation. No two prompts share a byte. The demo models have a token per
byte, so these are also the numbers of tokens.
"""

import json
import pathlib
import sys

CONTINUATION = 64  # bytes


def main():
    text = pathlib.Path(sys.argv[1]).read_bytes().decode("ascii")
    count, lengths = int(sys.argv[2]), [int(length) for length in sys.argv[3:]]
    needed = count * sum(length + CONTINUATION for length in lengths)
    if needed > len(text):
        sys.exit(f"{count} prompts of each length need {needed} bytes, the text has {len(text)}")
    begin = 0
    for number in range(count):
        for length in lengths:  # in turn, so that all lengths see the machine in the same states
            end = begin + length
            print(json.dumps({"id": f"{length}-{number}", "text": text[begin:end],
                              "continuation": text[end:end + CONTINUATION]}))
            begin = end + CONTINUATION


if __name__ == "__main__":
    main()
