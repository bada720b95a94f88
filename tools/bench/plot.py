#!/usr/bin/env python3
"""Draws the pictures of README.md and docs/performance.md from the figures in figures.csv.

    tools/bench/plot.py            # writes the SVG files
    tools/bench/plot.py --check    # changes nothing; fails if a file does not match the figures

A picture has panels side by side. A panel has lines over the depth of the context. A row of
figures.csv is one point; its column `origin` says where the figure comes from. The style is the
same as in client/eval/svg_plot.cc.
"""

import argparse
import csv
import dataclasses
import html
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = pathlib.Path(__file__).with_name("figures.csv")

# Sizes in pixels.
WIDTH = 760
LEFT, RIGHT = 44, 748  # left edge of the first panel, right edge of the last
TOP, BOTTOM = 64, 284
LEGEND = 336
LETTER = 6.4  # approximate width of a letter
INSET = 14  # distance from a panel's edge to its first and last x

# The colours of Okabe and Ito, which people with any colour vision can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


@dataclasses.dataclass
class Picture:
    """The properties of a picture that are not in figures.csv."""
    file: str  # path relative to the repository
    title: str
    x_label: str
    gap: float  # pixels between two panels
    one_scale: bool  # whether all panels share a y scale, shown at the first panel
    mark: float = 0  # a dashed line at this y; 0: none


PICTURES = {
    "performance": Picture(
        file="docs/performance.svg",
        title="Decode: tokens/s of Longstream ÷ tokens/s of llama.cpp (above the dashed line: faster)",
        x_label="tokens of context", gap=20, one_scale=True, mark=1),
    "sessions": Picture(
        file="docs/session-cost.svg",
        title="The shape of Qwen3-0.6B, bf16, on two threads of a Zen 5 processor",
        x_label="tokens of context", gap=70, one_scale=False),
}


def read_figures(path):
    """Returns picture -> panel -> line -> [(x, y)], in the order of the file."""
    pictures = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            line = pictures.setdefault(row["picture"], {}).setdefault(row["panel"], {})
            line.setdefault(row["line"], []).append((float(row["x"]), float(row["y"])))
    return pictures


def ticks(most):
    """Returns the numbers of an axis from 0 to at least `most`: at most nine steps of 1, 2 or 5
    times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / 8))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 8 >= most)
    return [i * step for i in range(math.floor(most / step + 1e-9) + 2)]


def depth(x):
    """Returns the depth of a context as people write it: 0, 512, 4K."""
    return f"{x / 1024:g}K" if x >= 1024 else f"{x:g}"


def text(x, y, anchor, words):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{html.escape(words)}</text>\n")


def segment(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>\n'


def draw_line(points, colour):
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>\n'
                   for x, y in points)
    if len(points) == 1:
        return dots
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>\n' + dots


def draw_panel(name, lines, left, right, xs, y_ticks, labelled, mark, colours):
    """Draws the title, grid and lines, and the numbers of the y axis if `labelled`."""
    to_x = lambda x: left + INSET + (right - left - 2 * INSET) * x / xs[-1]
    to_y = lambda y: BOTTOM - (BOTTOM - TOP) * y / y_ticks[-1]
    svg = text((left + right) / 2, TOP - 10, "middle", name)
    for y in y_ticks:
        svg += segment(left, to_y(y), right, to_y(y), 'stroke="#ddd"')
        if labelled:
            svg += text(left - 6, to_y(y) + 4, "end", f"{y:g}")
    free = -math.inf  # where the last number ends; a number that would overlap it is left out
    for x in xs:
        svg += segment(to_x(x), TOP, to_x(x), BOTTOM, 'stroke="#ddd"')
        half = LETTER * len(depth(x)) / 2
        if to_x(x) - half > free:
            svg += text(to_x(x), BOTTOM + 17, "middle", depth(x))
            free = to_x(x) + half
    if mark:
        svg += segment(left, to_y(mark), right, to_y(mark), 'stroke="#555" stroke-dasharray="3 3"')
    for line, points in lines.items():
        svg += draw_line([(to_x(x), to_y(y)) for x, y in points], colours[line])
    return svg


def draw_legend(colours):
    """Draws the names of the lines in a row, centred."""
    widths = [26 + LETTER * len(name) + 24 for name in colours]
    x = (WIDTH - sum(widths) + 24) / 2
    svg = ""
    for (name, colour), width in zip(colours.items(), widths):
        svg += segment(x, LEGEND, x + 20, LEGEND, f'stroke="{colour}" stroke-width="2"')
        svg += f'<circle cx="{x + 10:.1f}" cy="{LEGEND}" r="3" fill="{colour}"/>\n'
        svg += text(x + 26, LEGEND + 4, "start", name)
        x += width
    return svg


def draw(picture, panels):
    """Returns the whole SVG file."""
    names = dict.fromkeys(line for lines in panels.values() for line in lines)
    colours = dict(zip(names, COLOURS))
    if len(names) > len(COLOURS):
        raise ValueError(f"{picture.file}: {len(names)} lines, there are {len(COLOURS)} colours")
    most = {panel: max(y for points in lines.values() for _, y in points)
            for panel, lines in panels.items()}
    xs = sorted({x for lines in panels.values() for points in lines.values() for x, _ in points})
    width = (RIGHT - LEFT - picture.gap * (len(panels) - 1)) / len(panels)
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{LEGEND + 20}" '
           f'viewBox="0 0 {WIDTH} {LEGEND + 20}" font-family="sans-serif" font-size="12">\n'
           '<rect width="100%" height="100%" fill="#fff"/>\n')
    svg += text(WIDTH / 2, 24, "middle", picture.title)
    for i, (panel, lines) in enumerate(panels.items()):
        left = LEFT + i * (width + picture.gap)
        scale = max(most.values()) if picture.one_scale else most[panel]
        svg += draw_panel(panel, lines, left, left + width, xs, ticks(scale),
                          not picture.one_scale or i == 0, picture.mark, colours)
    svg += text((LEFT + RIGHT) / 2, BOTTOM + 34, "middle", picture.x_label)
    return svg + draw_legend(colours) + "</svg>\n"


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the files, write nothing")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the folder with docs/")
    arguments = parser.parse_args(argv)
    stale = 0
    for name, panels in read_figures(FIGURES).items():
        picture = PICTURES[name]
        path = arguments.root / picture.file
        svg = draw(picture, panels)
        if not arguments.check:
            path.write_text(svg, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != svg:
            print(f"{picture.file} is not what figures.csv gives: run tools/bench/plot.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
