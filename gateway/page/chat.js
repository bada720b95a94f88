// The part "Chat": a conversation with one model, or with two side by side.

import {ServerError, streamed} from "./api.js";
import {AnswerView} from "./answer_view.js";
import {Answer, requestFor, Turn} from "./conversation.js";
import {byId, confirmed, copyText, element, followEnd} from "./elements.js";

const FIELDS = ["system", "temperature", "top_p", "max_tokens", "seed"];

export class Chat {
  // `choice`: a ModelChoice. `colourOf`: the number of a model's colour. `ended`: called with each
  // Answer that has ended.
  constructor(choice, colourOf, ended) {
    this.choice = choice;
    this.colourOf = colourOf;
    this.ended = ended;
    this.turns = [];
    this.views = new Map();    // Turn -> its element
    this.answers = new Map();  // Answer -> AnswerView
    this.running = new Map();  // Answer -> AbortController
    this.question = byId("question");
    this.listen();
    this.showState();
  }

  listen() {
    byId("composer").addEventListener("submit", event => {
      event.preventDefault();
      this.send();
    });
    sendOnEnter(this.question, () => this.send());
    this.question.addEventListener("input", () => grow(this.question));
    byId("stop").addEventListener("click", () => this.stop());
    byId("clear").addEventListener("click", () => this.clear());
    for (const select of [this.choice.first, this.choice.second]) {
      select.addEventListener("change", () => this.showState());
    }
    for (const name of FIELDS) {
      byId(name).addEventListener("input", () => byId(name).removeAttribute("aria-invalid"));
    }
    document.addEventListener("keydown", event => {
      if (event.key === "Escape" && !byId("confirm").open) this.stop();
    });
  }

  get settings() {
    return Object.fromEntries(FIELDS.map(name => [name, byId(name).value]));
  }

  // Sends what is typed. It stays in the field if it cannot be sent now.
  send() {
    const text = this.question.value;
    const names = this.choice.names;
    const goesOn = this.turns.length > 0 && names.some(name => !this.choice.chats(name));
    if (this.running.size || !names.length || !text.trim() && !goesOn) return;
    // A question that failed is asked anew. The failed one goes.
    if (this.turns.at(-1)?.failed) this.cut(this.turns.length - 1);
    this.question.value = "";
    grow(this.question);
    this.ask(new Turn(text));
  }

  ask(turn) {
    this.turns.push(turn);
    const view = element("div", {class: "turn"});
    this.views.set(turn, view);
    byId("turns").append(view);
    for (const lane of this.choice.names.keys()) this.answer(turn, lane);
    this.show(turn);
    view.scrollIntoView({block: "end"});
  }

  // Begins the answer of a lane to the last question.
  answer(turn, lane) {
    const name = this.choice.names[lane] ?? turn.answers[lane].model;
    const answer = new Answer(name, this.choice.chats(name));
    this.answers.delete(turn.answers[lane]);
    turn.answers[lane] = answer;
    this.answers.set(answer, new AnswerView(answer, this.colourOf(name), () => {
      if (this.running.size) return;
      this.answer(turn, lane);
      this.show(turn);
    }));
    const request = requestFor(this.turns, lane, name, answer.chat, this.settings);
    this.read(turn, answer, request);
  }

  async read(turn, answer, {path, body}) {
    const view = this.answers.get(answer);
    const controller = new AbortController();
    this.running.set(answer, controller);
    this.showState();
    try {
      for await (const event of streamed(path, body, controller.signal)) {
        view.add(answer.take(event));
      }
      answer.state = "done";
    } catch (error) {
      answer.state = error.name === "AbortError" ? "stopped" : "failed";
      if (answer.state === "failed") this.fail(answer, error);
    }
    this.running.delete(answer);
    followEnd(() => {
      view.flush();
      this.showState();
      if (turn.failed) this.giveBack(turn);
    });
    byId("said").textContent = `The answer of ${answer.model} is ${answer.state}.`;
    this.ended(answer);
  }

  fail(answer, error) {
    if (!(error instanceof ServerError)) console.error(error);
    answer.error = error;
    if (FIELDS.includes(error.param)) {
      byId("settings").open = true;
      byId(error.param).setAttribute("aria-invalid", "true");
    }
  }

  // Nothing typed is lost: a question without any answer comes back to the field.
  giveBack(turn) {
    if (this.question.value || turn !== this.turns.at(-1)) return;
    this.question.value = turn.question;
    grow(this.question);
  }

