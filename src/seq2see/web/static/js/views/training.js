// Training: the curves of a training run, updated while it runs.
import { RequestError, cachedResponse, fetchJson, fetchUncached, setCached } from "../api.js";
import { h, replaceContent, selectField, table } from "../dom.js";
import { lineChart } from "../draw/line_chart.js";
import { isServed } from "../embedded.js";
import { showError, showStatus } from "../errors.js";
import { formatNumber } from "../format.js";
import { t } from "../i18n.js";
import { current, set } from "../state.js";

const INTERVAL = 3000; // milliseconds between two requests for the log
const MAX_POINTS = 800; // points of a curve: more than there are pixels
const CHARTS = [
  { name: "loss", series: [["train", "nll"], ["validation", "nll"]], digits: 4 },
  { name: "quality", series: [["validation", "bleu"], ["validation", "chrf"]], digits: 2 },
  { name: "learning_rate", series: [["train", "learning_rate"]], digits: 6 },
  { name: "gradient", series: [["train", "gradient_norm"]], digits: 3 },
  { name: "speed", series: [["train", "tokens_per_second"]], digits: 0 },
];

export function mount(root) {
  const parts = {
    status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }),
    facts: h("section", { class: "card", hidden: true }), charts: h("div", { class: "charts" }),
    examples: h("section", { class: "card", hidden: true }), timer: 0, drawnVersion: "",
  };
  root.append(
    h("h1", {}, t("training.title")),
    h("p", { class: "lead" }, t("training.lead")), parts.status, parts.bar, parts.facts, parts.charts, parts.examples,
  );
  return {
    update: (state) => { parts.drawnVersion = ""; return update(parts, state); },
    leave: () => { clearTimeout(parts.timer); parts.hasLeft = true; },
  };
}

async function update(parts, state) {
  clearTimeout(parts.timer);
  let needsKey = false;
  try {
    await loadAndDraw(parts, state);
  } catch (error) {
    if (parts.hasLeft) return;
    needsKey = error instanceof RequestError && error.status === 403; // another update would clear the field for the key
    showError(parts.status, error, () => update(parts, current()));
  }
  if (parts.hasLeft || needsKey || !isServed || current() !== state) return;
  clearTimeout(parts.timer); // another update may have run at the same time
  parts.timer = setTimeout(() => update(parts, state), INTERVAL);
}

async function loadAndDraw(parts, state) {
  const { runs } = await fetchJson("api/v1/runs", undefined, { fresh: isServed });
  if (!runs.length) return showStatus(parts.status, "", t("training.none"));
  const name = runs.some((run) => run.name === state.run) ? state.run : runs[0].name;
  const log = await fetchLog(name);
  if (parts.hasLeft || current() !== state) return;
  showStatus(parts.status, "");
  replaceContent(parts.bar, selectField(t("training.run"), runs.map((run) => [run.name, run.name]), name, (run) => set({ run }), { data: { key: "run" } }));
  const version = `${name} ${log.next_offset}`;
  if (parts.drawnVersion !== version) draw(parts, log);
  parts.drawnVersion = version;
}

// Returns the log of a run: the cached records and those that were added since. A resumed run may truncate its log.
async function fetchLog(name) {
  const path = `api/v1/runs/${encodeURIComponent(name)}`;
  let log = cachedResponse(path) ?? { records: [], next_offset: 0 };
  while (isServed) {
    const added = await fetchUncached(`${path}?offset=${log.next_offset}`);
    log = { name, records: added.truncated ? added.records : [...log.records, ...added.records], next_offset: added.next_offset };
    setCached(path, log);
    if (!added.records.length) break;
  }
  return log;
}

function downsample(points) {
  const every = Math.ceil(points.length / MAX_POINTS);
  return every < 2 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

function draw(parts, { records }) {
  const ofKind = (kind) => records.filter((record) => record.kind === kind);
  replaceContent(parts.charts, CHARTS.map(({ name, series, digits }) => {
    const curves = series.map(([kind, field]) => ({
      name: t(`series.${kind}.${field}`),
      points: downsample(ofKind(kind).filter((record) => Number.isFinite(record[field])).map((record) => [record.update, record[field]])),
    })).filter(({ points }) => points.length);
    return curves.length ? h("section", { class: "card" }, lineChart(curves, { name: t(`chart.${name}`), x: t("update"), digits })) : null;
  }));
  const [last, validation] = [ofKind("train").at(-1), ofKind("validation").at(-1)];
  drawFacts(parts.facts, last, validation);
  drawExamples(parts.examples, validation);
}

function drawFacts(card, last, validation) {
  card.hidden = !last;
  if (!last) return;
  const values = {
    update: last.update, epoch: last.epoch, nll: formatNumber(last.nll, 4),
    learning_rate: last.learning_rate ? last.learning_rate.toExponential(2) : 0,
    tokens_per_second: formatNumber(last.tokens_per_second, 0),
    bleu: validation?.bleu === undefined ? null : formatNumber(validation.bleu, 2),
  };
  const known = Object.entries(values).filter(([, value]) => value !== null);
  replaceContent(card, h("dl", { class: "facts inline" }, known.map(([name, value]) => h(
    "div", {}, h("dt", {}, t(`training.${name}`)), h("dd", { data: { number: name } }, value),
  ))));
}

function drawExamples(card, validation) {
  card.hidden = !validation?.examples?.length;
  if (card.hidden) return;
  const rows = validation.examples.map((example) => example.map((text) => h("td", { class: "left wrap", dir: "auto" }, text)));
  replaceContent(
    card,
    h("h2", {}, t("examples", { update: validation.update })),
    h(
      "div", { class: "scroll" },
      table([t("example.source"), h("th", { class: "left" }, t("example.reference")), h("th", { class: "left" }, t("example.translation"))], rows),
    ),
  );
}
