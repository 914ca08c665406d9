// The keyboard. Keys do nothing while somebody writes, or with a modifier.
const root = () => document.documentElement.dataset.root;
const places = { n: "", i: "inbox", t: "tasks", d: "delegations", a: "agents" };

function writing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.closest("input, textarea, select, dialog") !== null);
}

// What j and k move between: rows of lists that have a link, and whatever says so.
function items() {
  return [...document.querySelectorAll("main .list tbody tr, main [data-item]")].filter((e) => e.querySelector("a[href]") && e.offsetParent !== null);
}

function move(step) {
  const list = items();
  if (list.length === 0) return;
  const at = list.findIndex((e) => e.contains(document.activeElement));
  const next = list[Math.min(Math.max(at < 0 ? (step > 0 ? 0 : list.length - 1) : at + step, 0), list.length - 1)];
  const link = next.querySelector("a[data-open]") ?? next.querySelector("a[href]");
  link.focus();
  next.scrollIntoView({ block: "nearest" });
}

export function keys() {
  const dialog = document.getElementById("keys");
  document.getElementById("help")?.addEventListener("click", () => dialog?.showModal());
  let went = 0; // when g was pressed
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
    const after = Date.now() - went < 1500;
    went = 0;
    if (after && event.key in places) {
      const link = document.querySelector(`.side nav a[data-nav="${places[event.key] || "now"}"]`);
      if (link) location.assign(root() + places[event.key]);
      event.preventDefault();
      return;
    }
    switch (event.key) {
      case "g": went = Date.now(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "p": document.getElementById("pause")?.click(); break;
      case "?": dialog?.showModal(); break;
      case "/": {
        const search = document.querySelector('main input[type="search"]');
        if (!search) return;
        search.focus();
        search.select();
        break;
      }
      default: return;
    }
    event.preventDefault();
  });
}
