// Draws a chart as SVG: axes with round numbers, and what the caller draws between them.

import {element, svgElement} from "./elements.js";

const MARGIN = {left: 72, right: 20, top: 10, bottom: 44};

// Round numbers from 0 to at least `largest`, about `steps` of them. With `binary`, steps are
// powers of two times 1, 2, 5 ... of KiB, MiB, so that labels of bytes are round.
export function ticksTo(largest, steps, binary) {
  let unit = 1;
  if (binary) while (largest / unit >= 1024) unit *= 1024;
  const raw = Math.max(largest, binary ? 1 : 1e-9) / unit / steps;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(factor => factor * power >= raw * 0.999) * power * unit;
  const ticks = [0];
  while (ticks.at(-1) < largest * 0.999) ticks.push(ticks.length * step);
  return ticks;
}

export class Chart {
  // `figure` gets a caption and the drawing. `x` and `y`: {label, format}. `height` in pixels.
  constructor(figure, {title, x, y, height = 230}) {
    this.figure = figure;
    this.title = title;
    this.x = x;
    this.y = y;
    this.height = height;
    this.note = element("small");
    this.svg = svgElement("svg", {role: "img", height});
    this.legend = element("ul", {class: "legend"});
    figure.replaceChildren(element("figcaption", {}, title, " ", this.note), this.svg, this.legend);
  }

  // Shows what the marks mean: `entries` are [mark, text].
  explain(entries) {
    this.legend.replaceChildren(...entries.map(entry => element("li", {}, ...entry)));
  }

  // `xTicks` and `yTicks` begin and end the axes. `draw` is called with the functions that place a
  // value on each axis, and returns elements. `summary` says in words what the chart shows.
  draw(xTicks, yTicks, summary, draw) {
    const width = Math.max(this.figure.clientWidth, 240);
    const {left, right, top, bottom} = MARGIN;
    const place = (ticks, from, to) => value =>
        from + (value - ticks[0]) / (ticks.at(-1) - ticks[0]) * (to - from);
    const sx = place(xTicks, left, width - right);
    const sy = place(yTicks, this.height - bottom, top);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("aria-label", `${this.title}. ${summary}`);
    this.note.textContent = summary;
    this.svg.replaceChildren(...this.axes(xTicks, yTicks, sx, sy, width), ...draw(sx, sy));
  }

  axes(xTicks, yTicks, sx, sy, width) {
    const {left, right, bottom} = MARGIN;
    const base = this.height - bottom;
    const text = (x, y, anchor, value) =>
        svgElement("text", {x, y, "text-anchor": anchor, text: value});
    const rows = yTicks.flatMap(tick => [
      svgElement("line", {class: "grid", x1: left, x2: width - right, y1: sy(tick), y2: sy(tick)}),
      text(left - 8, sy(tick) + 4, "end", this.y.format(tick))]);
    const columns = xTicks.map(tick => text(sx(tick), base + 17, "middle", this.x.format(tick)));
    const middle = base / 2 + 5;
    return [...rows, ...columns,
            text((left + width - right) / 2, this.height - 6, "middle", this.x.label),
            svgElement("text", {x: 11, y: middle, "text-anchor": "middle", text: this.y.label,
                                transform: `rotate(-90 11 ${middle})`})];
  }
}

// A line through points [x, y], broken where `gap` says so.
export function line(points, sx, sy, attributes, gap = () => false) {
  const path = points.map(([x, y], index) => {
    const move = index === 0 || gap(points[index - 1], points[index]);
    return `${move ? "M" : "L"}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`;
  }).join("");
  return svgElement("path", {d: path, ...attributes});
}

// The area between two lines with the same x: `points` are [x, low, high].
export function area(points, sx, sy, attributes) {
  const corner = (x, y) => `${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`;
  const upper = points.map(([x, , high]) => corner(x, high));
  const lower = points.map(([x, low]) => corner(x, low)).reverse();
  return svgElement("path", {d: `M${[...upper, ...lower].join("L")}Z`, ...attributes});
}
