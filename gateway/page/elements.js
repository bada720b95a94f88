// Elements of the page. Texts become text nodes, never markup.

export const byId = id => document.getElementById(id);

// Makes an element. `attributes` may have `class`, `text`, listeners such as `onclick`, and any
// attribute but `style`; null and false leave an attribute out.
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svgElement(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

// Asks in a dialog. Resolves to true if the user agrees.
export function confirmed(text, yes) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  return new Promise(resolve => {
    const end = agreed => {
      dialog.close();
      resolve(agreed);
    };
    byId("confirm-yes").onclick = () => end(true);
    byId("confirm-no").onclick = () => end(false);
    // Escape closes the dialog, too. The event comes late: the dialog may already be open again.
    dialog.onclose = () => { if (!dialog.open) resolve(false); };
    dialog.showModal();
  });
}

// Changes the page. A reader who looks at its end, and wants to see what comes, stays there.
export function followEnd(change) {
  const page = document.documentElement;
  const follow = page.scrollHeight - page.clientHeight - page.scrollTop < 60;
  change();
  if (follow) scrollTo({top: page.scrollHeight});
}

// Copies a text. Browsers offer navigator.clipboard only to pages of HTTPS and of this machine.
export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // The user or the browser has refused. The old way may still work.
    }
  }
  const area = element("textarea", {class: "unseen", "aria-hidden": "true"});
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
