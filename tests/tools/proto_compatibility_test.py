"""The check of the wire contract must name every removed or changed field, value and call."""

import unittest

from check_test import CheckTest

PROTO = """\
syntax = "proto3";
package toy.v1;
service Toy {
  rpc Say(Word) returns (Answer);
  rpc Listen(Word) returns (stream Answer);
}
message Word {
  string text = 1;
  optional int32 count = 2;
  repeated int32 ids = 3;
  map<string, int64> weights = 4;
  oneof kind {
    Part part = 5;
    Colour colour = 6;
  }
  message Part { bytes data = 1; }
  enum Colour { COLOUR_UNSPECIFIED = 0; RED = 1; BLUE = 2; }
}
message Answer {}
"""
FILE = "proto/longstream/v1/toy.proto"
BASELINE = "proto/longstream/baseline.txt"


class ProtoCompatibilityTest(CheckTest):
    def setUp(self):
        super().setUp()
        self.write(FILE, PROTO)
        self.assert_passes("proto_compatibility", "--update")

    def baseline(self):
        return (self.root / BASELINE).read_text(encoding="utf-8")

    def change(self, old, new):
        self.assertIn(old, PROTO)
        self.write(FILE, PROTO.replace(old, new))

    def test_unchanged_contract_passes(self):
        self.assert_passes("proto_compatibility")

    def test_order_and_comments_are_free(self):
        self.change("  string text = 1;\n  optional int32 count = 2;\n",
                    "  optional int32 count = 2;  // How many.\n  string text = 1;\n")
        self.assert_passes("proto_compatibility")

    def test_each_break_is_named(self):
        for old, new, message in (
                # Fields: removed, reserved, renumbered, renamed, with another type, with another
                # label.
                ("  string text = 1;\n", "", "'1 text: string' was removed"),
                ("string text = 1;", 'reserved 1; reserved "text";', "'1 text: string' was removed"),
                ("text = 1", "text = 7", "'1 text: string' is now '7 text: string'"),
                ("text = 1", "words = 1", "'1 text: string' is now '1 words: string'"),
                ("string text", "bytes text", "'1 text: string' is now '1 text: bytes'"),
                ("string text", "repeated string text", "is now '1 text: repeated string'"),
                ("optional int32", "int32", "'2 count: optional int32' is now '2 count: int32'"),
                ("repeated int32", "int32", "'3 ids: repeated int32' is now '3 ids: int32'"),
                ("ids = 3", "ids = 3 [packed = false]", "'3 ids: repeated int32, packed = false'"),
                ("<string, int64>", "<string, int32>", "is now '4 weights: map<string, int32>'"),
                ("    Part part = 5;\n", "", "'5 part: toy.v1.Word.Part, in oneof kind' was remov"),
                ("oneof kind {\n    Part part = 5;", "Part part = 5;\n  oneof kind {",
                 "in oneof kind' is now '5 part: toy.v1.Word.Part'"),
                ("bytes data = 1;", "", "message toy.v1.Word.Part: '1 data: bytes' was removed"),
                # Enum values.
                (" BLUE = 2;", "", "enum toy.v1.Word.Colour: '2 BLUE' was removed"),
                ("BLUE = 2", "BLUE = 3", "'2 BLUE' is now '3 BLUE'"),
                ("BLUE = 2", "GREEN = 2", "'2 BLUE' is now '2 GREEN'"),
                # Calls.
                ("  rpc Say(Word) returns (Answer);\n", "", "service toy.v1.Toy: 'Say(toy.v1.Word) "
                 "returns (toy.v1.Answer)' was removed"),
                ("Say(Word)", "Say(Answer)", "is now 'Say(toy.v1.Answer) returns (toy.v1.Answer)'"),
                ("Say(Word) returns (Answer)", "Say(Word) returns (Word)", "returns (toy.v1.Word)'"),
                ("Say(Word)", "Say(stream Word)", "is now 'Say(stream toy.v1.Word)"),
                ("(stream Answer)", "(Answer)", "is now 'Listen(toy.v1.Word) returns (toy.v1.Answ"),
                # Whole types, services, packages.
                ("service Toy", "service Game", "service toy.v1.Toy: was removed"),
                ("toy.v1", "toy.v2", "message toy.v1.Answer: was removed"),
                ("Answer", "Reply", "message toy.v1.Answer: was removed"),
                ("Colour", "Color", "enum toy.v1.Word.Colour: was removed")):
            with self.subTest(old=old, new=new):
                self.change(old, new)
                before = self.baseline()
                self.assert_fails("proto_compatibility", message)
                # --update must not accept the change either.
                self.assert_fails("proto_compatibility", message, "--update")
                self.assertEqual(self.baseline(), before)

    def test_additions_must_be_listed(self):
        for old, new, message in (
                ("  map<", "  float score = 9;\n  map<", "'9 score: float' is not in"),
                ("BLUE = 2;", "BLUE = 2; GREEN = 3;", "'3 GREEN' is not in"),
                ("message Answer {}", "message Answer {}\nmessage More {}", "toy.v1.More: is not in"),
                ("  rpc Say", "  rpc Ask(Word) returns (Word);\n  rpc Say", "'Ask(toy.v1.Word)")):
            with self.subTest(new=new):
                self.write(FILE, PROTO)
                self.write(BASELINE, "")
                self.assert_passes("proto_compatibility", "--update")
                before = self.baseline().splitlines()
                self.change(old, new)
                self.assert_fails("proto_compatibility", message)
                self.assert_passes("proto_compatibility", "--update")
                self.assert_passes("proto_compatibility")
                self.assertFalse(set(before) - set(self.baseline().splitlines()))

    def test_type_may_move_to_another_file(self):
        self.change("message Answer {}\n", "")
        self.write("proto/longstream/v1/answer.proto",
                   'syntax = "proto3";\npackage toy.v1;\nmessage Answer {}\n')
        self.write(FILE, PROTO.replace("message Answer {}\n", "").replace(
            "package toy.v1;", 'package toy.v1;\nimport "longstream/v1/answer.proto";'))
        self.assert_passes("proto_compatibility")

    def test_missing_baseline_and_missing_file_fail(self):
        (self.root / BASELINE).unlink()
        self.assert_fails("proto_compatibility", "message toy.v1.Word: is not in")
        (self.root / FILE).unlink()
        self.assert_fails("proto_compatibility", "no .proto file")

    def test_proto_that_does_not_compile_fails(self):
        self.change("string text", "strings text")
        self.assert_fails("proto_compatibility", '"strings" is not defined')


if __name__ == "__main__":
    unittest.main()
