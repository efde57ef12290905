// Training: the curves of a run while it runs.
import { Refused, ask, askOnce, isSaved, known, note } from "../api.js";
import { curves } from "../draw/curves.js";
import { choice, fill, h, table } from "../dom.js";
import { short } from "../numbers.js";
import { show, showError } from "../sentence.js";
import { current, set } from "../store.js";
import { t } from "../text.js";

const EVERY = 3000; // ms between looks at the log
const POINTS = 800; // of a curve: more than there are pixels
const CHARTS = [
  { name: "loss", series: [["train", "nll"], ["validation", "nll"]], digits: 4 },
  { name: "quality", series: [["validation", "bleu"], ["validation", "chrf"]], digits: 2 },
  { name: "rate", series: [["train", "rate"]], digits: 6 },
  { name: "gradient", series: [["train", "gradient_norm"]], digits: 3 },
  { name: "speed", series: [["train", "tokens_per_second"]], digits: 0 },
];

export function mount(root) {
  const parts = {
    status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }),
    facts: h("section", { class: "card", hidden: true }), charts: h("div", { class: "charts" }),
    samples: h("section", { class: "card", hidden: true }), timer: 0, shown: "",
  };
  root.append(
    h("h1", {}, t("training.title")),
    h("p", { class: "lead" }, t("training.lead")), parts.status, parts.bar, parts.facts, parts.charts, parts.samples,
  );
  return { update: (state) => { parts.shown = ""; return update(parts, state); }, leave: () => { clearTimeout(parts.timer); parts.left = true; } };
}

async function update(parts, state) {
  clearTimeout(parts.timer);
  let locked = false;
  try {
    await look(parts, state);
  } catch (error) {
    if (parts.left) return;
    locked = error instanceof Refused && error.status === 403; // a key is being typed there
    showError(parts.status, error, () => update(parts, current()));
  }
  if (parts.left || locked || isSaved() || current() !== state) return;
  clearTimeout(parts.timer); // another look may have been on its way
  parts.timer = setTimeout(() => update(parts, state), EVERY);
}

async function look(parts, state) {
  const { runs } = await ask("api/v1/runs", undefined, { fresh: !isSaved() });
  if (!runs.length) return show(parts.status, "", t("training.none"));
  const name = runs.some((run) => run.name === state.run) ? state.run : runs[0].name;
  const log = await grown(name);
  if (parts.left || current() !== state) return;
  show(parts.status, "");
  fill(parts.bar, choice(t("training.run"), runs.map((run) => [run.name, run.name]), name, (run) => set({ run }), { data: { key: "run" } }));
  const version = `${name} ${log.next}`;
  if (parts.shown !== version) draw(parts, log);
  parts.shown = version;
}

// The log of a run with what has been written to it since the last look. A run that is taken up again
// begins its log anew from there.
async function grown(name) {
  const path = `api/v1/runs/${encodeURIComponent(name)}`;
  let log = known(path) ?? { records: [], next: 0 };
  while (!isSaved()) {
    const more = await askOnce(`${path}?after=${log.next}`);
    log = { name, records: more.restarted ? more.records : [...log.records, ...more.records], next: more.next };
    note(path, log);
    if (!more.records.length) break;
  }
  return log;
}

function thinned(points) {
  const every = Math.ceil(points.length / POINTS);
  return every < 2 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

function draw(parts, { records }) {
  const of = (kind) => records.filter((record) => record.kind === kind);
  const made = CHARTS.map(({ name, series, digits }) => {
    const lines = series.map(([kind, field]) => ({
      name: t(`series.${kind}.${field}`),
      points: thinned(of(kind).filter((record) => Number.isFinite(record[field])).map((record) => [record.update, record[field]])),
    }));
    const drawn = lines.filter(({ points }) => points.length);
    return drawn.length ? h("section", { class: "card" }, curves(drawn, { name: t(`chart.${name}`), x: t("update"), digits })) : null;
  });
  fill(parts.charts, made);
  const [last, validation] = [of("train").at(-1), of("validation").at(-1)];
  parts.facts.hidden = !last;
  if (last) {
    const told = {
      update: last.update, epoch: last.epoch, nll: short(last.nll, 4), rate: last.rate ? last.rate.toExponential(2) : 0,
      tokens_per_second: short(last.tokens_per_second, 0),
      bleu: validation?.bleu === undefined ? null : short(validation.bleu, 2),
    };
    fill(
      parts.facts,
      h(
        "dl", { class: "facts inline" },
        Object.entries(told).filter(([, value]) => value !== null).map(([name, value]) => h(
          "div", {},
          h("dt", {}, t(`training.${name}`)),
          h("dd", { data: { number: name } }, value),
        )),
      ),
    );
  }
  parts.samples.hidden = !validation?.samples?.length;
  if (validation?.samples?.length) {
    const rows = validation.samples.map((sides) => sides.map((side) => h("td", { class: "left wrap", dir: "auto" }, side)));
    fill(
      parts.samples,
      h("h2", {}, t("samples", { update: validation.update })),
      h(
        "div", { class: "scroll" },
        table([t("sample.source"), h("th", { class: "left" }, t("sample.reference")), h("th", { class: "left" }, t("sample.translation"))], rows),
      ),
    );
  }
}
