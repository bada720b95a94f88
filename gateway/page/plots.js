// The part "Plots": memory by model, sessions and turns, and the speed of this page's answers.

import {area, Chart, line, ticksTo} from "./chart.js";
import {byId, element, svgElement} from "./elements.js";
import {bytes, count, milliseconds, rate} from "./format.js";
import {HISTORY} from "./monitor.js";
import {KINDS, showKinds} from "./sessions.js";

const PIECE = 1000;  // milliseconds of an answer that one point of its speed stands for

const AGO = {label: "minutes ago", format: minutes => minutes === 0 ? "now" : count(-minutes)};

export class Plots {
  constructor(monitor, colourOf) {
    this.monitor = monitor;
    this.colourOf = colourOf;
    this.memory = new Map();  // model -> Chart
    showKinds(byId("plot-kinds"));
    this.load = new Chart(byId("plot-load"), {
      title: "Sessions and running turns", x: AGO, y: {label: "number", format: count}});
    this.speed = new Chart(byId("plot-speed"), {
      title: "Speed of the answers", x: AGO, y: {label: "tokens per second", format: count}});
    this.first = new Chart(byId("plot-first"), {
      title: "Time to the first token", x: {label: "tokens of the prompt", format: count},
      y: {label: "milliseconds", format: count}});
  }

  show() {
    this.now = Date.now();
    this.ticks = this.timeTicks();
    this.showMemory();
    this.showLoad();
    this.showSpeed();
    this.showFirst();
    this.explain();
  }

  // The axis of time shows what there is, from two minutes up to ten.
  timeTicks() {
    const oldest = this.monitor.samples[0]?.time ?? this.now;
    const minutes = Math.min(HISTORY, this.now - oldest) / 60000;
    const shown = [2, 5, 10].find(most => minutes <= most) ?? 10;
    return shown === 2 ? [-2, -1, 0] : shown === 5 ? [-5, -4, -3, -2, -1, 0] : [-10, -8, -6, -4, -2, 0];
  }

  minutes(time) { return Math.max((time - this.now) / 60000, this.ticks[0]); }

  // Runs of samples without a gap. In a gap the tab was hidden.
  runs() {
    const runs = [];
    for (const sample of this.monitor.samples) {
      const last = runs.at(-1)?.at(-1);
      if (!last || sample.time - last.time > 4 * last.period) runs.push([]);
      runs.at(-1).push(sample);
    }
    return runs;
  }

  showMemory() {
    const {samples, models} = this.monitor;
    const sum = held => held ? held.pages + held.rings + held.states : 0;
    const most = Math.max(1024, ...samples.flatMap(({memory}) => [...memory.values()].map(sum)));
    const yTicks = ticksTo(most, 4, true);
    for (const {name} of models) {
      if (!this.memory.has(name)) {
        const figure = element("figure");
        byId("plot-memory").append(figure);
        this.memory.set(name, new Chart(figure, {
          title: name, x: AGO, y: {label: "bytes", format: bytes}, height: 200}));
      }
      const last = samples.at(-1)?.memory.get(name);
      const summary = last ? KINDS.map(([kind]) => `${kind} ${bytes(last[kind])}`).join(", ") : "";
      this.memory.get(name).draw(this.ticks, yTicks, summary,
                                 (sx, sy) => this.runs().flatMap(run => this.stack(run, name, sx, sy)));
    }
    for (const [name, chart] of this.memory) {
      if (models.some(model => model.name === name)) continue;
      chart.figure.remove();
      this.memory.delete(name);
    }
  }

  // The kinds of memory of a model, one above the other.
  stack(run, name, sx, sy) {
    const base = run.map(() => 0);
    return KINDS.flatMap(([kind, , colour]) => {
      const points = run.map(({time, memory}, index) => {
        const low = base[index];
        base[index] += memory.get(name)?.[kind] ?? 0;
        return [this.minutes(time), low, base[index]];
      });
      if (points.every(([, low, high]) => low === high)) return [];
      return [area(points, sx, sy, {class: `area c${colour}`}),
              line(points.map(([x, , high]) => [x, high]), sx, sy, {class: `line c${colour}`})];
    });
  }

