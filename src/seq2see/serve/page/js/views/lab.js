// Lab: each experiment a card with its claim, its numbers, its pictures and the verdict.
import { Refused, ask, isSaved, known } from "../api.js";
import { button, fill, h, hint, segmented, table } from "../dom.js";
import { short } from "../numbers.js";
import { show, showError, told } from "../sentence.js";
import { current, set } from "../store.js";
import { both, t } from "../text.js";

const running = new Map(); // number → the error of its last run, or null while it runs
const verdictClass = (outcome) => (outcome.status === "failed" ? "failed" : (outcome.verdict ?? "").replace(" ", "-"));
const TOPICS = [[1, "scaling"], [13, "attention"], [25, "heads"], [30, "position"], [38, "normalisation"], [45, "masks"], [50, "model"]];
const topicOf = (number) => TOPICS.findLast(([first]) => number >= first)[1];
const path = (number) => `api/v1/lab/${number}`;

export function mount(root) {
  const parts = { status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }), cards: h("div", { class: "cards" }) };
  root.append(h("h1", {}, t("lab.title")), h("p", { class: "lead" }, t("lab.lead")), parts.status, parts.bar, parts.cards);
  return { update: (state) => update(parts, state) };
}

async function update(parts, state) {
  try {
    const slow = setTimeout(() => show(parts.status, "busy", t("busy")), 200);
    const { experiments, notes, may_run } = await ask("api/v1/lab").finally(() => clearTimeout(slow));
    if (current() !== state) return;
    show(parts.status, "", may_run ? "" : t("lab.elsewhere"));
    const topic = TOPICS.some(([, name]) => name === state.topic) ? state.topic : "scaling";
    fill(parts.bar, segmented(t("lab.topics"), TOPICS.map(([, name]) => [name, t(`topic.${name}`)]), topic, (name) => set({ topic: name })));
    fill(parts.cards, experiments.filter(({ number }) => topicOf(number) === topic).map((each) => card(parts, each, notes, may_run)));
  } catch (error) {
    showError(parts.status, error, () => update(parts, current()));
  }
}

async function run(parts, number) {
  running.set(number, null);
  update(parts, current());
  try {
    await ask(path(number), {});
    running.delete(number);
  } catch (error) {
    running.set(number, error instanceof Refused ? told(error) : t("error.gone"));
  }
  if (parts.cards.isConnected) update(parts, current());
}

function card(parts, each, notes, may_run) {
  const outcome = known(path(each.number), {});
  const state = running.get(each.number);
  const start = each.needs_full ? h("span", { class: "badge" }, t("verdict.needs --full")) : button(
    t("lab.run"), () => run(parts, each.number),
    { class: "primary", disabled: state === null || !may_run || isSaved(), data: { key: `run:${each.number}` } },
  );
  return h("article", { class: "card experiment", id: `e${each.number}` },
    h(
      "div", { class: "row between head" },
      h("h2", {}, `${each.number}. ${both(each.title)}`),
      outcome ? h("span", { class: `badge ${verdictClass(outcome)}` }, t(`verdict.${outcome.verdict ?? outcome.status}`)) : start,
    ),
    h(
      "p", { class: "row" },
      each.notes.map((name) => hint(h("span", { class: "badge", tabindex: 0 }, name), both(notes[name]))),
      each.trains ? h("span", { class: "badge" }, t("lab.trains")) : null,
      each.needs_full ? h("span", { class: "note" }, t("lab.full"), " ", h("code", {}, `seq2see lab run ${each.number} --full`)) : null,
    ),
    h("dl", { class: "facts" }, h("dt", {}, t("lab.claim")), h("dd", {}, both(each.claim)), h("dt", {}, t("lab.prediction")), h("dd", {}, both(each.prediction)),
      outcome?.reason ? [h("dt", {}, t("lab.verdict")), h("dd", {}, both(outcome.reason))] : null),
    state === null ? h(
      "p", { class: "status busy", role: "status" }, t("lab.running"),
    ) : state ? h("p", { class: "status error", role: "status" }, state) : null,
    outcome ? found(outcome) : null);
}

const written = (value) => (value === null ? "–" : Number.isInteger(value) ? String(value) : Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6 ? value.toExponential(4) : short(value, 6));

function found(outcome) {
  const rows = outcome.measurements.map((each) => [
    h("td", { class: "wrap left" }, both(each.what)),
    h("td", { data: { value: each.value } }, written(each.value)), each.expected,
    each.met ? (each.expected === "—" ? "·" : "✓") : "✗",
  ]);
  return [rows.length ? h("div", { class: "scroll" }, table([t("lab.measured"), t("lab.value"), t("lab.expected"), ""], rows)) : null,
    outcome.figures.map((figure) => h("figure", { class: "picture" },
      // An image cannot run a script, whatever stands in it.
      h(
        "img",
        { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(both(figure.svg))}`, alt: both(figure.caption) },
      ), h("figcaption", { class: "note" }, both(figure.caption)))),
    h("p", { class: "note" }, t("lab.seconds", { seconds: short(outcome.seconds, 1) }))];
}