  stop() {
    for (const controller of this.running.values()) controller.abort();
  }

  async clear() {
    if (!this.turns.length) return;
    if (!await confirmed("Clear the conversation? This page keeps no copy.", "Clear")) return;
    this.stop();
    this.cut(0);
    this.showState();
    this.question.focus();
  }

  // Removes the turns from `first` on.
  cut(first) {
    for (const turn of this.turns.splice(first)) {
      this.views.get(turn).remove();
      this.views.delete(turn);
      for (const answer of turn.answers) this.answers.delete(answer);
    }
  }

  show(turn) {
    const {question} = turn;
    const buttons = element("div", {class: "buttons"},
        element("button", {type: "button", class: "small edit", text: "Edit",
                           onclick: () => this.edit(turn)}),
        element("button", {type: "button", class: "small", text: "Copy",
                           onclick: () => copyText(question)}));
    const asked = element("article", {class: "question", "aria-label": "Your message"},
                          element("div", {class: "text", dir: "auto", text: question}), buttons);
    const answers = turn.answers.map(answer => this.answers.get(answer).root);
    this.views.get(turn).replaceChildren(
        asked, element("div", {class: answers.length > 1 ? "answers two" : "answers"}, ...answers));
    this.showState();
  }

  // Lets the user change a question. The conversation is cut there when it is sent.
  edit(turn) {
    if (this.running.size) return;
    const area = element("textarea", {class: "editing", "aria-label": "Your message, changed"});
    area.value = turn.question;
    const send = () => {
      if (!area.value.trim() || this.running.size || !this.choice.names.length) return;
      this.cut(this.turns.indexOf(turn));
      this.ask(new Turn(area.value));
      this.question.focus();
    };
    const cancel = () => {
      this.show(turn);
      this.views.get(turn).querySelector(".edit").focus();
    };
    sendOnEnter(area, send);
    area.addEventListener("input", () => grow(area));
    area.addEventListener("keydown", event => { if (event.key === "Escape") cancel(); });
    this.views.get(turn).querySelector(".question").replaceChildren(
        area, element("div", {class: "buttons"},
            element("button", {type: "button", class: "small send", text: "Send", onclick: send}),
            element("button", {type: "button", class: "small", text: "Cancel", onclick: cancel}),
            element("span", {class: "note", text: "Later messages will be removed."})));
    grow(area);
    area.focus();
  }

  // Shows what can be done now, and what the models' defaults are.
  showState() {
    const {names} = this.choice;
    const running = this.running.size > 0;
    const stopping = document.activeElement === byId("stop");
    byId("send").hidden = running;
    byId("stop").hidden = !running;
    if (stopping && !running) this.question.focus();
    byId("send").disabled = !names.length;
    byId("empty").hidden = this.turns.length > 0;
    byId("clear").disabled = !this.turns.length;
    byId("turns").classList.toggle("busy", running);
    byId("chat-part").classList.toggle("wide", this.turns.some(turn => turn.answers.length > 1));
    for (const [turn, view] of this.views) view.classList.toggle("last", turn === this.turns.at(-1));
    const texts = names.filter(name => !this.choice.chats(name));
    byId("mode").hidden = !texts.length;
    byId("mode").textContent = texts.map(name => this.choice.whyNoChat(name)).join(" ");
    const onlyTexts = texts.length > 0 && texts.length === names.length;
    this.question.placeholder = onlyTexts ? "Text to continue" : "Message";
    byId("system").disabled = onlyTexts;
    this.showDefaults(names[0], onlyTexts);
  }

  showDefaults(name, onlyTexts) {
    const defaults = this.choice.model(name)?.sampling_defaults || {};
    for (const field of ["temperature", "top_p"]) {
      const value = defaults[field];
      // The wire has floats: 0.6 comes as 0.6000000238.
      byId(field).placeholder = value === undefined ? "default" : String(Number(value.toPrecision(6)));
    }
    byId("max_tokens").placeholder = onlyTexts ? "16" : "default";
  }

  // Shows what the sessions of the answers hold. `sessions`: id -> session.
  showSessions(sessions) {
    for (const view of this.answers.values()) view.showSession(sessions);
  }
}

function sendOnEnter(area, send) {
  area.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
}

// Makes a field as high as its text, up to the limit in the style sheet.
function grow(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + 2}px`;
}
