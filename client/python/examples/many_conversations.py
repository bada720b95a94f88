"""Send the same prompts to several models at the same time: many_conversations.py ADDRESS MODEL...

As in conversation.py, nothing here deals with lost connections and servers.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Unpack

from longstream import AsyncClient, Delta, TurnOptions


async def converse(
    client: AsyncClient,
    model: str,
    lines: Iterable[str],
    show: Callable[[Delta], None],
    **options: Unpack[TurnOptions],
) -> None:
    """Run one turn for each line, and show the answers piece by piece."""
    async with client.session(model) as session:
        for line in lines:
            async for piece in session.stream(line, **options):
                show(piece)


async def main(address: str, *models: str) -> None:
    """Print what each model answers, when all have."""
    answers: dict[str, list[str]] = {model: [] for model in models}
    async with AsyncClient(address) as client, asyncio.TaskGroup() as tasks:
        for model, pieces in answers.items():
            lines = ["def main():\n", "\n\nclass Reader:\n"]
            show = lambda piece, pieces=pieces: pieces.append(str(piece))  # noqa: E731
            tasks.create_task(converse(client, model, lines, show, max_tokens=60))
    for model, pieces in answers.items():
        print(f"--- {model}\n{''.join(pieces)}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: many_conversations.py ADDRESS MODEL...")
    asyncio.run(main(*sys.argv[1:]))
