// The page: a conversation with one agent. The server keeps it; what is kept here is
// only which conversation it is.

import { Client, Refused } from "./a2a.js";
import { el, formatter, sizeOf } from "./parts.js";
import { TaskView, bubble, terminal } from "./task.js";

const settings = document.body.dataset;
const $ = (id) => document.getElementById(id);
const log = $("log");
const framed = window.parent !== window;
const tokenKey = `handoff-chat-token:${settings.agent}`;
const title = document.title;

/** Random and unguessable, also on pages without TLS, where randomUUID is missing. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** Waits, at most until the page is looked at or the network is back. */
function pause(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      window.removeEventListener("wake", end);
      signal?.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener("wake", end);
    signal?.addEventListener("abort", end);
  });
}

const backoff = (failures) => Math.min(15_000, 500 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2);

class Page {
  client = new Client(`${settings.agent}/`, () => this.token);
  token = "";
  session = null;
  contextId = "";
  said = []; // exchanges that made no task: the server keeps tasks only
  views = new Map();
  files = [];
  decides = "decides" in settings;
  #live = new AbortController();
  #following = new Set(); // ids of tasks of which a stream tells

  async start() {
    formatter((texts) => this.client.markdown(texts));
    this.#live.abort();
    this.#live = new AbortController();
    this.#following.clear();
    const { signal } = this.#live;
    $("gate").hidden = true;
    for (let failures = 0; ; failures++) {
      try {
        this.session = await this.client.session();
        break;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          this.gate(error);
          return;
        }
        net("No connection. Trying again…");
        await pause(backoff(failures), signal);
        if (signal.aborted) return;
      }
    }
    net("");
    $("who").textContent = this.session.visitor ? "" : this.session.name;
    $("composer").hidden = false;
    this.#recall();
    tell("ready");
    await this.#load(signal);
    this.#update();
  }

  /** Says why nobody is let in, and where to sign in. */
  gate(error) {
    this.#live.abort();
    $("composer").hidden = true;
    $("fresh").hidden = true;
    if ($("examples")) $("examples").hidden = true;
    $("gate").hidden = false;
    const signIn = error.status === 401 && settings.signIn;
    $("gate-text").textContent = error.message;
    $("gate-link").replaceChildren();
    if (signIn) {
      const back = `${settings.signIn}?next=${encodeURIComponent(`/chat/${settings.agent}`)}`;
      $("gate-link").append(el("a", { class: "button", href: back, target: framed ? "_blank" : undefined, rel: framed ? "noopener" : undefined }, "Sign in"));
    }
    if (error.status === 401) {
      tell("unauthenticated"); // the page around this one may have a fresh token
    }
  }

  get #key() {
    return `handoff-chat:${settings.agent}:${this.session.id}`;
  }

  #recall() {
    this.contextId = "";
    this.said = [];
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.#key) || "{}");
      if (typeof kept.contextId === "string") this.contextId = kept.contextId;
      if (Array.isArray(kept.said)) this.said = kept.said;
    } catch {
      // It begins anew.
    }
  }

  #keep() {
    while (this.said.length > 100) this.said.shift();
    for (;;) {
      try {
        sessionStorage.setItem(this.#key, JSON.stringify({ contextId: this.contextId, said: this.said }));
        return;
      } catch {
        if (this.said.length === 0) return;
        this.said.shift(); // it is full
      }
    }
  }

  /** Shows the conversation as the server has it. */
  async #load(signal) {
    this.#clear();
    if (!this.contextId) return;
    let tasks;
    for (let failures = 0; ; failures++) {
      try {
        tasks = await this.client.tasks(this.contextId);
        break;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status === 401) return this.gate(error);
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          tasks = [];
          break;
        }
        net("No connection. Trying again…");
        await pause(backoff(failures), signal);
        if (signal.aborted) return;
      }
    }
    net("");
    const entries = this.said.map((s) => ({ at: s.at, show: () => this.#showSaid(s) }));
    for (const task of tasks) {
      const view = this.#view(task.id, false);
      view.apply({ task });
      entries.push({ at: view.made, show: () => log.append(view.node) });
    }
    entries.sort((a, b) => a.at - b.at);
    for (const entry of entries) entry.show();
    // In the order in which they began, so that the newest is the last.
    this.views = new Map([...this.views.entries()].sort(([, a], [, b]) => a.made - b.made));
    log.scrollTop = log.scrollHeight;
    this.#followOpen();
  }

  #showSaid(s) {
    for (const message of [s.mine, s.theirs]) {
      const node = message && bubble(message);
      if (node) log.append(node);
    }
  }

  #clear() {
    this.views.clear();
    for (const node of [...log.children]) {
      if (node.id !== "greeting" && node.id !== "examples") node.remove();
    }
  }

  #view(id, show = true) {
    let view = this.views.get(id);
    if (!view) {
      view = new TaskView(id, this);
      this.views.set(id, view);
      if (show) log.append(view.node);
    }
    return view;
  }

  /** Begins a conversation anew. The old one goes on where it was. */
  fresh() {
    this.contextId = "";
    this.said = [];
    this.#keep();
    this.start();
    $("text").focus();
  }

  /** The task that a message goes to: the newest, unless it is over. */
  target() {
    const newest = [...this.views.values()].at(-1);
    return newest && !newest.over ? newest : null;
  }

  // What is at the end of the page depends on how the newest task stands.
  #update() {
    const target = this.target();
    let text = "";
    if (target?.state === "TASK_STATE_INPUT_REQUIRED") text = "Your message answers the question.";
    else if (target?.state === "TASK_STATE_AUTH_REQUIRED") text = "A message goes to the agent; it approves nothing.";
    else if (target) text = "The agent is at work. What you write is added.";
    if ($("target").textContent !== text) $("target").textContent = text;
    const begun = this.views.size > 0 || this.said.length > 0 || log.querySelector(".mine") !== null;
    $("fresh").hidden = !begun;
    if ($("examples")) $("examples").hidden = begun;
  }

  #take(event, view) {
    follow(() => {
      const of = view || this.#view((event.task?.id) ?? (event.statusUpdate ?? event.artifactUpdate)?.taskId);
      of.apply(event);
      if (of.contextId && of.contextId !== this.contextId) {
        this.contextId = of.contextId;
        this.#keep();
      }
    });
    if (document.hidden) document.title = `● ${title}`;
    this.#update();
  }

  /** Sends a message, to a task or as a new one, and shows it at once. */
  send(parts, { view = this.target(), metadata, quiet = false } = {}) {
    const message = { messageId: newId(), role: "ROLE_USER", parts };
    if (metadata) message.metadata = metadata;
    const newest = [...this.views.values()].at(-1);
    if (view) {
      message.taskId = view.id;
      message.contextId = view.contextId;
    } else if (this.contextId) {
      message.contextId = this.contextId;
      if (newest) message.referenceTaskIds = [newest.id];
    }
    const node = bubble(message) || el("article", { class: "bubble mine" });
    const note = el("p", { class: "note", role: "status" });
    node.append(note);
    node.classList.add("pending");
    follow(() => (view ? view.adopt(message.messageId, node) : log.append(node)), true);
    this.#update();
    const sending = this.#deliver(message, view, node, note);
    if (quiet) return sending; // whoever sends it says what went wrong
    sending.catch((error) => this.#undelivered(error, parts, { view, metadata }, node, note));
    return Promise.resolve();
  }

  async #undelivered(error, parts, options, node, note) {
    if (this.#live.signal.aborted && !(error instanceof Refused)) return;
    if (options.view && error instanceof Refused && await this.#ended(options.view)) {
      node.remove(); // on whose way the task has ended: it begins another
      this.send(parts, { view: null, metadata: options.metadata });
      return;
    }
    node.classList.remove("pending");
    node.classList.add("undelivered");
    const again = el("button", {
      type: "button", class: "plain small",
      onclick: () => {
        node.remove();
        this.send(parts, { ...options, view: options.view && !options.view.over ? options.view : this.target() });
      },
    }, "Send again");
    note.replaceChildren(`${error.message}. `.replace(/\.\. $/, ". "), again);
    if (options.view) this.#look(options.view);
  }

  /** Whether a task is over, which its stream may tell later. */
  async #ended(view) {
    const now = await this.client.task(view.id).catch(() => null);
    return terminal.has(now?.status.state);
  }

  /** Sends until it is known what came of it, where a message may be sent twice. */
  async #deliver(message, view, node, note) {
    const { signal } = this.#live;
    const most = "idempotent" in settings ? 8 : 1;
    for (let attempt = 1; ; attempt++) {
      let arrived = false;
      let made = null; // the task that the message has made
      try {
        await this.#exchange(message, view, signal, (event) => {
          if (!arrived) {
            arrived = true;
            node.classList.remove("pending");
            note.textContent = "";
            net("");
          }
          if (event.message) {
            this.#reply(message, event.message);
            return;
          }
          if (view && !made) return; // what follows the task says it
          if (!made) {
            made = view = this.#view(event.task?.id ?? (event.statusUpdate ?? event.artifactUpdate)?.taskId);
            made.adopt(message.messageId, node);
            this.#following.add(made.id);
          }
          this.#take(event, made);
        });
        this.#goOn(view, made);
        return;
      } catch (error) {
        if (signal.aborted) throw error;
        if (arrived) {
          this.#goOn(view, made);
          return;
        }
        if (error instanceof Refused) {
          if (error.status === 401) this.gate(error);
          if (error.status !== 503 || attempt >= 5) throw error;
          await pause(Math.max(error.retryAfter * 1000, backoff(attempt)), signal);
        } else if (attempt >= most) {
          throw new Error("There was no answer, and it is not known whether this has arrived", { cause: error });
        } else {
          net("No connection. Trying again…");
          await pause(backoff(attempt), signal);
        }
        if (signal.aborted) throw error;
      }
    }
  }

  #goOn(view, made) {
    if (made) this.#following.delete(made.id);
    if (view) this.#follow(view);
  }

  // One stream at a time tells of a task: that of a message only where it makes one.
  async #exchange(message, view, signal, take) {
    if (!view && "streaming" in settings) {
      for await (const event of this.client.stream(message, signal)) take(event);
    } else {
      take(await this.client.send(message, signal));
    }
  }

  /** Shows an answer that made no task. */
  #reply(mine, theirs) {
    follow(() => {
      const node = bubble(theirs);
      if (node) log.append(node);
    });
    if (theirs.contextId) this.contextId = theirs.contextId;
    // Files are not kept: there is little room.
    const light = (m) => ({ ...m, parts: m.parts.map((p) => (p.raw ? { text: `[${p.filename || "file"}]\n` } : p)) });
    this.said.push({ at: Date.now(), mine: light(mine), theirs: light(theirs) });
    this.#keep();
    this.#update();
  }

  /** Follows the newest tasks that are not over; browsers have few connections. */
  #followOpen() {
    const open = [...this.views.values()].filter((v) => !v.over);
    for (const view of open.slice(-2)) this.#follow(view);
  }

  /** Follows a task until it is over, over every cut. */
  async #follow(view) {
    if (view.over || this.#following.has(view.id)) return;
    const { signal } = this.#live;
    this.#following.add(view.id);
    let failures = 0;
    let last = "";
    while (!view.over && !signal.aborted) {
      if (document.hidden && failures > 2) await awake(signal);
      try {
        if ("streaming" in settings) {
          for await (const event of this.client.subscribe(view.id, signal)) {
            failures = 0;
            net("");
            this.#take(event, view);
          }
        } else {
          const task = await this.client.task(view.id, signal);
          const now = JSON.stringify(task);
          failures = now === last ? failures + 1 : 0;
          last = now;
          net("");
          this.#take({ task }, view);
        }
      } catch (error) {
        if (signal.aborted) break;
        failures++;
        if (error instanceof Refused) {
          if (error.status === 401) {
            this.gate(error);
            break;
          }
          if (error.status < 500 && error.status !== 429 && !(await this.#refresh(view))) break;
        } else if (failures > 1) {
          net("The connection was cut. Trying again…");
        }
      }
      if (!view.over) await pause(backoff(failures), signal);
    }
    if (!signal.aborted) this.#following.delete(view.id);
    net("");
    this.#update();
  }

  /** Looks at a task; false when it is not there any more. */
  async #refresh(view) {
    try {
      this.#take({ task: await this.client.task(view.id) }, view);
      return true;
    } catch (error) {
      return !(error instanceof Refused && error.status === 404);
    }
  }

  // What a stream tells must not be told twice.
  async #look(view) {
    if (!this.#following.has(view.id)) await this.#refresh(view);
  }

  // What the view of a task asks of the page.

  /** Shows something that came late: its beginning, where it is long. */
  showing(node, show) {
    follow(show);
    if (stuck) log.scrollTop = Math.min(log.scrollTop, node.offsetTop - log.offsetTop - 96);
  }

  form(view) {
    return this.client.form(view.id);
  }

  async answer(view, values, words) {
    const made = await this.client.fill(view.id, values);
    if (made.error) return made;
    const parts = [{ text: words }];
    if ("json" in settings) parts.unshift({ data: made.data, mediaType: "application/json" });
    await this.send(parts, { view, quiet: true });
    return null;
  }

  async decide(view, decision, note) {
    const text = (decision === "approve" ? "Approved" : "Denied") + (note ? `: ${note}` : "");
    const value = note ? { decision, note } : { decision };
    await this.send([{ text }], { view, metadata: { [settings.grant]: value }, quiet: true });
  }

  grantRequest(message) {
    return message?.metadata?.[settings.grant]?.grant;
  }

  async cancel(view) {
    const task = await this.client.cancel(view.id);
    if (!this.#following.has(view.id)) this.#take({ task }, view);
  }
}

const page = new Page();

// ---- What is around the conversation.

/** Tells the page around this one how it goes; nothing of what was said. */
function tell(event) {
  if (framed) window.parent.postMessage({ type: "handoff-chat", event }, "*");
}

function net(text) {
  if ($("net").textContent !== text) $("net").textContent = text;
}

const near = () => log.scrollHeight - log.scrollTop - log.clientHeight < 120;
let stuck = true; // to the end of the conversation

/** Changes the conversation, and keeps its end in view if it was. */
function follow(change, always = false) {
  stuck = always || near();
  change();
  if (stuck) log.scrollTop = log.scrollHeight;
  $("newest").hidden = stuck || near();
}

log.addEventListener("scroll", () => {
  stuck = near();
  if (stuck) $("newest").hidden = true;
});
log.addEventListener("load", () => follow(() => {}, stuck), true); // of an image
new ResizeObserver(() => {
  if (stuck) log.scrollTop = log.scrollHeight;
}).observe(log);
$("newest").addEventListener("click", () => {
  log.scrollTop = log.scrollHeight;
  $("text").focus();
});

/** Resolves when the page is looked at. */
function awake(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    window.addEventListener("wake", done, { once: true });
    signal.addEventListener("abort", done, { once: true });
  });
}

