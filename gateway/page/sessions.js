// The part "Sessions": the memory of each model, and the server's sessions.

import {endSession} from "./api.js";
import {byId, confirmed, element} from "./elements.js";
import {bytes, count, duration, shortId} from "./format.js";
import {showHistory} from "./history.js";

// The kinds of memory of sessions: the member of ModelMemory, its name, its colour.
export const KINDS = [["pages", "pages (KV)", 0], ["rings", "rings (windows)", 1],
                      ["states", "states", 2]];

const ROWS = 100;  // rows that are shown at first, and more with each click

const UNKNOWN = "18446744073709551615";  // 2^64 - 1: the backend does not tell its budget

export function showKinds(list) {
  list.replaceChildren(...KINDS.map(([, name, colour]) => element(
      "li", {}, element("span", {class: `dot c${colour}`}), name)));
}

export class Sessions {
  constructor(monitor) {
    this.monitor = monitor;
    this.rows = new Map();  // session id -> Row
    this.most = ROWS;       // rows that are shown
    showKinds(byId("kinds"));
    byId("more").addEventListener("click", () => {
      this.most += ROWS;
      if (this.most > monitor.sessions.length && !monitor.complete) ++monitor.pages;
      this.show();
      monitor.now();
    });
  }

  show() {
    byId("memory").replaceChildren(...this.monitor.models.map(memoryOf));
    const {sessions, complete} = this.monitor;
    // The server gives them in the order of their ids, which is no order of time.
    byId("session-count").textContent =
        `${count(sessions.length)}${complete ? "" : " of more, as the server lists them"}`;
    byId("session-table").hidden = !sessions.length;
    byId("sessions-empty").hidden = sessions.length > 0;
    byId("more").hidden = complete && sessions.length <= this.most;
    const shown = newestFirst(sessions).slice(0, this.most);
    const ids = new Set(shown.map(session => session.session_id));
    for (const [id, row] of this.rows) {
      if (ids.has(id)) continue;
      row.root.remove();
      this.rows.delete(id);
    }
    // Only new rows are put in, so that a focused button keeps the focus.
    let next = byId("session-rows").firstElementChild;
    for (const session of shown) {
      const {root} = this.showRow(session);
      if (root === next) next = next.nextElementSibling;
      else byId("session-rows").insertBefore(root, next);
    }
  }

  showRow(session) {
    const id = session.session_id;
    if (!this.rows.has(id)) this.rows.set(id, new Row(id, () => this.end(id)));
    this.rows.get(id).show(session);
    return this.rows.get(id);
  }

  async end(id) {
    const question = `End session ${shortId(id)}? Its memory becomes free. If its conversation goes on, the model `
        + "reads it again.";
    if (!await confirmed(question, "End session")) return;
    const problem = byId("session-error");
    problem.hidden = true;
    try {
      await endSession(id);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    await this.monitor.again();
  }
}

function newestFirst(sessions) {
  return [...sessions].sort((a, b) => Date.parse(b.create_time) - Date.parse(a.create_time));
}

function cell(label, style = null) {
  return element("td", {role: "cell", "data-label": label, class: style});
}

// A row of the table. Its cells change; the row and its buttons stay.
class Row {
  constructor(id, end) {
    this.name = element("th", {scope: "row", role: "rowheader", title: id},
                        element("code", {text: shortId(id)}));
    this.from = element("small");
    this.name.append(" ", this.from);
    this.model = cell("Model");
    this.context = cell("Context", "context");
    this.part = element("div", {class: "part c5"});
    this.meter = element("div", {class: "stack", role: "meter", "aria-valuemin": 0,
                                 "aria-label": "Tokens of the context"}, this.part);
    this.position = element("span");
    this.context.append(this.meter, this.position);
    this.kinds = {kv: cell("Pages (KV)", "n"), window: cell("Windows", "n"),
                  state: cell("States", "n"), host: cell("Host", "n")};
    this.age = cell("Age", "n");
    this.idle = cell("Idle", "n");
    const button = (text, onclick) => element("button", {
      type: "button", class: "small", text, "aria-label": `${text} session ${shortId(id)}`, onclick});
    const last = cell("", "act");
    last.append(button("Read", () => showHistory(id)), " ", button("End", end));
    this.root = element("tr", {role: "row"}, this.name, this.model, this.context,
                        ...Object.values(this.kinds), this.age, this.idle, last);
    this.root.dataset.session = id;
  }

  show(session) {
    const {position, context_limit: limit, turn_running: running} = session;
    this.from.textContent = session.forked_from ? `fork of ${shortId(session.forked_from)}` : "";
    this.model.textContent = session.alias ? `${session.model} (by ${session.alias})` : session.model;
    const again = Number(session.recompute_tokens || 0);
    this.position.textContent = `${count(position)} of ${count(limit)}${
        again ? `, ${count(again)} to be read again` : ""}`;
    this.meter.setAttribute("aria-valuemax", limit);
    this.meter.setAttribute("aria-valuenow", position);
    this.meter.setAttribute("aria-valuetext", this.position.textContent);
    this.part.style.setProperty("--share", position / limit);
    for (const [kind, shown] of Object.entries(this.kinds)) {
      shown.textContent = session.owner ? "?" : session.bytes[kind] ? bytes(session.bytes[kind]) : "–";
    }
    const since = time => duration((Date.now() - Date.parse(time)) / 1000);
    this.age.textContent = since(session.create_time);
    this.idle.textContent = running ? "running" : since(session.last_use_time);
    this.root.classList.toggle("running", running);
  }
}

// A model's memory: a bar of what sessions hold of the budget, and the numbers.
function memoryOf({name, backend, device, state, error, memory = {}}) {
  const held = KINDS.map(([kind]) => Number(memory[kind] || 0));
  const total = held.reduce((sum, value) => sum + value, 0);
  const known = memory.budget && memory.budget !== UNKNOWN;
  const budget = known ? Number(memory.budget) : Math.max(total, 1);
  const parts = KINDS.map(([, , colour], index) => {
    const part = element("span", {class: `part c${colour}`, hidden: !held[index]});
    part.style.setProperty("--share", held[index] / budget);
    return part;
  });
  const texts = KINDS.map(([kind], index) => held[index] && `${kind} ${bytes(held[index])}`)
      .filter(Boolean);
  const of = known ? ` of a budget of ${bytes(budget)}` : ", without a known budget";
  const place = [backend, device].filter(Boolean).join(", ");
  return element("div", {class: "model"},
      element("h3", {}, name, " ", element("small", {text: place})),
      state === "MODEL_STATE_READY" ? null : element("p", {class: "error", text: error || state}),
      element("div", {class: "stack", "aria-hidden": "true"}, ...parts),
      element("p", {text: `Sessions hold ${bytes(total)}${of}${total ? ": " : ""}${texts.join(", ")}.`}),
      element("p", {class: "note", text: `Weights take ${bytes(Number(memory.weights || 0))}.`}));
}
