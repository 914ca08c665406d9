// The view of one task in the conversation: what was said, what was made, what is
// asked, and how it stands.

import { decisionForm, expiry, inWords, questionForm } from "./forms.js";
import { Parts, away, el } from "./parts.js";

// The states in words. Each has a shape of its own beside its colour.
const states = {
  TASK_STATE_SUBMITTED: { word: "Waiting to begin", kind: "waiting", shape: "…" },
  TASK_STATE_WORKING: { word: "Working", kind: "working", shape: "" },
  TASK_STATE_INPUT_REQUIRED: { word: "Waiting for your answer", kind: "asks", shape: "?" },
  TASK_STATE_AUTH_REQUIRED: { word: "Waiting for an approval", kind: "asks", shape: "◇" },
  TASK_STATE_COMPLETED: { word: "Done", kind: "done", shape: "✓" },
  TASK_STATE_FAILED: { word: "Failed", kind: "failed", shape: "✕" },
  TASK_STATE_CANCELED: { word: "Canceled", kind: "ended", shape: "■" },
  TASK_STATE_REJECTED: { word: "Declined", kind: "failed", shape: "✕" },
};

export const terminal = new Set(["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"]);

/** A message as a bubble: of the agent, or of whoever is at the page. */
export function bubble(message) {
  const mine = message.role === "ROLE_USER";
  const body = el("div", { class: "parts" });
  // The answer of a form is there as data and in words.
  const parts = new Parts(body, { data: !mine || !message.parts.some((p) => p.text), markdown: !mine });
  parts.set(message.parts);
  parts.finish();
  if (parts.empty) return null;
  return el("article", { class: mine ? "bubble mine" : "bubble theirs" }, el("span", { class: "hidden" }, mine ? "You: " : "Agent: "), body);
}

/** The view of a task. The page does what is asked of it: answer(view, values, shown,
 * form), decide(view, decision, note, request), cancel(view). */
export class TaskView {
  #page;
  #content = el("div", { class: "content" });
  #ask = el("div", { class: "ask" });
  #shape = el("span", { class: "shape", "aria-hidden": "true" });
  #word = el("span", { class: "word" });
  #cancel = el("button", { type: "button", class: "plain small" }, "Cancel");
  #problem = el("span", { class: "problem", role: "alert" });
  #messages = new Map();
  #artifacts = new Map();
  #asked = "";

  constructor(id, page) {
    this.id = id;
    this.contextId = "";
    this.state = "";
    this.metadata = null;
    this.#page = page;
    this.#cancel.addEventListener("click", () => this.#stop());
    this.node = el("section", { class: "task", "aria-label": "Request" }, this.#content, this.#ask,
      el("p", { class: "state" }, this.#shape, this.#word, " ", this.#cancel, this.#problem));
  }

  get over() {
    return terminal.has(this.state);
  }

  get asks() {
    return this.state === "TASK_STATE_INPUT_REQUIRED" || this.state === "TASK_STATE_AUTH_REQUIRED";
  }

  /** When it was made, in milliseconds: its id says so (RFC 9562 §5.7). */
  get made() {
    const hex = this.id.replace(/-/g, "");
    return /^[0-9a-f]{12}7[0-9a-f]{19}$/.test(hex) ? Number.parseInt(hex.slice(0, 12), 16) : 0;
  }

  /** Takes an event of a stream, or the whole task. */
  apply(event) {
    if (event.task) this.#whole(event.task);
    else if (event.statusUpdate) this.#status(event.statusUpdate.status);
    else if (event.artifactUpdate) this.#chunk(event.artifactUpdate);
  }

  /** Puts a message of this page into the task. */
  adopt(messageId, node) {
    this.#messages.set(messageId, node);
    this.#content.append(node);
  }

  #whole(task) {
    this.contextId = task.contextId || this.contextId;
    for (const message of task.history || []) this.#message(message);
    for (const artifact of task.artifacts || []) {
      this.#artifact(artifact).parts.set(artifact.parts);
    }
    this.#status(task.status);
  }

  #message(message) {
    if (this.#messages.has(message.messageId)) return;
    const node = bubble(message);
    this.#messages.set(message.messageId, node);
    if (node) this.#content.append(node);
  }

  #artifact(artifact) {
    let view = this.#artifacts.get(artifact.artifactId);
    if (!view) {
      const body = el("div", { class: "parts" });
      const node = el("article", { class: "bubble theirs artifact" }, el("span", { class: "hidden" }, "Result: "));
      view = { node, body, parts: new Parts(body) };
      if (artifact.name) node.append(el("h3", {}, artifact.name));
      if (artifact.description) node.append(el("p", { class: "hint" }, artifact.description));
      node.append(body);
      this.#artifacts.set(artifact.artifactId, view);
      this.#content.append(node);
    }
    return view;
  }

  #chunk(update) {
    const view = this.#artifact(update.artifact);
    if (update.append) view.parts.add(update.artifact.parts);
    else view.parts.set(update.artifact.parts);
    // What is still being written is not read out piece by piece.
    view.node.setAttribute("aria-busy", update.lastChunk ? "false" : "true");
    if (update.lastChunk) view.parts.finish();
  }

  #status(status) {
    if (!status) return;
    const known = states[status.state] || { word: "Unknown", kind: "waiting", shape: "·" };
    this.state = status.state;
    if (status.message) this.#message(status.message);
    this.#shape.textContent = known.shape;
    this.#word.textContent = known.word;
    this.node.dataset.kind = known.kind;
    this.#cancel.hidden = this.over;
    if (this.over || this.asks) {
      for (const view of this.#artifacts.values()) {
        view.parts.finish();
        view.node.removeAttribute("aria-busy");
      }
    }
    // A form is drawn once, so that nothing that was written in it is lost.
    const asked = this.asks ? `${status.state} ${status.message ? status.message.messageId : status.timestamp}` : "";
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#ask.replaceChildren();
    if (status.state === "TASK_STATE_INPUT_REQUIRED") this.#question(status, asked);
    if (status.state === "TASK_STATE_AUTH_REQUIRED") this.#decision(status);
  }

  async #question(status, asked) {
    const parts = (status.message && status.message.parts) || [];
    if (!parts.some((p) => p.mediaType === "application/schema+json")) return;
    let shown;
    try {
      shown = await this.#page.form(this);
    } catch {
      return; // it is answered in words
    }
    if (this.#asked !== asked || shown.fields.length === 0) return;
    const form = questionForm(shown, (values) => this.#page.answer(this, values, inWords(shown, values)));
    this.#page.showing(form, () => this.#ask.replaceChildren(form));
  }

  #decision(status) {
    const request = this.#page.grantRequest(status.message) || {};
    if (this.#page.decides) {
      this.#ask.append(decisionForm(request, (decision, note) => this.#page.decide(this, decision, note)));
      return;
    }
    const link = request.url ? away(request.url, "Open the page where it is decided") : null;
    this.#ask.append(el("div", { class: "question" },
      request.operation ? el("p", {}, "Asked for: ", el("strong", {}, request.operation)) : null,
      el("p", {}, "Who runs this service decides. You need not stay: it goes on by itself, and you find it here."),
      expiry(request.expires),
      link ? el("p", {}, link) : null));
  }

  async #stop() {
    this.#cancel.disabled = true;
    this.#problem.textContent = "";
    try {
      await this.#page.cancel(this);
    } catch (error) {
      this.#problem.textContent = ` ${error.message}`;
    }
    this.#cancel.disabled = false;
  }
}
