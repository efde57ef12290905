// Lab: one card per experiment with its claim, measurements, figures and verdict.
import { RequestError, cachedResponse, fetchJson } from "../api.js";
import { addTooltip, button, facts, h, replaceContent, segmented, table } from "../dom.js";
import { isServed } from "../embedded.js";
import { errorText, loadingView, showStatus } from "../errors.js";
import { formatNumber, parseInteger } from "../format.js";
import { localized, t } from "../i18n.js";
import { current, set } from "../state.js";

const runs = new Map(); // by experiment number: null while it runs, else the error of its last run
const verdictClass = (outcome) => (outcome.status === "ok" ? outcome.verdict.replace(" ", "-") : "failed");
const path = (number) => `api/v1/lab/${number}`;

export function mount(root) {
  const parts = { status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }), cards: h("div", { class: "cards" }) };
  root.append(h("h1", {}, t("lab.title")), h("p", { class: "lead" }, t("lab.lead")), parts.status, parts.bar, parts.cards);
  const view = loadingView(parts.status, () => fetchJson("api/v1/lab"), (state, lab) => draw(parts, state, lab));
  parts.refresh = () => view.update(current());
  return view;
}

function draw(parts, state, { experiments, topics, sources, verdicts, can_run: canRun }) {
  showStatus(parts.status, "", canRun ? "" : t("lab.local_only"));
  const topic = parseInteger(state.topic, 0, 0, topics.length - 1);
  replaceContent(parts.bar, segmented(t("lab.topics"), topics.map((name, i) => [i, localized(name)]), topic, (i) => set({ topic: i })));
  replaceContent(parts.cards, experiments.filter((each) => each.topic === topic).map((each) => card(parts, each, sources, verdicts, canRun)));
}

async function run(parts, number) {
  runs.set(number, null);
  parts.refresh();
  try {
    await fetchJson(path(number), {});
    runs.delete(number);
  } catch (error) {
    runs.set(number, error instanceof RequestError ? errorText(error) : t("error.unreachable"));
  }
  if (parts.cards.isConnected) parts.refresh();
}

function card(parts, experiment, sources, verdicts, canRun) {
  const { number } = experiment;
  const outcome = cachedResponse(path(number), {});
  const runState = runs.get(number);
  const start = button(
    t("lab.run"), () => run(parts, number),
    { class: "primary", disabled: runState === null || !canRun || !isServed, data: { key: `run:${number}` } },
  );
  return h("article", { class: "card experiment", id: `e${number}` },
    h(
      "div", { class: "row between head" },
      h("h2", {}, `${number}. ${localized(experiment.title)}`),
      outcome ? h("span", { class: `badge ${verdictClass(outcome)}` }, localized(verdicts[outcome.verdict])) : start,
    ),
    h(
      "p", { class: "row" },
      Object.entries(experiment.sources).map(([name, quotation]) => addTooltip(
        h("span", { class: "badge", tabindex: 0 }, name), `${localized(sources[name])}: ${quotation}`,
      )),
      experiment.trains ? h("span", { class: "badge" }, t("lab.trains")) : null,
      outcome?.status === "differs" ? h("span", { class: "badge failed" }, t("lab.differs")) : null,
    ),
    (outcome?.parts ?? experiment.parts).map((each) => part(each, verdicts)),
    runState === null ? h(
      "p", { class: "status busy", role: "status" }, t("lab.running"),
    ) : runState ? h("p", { class: "status error", role: "status" }, runState) : null,
    outcome ? results(outcome) : null);
}

function part({ claim, verdict, text, rules }, verdicts) {
  const rows = [[t("lab.claim"), localized(claim)]];
  if (verdict) {
    rows.push([localized(verdicts[verdict]), localized(text)]);
    rows.push([t("lab.rules"), rules.map((rule) => `${localized(verdicts[rule.verdict])}: ${rule.checks.join(", ")}`).join("; ")]);
  }
  return facts(rows);
}

function results(outcome) {
  const rows = outcome.measurements.map((each) => [
    h("td", { class: "wrap left" }, localized(each.what)), h("td", { class: "left" }, each.name),
    h("td", { data: { value: each.value } }, each.text),
  ]);
  return [rows.length ? h("div", { class: "scroll" }, table([t("lab.measured"), "", t("lab.value")], rows)) : null,
    outcome.figures.map((figure) => h("figure", { class: "picture" },
      // As an image, an SVG cannot run scripts.
      h(
        "img",
        { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(localized(figure.svg))}`, alt: localized(figure.caption) },
      ), h("figcaption", { class: "note" }, localized(figure.caption)))),
    h("p", { class: "note" }, t("lab.seconds", { seconds: formatNumber(outcome.seconds, 1) }))];
}
