// A conversation: questions, and to each the answers of one model or two. Nothing here touches the
// page.

const SHORTEST = 20;  // milliseconds: the speed of a shorter answer would be noise

// An answer as it comes. `state`: "waiting", "running", "done", "stopped" or "failed".
export class Answer {
  constructor(model, chat) {
    this.model = model;
    this.chat = chat;  // false: a text that a model without a chat template continues
    this.text = "";
    this.thoughts = "";
    this.state = "waiting";
    this.progress = null;    // {done, total}: tokens of the prompt
    this.finish = null;      // finish_reason
    this.usage = null;
    this.receipt = null;     // {session_id, turn_id, session}
    this.error = null;
    this.began = performance.now();
    this.pieces = [];        // {time, length}: when each piece of text came
  }

  get ended() { return this.state !== "waiting" && this.state !== "running"; }

  // Milliseconds from the request to the first text; null: there was none.
  get firstToken() { return this.pieces.length ? this.pieces[0].time - this.began : null; }

  get cachedTokens() { return this.usage?.prompt_tokens_details?.cached_tokens ?? 0; }

  // Tokens per second behind the first piece; null: the answer is too short to tell. Events bring
  // texts and not counts, so the tokens are shared out by the length of the texts.
  get speed() {
    const {pieces} = this;
    if (!this.usage || pieces.length < 2) return null;
    const time = pieces.at(-1).time - pieces[0].time;
    return time < SHORTEST ? null : this.tokensOf(pieces.slice(1)) / (time / 1000);
  }

  // The tokens of some of the pieces.
  tokensOf(pieces) {
    const length = list => list.reduce((sum, piece) => sum + piece.length, 0);
    return this.usage.completion_tokens * length(pieces) / length(this.pieces);
  }

  // Takes an event of streamed(). Returns the text that it adds.
  take({progress, chunk}) {
    this.state = "running";
    const added = {text: "", thoughts: ""};
    if (progress) this.progress = progress;
    if (!chunk) return added;
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.longstream) this.receipt = chunk.longstream;
    const choice = chunk.choices?.[0];
    if (!choice) return added;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    added.text = (this.chat ? choice.delta?.content : choice.text) || "";
    added.thoughts = choice.delta?.reasoning_content || "";
    this.text += added.text;
    this.thoughts += added.thoughts;
    const length = added.text.length + added.thoughts.length;
    if (length) this.pieces.push({time: performance.now(), length});
    return added;
  }
}

// A question and its answers, by lane: 0 is the first model, 1 the one beside it.
export class Turn {
  constructor(question) {
    this.question = question;
    this.answers = [];
  }

  get failed() {
    return this.answers.length > 0 &&
        this.answers.every(answer => answer.state === "failed" && !answer.text && !answer.thoughts);
  }

  // The answer that goes on with the conversation of a lane. A model that came later goes on behind
  // the answers of the first one.
  answerOf(lane) { return this.answers[lane] || this.answers[0]; }
}

function messagesOf(turns, lane, system) {
  const messages = system ? [{role: "system", content: system}] : [];
  for (const [index, turn] of turns.entries()) {
    const last = index === turns.length - 1;
    const answer = turn.answerOf(lane);
    // Two questions without an answer between them confuse models, and some templates refuse them.
    if (!last && !answer?.text) continue;
    messages.push({role: "user", content: turn.question});
    if (!last) messages.push({role: "assistant", content: answer.text});
  }
  return messages;
}

function textOf(turns, lane) {
  return turns.map((turn, index) => index === turns.length - 1
      ? turn.question : turn.question + (turn.answerOf(lane)?.text || "")).join("");
}

// A number, or the text as it was typed: the server then says what is wrong with it.
function valueOf(text) {
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

// The request for the answer to the last of `turns`. `settings` has the texts of the fields.
export function requestFor(turns, lane, model, chat, settings) {
  const body = {model, stream: true, stream_options: {include_usage: true}};
  for (const name of ["temperature", "top_p", "max_tokens", "seed"]) {
    const text = settings[name].trim();
    if (text) body[name] = valueOf(text);
  }
  if (!chat) return {path: "v1/completions", body: {...body, prompt: textOf(turns, lane)}};
  return {path: "v1/chat/completions",
          body: {...body, messages: messagesOf(turns, lane, settings.system)}};
}
