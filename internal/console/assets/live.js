// Live pages: when the node says that something has changed, the page is fetched
// again, and its sections with data-live that differ are replaced. What somebody
// is busy with stays: focus, open details, selected text, forms that were edited.
const least = 1000; // ms between two fetches

// plain is the HTML of a section without the ages, which grow by themselves.
function plain(section) {
  const copy = section.cloneNode(true);
  for (const time of copy.querySelectorAll("time[data-age]")) time.textContent = "";
  return copy.innerHTML;
}

export function live() {
  const sections = () => [...document.querySelectorAll("[data-live][id]")];
  const place = document.getElementById("live");
  const count = document.getElementById("inbox-count");
  if (sections().length === 0 && !count || !place) return;
  const button = document.getElementById("pause");
  const text = document.getElementById("live-text");
  // What the server has sent of each section, so that what scripts do to the page
  // is not taken for a change: live is called before they do anything.
  const shown = new Map(sections().map((s) => [s.id, plain(s)]));
  let source = null;
  let paused = false;
  let pending = null;
  let last = 0;
  let fetching = false;
  let again = false;
  let wait = 1000;
  let retry = null;

  const root = () => document.documentElement.dataset.root.replace(/console\/$/, "");
  place.hidden = sections().length === 0;
  const say = (state, words) => { button.dataset.state = state; text.textContent = words; };

  async function fetchPage() {
    if (sections().length === 0) return;
    if (fetching) { again = true; return; }
    fetching = true;
    last = Date.now();
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html", "X-Live": "1" }, redirect: "manual", cache: "no-store" });
      if (response.status === 401 || response.type === "opaqueredirect") {
        stop();
        say("off", "Signed out");
        return;
      }
      if (response.ok) replace(new DOMParser().parseFromString(await response.text(), "text/html"));
    } catch { /* the next change asks again */ } finally {
      fetching = false;
      if (again) { again = false; soon(); }
    }
  }

  // The number of open items is asked for by itself, when the inbox may have changed:
  // that is cheaper than a page.
  let counting = null;
  function countSoon() {
    if (!count || paused || document.hidden || counting) return;
    counting = setTimeout(async () => {
      try {
        const response = await fetch(`${root()}api/v1/inbox?page_size=1`, { headers: { Accept: "application/json" }, cache: "no-store" });
        if (response.ok) {
          const open = (await response.json()).total_size ?? 0;
          count.firstElementChild.textContent = String(open).replace(/\B(?=(\d{3})+$)/g, "\u202f");
          count.hidden = open === 0;
        }
      } catch { /* the next change asks again */ } finally { counting = null; }
    }, 300);
  }

  function changed(event) {
    let change = {};
    try { change = JSON.parse(event.data); } catch { /* then everything may have changed */ }
    const topics = change.topics ?? ["all"];
    if (change.inbox || topics.includes("inbox") || topics.includes("all")) countSoon();
    if (topics.length > 0) soon();
  }

  function soon() {
    if (paused || document.hidden || sections().length === 0) return;
    if (pending) return;
    pending = setTimeout(() => { pending = null; fetchPage(); }, Math.max(0, last + least - Date.now()));
  }

  function busy(section) {
    const active = document.activeElement;
    if (active && section.contains(active) && active.matches("input, textarea, select, [contenteditable]")) return true;
    for (const field of section.querySelectorAll("input, textarea, select")) {
      if (field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
        : field.tagName === "SELECT" ? [...field.options].some((o) => o.selected !== o.defaultSelected) && field.dataset.edited !== undefined
        : field.type !== "hidden" && field.value !== field.defaultValue) return true;
    }
    const selection = getSelection();
    return selection && !selection.isCollapsed && section.contains(selection.anchorNode);
  }

  function replace(page) {
    for (const section of sections()) {
      const fresh = page.getElementById(section.id);
      if (!fresh) continue;
      const html = plain(fresh);
      if (shown.get(section.id) === html) continue;
      if (busy(section)) continue; // it is looked at again with the next change
      shown.set(section.id, html);
      swap(section, fresh);
    }
  }

  function swap(section, fresh) {
    const open = new Set([...section.querySelectorAll("details[open]")].map(nameOf).filter(Boolean));
    const closed = new Set([...section.querySelectorAll("details:not([open])")].map(nameOf).filter(Boolean));
    const focus = section.contains(document.activeElement) ? pathOf(document.activeElement, section) : null;
    const scrolls = [...section.querySelectorAll("[data-scroll][id]")].map((e) => [e.id, e.scrollLeft, e.scrollTop]);
    section.replaceChildren(...document.adoptNode(fresh).childNodes);
    for (const details of section.querySelectorAll("details")) {
      const name = nameOf(details);
      if (open.has(name)) details.open = true;
      if (closed.has(name)) details.open = false;
    }
    for (const [id, left, top] of scrolls) document.getElementById(id)?.scrollTo(left, top);
    section.dispatchEvent(new CustomEvent("console:replaced", { bubbles: true }));
    if (focus) find(focus, section)?.focus({ preventScroll: true });
  }

  function nameOf(details) {
    return details.id || details.dataset.name || details.querySelector("summary")?.textContent.trim();
  }

  // What had the focus is found again by its id, by where it leads, or by its name.
  function pathOf(element) {
    if (element.id) return { id: element.id };
    if (element.getAttribute("href")) return { selector: "a", attribute: "href", value: element.getAttribute("href") };
    return { selector: element.tagName.toLowerCase(), attribute: "name", value: element.getAttribute("name") };
  }

  function find(path, section) {
    if (path.id) return document.getElementById(path.id);
    return [...section.querySelectorAll(path.selector)].find((e) => e.getAttribute(path.attribute) === path.value);
  }

  function start() {
    if (source || paused || document.hidden) return;
    clearTimeout(retry);
    const task = document.querySelector("[data-live-task]")?.dataset.liveTask;
    source = new EventSource(`${root()}api/v1/changes` + (task ? `?inbox=true&task=${encodeURIComponent(task)}` : ""));
    // What changed before the node listened is on the page that is fetched now.
    source.addEventListener("ready", () => { wait = 1000; say("on", "Live"); soon(); countSoon(); });
    source.addEventListener("open", () => { say("on", "Live"); });
    source.addEventListener("change", changed);
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CONNECTING) { say("wait", "Reconnecting"); return; }
      stop();
      say("wait", "Reconnecting");
      retry = setTimeout(() => { start(); soon(); }, wait);
      wait = Math.min(wait * 2, 30000);
    });
  }

  function stop() {
    clearTimeout(retry);
    clearTimeout(pending);
    pending = null;
    source?.close();
    source = null;
  }

  button.addEventListener("click", () => {
    if (place.hidden) return; // nothing but the number is live, which takes no pause
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    if (paused) { stop(); say("off", "Paused"); } else { start(); fetchPage(); countSoon(); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stop(); return; }
    if (!paused) { start(); fetchPage(); countSoon(); }
  });
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", (event) => { if (event.persisted && !paused) { start(); fetchPage(); } });
  say("wait", "Connecting");
  start();
}
