// A client of A2A 1.0 over HTTP+JSON, for one agent and whoever is at the page.

/** What the agent or the node has refused. */
export class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

// The server is never silent for so long: keep-alives come every 15 seconds.
const silence = 45_000;

/** A client of the agent below base, such as "delivery/". token() is a credential, or "". */
export class Client {
  constructor(base, token) {
    this.base = base;
    this.token = token;
  }

  /** Sends a message; yields the events of the stream that answers it. */
  stream(message, signal) {
    return this.#events("v1/message:stream", { method: "POST", body: JSON.stringify({ message }) }, signal);
  }

  /** Sends a message; returns {task} or {message} at once. */
  send(message, signal) {
    return this.#json("v1/message:send", {
      method: "POST",
      body: JSON.stringify({ message, configuration: { returnImmediately: true } }),
      signal,
    });
  }

  /** Yields the task as it is, and then its events until it is over or waits. */
  subscribe(id, signal) {
    return this.#events(`v1/tasks/${encodeURIComponent(id)}:subscribe`, {}, signal);
  }

  task(id, signal) {
    return this.#json(`v1/tasks/${encodeURIComponent(id)}`, { signal });
  }

  cancel(id) {
    return this.#json(`v1/tasks/${encodeURIComponent(id)}:cancel`, { method: "POST", body: "{}" });
  }

  /** The tasks of a conversation, at most 200. */
  async tasks(contextId) {
    const tasks = [];
    let token = "";
    do {
      const query = new URLSearchParams({ contextId, pageSize: "50", includeArtifacts: "true", historyLength: "200" });
      if (token) query.set("pageToken", token);
      const page = await this.#json(`v1/tasks?${query}`, {});
      tasks.push(...(page.tasks || []));
      token = page.nextPageToken || "";
    } while (token && tasks.length < 200);
    return tasks;
  }

  /** Who is at the page: {id, name, visitor}. */
  session() {
    return this.#json("session", {});
  }

  /** The form of the question of a task. */
  form(task) {
    return this.#json(`form?task=${encodeURIComponent(task)}`, {});
  }

  /** The answer that a filled form makes: {data}, or {error, field}. */
  fill(task, values) {
    return this.#json(`form?task=${encodeURIComponent(task)}`, { method: "POST", body: JSON.stringify({ values }) });
  }

  /** The HTML of each of some texts, which the server makes: "" for what is no Markdown. */
  async markdown(texts) {
    return (await this.#json("markdown", { method: "POST", body: JSON.stringify({ texts }) })).html;
  }

  async #fetch(path, options, accept) {
    const headers = { "A2A-Version": "1.0", Accept: accept };
    if (options.body) headers["Content-Type"] = "application/json";
    const token = this.token();
    if (token) headers.Authorization = `Bearer ${token}`;
    const response = await fetch(this.base + path, { ...options, headers, cache: "no-store", redirect: "error" });
    if (response.ok) return response;
    let message = "";
    try {
      message = (await response.json()).error.message;
    } catch {
      // Something on the way has answered.
    }
    const wait = Number.parseInt(response.headers.get("Retry-After") || "", 10);
    throw new Refused(response.status, message || `The answer was HTTP ${response.status}`, Number.isNaN(wait) ? 0 : wait);
  }

  async #json(path, options) {
    return (await this.#fetch(path, options, "application/json")).json();
  }

  async *#events(path, options, signal) {
    const response = await this.#fetch(path, { ...options, signal }, "text/event-stream");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let data = "";
    let timer;
    try {
      for (;;) {
        clearTimeout(timer);
        timer = setTimeout(() => reader.cancel().catch(() => {}), silence);
        const { value, done } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const raw of lines) {
          const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
          if (line.startsWith("data:")) {
            data += (data ? "\n" : "") + line.slice(line.startsWith("data: ") ? 6 : 5);
          } else if (line === "" && data) {
            const event = JSON.parse(data);
            data = "";
            if (event.error) throw new Refused(event.error.code || 500, event.error.message || "The stream has failed", 0);
            yield event;
          }
        }
      }
    } finally {
      clearTimeout(timer);
      reader.cancel().catch(() => {});
    }
  }
}
