// Draws what others have said. Everything comes from outside and becomes text, an
// image that was made of checked bytes, a link that leads away, or a download.

/** Makes an element. Children are nodes or texts; attributes are never markup. */
export function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (key === "class") e.className = value;
    else if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? "" : String(value));
  }
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}

const urls = /\bhttps?:\/\/[^\s<>"'`{}|\\^]+/g;

/** Returns the nodes of a text, with its web addresses as links. */
export function linked(text) {
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(urls)) {
    // What ends a sentence does not belong to the address.
    const address = match[0].replace(/[.,;:!?)\]]+$/, "");
    const link = away(address, address);
    if (!link) continue;
    nodes.push(document.createTextNode(text.slice(at, match.index)), link);
    at = match.index + address.length;
  }
  nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}

/** Returns a link that leads to another site, or null when it is no web address. */
export function away(address, text) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  if (url.username || url.password) return null;
  return el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, text);
}

// The images that are shown, by how their bytes begin. Everything else, SVG too,
// is a download.
const images = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

function imageType(bytes) {
  for (const [type, magic] of images) {
    if (magic.every((b, i) => bytes[i] === b)) {
      if (type !== "image/webp" || String.fromCharCode(...bytes.slice(8, 12)) === "WEBP") return type;
    }
  }
  return "";
}

function bytesOf(base64) {
  const binary = atob(base64.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** The size of something in words. */
export function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** The name of a file without what could mislead whoever saves it. */
function nameOf(part) {
  const name = (part.filename || "").split(/[\\/]/).pop().replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069:*?"<>|]+/g, "_").replace(/^\.+/, "");
  return name.slice(0, 120) || "file";
}

function save(bytes, name) {
  // The type keeps the browser from showing it as anything.
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function file(part) {
  const name = nameOf(part);
  let bytes;
  try {
    bytes = bytesOf(part.raw);
  } catch {
    return el("p", { class: "file" }, `${name} (cannot be read)`);
  }
  const button = el("button", { type: "button", class: "file", onclick: () => save(bytes, name) },
    el("span", { class: "file-name" }, name), ` ${sizeOf(bytes.length)}`, el("span", { class: "hidden" }, ", download"));
  const type = imageType(bytes);
  if (!type) return button;
  const image = el("img", { alt: `Image ${name}`, src: URL.createObjectURL(new Blob([bytes], { type })) });
  return el("figure", {}, image, el("figcaption", {}, button));
}

function data(part) {
  const text = JSON.stringify(part.data, null, 2);
  return el("details", { class: "data" }, el("summary", {}, "Data"), el("pre", { tabindex: "0" }, text));
}

function link(part) {
  const name = part.filename ? nameOf(part) : "";
  const a = away(part.url, name || part.url);
  if (!a) return el("p", {}, `[a file at an address that is not of the web: ${part.url}]`);
  const host = new URL(part.url).host;
  return el("p", { class: "file" }, a, name ? ` at ${host}` : "");
}

// What may be Markdown is formatted by the server, which knows how to do that safely:
// a few texts at once. Until then, and when it does not answer, a text is a text.
const markdownLike = /^#{1,6} \S|^```|^\|.*\||\*\*[^\s*]|^ {0,3}(?:[-*+]|\d{1,3}[.)]) \S/m;
const mostTexts = 50;
const mostLength = 64_000; // the server has its bounds in bytes
let format = null;
let waiting = [];

/** Says who formats texts: (texts) => promise of their HTML. */
export function formatter(f) { format = f; }

function formatted(text, place) {
  if (!format || text.length > mostLength || !markdownLike.test(text)) return;
  waiting.push({ text, place });
  if (waiting.length === 1) setTimeout(formatAll, 30);
}

async function formatAll() {
  const all = waiting;
  waiting = [];
  while (all.length > 0) {
    const batch = [];
    for (let length = 0; all.length > 0 && batch.length < mostTexts && (batch.length === 0 || length + all[0].text.length <= mostLength);) {
      length += all[0].text.length;
      batch.push(all.shift());
    }
    let html;
    try {
      html = await format(batch.map((b) => b.text));
    } catch {
      continue; // they stay as they are
    }
    batch.forEach(({ place }, i) => {
      if (typeof html[i] !== "string" || html[i] === "" || !place.isConnected) return;
      const body = new DOMParser().parseFromString(html[i], "text/html").body;
      place.replaceWith(el("div", { class: "formatted" }, ...body.childNodes));
    });
  }
}

const schemaType = "application/schema+json";

/** Draws the parts of a message or an artifact below an element. */
export class Parts {
  #root;
  #text = null; // the block that is written on
  #raw = "";
  #data;
  #markdown;

  /** Without data, what stands there in words too is left out; without markdown, texts
   * stay as they were written. */
  constructor(root, { data = true, markdown = true } = {}) {
    this.#root = root;
    this.#data = data;
    this.#markdown = markdown;
  }

  /** Replaces everything. */
  set(parts) {
    this.#root.replaceChildren();
    this.#text = null;
    this.#raw = "";
    this.add(parts);
  }

  /** Adds parts. Texts that follow each other are one. */
  add(parts) {
    for (const part of parts || []) {
      if (typeof part.text === "string") {
        if (!this.#text) {
          this.#text = el("p", { class: "text" });
          this.#root.append(this.#text);
        }
        this.#raw += part.text;
        this.#text.append(part.text);
        continue;
      }
      this.finish();
      if (typeof part.raw === "string") this.#root.append(file(part));
      else if (typeof part.url === "string") this.#root.append(link(part));
      else if (this.#data && part.data !== undefined && part.mediaType !== schemaType) this.#root.append(data(part));
    }
  }

  /** Says that the last text is whole: what it names becomes links. */
  finish() {
    if (this.#text && /https?:/.test(this.#raw)) this.#text.replaceChildren(...linked(this.#raw));
    if (this.#text && this.#markdown) formatted(this.#raw, this.#text);
    this.#text = null;
    this.#raw = "";
  }

  get empty() {
    return !this.#root.hasChildNodes();
  }
}
