"""Send each line of standard input as a turn of one session: conversation.py ADDRESS MODEL.

The connection or the server may be lost at any time. Nothing here deals with that: a turn goes on
by itself, and each token comes once.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Unpack

from longstream import Client, Delta, TurnOptions


def converse(
    client: Client,
    model: str,
    lines: Iterable[str],
    show: Callable[[Delta], None],
    **options: Unpack[TurnOptions],
) -> None:
    """Run one turn for each line, and show the answers piece by piece."""
    with client.session(model) as session:
        for line in lines:
            for piece in session.stream(line, **options):
                show(piece)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: conversation.py ADDRESS MODEL < LINES")
    with Client(sys.argv[1]) as server:
        converse(server, sys.argv[2], sys.stdin, lambda piece: print(piece, end="", flush=True))
