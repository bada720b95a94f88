"""The plot of a run, as SVG: panels one below the other, over the same time."""

import html
import math

_WIDTH, _LEFT, _RIGHT, _TOP = 900, 56, 16, 56
_HEIGHT, _GAP = 120, 46  # of a panel
_INK, _GREY, _GRID = "#1f2933", "#5f6b7a", "#e3e7ec"
COLOURS = ("#1b6ca8", "#d1603d")


class Plot:
    """Panels are added from top to bottom; `text` gives the whole."""

    def __init__(self, title, seconds, marks):
        """Make the object. `marks`: [(seconds, text)], vertical lines in all panels."""
        self._title = title
        self._seconds = seconds
        self._marks = marks
        self._parts = []
        self._top = _TOP

    def add(self, title, lines, target=None):
        """Add a panel. `lines`: [(name, [(seconds, value)], is_steps)]; `target`: a line across."""
        top, bottom = self._top, self._top + _HEIGHT
        most = max([value for _, points, _ in lines for _, value in points] + [target or 0, 1e-9])
        step = _step(most)
        most = step * math.ceil(most / step)

        def y(value):
            return bottom - value / most * _HEIGHT

        self._text(_LEFT, top - 8, title, _INK, weight="600")
        for number in range(round(most / step) + 1):
            self._line([(0, number * step), (self._seconds, number * step)], y, _GRID, 1)
            self._text(_LEFT - 6, y(number * step) + 4, f"{number * step:g}", _GREY, anchor="end")
        for seconds, _ in self._marks:
            self._parts.append(f'<path d="M{self._x(seconds):.1f} {top}V{bottom}" stroke="{_GREY}" '
                               'stroke-dasharray="2 3" fill="none"/>')
        if target is not None:
            self._line([(0, target), (self._seconds, target)], y, _GREY, 1, "6 4")
        end = _WIDTH - _RIGHT
        for (name, points, is_steps), colour in reversed(list(zip(lines, COLOURS))):
            self._line(_stairs(points) if is_steps else points, y, colour, 2)
            self._text(end, top - 8, f"— {name}", colour, anchor="end")
            end -= 7.2 * (len(name) + 4)
        self._top = bottom + _GAP

    def text(self):
        """Return the SVG."""
        bottom = self._top - _GAP
        for minute in range(int(self._seconds // 60) + 1):
            self._text(self._x(60 * minute), bottom + 16, f"{minute} min", _GREY, anchor="middle")
        marks = [self._made_text(self._x(seconds) + 3, bottom + 32, text, _GREY)
                 for seconds, text in self._marks]
        height = bottom + 42
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
                'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
                f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
                f'<text x="{_LEFT}" y="18" fill="{_INK}" font-size="14" font-weight="600">'
                f"{html.escape(self._title)}</text>\n" + "\n".join(self._parts + marks)
                + "\n</svg>\n")

    def _x(self, seconds):
        return _LEFT + seconds / self._seconds * (_WIDTH - _LEFT - _RIGHT)

    def _line(self, points, y, colour, width, dashes=""):
        if not points:
            return
        path = "L".join(f"{self._x(seconds):.1f} {y(value):.1f}" for seconds, value in points)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._parts.append(f'<path d="M{path}" stroke="{colour}" stroke-width="{width}" fill="none" '
                           f'stroke-linejoin="round"{dash}/>')

    def _text(self, x, y, text, colour, **style):
        self._parts.append(self._made_text(x, y, text, colour, **style))

    @staticmethod
    def _made_text(x, y, text, colour, anchor="start", weight="400"):
        return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
                f'font-weight="{weight}">{html.escape(text)}</text>')


def _stairs(points):
    """Return points that keep each value until the next one."""
    made = []
    for seconds, value in points:
        if made and made[-1][1] != value:
            made.append((seconds, made[-1][1]))
        made.append((seconds, value))
    return made


def _step(most):
    """Return a round distance of lines, of which there are two to five."""
    power = 10 ** math.floor(math.log10(most))
    return next(step for step in (power / 5, power / 2, power, 2 * power, 5 * power)
                if most / step <= 5)