  showLoad() {
    const {samples, complete} = this.monitor;
    const most = Math.max(2, ...samples.map(({sessions}) => sessions));
    const last = samples.at(-1);
    const summary = !last ? "" : `${count(last.sessions)}${complete ? "" : " or more"} sessions, `
        + `${count(last.running)} running`;
    this.load.draw(this.ticks, ticksTo(most, Math.min(4, most), false), summary, (sx, sy) => {
      const drawn = (member, style) => this.runs().map(run => line(
          run.map(sample => [this.minutes(sample.time), sample[member]]), sx, sy, {class: style}));
      return [...drawn("sessions", "line c3"), ...drawn("running", "line c4 dashed")];
    });
  }

  // Each answer is a line of points, one for each second of it.
  showSpeed() {
    const answers = this.monitor.answers.map(({time, answer}) => ({
      answer, points: speedsOf(answer).map(({ago, speed}) => [this.minutes(time - ago), speed])}))
        .filter(({points}) => points.length);
    const most = Math.max(10, ...answers.flatMap(({points}) => points.map(([, speed]) => speed)));
    const last = answers.at(-1)?.answer;
    const summary = last ? `last answer, ${last.model}: ${rate(last.speed)}` : "no answers yet";
    this.speed.draw(this.ticks, ticksTo(most, 4, false), summary, (sx, sy) => answers.flatMap(
        ({answer, points}) => {
          const colour = this.colourOf(answer.model);
          const title = `${answer.model}: ${rate(answer.speed)}`;
          return [line(points, sx, sy, {class: `line c${colour}`}),
                  ...points.map(([x, y]) => dot(sx(x), sy(y), `c${colour}`, title))];
        }));
  }

  // Rings are answers whose prompt was cached by half or more; full points are the others.
  showFirst() {
    const answers = this.monitor.answers.map(({answer}) => answer)
        .filter(answer => answer.usage && answer.firstToken !== null);
    const prompt = answer => answer.usage.prompt_tokens;
    const xTicks = ticksTo(Math.max(10, ...answers.map(prompt)), 4, false);
    const yTicks = ticksTo(Math.max(10, ...answers.map(answer => answer.firstToken)), 4, false);
    const last = answers.at(-1);
    const summary = last ? `last answer, ${last.model}: ${milliseconds(last.firstToken)}`
        : "no answers yet";
    this.first.draw(xTicks, yTicks, summary, (sx, sy) => answers.map(answer => {
      const cached = answer.cachedTokens >= prompt(answer) / 2;
      const title = `${answer.model}: ${milliseconds(answer.firstToken)}, ${
          count(answer.cachedTokens)} of ${count(prompt(answer))} tokens cached`;
      return dot(sx(prompt(answer)), sy(answer.firstToken),
                 `c${this.colourOf(answer.model)}${cached ? " cached" : ""}`, title);
    }));
  }

  explain() {
    this.load.explain([[stroke("c3"), "sessions"], [stroke("c4 dashed"), "running turns"]]);
    const names = [...new Set(this.monitor.answers.map(({answer}) => answer.model))];
    const models = () => names.map(
        name => [element("span", {class: `dot c${this.colourOf(name)}`}), name]);
    this.speed.explain(models());
    this.first.explain([...models(), [sample(dot(6, 6, "plain")), "computed"],
                        [sample(dot(6, 6, "plain cached")), "half or more cached"]]);
  }
}

// Marks of a legend.
function sample(shape, width = 12) {
  return svgElement("svg", {width, height: 12, "aria-hidden": "true"}, shape);
}

function stroke(style) {
  return sample(svgElement("path", {d: "M1 6H25", class: `line ${style}`}), 26);
}

function dot(x, y, style, title) {
  return svgElement("circle", {class: `point ${style}`, cx: x.toFixed(1), cy: y.toFixed(1), r: 4},
                    title ? svgElement("title", {text: title}) : null);
}

// The speed in each second of an answer, as {ago, speed}: `ago` is in milliseconds before its end.
function speedsOf(answer) {
  if (answer.speed === null) return [];
  const {pieces} = answer;
  const time = pieces.at(-1).time - pieces[0].time;
  const parts = Math.max(1, Math.floor(time / PIECE));
  const span = time / parts;
  const within = Array.from({length: parts}, () => []);
  for (const piece of pieces.slice(1)) {
    within[Math.min(parts - 1, Math.floor((piece.time - pieces[0].time) / span))].push(piece);
  }
  return within.map((part, index) => ({ago: time - (index + 0.5) * span,
                                       speed: answer.tokensOf(part) / (span / 1000)}));
}
