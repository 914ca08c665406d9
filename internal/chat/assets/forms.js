// Draws the form of a question and the buttons of a decision.

import { el, linked } from "./parts.js";

let last = 0;

/** Returns a form for the fields that the server has made of a schema, and calls
 * submit with what was written: the values of each field. submit returns
 * {error, field} when something does not fit. */
export function questionForm(shown, submit) {
  const fields = shown.fields.map((f) => field(f));
  const problem = el("p", { class: "problem", role: "alert" });
  const button = el("button", { type: "submit" }, "Answer");
  const form = el("form", { class: "question", novalidate: true, "aria-label": shown.title || "Answer" });
  if (shown.title) form.append(el("h3", {}, shown.title));
  if (shown.description) form.append(el("p", {}, ...linked(shown.description)));
  form.append(...fields.map((f) => f.node), problem, el("div", { class: "actions" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    problem.textContent = "";
    for (const f of fields) f.mark("");
    try {
      const wrong = await submit(fields.map((f) => f.values()));
      if (!wrong) return;
      const at = fields[wrong.field];
      if (at) {
        at.mark(wrong.error);
        at.focus();
      } else {
        problem.textContent = wrong.error;
      }
    } catch (error) {
      problem.textContent = error.message;
    }
    button.disabled = false;
  });
  return form;
}

/** What was written, in words, for people who read the conversation. */
export function inWords(shown, values) {
  const lines = [];
  shown.fields.forEach((f, i) => {
    const text = values[i].filter((v) => v !== "").join(", ");
    if (text === "") return;
    const said = f.kind === "boolean" ? (text === "true" ? "Yes" : "No") : text;
    lines.push(shown.fields.length === 1 ? said : `${f.label}: ${said}`);
  });
  return lines.join("\n") || "–";
}

/** A field: its node, what is written in it, and what is wrong with it. */
function field(f) {
  const id = `f${++last}`;
  const problem = el("p", { class: "problem", id: `${id}-problem` });
  const about = f.description ? el("p", { class: "hint", id: `${id}-about` }, ...linked(f.description)) : null;
  const described = [about && about.id, problem.id].filter(Boolean).join(" ");
  const control = controlOf(f, id, described);
  const marker = f.required ? null : el("span", { class: "optional" }, " (optional)");
  const node = control.group
    ? el("fieldset", { class: "field" }, el("legend", {}, f.label, marker), about, control.node, problem)
    : el("div", { class: "field" }, el("label", { for: id }, f.label, marker), about, control.node, problem);
  return {
    node,
    values: control.values,
    focus: () => (node.querySelector("input, select, textarea") || node).focus(),
    mark: (text) => {
      problem.textContent = text;
      for (const e of node.querySelectorAll("input, select, textarea")) {
        if (text) e.setAttribute("aria-invalid", "true");
        else e.removeAttribute("aria-invalid");
      }
    },
  };
}

const few = 7; // choices that are all shown

function controlOf(f, id, described) {
  const options = f.options || [];
  if (f.kind === "choice" || f.kind === "boolean") {
    const choices = f.kind === "boolean" ? [["true", "Yes"], ["false", "No"]] : options.map((o) => [o, o]);
    return choices.length <= few ? boxes("radio", choices, [f.default || ""], id, described) : select(f, choices, id, described);
  }
  if (f.kind === "list" && f.items === "choice") {
    return boxes("checkbox", options.map((o) => [o, o]), (f.default || "").split("\n"), id, described);
  }
  const common = { id, name: id, "aria-describedby": described, "aria-required": f.required ? "true" : undefined, autocomplete: "off" };
  if (f.kind === "list" || f.kind === "json" || f.long) {
    const hint = f.kind === "list" ? "One in a line" : f.kind === "json" ? "JSON" : undefined;
    const area = el("textarea", { ...common, rows: f.kind === "json" ? 5 : 3, placeholder: hint });
    area.value = f.default || "";
    const lines = () => area.value.split("\n").map((l) => l.trim()).filter((l) => l !== "");
    return { node: area, values: () => (f.kind === "list" ? lines() : [area.value]) };
  }
  const types = { date: "date", "date-time": "datetime-local" };
  const modes = { number: "decimal", integer: "numeric" };
  const input = el("input", { ...common, type: types[f.kind] || "text", inputmode: modes[f.kind] });
  if (f.kind !== "date-time") input.value = f.default || "";
  const text = () => {
    if (f.kind !== "date-time" || !input.value) return input.value;
    return new Date(input.value).toISOString(); // it was meant in the zone of whoever wrote it
  };
  return { node: input, values: () => [text()] };
}

function select(f, choices, id, described) {
  const list = el("select", { id, name: id, "aria-describedby": described });
  if (!f.default) list.append(el("option", { value: "" }, "Choose…"));
  for (const [value, label] of choices) list.append(el("option", { value, selected: value === f.default }, label));
  return { node: list, values: () => [list.value] };
}

function boxes(type, choices, chosen, id, described) {
  const inputs = choices.map(([value], i) => {
    const input = el("input", { type, name: id, id: `${id}-${i}`, "aria-describedby": described });
    input.value = value;
    input.checked = chosen.includes(value);
    return input;
  });
  const node = el("div", { class: "boxes" }, ...choices.map(([, label], i) => el("label", { class: "box", for: `${id}-${i}` }, inputs[i], el("span", {}, label))));
  return {
    node,
    group: true,
    values: () => {
      const picked = inputs.filter((i) => i.checked).map((i) => i.value);
      return type === "radio" ? [picked[0] || ""] : picked;
    },
  };
}

/** Returns the buttons of a decision. decide is called with "approve" or "deny" and a
 * note. */
export function decisionForm(request, decide) {
  const id = `f${++last}`;
  const note = el("input", { type: "text", id, maxlength: "1000", autocomplete: "off" });
  const problem = el("p", { class: "problem", role: "alert" });
  const approve = el("button", { type: "button" }, "Approve");
  const deny = el("button", { type: "button", class: "plain" }, "Deny");
  const box = el("div", { class: "question", role: "group", "aria-label": "Decision" },
    request.operation ? el("p", { class: "operation" }, "This would allow: ", el("strong", {}, request.operation)) : null,
    expiry(request.expires),
    el("div", { class: "field" }, el("label", { for: id }, "Note", el("span", { class: "optional" }, " (optional)")), note),
    problem,
    el("div", { class: "actions" }, approve, deny));
  const press = (decision) => async () => {
    approve.disabled = deny.disabled = true;
    problem.textContent = "";
    try {
      await decide(decision, note.value.trim());
    } catch (error) {
      problem.textContent = error.message;
      approve.disabled = deny.disabled = false;
    }
  };
  approve.addEventListener("click", press("approve"));
  deny.addEventListener("click", press("deny"));
  return box;
}

/** Says until when something can be decided. */
export function expiry(text) {
  const at = new Date(text || "");
  if (Number.isNaN(at.getTime())) return null;
  return el("p", { class: "hint" }, "Until ", el("time", { datetime: at.toISOString() }, at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })));
}
