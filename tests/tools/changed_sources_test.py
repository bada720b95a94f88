"""The sources that `tidy.py --changed` reads, tested in a small git repository."""

import pathlib
import sys
import unittest

from scratch_tree import ScratchTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools/check"))
import changed_sources  # noqa: E402

HOUR = 60 * 60
START = 1_700_000_000
RULE = pathlib.Path(".clang-tidy")


class ChangedSourcesTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.git("init", "--quiet", "--initial-branch=main")
        for name in "abcd":
            self.write(f"service/{name}.h", f"int {name}();\n" * 5)
            self.write(f"service/{name}.cc", f'#include "service/{name}.h"\n' + "//\n" * 20)
        self.write("service/a.h", '#include "service/common.h"\nint a();\n')
        self.write("service/common.h", "int common();\n" * 5)
        self.write("service/unused.h", "int unused();\n")
        self.write(".clang-tidy", "Checks: '*'\n")

    def git_at(self, hours, *arguments):
        time = f"{START + int(hours * HOUR)} +0000"
        self.git(*arguments, GIT_AUTHOR_DATE=time, GIT_COMMITTER_DATE=time)

    def append(self, path):
        with (self.root / path).open("a", encoding="utf-8") as file:
            file.write("// More.\n")

    def commit(self, hours, *changed):
        for path in changed:
            self.append(path)
        self.git_at(hours, "add", "--all")
        self.git_at(hours, "commit", "--quiet", "--allow-empty", "--message", f"at {hours} h")

    def select(self, base=None):
        sources = sorted(path.relative_to(self.root) for path in self.root.rglob("*.cc"))
        selected, reason = changed_sources.select(self.root, sources, ["service"], base, (RULE,))
        return [path.stem for path in selected], reason

    def test_reads_what_changed_since_the_newest_commit_of_the_day_before(self):
        self.commit(0)
        self.commit(10, "service/a.cc")   # 30 hours before HEAD
        self.commit(15, "service/b.cc")   # 25 hours: the base
        self.commit(17, "service/c.cc")   # 23 hours
        self.commit(40, "service/d.cc")
        selected, reason = self.select()
        self.assertEqual(selected, ["c", "d"])
        self.assertRegex(reason, r"^2 of 4 sources changed since \w+ \(2023-11-15 13:13:20 \+0000\)")

    def test_base_can_be_given(self):
        self.commit(0)
        self.commit(10, "service/a.cc")
        self.commit(40, "service/d.cc")
        self.assertEqual(self.select("HEAD~2")[0], ["a", "d"])
        self.assertEqual(self.select("HEAD")[0], [])

    def test_young_history_and_no_history_read_everything(self):
        for commit in (lambda: None, lambda: self.commit(0), lambda: self.commit(20)):
            commit()
            selected, reason = self.select()
            self.assertEqual(selected, list("abcd"))
            self.assertIn("all 4 sources: no commit is a day older than HEAD", reason)

    def test_changed_rules_read_everything(self):
        self.commit(0)
        self.commit(40, ".clang-tidy")
        selected, reason = self.select()
        self.assertEqual(selected, list("abcd"))
        self.assertIn("all 4 sources: .clang-tidy changed since", reason)

    def test_merged_branch_is_read_however_old_it_is(self):
        self.commit(0)
        self.git_at(1, "checkout", "--quiet", "-b", "branch")
        self.commit(2, "service/b.cc")
        self.git_at(3, "checkout", "--quiet", "main")
        self.commit(10)
        self.git_at(40, "merge", "--quiet", "--no-ff", "--message", "merge", "branch")
        self.assertEqual(self.select()[0], ["b"])

    def test_header_counts_for_the_source_of_its_name(self):
        self.commit(0)
        self.commit(40, "service/b.h")
        selected, reason = self.select()
        self.assertEqual(selected, ["b"])
        self.assertIn("0 of 4 sources changed", reason)
        self.assertIn("1 more include the other changed headers", reason)

    def test_header_counts_for_a_source_that_includes_it_indirectly(self):
        self.commit(0)
        self.commit(40, "service/common.h")
        self.assertEqual(self.select()[0], ["a"])

    def test_header_that_a_changed_source_includes_needs_no_other(self):
        self.commit(0)
        for name in "abcd":
            self.append(f"service/{name}.h")
        self.write("service/c.cc", "".join(f'#include "service/{name}.h"\n' for name in "abcd"))
        self.commit(40)
        self.assertEqual(self.select()[0], ["c"])

    def test_header_that_no_source_includes_is_named(self):
        self.commit(0)
        self.commit(40, "service/unused.h")
        selected, reason = self.select()
        self.assertEqual(selected, [])
        self.assertIn("no source includes service/unused.h", reason)

    def test_header_elsewhere_needs_no_source(self):
        self.commit(0)
        self.write("tests/fixture.h", "int f();\n")
        self.commit(40)
        selected, reason = self.select()
        self.assertEqual(selected, [])
        self.assertNotIn("fixture.h", reason)

    def test_moved_file_counts_only_if_it_changed_too(self):
        self.commit(0)
        self.git_at(40, "mv", "service/a.cc", "service/moved.cc")
        self.git_at(40, "mv", "service/b.cc", "service/changed.cc")
        self.commit(40, "service/changed.cc")
        self.assertEqual(self.select()[0], ["changed"])

    def test_deleted_header_is_no_reason(self):
        self.commit(0)
        self.git_at(40, "rm", "--quiet", "service/unused.h")
        self.commit(40)
        self.assertEqual(self.select()[0], [])

    def test_working_tree_counts(self):
        self.commit(0)
        self.commit(40)
        self.append("service/a.cc")
        self.write("service/new.cc", "\n")
        self.assertEqual(self.select()[0], ["a", "new"])


if __name__ == "__main__":
    unittest.main()
