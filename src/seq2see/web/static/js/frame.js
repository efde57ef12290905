// The frame of the page: navigation, language, theme, and the current view.
import { clearUsedResponses, usedResponses } from "./api.js";
import { button, h, hideTooltip, query, replaceContent, segmented } from "./dom.js";
import { isServed, trace } from "./embedded.js";
import { LANGUAGES, currentLanguage, setLanguage, t } from "./i18n.js";
import { address, current, openView, set, stateOfView, subscribe } from "./state.js";

const notice = h("p", { class: "notice", role: "alert" }); // an error below the view, until the view changes

let views = {}; // modules by name
let mounted = null; // the view on the screen: {name, language, update, leave}

// Applies a theme and stores it; without a name, the stored theme or that of the system. Files and notebooks have no
// storage of their own.
function applyTheme(name) {
  if (name && isServed) localStorage.setItem("theme", name);
  const stored = isServed ? localStorage.getItem("theme") : null;
  document.documentElement.dataset.theme = name ?? stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function link(name, attributes, ...content) {
  const open = (event) => { event.preventDefault(); openView(name); };
  return h("a", { href: address(stateOfView(name)), ...attributes, on: isServed ? {} : { click: open } }, content);
}

function drawNavigation(state) {
  const names = Object.keys(views);
  const links = names.map((name) => link(name, { "aria-current": name === viewName(state) ? "page" : null, data: { key: name } }, t(`view.${name}`)));
  const isDark = document.documentElement.dataset.theme === "dark";
  const navigation = h("nav", { class: "views", "aria-label": t("views") }, links);
  replaceContent(query("#bar"),
    link(names[0], { class: "brand", "aria-label": "seq2see" }, "seq2", h("b", {}, "see")),
    navigation,
    h("div", { class: "tools" },
      segmented(t("language"), LANGUAGES, currentLanguage(), (lang) => set({ lang })),
      button(isDark ? "☀" : "☾", () => { applyTheme(isDark ? "light" : "dark"); refresh(); },
        { "aria-label": isDark ? t("theme.light") : t("theme.dark"), data: { key: "theme" } }),
      isServed ? button(t("save"), save, { data: { key: "save" } }) : trace ? null : h("span", { class: "badge" }, t("saved"))));
  query("#skip").textContent = t("skip");
  replaceContent(query("#foot"), isServed && h("a", { href: "docs" }, t("docs")));
  const active = navigation.querySelector("[aria-current]");
  if (active && navigation.scrollWidth > navigation.clientWidth) {
    navigation.scrollLeft = active.offsetLeft - navigation.clientWidth / 2 + active.clientWidth / 2;
  }
}

// Downloads the current state as one HTML file that needs neither the service nor the network.
async function save() {
  notice.remove();
  try {
    const response = await fetch("page.html");
    if (!response.ok) throw new Error(response.statusText);
    const data = JSON.stringify({ hash: address(current()), responses: usedResponses() }).replaceAll("<", "\\u003c");
    const page = (await response.text()).replace(/(?<= id="data">).*?(?=<\/script>)/s, () => data);
    const url = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    h("a", { href: url, download: `seq2see-${viewName(current())}.html` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  } catch {
    notice.textContent = t("save.failed");
    query("#main").append(notice);
  }
}

const viewName = (state) => (Object.hasOwn(views, state.view) ? state.view : Object.keys(views)[0]);

function show(state) {
  const name = viewName(state);
  setLanguage(state.lang);
  drawNavigation(state);
  document.title = `${t(`view.${name}`)} – ${trace ? trace.source.text : "seq2see"}`;
  if (mounted?.name !== name || mounted.language !== currentLanguage()) {
    mounted?.leave?.();
    const root = h("div", { class: `view ${name}` });
    mounted = { name, language: currentLanguage(), ...views[name].mount(root) };
    query("#main").replaceChildren(root);
  }
  notice.remove();
  hideTooltip();
  clearUsedResponses();
  mounted.update(state);
}

// Draws everything again, for example after a change of the theme.
function refresh() {
  show(current());
}

// Shows the view of the current state. modules: {name: {mount(root)}}; the first one is the default.
export function startPage(modules) {
  views = modules;
  applyTheme();
  subscribe((state, previous) => {
    show(state);
    if (state.view !== previous.view) query("#main").focus({ preventScroll: true });
  });
  query("#skip").addEventListener("click", (event) => { event.preventDefault(); query("#main").focus(); });
  refresh();
}
