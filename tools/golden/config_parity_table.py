"""Writes docs/config-parity.md from the results of config_parity.py."""

import json

from config_parity_cases import ABSENT

HEAD = """# How keys of config.json are read, compared with transformers

`make config-parity` wrote this page with transformers {version}. Do not edit it. For each family it changes one key of a small config
at a time: absent, null, as older releases spell it, or with an odd value. The keys are the declared fields of the family's config class,
the keys that the class takes from older files, the keys of RoPE's dictionary, and keys that only other families have. Both programs
compute the logits of the same random weights for {text} tokens ({long} where the window of a class may count).

| result | meaning |
|---|---|
| same | the logits differ by at most {tolerance} of their standard deviation |
| refused | Longstream refuses the config; transformers computes logits |
| warned | the logits differ, and the log names the key |
| no model | transformers makes no model, or its logits are not numbers |

No config gives other logits silently. The tables of the families list the keys with another result than *same* or *no model*.

| family | configs | same | refused | warned | no model |
|---|---|---|---|---|---|
"""


def shown(value):
    if value == ABSENT:
        return "absent"
    text = json.dumps(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


def cell(text):
    return text.replace("|", "\\|")


def page(results, families, version, text, long_text, tolerance):
    out = HEAD.format(version=version, text=text, long=long_text, tolerance=tolerance)
    for family, rows in results.items():
        kinds = [result.kind for _, result in rows]
        counts = [str(kinds.count(kind)) for kind in ("same", "refused", "warned", "no model")]
        out += f"| [`{family}`](#{family}) | {len(kinds)} | {' | '.join(counts)} |\n"
    left = [f"`{family}`" for family in families if family not in results]
    if left:
        out += f"\nNot compared in this run: {', '.join(left)}.\n"
    for family, rows in results.items():
        out += f"\n## {family}\n\n| key | value | result |\n|---|---|---|\n"
        # Values of one key with one sentence share a line.
        lines = {}
        for case, result in rows:
            if result.kind in ("refused", "warned"):
                sentence = result.detail.removeprefix("config.json: ")
                sentence = sentence.split(", and what is not known")[0]
                sentence = f"{result.kind}: {sentence}"
                key = (case.key, sentence.split(", found")[0])
                lines.setdefault(key, []).append(shown(case.value))
        for (key, sentence), values in lines.items():
            out += f"| `{key}` | {cell(', '.join(values))} | {cell(sentence)} |\n"
    return out
