#!/usr/bin/env python3
"""Checks that the wire contract only grows: that no message, field, enum value, service or call of
proto/longstream/baseline.txt was removed, renamed, renumbered or changed in its type.

The baseline has a line for each of them. New declarations in the .proto files must be listed too.
--update adds their lines to the baseline, but refuses to remove any line. A field that is no longer
used must not become `reserved`; it stays, with [deprecated = true].
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import source_tree

try:
    from google.protobuf import descriptor_pb2
except ImportError:
    # Only Debian's interpreter finds Debian's package, but another one may come first in PATH.
    DEBIAN = "/usr/bin/python3"
    if sys.executable == DEBIAN or not os.path.exists(DEBIAN):
        raise
    os.execv(DEBIAN, [DEBIAN, "-B", *sys.argv])

PROTO = pathlib.Path("proto")
# The other directories of proto/ hold definitions of other projects.
OURS = PROTO / "longstream"
BASELINE = OURS / "baseline.txt"
ADD = f"python3 tools/check/{pathlib.Path(__file__).name} --update"

PREAMBLE = f"""\
# Every message, field, value, service and call of the .proto files below {OURS}.
# Lines may be added but never changed or removed. To add new ones:
# {ADD}"""


def compiled(root):
    """Returns the FileDescriptorSet of our .proto files, without their imports."""
    files = sorted(path.relative_to(root / PROTO) for path in (root / OURS).rglob("*.proto"))
    if not files:
        raise ValueError(f"{OURS}: no .proto file")
    with tempfile.NamedTemporaryFile() as output:
        protoc = subprocess.run(
            ["protoc", "-I", root / PROTO, f"--descriptor_set_out={output.name}", *files],
            capture_output=True, text=True, check=False)
        if protoc.returncode != 0:
            raise ValueError(protoc.stderr.strip())
        return descriptor_pb2.FileDescriptorSet.FromString(output.read())


def promises(descriptors):
    """Returns the contract of the files: {"message longstream.v1.Delta": ["1 text: string", ...],
    ...}."""
    found = {}
    for file in descriptors.file:
        add_types(file.package, file.message_type, file.enum_type, found)
        for service in file.service:
            found[f"service {file.package}.{service.name}"] = sorted(
                call(method) for method in service.method)
    return found


def add_types(scope, messages, enums, found):
    for enum in enums:
        found[f"enum {scope}.{enum.name}"] = [
            f"{value.number} {value.name}" for value in sorted(enum.value, key=by_number)]
    for message in messages:
        name = f"{scope}.{message.name}"
        found[f"message {name}"] = [
            field_line(field, name, message) for field in sorted(message.field, key=by_number)]
        add_types(name, [nested for nested in message.nested_type if not nested.options.map_entry],
                  message.enum_type, found)


def by_number(element):
    return element.number


def call(method):
    """Returns a line such as `Append(stream a.AppendRequest) returns (a.AppendResponse)`."""
    def message(name, streams):
        return ("stream " if streams else "") + name.removeprefix(".")
    return (f"{method.name}({message(method.input_type, method.client_streaming)}) "
            f"returns ({message(method.output_type, method.server_streaming)})")


def field_line(field, scope, message):
    """Returns a line such as `2 token_ids: repeated int32`."""
    entry = next((nested for nested in message.nested_type if nested.options.map_entry and
                  field.type_name == f".{scope}.{nested.name}"), None)
    if entry:
        key, value = (type_name(part) for part in entry.field)
        kind = f"map<{key}, {value}>"
    else:
        kind = presence(field) + type_name(field)
    if field.options.HasField("packed"):
        kind += f", packed = {str(field.options.packed).lower()}"
    if field.HasField("oneof_index") and not field.proto3_optional:
        kind += f", in oneof {message.oneof_decl[field.oneof_index].name}"
    return f"{field.number} {field.name}: {kind}"


def presence(field):
    """Returns the keyword before the type in the .proto file."""
    if field.label == field.LABEL_REPEATED:
        return "repeated "
    if field.label == field.LABEL_REQUIRED:
        return "required "
    return "optional " if field.proto3_optional else ""


def type_name(field):
    if field.type_name:
        return field.type_name.removeprefix(".")
    return descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def as_text(found):
    blocks = [heading + "".join(f"\n  {line}" for line in found[heading])
              for heading in sorted(found)]
    return "\n\n".join([PREAMBLE, *blocks]) + "\n"


def as_promises(text):
    """Parses the text that as_text returns."""
    found = {}
    for line in text.splitlines():
        if line.startswith("  "):
            heading.append(line.strip())
        elif line and not line.startswith("#"):
            heading = found[line] = []
    return found


def broken(baseline, now):
    """Yields a message for each line of the baseline that the .proto files no longer contain."""
    for heading, lines in baseline.items():
        if heading not in now:
            yield f"{heading}: was removed"
            continue
        for line in lines:
            if line not in now[heading]:
                yield f"{heading}: '{line}' {what_became_of(line, now[heading])}"


def what_became_of(line, lines_now):
    """Returns what replaced a line: the line with the same number, or else the line with the same
    name."""
    for key in (number_of, name_of):
        for other in lines_now:
            if key(other) == key(line):
                return f"is now '{other}'"
    return "was removed"


def number_of(line):
    """Returns the number of a field or a value, or the name of a call."""
    return line.split("(")[0].split(" ")[0]


def name_of(line):
    return line.split("(")[0].split(":")[0].split(" ")[-1]


def added(baseline, now):
    for heading, lines in now.items():
        if heading not in baseline:
            yield f"{heading}: is not in {BASELINE}"
        for line in lines:
            if line not in baseline.get(heading, lines):
                yield f"{heading}: '{line}' is not in {BASELINE}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    source_tree.add_root_argument(parser)
    parser.add_argument("--update", action="store_true", help="add new lines to the baseline")
    arguments = parser.parse_args()
    file = arguments.root / BASELINE
    try:
        now = promises(compiled(arguments.root))
    except ValueError as error:
        return source_tree.report("proto compatibility", [str(error)])
    baseline = as_promises(file.read_text(encoding="utf-8")) if file.exists() else {}
    problems = list(broken(baseline, now))
    if arguments.update:
        if not problems:
            file.write_text(as_text(now), encoding="utf-8")
    else:
        new = list(added(baseline, now))
        problems += new + ([f"add it: {ADD}"] if new else [])
    count = sum(len(lines) for lines in now.values())
    return source_tree.report(f"proto compatibility ({count} fields, values and calls)", problems)


if __name__ == "__main__":
    sys.exit(main())
