"""Selects the sources that `tidy.py --changed` must read because something changed.

CI runs in a fresh clone, which does not show which commits are new on the main line. So "changed"
means changed since the newest commit of the main line that is more than a day older than HEAD, by
commit date. Each run reads the changes of one day. It misses changes that reach the main line more
than a day after their commit; `make tidy` reads the whole tree.
"""

import pathlib
import re
import subprocess

import source_tree

WINDOW_SECONDS = 24 * 60 * 60
HEADERS = (".h", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def select(root, sources, below, base=None, rules=()):
    """Returns the sources that changed since the commit `base` (None: a day ago), at least one source
    for each changed header below one of the paths `below`, and a sentence that says which they are
    and why. Without a base, or if one of the files `rules` changed, it returns all sources."""
    everything = f"all {len(sources)} sources"
    commit = base or day_old_commit(root)
    if commit is None:
        return sources, f"{everything}: no commit is a day older than HEAD"
    since = git(root, "log", "-1", "--format=%h (%ci)", commit).strip()
    changed = changed_files(root, commit)
    for rule in rules:
        if rule in changed:
            return sources, f"{everything}: {rule} changed since {since}"
    direct = [path for path in sources if path in changed]
    headers = {path for path in changed if path.suffix in HEADERS and (root / path).exists() and
               any(path.is_relative_to(prefix) for prefix in below)}
    more, alone = cover(headers, direct, {path: included(root, path) for path in sources})
    reason = (f"{len(direct)} of {len(sources)} sources changed since {since}; "
              f"{len(more)} more include the other changed headers")
    if alone:
        reason += f"; no source includes {', '.join(map(str, sorted(alone)))}"
    selected = {*direct, *more}
    return [path for path in sources if path in selected], reason


def day_old_commit(root):
    """Returns the newest commit of the main line that is more than a day older than HEAD, or
    None."""
    try:
        lines = git(root, "log", "--first-parent", "--format=%H %ct").splitlines()
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return None
    history = [line.split() for line in lines]
    newest = int(history[0][1])
    return next((commit for commit, time in history if int(time) < newest - WINDOW_SECONDS), None)


def changed_files(root, commit):
    """Returns the files of the working tree that differ from the commit. Files that only moved do
    not count."""
    fields = git(root, "diff", "--relative", "--name-status", "--find-renames", "-z",
                 commit).split("\0")
    files = set(map(pathlib.Path, git(root, "ls-files", "--others", "--exclude-standard",
                                      "-z").split("\0")[:-1]))
    i = 0
    while i + 1 < len(fields):
        status = fields[i]
        i += 2 if status[0] in "RC" else 1  # a moved file has two paths: old and new
        if status != "R100":
            files.add(pathlib.Path(fields[i]))
        i += 1
    return files


def included(root, source):
    """Returns the headers of the tree that a source includes, directly or through other headers."""
    found, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        for name in INCLUDE.findall(text):
            header = pathlib.Path(name)
            if header not in found and (root / header).is_file():
                found.add(header)
                waiting.append(header)
    return found


def cover(headers, sources, includes):
    """Returns sources that together include all the headers, and the headers that no source
    includes. Prefers the source with the name of a header, then the source that includes most of
    the headers."""
    uncovered = headers.difference(*(includes[path] for path in sources))
    alone = uncovered.difference(*includes.values())
    uncovered -= alone
    more = []
    for header in sorted(uncovered):
        own = header.with_suffix(".cc")
        if header in uncovered and header in includes.get(own, ()):
            more.append(own)
            uncovered -= includes[own]
    while uncovered:
        best = max(sorted(includes), key=lambda path: len(includes[path] & uncovered))
        more.append(best)
        uncovered -= includes[best]
    return more, alone


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True,
                          check=True).stdout
