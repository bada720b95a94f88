// An answer on the page: its text as it comes, the thoughts, what it cost, and its buttons.

import {copyText, element, followEnd} from "./elements.js";
import {bytes, count, milliseconds, rate, shortId} from "./format.js";

const FINISH = {length: "cut at the limit of tokens", content_filter: "cut by a filter"};

// How the session was found and what the answer cost, such as "continued; 1,204 of 1,220 prompt
// tokens cached; 212 tokens; first token 38 ms; 95 tokens/s".
export function summaryOf(answer) {
  const parts = [];
  if (answer.state === "stopped") parts.push("stopped");
  if (answer.receipt) parts.push(answer.receipt.session);
  if (answer.usage) {
    const {prompt_tokens: prompt, completion_tokens: completion} = answer.usage;
    parts.push(`${count(answer.cachedTokens)} of ${count(prompt)} prompt tokens cached`);
    parts.push(`${count(completion)} ${completion === 1 ? "token" : "tokens"}`);
  }
  if (answer.firstToken !== null) parts.push(`first token ${milliseconds(answer.firstToken)}`);
  if (answer.speed !== null) parts.push(rate(answer.speed));
  if (FINISH[answer.finish]) parts.push(FINISH[answer.finish]);
  return parts.join("; ");
}

export class AnswerView {
  // `again`: called when the user wants another answer to the same question.
  constructor(answer, colour, again) {
    this.answer = answer;
    this.added = {text: "", thoughts: ""};  // what the page does not show yet
    this.frame = 0;                         // the next drawing of the page, if it is awaited
    this.text = element("div", {class: "text", dir: "auto"}, new Text());
    this.thoughts = element("div", {class: "text", dir: "auto"}, new Text());
    this.thoughtsName = element("summary", {text: "Thoughts"});
    this.thoughtsBox = element("details", {class: "thoughts", hidden: true},
                               this.thoughtsName, this.thoughts);
    this.bar = element("progress", {max: 1, value: 0, "aria-label": "Prompt tokens read"});
    this.reading = element("span");
    this.status = element("p", {class: "reading"}, this.bar, this.reading);
    this.error = element("p", {class: "error", role: "alert", hidden: true});
    this.summary = element("p", {class: "summary"});
    this.holds = element("span", {class: "holds"});
    this.copy = element("button", {type: "button", class: "small", text: "Copy",
                                   onclick: () => this.copyAnswer()});
    this.again = element("button", {type: "button", class: "small again", text: "Answer again",
                                    onclick: again});
    this.buttons = element("div", {class: "buttons", hidden: true}, this.copy, this.again);
    const name = element("h3", {class: `name c${colour}`},
                         element("span", {class: "dot"}), answer.model);
    this.root = element("article", {class: "answer", "aria-label": `Answer of ${answer.model}`},
                        name, this.thoughtsBox,
                        // Screen readers read the answer once, when it is no longer busy.
                        this.live = element("div", {"aria-live": "polite", "aria-busy": "true"},
                                            this.text),
                        this.status, this.error, this.summary, this.buttons);
    this.show();
  }

  // Shows what an event has added when the page is drawn next: fast models send thousands of events
  // a second.
  add({text, thoughts}) {
    this.added.text += text;
    this.added.thoughts += thoughts;
    this.frame ||= requestAnimationFrame(() => followEnd(() => this.flush()));
  }

  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const part of ["text", "thoughts"]) {
      if (this.added[part]) this[part].firstChild.appendData(this.added[part]);
      this.added[part] = "";
    }
    this.show();
  }

  show() {
    const {answer} = this;
    this.thoughtsBox.hidden = !answer.thoughts;
    this.thoughtsName.textContent =
        answer.thoughts && !answer.text && !answer.ended ? "Thinking …" : "Thoughts";
    this.status.hidden = answer.ended || answer.pieces.length > 0;
    if (!this.status.hidden) this.showProgress();
    this.live.classList.toggle("running", !answer.ended && answer.pieces.length > 0);
    if (!answer.ended) return;
    this.live.setAttribute("aria-busy", "false");
    this.summary.replaceChildren(summaryOf(answer), this.holds);
    this.error.hidden = !answer.error;
    if (answer.error) this.error.textContent = answer.error.message;
    this.buttons.hidden = false;
    this.copy.hidden = !answer.text;
  }

  showProgress() {
    const {progress} = this.answer;
    if (progress) {
      this.bar.max = progress.total;
      this.bar.value = progress.done;
      this.reading.textContent =
          `reading the prompt: ${count(progress.done)} of ${count(progress.total)} tokens`;
    } else {
      this.bar.removeAttribute("value");
      this.reading.textContent = "waiting for the server";
    }
  }

  // Shows what the answer's session holds, if the server lists it.
  showSession(sessions) {
    const session = sessions.get(this.answer.receipt?.session_id);
    if (!session) return;
    this.holds.textContent = `. Session ${shortId(session.session_id)} holds ${
        bytes(session.held)} at ${count(session.position)} tokens.`;
  }

  async copyAnswer() {
    this.copy.textContent = await copyText(this.answer.text) ? "Copied" : "Not copied";
    setTimeout(() => { this.copy.textContent = "Copy"; }, 1500);
  }
}
