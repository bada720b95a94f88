// The models that a user may choose, and their two fields.

import {byId, element} from "./elements.js";

const STATES = {
  MODEL_STATE_LOADING: "loading", MODEL_STATE_FAILED: "failed", MODEL_STATE_DRAINING: "unloading",
};

export class ModelChoice {
  constructor() {
    this.first = byId("model");
    this.second = byId("second");
    this.models = new Map();
    this.aliases = new Map();
    this.shown = "";
  }

  // Takes the server's list. What the user has chosen stays chosen.
  update({models, aliases}) {
    this.models = new Map(models.map(model => [model.name, model]));
    this.aliases = new Map((aliases || []).map(alias => [alias.name, alias]));
    const shown = JSON.stringify([models.map(model => [model.name, model.state]),
                                  [...this.aliases.keys()]]);
    if (shown === this.shown) return false;
    this.shown = shown;
    this.fillIn(this.first, null);
    this.fillIn(this.second, element("option", {value: "", text: "none"}));
    return true;
  }

  fillIn(select, none) {
    const chosen = select.value;
    const options = [...this.models.values()].map(({name, state}) => {
      const ready = state === "MODEL_STATE_READY";
      return element("option", {value: name, disabled: !ready,
                                text: ready ? name : `${name} (${STATES[state] || "not ready"})`});
    });
    const names = [...this.aliases.keys()].map(name => element("option", {value: name, text: name}));
    select.replaceChildren(...(none ? [none] : []), ...options);
    if (names.length) select.append(element("optgroup", {label: "Aliases"}, ...names));
    const all = [...select.querySelectorAll("option")];
    const kept = all.find(option => option.value === chosen && chosen) ||
        all.find(option => !option.disabled);
    if (kept) kept.selected = true;
  }

  // The chosen names: one, two, or none if no model is ready.
  get names() {
    const first = this.first.selectedOptions[0];
    if (!first || first.disabled) return [];
    return this.second.value ? [first.value, this.second.value] : [first.value];
  }

  // A model, or the first arm of an alias; undefined: unknown.
  model(name) {
    const alias = this.aliases.get(name);
    return this.models.get(alias ? alias.arms?.[0]?.model : name);
  }

  // False: the model only continues texts.
  chats(name) { return this.model(name)?.chat ?? true; }

  // Why a model does not chat.
  whyNoChat(name) {
    return `${name} continues your text, because ${
        this.model(name)?.chat_error || "this model has no chat template"}.`;
  }
}
