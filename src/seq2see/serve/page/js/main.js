// The frame: which view is shown, in which language and theme.
import { forgetUsed, isSaved, openSaved } from "./api.js";
import { button, fill, find, h, hideTip, segmented } from "./dom.js";
import { saveAsHtml } from "./save.js";
import { address, begin, current, elsewhere, set, subscribe } from "./store.js";
import { LANGUAGES, speak, spoken, t } from "./text.js";
import * as architecture from "./views/architecture.js";
import * as attention from "./views/attention.js";
import * as decoding from "./views/decoding.js";
import * as intervene from "./views/intervene.js";
import * as lab from "./views/lab.js";
import * as positions from "./views/positions.js";
import * as training from "./views/training.js";
import * as translate from "./views/translate.js";

const VIEWS = { translate, attention, decoding, intervene, positions, lab, architecture, training };

const notice = h("p", { class: "notice", role: "alert" }); // stands below a view until it changes

let shown = null; // the view on the screen: {name, language, update, leave}

function theme(wanted) {
  const root = document.documentElement;
  if (wanted) {
    try { localStorage.setItem("theme", wanted); } catch { /* a file may have no storage */ }
  }
  let kept = null;
  try { kept = localStorage.getItem("theme"); } catch { /* the same */ }
  root.dataset.theme = wanted ?? kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function frame(state) {
  const links = Object.keys(VIEWS).map((name) => h("a", {
    href: address(elsewhere(name)), "aria-current": name === viewName(state) ? "page" : null, data: { key: name },
  }, t(`view.${name}`)));
  const dark = document.documentElement.dataset.theme === "dark";
  const views = h("nav", { class: "views", "aria-label": t("views") }, links);
  fill(find("#bar"),
    h("a", { class: "brand", href: address(elsewhere("translate")), "aria-label": "seq2see" }, "seq2", h("b", {}, "see")),
    views,
    h("div", { class: "tools" },
      segmented(
        t("language"),
        LANGUAGES, spoken(),
        (lang) => set({ lang }),
      ),
      button(dark ? "☀" : "☾", () => { theme(dark ? "light" : "dark"); refresh(); },
        { "aria-label": dark ? t("theme.light") : t("theme.dark"), data: { key: "theme" } }),
      isSaved() ? h("span", { class: "badge" }, t("saved")) : button(t("save"), save, { data: { key: "save" } })));
  find("#skip").textContent = t("skip");
  fill(find("#foot"), isSaved() ? null : h("a", { href: "docs" }, t("docs")));
  const active = views.querySelector("[aria-current]");
  if (active && views.scrollWidth > views.clientWidth) views.scrollLeft = active.offsetLeft - views.clientWidth / 2 + active.clientWidth / 2;
}

async function save() {
  notice.remove();
  try {
    await saveAsHtml();
  } catch {
    notice.textContent = t("save.failed");
    find("#main").append(notice);
  }
}

const viewName = (state) => (Object.hasOwn(VIEWS, state.view) ? state.view : "translate");

function show(state) {
  const name = viewName(state);
  speak(state.lang);
  frame(state);
  document.title = `${t(`view.${name}`)} – seq2see`;
  if (shown?.name !== name || shown.language !== spoken()) {
    shown?.leave?.();
    const root = h("div", { class: `view ${name}` });
    shown = { name, language: spoken(), ...VIEWS[name].mount(root) };
    find("#main").replaceChildren(root);
  }
  notice.remove();
  hideTip();
  forgetUsed();
  shown.update(state);
}

// Draws everything anew, as after a change of colours.
function refresh() {
  show(current());
}

const record = find("#saved");
if (record) {
  const { hash, answers } = JSON.parse(record.textContent);
  openSaved(answers);
  begin(hash);
}
theme();
subscribe((state, before) => {
  show(state);
  if (state.view !== before.view) find("#main").focus({ preventScroll: true });
});
find("#skip").addEventListener("click", (event) => { event.preventDefault(); find("#main").focus(); });
refresh();
