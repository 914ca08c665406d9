// The list of tasks: one box that marks all of them.
function boxes(all) {
  return [...all.form.querySelectorAll(`input[type="checkbox"][name="${CSS.escape(all.dataset.all)}"]`)];
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || box.type !== "checkbox" || !box.form) return;
  const all = box.dataset.all ? box : box.form.querySelector("input[data-all]");
  if (!all) return;
  const list = boxes(all);
  if (box === all) for (const b of list) b.checked = all.checked;
  const chosen = list.filter((b) => b.checked).length;
  all.checked = chosen > 0 && chosen === list.length;
  all.indeterminate = chosen > 0 && chosen < list.length;
});
