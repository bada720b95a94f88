"""What the files of proto/ define."""

import re

PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
SERVICE = re.compile(r"^service (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
METHOD = re.compile(r"^\s*rpc (\w+)\(", re.MULTILINE)


def services(repository, under="."):
    """{full name of a service: its methods}, of the files under a folder of proto/."""
    found = {}
    for path in sorted((repository / "proto" / under).rglob("*.proto")):
        text = path.read_text(encoding="utf-8")
        for name, body in SERVICE.findall(text):
            found[f"{PACKAGE.search(text).group(1)}.{name}"] = set(METHOD.findall(body))
    return found