const wake = () => window.dispatchEvent(new Event("wake"));
window.addEventListener("online", wake);
window.addEventListener("pageshow", wake);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  document.title = title;
  wake();
});

$("fresh").addEventListener("click", () => page.fresh());
for (const button of document.querySelectorAll("#examples button")) {
  button.addEventListener("click", () => {
    $("text").value = button.textContent;
    grow();
    $("text").focus();
  });
}

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, 200)}px`;
}

$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("composer").requestSubmit();
});

// ---- Files.

const fileLimit = Number(settings.fileBytes);

function base64(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}

function addFiles(files) {
  if (!("files" in settings)) return;
  for (const file of files) {
    const total = page.files.reduce((sum, f) => sum + f.size, file.size);
    if (total > fileLimit) {
      net(`${file.name} is too large: the files of a message may have ${sizeOf(fileLimit)} together.`);
      continue;
    }
    page.files.push(file);
  }
  showFiles();
}

function showFiles() {
  $("chosen").replaceChildren(...page.files.map((file) => el("li", {}, file.name, ` ${sizeOf(file.size)} `,
    el("button", {
      type: "button", class: "plain small", "aria-label": `Remove ${file.name}`,
      onclick: () => {
        page.files = page.files.filter((f) => f !== file);
        showFiles();
        $("text").focus();
      },
    }, "✕"))));
}

$("file")?.addEventListener("change", (event) => {
  addFiles(event.target.files);
  event.target.value = "";
  $("text").focus();
});
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (![...(event.dataTransfer?.types || [])].includes("Files")) return;
    event.preventDefault();
    if (kind === "drop") addFiles(event.dataTransfer.files);
  });
}
$("text").addEventListener("paste", (event) => {
  if (event.clipboardData?.files.length) {
    event.preventDefault();
    addFiles(event.clipboardData.files);
  }
});

let sending = false;
$("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (sending || (!text && page.files.length === 0)) return;
  sending = true;
  try {
    const parts = text ? [{ text }] : [];
    for (const file of page.files) {
      parts.push({ raw: await base64(file), filename: file.name, mediaType: file.type || "application/octet-stream" });
    }
    page.files = [];
    showFiles();
    $("text").value = "";
    grow();
    net("");
    page.send(parts);
  } catch {
    net("A file could not be read.");
  } finally {
    sending = false;
  }
});

// ---- Who is here, when the page around this one says so. The address of a page by
// itself can be made by anybody, and makes nobody somebody else.

function readToken() {
  const match = /^#(?:.*&)?token=([^&]*)/.exec(location.hash);
  if (match) history.replaceState(null, "", location.pathname + location.search);
  if (!framed) return false;
  try {
    if (match) {
      if (match[1]) sessionStorage.setItem(tokenKey, decodeURIComponent(match[1]));
      else sessionStorage.removeItem(tokenKey);
    }
    page.token = sessionStorage.getItem(tokenKey) || "";
  } catch {
    if (match) page.token = decodeURIComponent(match[1]);
  }
  return match !== null;
}

window.addEventListener("hashchange", () => {
  const before = page.session?.id;
  const gated = !$("gate").hidden;
  if (!readToken()) return;
  if (gated || !before) page.start();
  else page.client.session().then((s) => s.id !== before && page.start(), () => page.start());
});

if (framed) document.body.classList.add("framed");
readToken();
page.start().then(() => {
  if (!framed && matchMedia("(hover: hover)").matches) $("text").focus();
});
