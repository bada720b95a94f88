// The dialog with what a session has read and written.

import {readHistory} from "./api.js";
import {byId, element} from "./elements.js";
import {count, shortId} from "./format.js";

const LONGEST = 20000;  // characters of a text that are shown

const NAMES = {prompt: "Prompt", answer: "Answer"};

export async function showHistory(id) {
  const dialog = byId("history");
  byId("history-title").textContent = `Session ${shortId(id)}`;
  show(element("p", {class: "note", text: "Reading …"}));
  dialog.showModal();
  byId("history-close").onclick = () => dialog.close();
  try {
    const entries = await readHistory(id);
    if (!entries.length) show(element("p", {class: "note", text: "It has read nothing yet."}));
    else show(...entries.map(entryOf));
  } catch (error) {
    show(element("p", {class: "error", role: "alert", text: error.message}));
  }
}

function show(...children) {
  byId("history-entries").replaceChildren(...children);
}

function entryOf({kind, text, message}) {
  const name = message ? message.role : NAMES[kind] || kind;
  return element("article", {class: "entry", "data-kind": kind}, element("h3", {text: name}),
                 element("div", {class: "text", text: shortened(message ? textOf(message) : text)}));
}

// The content of a message, and its other members as JSON.
function textOf({role, content, ...members}) {
  const parts = [typeof content === "string" ? content : content && JSON.stringify(content)];
  if (Object.keys(members).length) parts.push(JSON.stringify(members));
  return parts.filter(Boolean).join("\n");
}

function shortened(text) {
  const more = text.length - LONGEST;
  return more > 0 ? `${text.slice(0, LONGEST)} … and ${count(more)} more characters` : text;
}
