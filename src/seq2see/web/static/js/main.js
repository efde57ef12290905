// Entry of the page: navigation, language, theme, and the current view.
import { clearUsedResponses, isSavedPage, openSavedPage } from "./api.js";
import { button, h, hideTooltip, query, replaceContent, segmented } from "./dom.js";
import { LANGUAGES, currentLanguage, setLanguage, t } from "./i18n.js";
import { savePage } from "./save_page.js";
import { address, current, restore, set, stateOfView, subscribe } from "./state.js";
import * as architecture from "./views/architecture.js";
import * as attention from "./views/attention.js";
import * as decoding from "./views/decoding.js";
import * as intervene from "./views/intervene.js";
import * as lab from "./views/lab.js";
import * as positions from "./views/positions.js";
import * as training from "./views/training.js";
import * as translate from "./views/translate.js";

const VIEWS = { translate, attention, decoding, intervene, positions, lab, architecture, training };

const notice = h("p", { class: "notice", role: "alert" }); // an error below the view, until the view changes

let mounted = null; // the view on the screen: {name, language, update, leave}

// Applies a theme and stores it; without a name, the stored theme or that of the system.
function applyTheme(name) {
  const root = document.documentElement;
  if (name) {
    try { localStorage.setItem("theme", name); } catch { /* a page from a file may have no storage */ }
  }
  let stored = null;
  try { stored = localStorage.getItem("theme"); } catch { /* the same */ }
  root.dataset.theme = name ?? stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function drawNavigation(state) {
  const links = Object.keys(VIEWS).map((name) => h("a", {
    href: address(stateOfView(name)), "aria-current": name === viewName(state) ? "page" : null, data: { key: name },
  }, t(`view.${name}`)));
  const isDark = document.documentElement.dataset.theme === "dark";
  const views = h("nav", { class: "views", "aria-label": t("views") }, links);
  replaceContent(query("#bar"),
    h("a", { class: "brand", href: address(stateOfView("translate")), "aria-label": "seq2see" }, "seq2", h("b", {}, "see")),
    views,
    h("div", { class: "tools" },
      segmented(
        t("language"),
        LANGUAGES, currentLanguage(),
        (lang) => set({ lang }),
      ),
      button(isDark ? "☀" : "☾", () => { applyTheme(isDark ? "light" : "dark"); refresh(); },
        { "aria-label": isDark ? t("theme.light") : t("theme.dark"), data: { key: "theme" } }),
      isSavedPage() ? h("span", { class: "badge" }, t("saved")) : button(t("save"), save, { data: { key: "save" } })));
  query("#skip").textContent = t("skip");
  replaceContent(query("#foot"), isSavedPage() ? null : h("a", { href: "docs" }, t("docs")));
  const active = views.querySelector("[aria-current]");
  if (active && views.scrollWidth > views.clientWidth) views.scrollLeft = active.offsetLeft - views.clientWidth / 2 + active.clientWidth / 2;
}

async function save() {
  notice.remove();
  try {
    await savePage();
  } catch {
    notice.textContent = t("save.failed");
    query("#main").append(notice);
  }
}

const viewName = (state) => (Object.hasOwn(VIEWS, state.view) ? state.view : "translate");

function show(state) {
  const name = viewName(state);
  setLanguage(state.lang);
  drawNavigation(state);
  document.title = `${t(`view.${name}`)} – seq2see`;
  if (mounted?.name !== name || mounted.language !== currentLanguage()) {
    mounted?.leave?.();
    const root = h("div", { class: `view ${name}` });
    mounted = { name, language: currentLanguage(), ...VIEWS[name].mount(root) };
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

const savedElement = query("#saved");
if (savedElement) {
  const { hash, responses } = JSON.parse(savedElement.textContent);
  openSavedPage(responses);
  restore(hash);
}
applyTheme();
subscribe((state, previous) => {
  show(state);
  if (state.view !== previous.view) query("#main").focus({ preventScroll: true });
});
query("#skip").addEventListener("click", (event) => { event.preventDefault(); query("#main").focus(); });
refresh();
