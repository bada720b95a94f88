"""Reads the compilation database of a build with one command for each source.

A unity build compiles batches: generated files that include several sources. CMake's database then
has the batches only.
"""

import json
import pathlib
import re

# Matches the line of a batch that includes a source.
INCLUDED = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


def read(build):
    """Returns the commands of a build's database, with the commands of a batch's sources in place
    of the batch's command."""
    found = []
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.PurePath(command["file"])
        found += [command] if file.parent.name != "Unity" else of_batch(command, file)
    return found


def of_batch(command, batch):
    """Returns the commands that compile the sources of a batch one by one."""
    for source in INCLUDED.findall(pathlib.Path(batch).read_text(encoding="utf-8")):
        # The object is named after the source too, because batches change when sources are added.
        alone = command["command"].replace(str(batch), source).replace(
            f"Unity/{batch.name}.", f"{pathlib.PurePath(source).name}.")
        yield {**command, "file": source, "command": alone}
