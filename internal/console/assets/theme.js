// Runs before the page is drawn, so that it is never drawn in the other theme.
(() => {
  let theme = null;
  try { theme = localStorage.getItem("handoff-theme"); } catch { /* kept nowhere */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  document.documentElement.classList.add("scripted");
})();
