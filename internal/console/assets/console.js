// The entry: what every page has. A page works without any of it.
import { times } from "./time.js";
import { keys } from "./keys.js";
import { live } from "./live.js";

const root = document.documentElement;

function themes() {
  const button = document.getElementById("theme");
  if (!button) return;
  const names = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const show = () => { button.textContent = names[root.dataset.theme || "auto"]; };
  button.addEventListener("click", () => {
    const next = { auto: "light", light: "dark", dark: "auto" }[root.dataset.theme || "auto"];
    if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
    try {
      if (next === "auto") localStorage.removeItem("handoff-theme"); else localStorage.setItem("handoff-theme", next);
    } catch { /* it holds for this page */ }
    show();
  });
  show();
}

// Forms that ask first: data-confirm says what.
function confirms() {
  document.addEventListener("submit", (event) => {
    const text = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (text && !window.confirm(text)) event.preventDefault();
  });
}

// Text that is to be copied: <pre class="copy">.
function copies(scope = document) {
  for (const block of scope.querySelectorAll("pre.copy:not([data-copies])")) {
    block.dataset.copies = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy-button";
    button.textContent = "Copy";
    const text = block.textContent;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
      }
    });
    block.append(button);
  }
}

// The entry of the page that is shown is in view, on a phone too.
function navigation() {
  const current = document.querySelector('.side nav [aria-current="page"]');
  const list = current?.closest("ul");
  if (list && list.scrollWidth > list.clientWidth) list.scrollLeft = current.offsetLeft - list.clientWidth / 3;
}

live();
themes();
confirms();
copies();
navigation();
times();
keys();
document.addEventListener("console:replaced", (event) => { times(event.target); copies(event.target); });
