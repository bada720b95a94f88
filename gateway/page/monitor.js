// Asks the server every two seconds for its models and sessions, and remembers ten minutes of what
// they hold. It asks less often while nobody looks, and rests while the tab is hidden.

import {listModels, listSessions, ServerError} from "./api.js";

export const HISTORY = 10 * 60 * 1000;
const PERIOD = 2000;
const QUIET_PERIOD = 30000;  // while nothing of it is shown, or the server refuses it
const PAGE_SIZE = 1000;  // the largest that the server gives

export class Monitor {
  // `heard`: called after each sample with {models, aliases}, and the ServerError if the sessions are
  // not known. `failed`: called with the ServerError if nothing is known.
  constructor(heard, failed) {
    this.heard = heard;
    this.failed = failed;
    this.models = [];
    this.sessions = [];
    this.pages = 1;        // pages of sessions to ask for
    this.complete = true;  // false: the server has more sessions than these
    this.quiet = false;    // nobody looks at the samples
    this.refused = false;  // the server wants another key
    this.period = PERIOD;
    // {time, period, memory: model -> {pages, rings, states}, sessions, running}
    this.samples = [];
    this.answers = [];     // of this page, ended: {time, answer}
    this.asking = null;
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.now());
  }

  // Asks now and then regularly, unless the tab is hidden.
  now() {
    clearTimeout(this.timer);
    if (document.hidden) return Promise.resolve();
    const began = performance.now();
    this.asking ??= this.ask().finally(() => {
      this.asking = null;
      // A slow connection, or a server with many sessions, is asked less often.
      const least = this.quiet || this.refused ? QUIET_PERIOD : PERIOD;
      this.period = Math.max(least, 10 * (performance.now() - began));
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.now(), this.period);
    });
    return this.asking;
  }

  // Asks after something has changed: a call that runs may have missed it.
  async again() {
    await this.asking;
    return this.now();
  }

  async ask() {
    this.refused = false;
    try {
      const list = await listModels();
      const problem = await this.askSessions().catch(error => error);
      this.models = list.models;
      this.remember();
      this.heard(list, problem);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.refused = error.status === 401 || error.status === 403;
      this.failed(error);
    }
  }

  async askSessions() {
    const sessions = [];
    let token = "";
    for (let page = 0; page < this.pages && (page === 0 || token); ++page) {
      const answer = await listSessions(PAGE_SIZE, token);
      sessions.push(...answer.sessions);
      token = answer.next_page_token;
    }
    this.complete = !token;
    this.sessions = sessions.map(numbersOf);
  }

  remember() {
    const time = Date.now();
    const memory = new Map(this.models.map(({name, memory: held}) => [name, {
      pages: Number(held?.pages || 0), rings: Number(held?.rings || 0),
      states: Number(held?.states || 0)}]));
    this.samples.push({time, period: this.period, memory, sessions: this.sessions.length,
                       running: this.sessions.filter(session => session.turn_running).length});
    while (this.samples[0].time < time - HISTORY) this.samples.shift();
    this.forget(time);
  }

  // Remembers an answer that has ended.
  add(answer) {
    const time = Date.now();
    this.answers.push({time, answer});
    this.forget(time);
  }

  forget(time) {
    while (this.answers.length && this.answers[0].time < time - HISTORY) this.answers.shift();
  }
}

// A session whose numbers are numbers. JSON has 64-bit numbers as texts.
function numbersOf(session) {
  const bytes = {};
  for (const kind of ["kv", "window", "state", "host"]) bytes[kind] = Number(session.bytes?.[kind] || 0);
  return {...session, bytes, position: Number(session.position),
          context_limit: Number(session.context_limit),
          held: bytes.kv + bytes.window + bytes.state};
}
