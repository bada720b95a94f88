"""The pictures of tools/bench/plot.py: their scales, their labels, and that they are current."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/bench"))
import plot  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = plot.Picture(file="x.svg", title="a < b", x_label="tokens", gap=20, one_scale=True)


def drawn(panels, picture=PICTURE):
    return xml.etree.ElementTree.fromstring(plot.draw(picture, panels))


def texts(root):
    return [element.text for element in root.iter(SVG + "text")]


class PlotTest(unittest.TestCase):
    def test_the_committed_pictures_are_those_of_the_figures(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(plot.main(["--check"]), 0, output.getvalue())

    def test_a_missing_picture_is_named(self):
        with tempfile.TemporaryDirectory() as root, \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(plot.main(["--check", "--root", root]), 1)
        self.assertIn("docs/performance.svg", output.getvalue())

    def test_ticks_end_beyond_the_largest_value(self):
        for most, step, last in ((4.0, 0.5, 4.5), (3758, 500, 4000), (0.3, 0.05, 0.35), (70, 10, 80)):
            found = plot.ticks(most)
            self.assertEqual(found[0], 0)
            self.assertAlmostEqual(found[1], step)
            self.assertAlmostEqual(found[-1], last)
            self.assertLessEqual(len(found), 10)

    def test_depths_are_written_short(self):
        self.assertEqual([plot.depth(x) for x in (0, 512, 4096, 16384)], ["0", "512", "4K", "16K"])

    def test_texts_are_escaped_and_every_line_is_named_once(self):
        root = drawn({"p": {"one": [(0, 1), (4096, 2)], "two": [(0, 1)]}, "q": {"one": [(0, 3)]}})
        self.assertIn("a < b", texts(root))
        self.assertEqual((texts(root).count("one"), texts(root).count("two")), (1, 1))

    def test_a_line_of_one_point_has_no_stroke(self):
        root = drawn({"p": {"one": [(0, 1), (4096, 2)], "two": [(4096, 1)]}})
        self.assertEqual(len(list(root.iter(SVG + "polyline"))), 1)

    def test_depths_without_room_have_no_number(self):
        root = drawn({f"panel {i}": {"a": [(0, 1), (1, 1), (16384, 1)]} for i in range(4)})
        self.assertEqual(texts(root).count("1"), 1, "that of the y axis")
        self.assertEqual(texts(root).count("16K"), 4)

    def test_more_lines_than_colours_are_refused(self):
        lines = {str(i): [(0, 1), (1, 1)] for i in range(len(plot.COLOURS) + 1)}
        with self.assertRaisesRegex(ValueError, "6 lines"):
            plot.draw(PICTURE, {"p": lines})


if __name__ == "__main__":
    unittest.main()
