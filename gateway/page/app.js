// Starts the page: its three parts, and the clock that asks the server.

import {apiKey, setApiKey} from "./api.js";
import {Chat} from "./chat.js";
import {byId} from "./elements.js";
import {ModelChoice} from "./models.js";
import {Monitor} from "./monitor.js";
import {Plots} from "./plots.js";
import {Sessions} from "./sessions.js";

const PARTS = ["chat", "sessions", "plots"];
const COLOURS = 8;

// Each model has a colour, in the order in which the page has met them.
const colours = new Map();
function colourOf(model) {
  if (!colours.has(model)) colours.set(model, colours.size % COLOURS);
  return colours.get(model);
}

const choice = new ModelChoice();
const monitor = new Monitor(heard, failed);
const chat = new Chat(choice, colourOf, answer => {
  monitor.add(answer);
  monitor.again();
});
const sessions = new Sessions(monitor);
const plots = new Plots(monitor, colourOf);

let part = "";
const places = {};  // part -> how far it was scrolled

function heard(list, problem) {
  if (problem) failed(problem);
  else byId("notice").hidden = true;
  for (const {name} of list.models) colourOf(name);
  if (choice.update(list)) chat.showState();
  // While a model is loading, the list of models changes soon.
  monitor.quiet =
      part === "chat" && !list.models.some(model => model.state === "MODEL_STATE_LOADING");
  chat.showSessions(new Map(monitor.sessions.map(session => [session.session_id, session])));
  showPart();
}

function failed(error) {
  const notice = byId("notice");
  const text = error.status === 401 ? `${error.message} Type the API key above.` : error.message;
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = false;
  if (error.status === 401) byId("key-form").classList.add("needed");
}

function showPart() {
  if (part === "sessions") sessions.show();
  if (part === "plots") plots.show();
}

// The address says which part is open, so that "back" works and a part can be linked.
function openPart() {
  const wanted = location.hash.slice(1);
  places[part] = scrollY;
  part = PARTS.includes(wanted) ? wanted : "chat";
  for (const name of PARTS) byId(`${name}-part`).hidden = name !== part;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.part === part) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showPart();
  scrollTo({top: places[part] ?? 0});
  monitor.quiet = part === "chat";
  monitor.pages = 1;
  monitor.now();
}

byId("key").value = apiKey();
byId("key").addEventListener("change", () => {
  setApiKey(byId("key").value.trim());
  byId("key-form").classList.remove("needed");
  monitor.again();
});
byId("key-form").addEventListener("submit", event => {
  event.preventDefault();
  byId("key").blur();
});
addEventListener("hashchange", openPart);
new ResizeObserver(showPart).observe(byId("plots-part"));
openPart();
