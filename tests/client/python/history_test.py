"""The pages of a history, as a server may answer them."""

import unittest

from longstream import HistoryKind, Message
from longstream.history import HistoryEntry, Reading
from longstream.v1 import longstream_pb2 as pb

PROMPT, MESSAGE, ANSWER = HistoryKind.PROMPT, HistoryKind.MESSAGE, HistoryKind.ANSWER


def page(*entries, token="", version=1):
    return pb.ReadHistoryResponse(entries=entries, next_page_token=token, version=version)


def text(kind, content, **fields):
    return pb.HistoryEntry(turn_id="t", kind=kind, text=content, position=7, **fields)


class ReadingTest(unittest.TestCase):
    def read(self, *pages):
        """Return the entries, and the tokens of the calls."""
        reading, asked = Reading("s"), []
        for answer in pages:
            self.assertFalse(reading.ended)
            call = reading.call()
            request = call.request()
            self.assertEqual(request.session_id, "s")
            asked.append(request.page_token)
            call.read(answer)
        self.assertTrue(reading.ended)
        return reading.entries, asked

    def test_a_text_of_several_pages_is_one_text(self):
        entries, asked = self.read(
            page(text(PROMPT, b"one"), text(ANSWER, b"tw", continued=True), token="1.2"),
            page(text(ANSWER, b"o", continued=True), token="1.3"),
            page(text(ANSWER, b""), text(ANSWER, b"three")))
        self.assertEqual(entries, [HistoryEntry("t", PROMPT, "one", position=7),
                                   HistoryEntry("t", ANSWER, "two", position=7),
                                   HistoryEntry("t", ANSWER, "three", position=7)])
        self.assertEqual(asked, ["", "1.2", "1.3"])

    def test_a_session_that_has_changed_is_read_again(self):
        entries, asked = self.read(
            page(text(PROMPT, b"old", continued=True), token="0.3"),
            page(text(PROMPT, b"x"), version=2),
            page(text(PROMPT, b"new"), version=3))
        self.assertEqual(entries, [HistoryEntry("t", PROMPT, "new", position=7)])
        self.assertEqual(asked, ["", "0.3", ""])

    def test_messages(self):
        entries, _ = self.read(page(
            pb.HistoryEntry(kind=MESSAGE, message=pb.Message(role=b"user", content=b"\xc3\xa9")),
            pb.HistoryEntry(kind=MESSAGE, message=pb.Message(role=b"tool", json=b'{"id": 1}'))))
        self.assertEqual([entry.message for entry in entries],
                         [Message("user", "\u00e9"), Message("tool", None, {"id": 1})])

    def test_an_empty_history(self):
        self.assertEqual(self.read(page()), ([], [""]))


if __name__ == "__main__":
    unittest.main()
