// Times: the server writes them in UTC, the reader sees them in his zone, and ages
// grow.
const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const otherDay = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function pair(a, unit, b, smaller, both) {
  return `${a} ${unit}` + (both && b > 0 ? ` ${b} ${smaller}` : "");
}

// age writes a time that something takes as the server does: its two largest units.
export function age(ms) {
  const s = Math.floor(Math.abs(ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s", s < 600);
  if (s < 48 * 3600) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min", true);
  const days = Math.floor(s / 86400);
  return pair(days, "d", Math.floor((s % 86400) / 3600), "h", days < 10);
}

function fill(element, now) {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return;
  if ("age" in element.dataset) {
    element.textContent = age(now - at);
    element.title = whole.format(at);
  } else {
    const today = at.toDateString() === new Date(now).toDateString();
    element.textContent = (today ? sameDay : otherDay).format(at);
    element.title = whole.format(at);
  }
}

let ticking = false;

// times fills the times below a node, and keeps ages growing.
export function times(scope = document) {
  const now = Date.now();
  for (const element of scope.querySelectorAll("time[datetime]")) fill(element, now);
  if (ticking) return;
  ticking = true;
  setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const element of document.querySelectorAll("time[data-age]")) fill(element, now);
  }, 1000);
}
