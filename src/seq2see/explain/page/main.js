// Reads the trace out of the page and draws everything.
import { AttentionView } from "./attention.js";
import { attributionView } from "./attribution.js";
import { element, find, short } from "./base.js";
import { beamTree } from "./beam.js";
import { stepTable, wordTable } from "./steps.js";
import { worked } from "./worked.js";

const trace = JSON.parse(find("#trace").textContent);

function heading() {
  find("#source").textContent = trace.source.text;
  find("#target").textContent = trace.translation.text;
  const { model } = trace;
  const way = trace.forced ? "forced" : `beam ${trace.search.beam_size}`;
  find("#facts").textContent = `${trace.source.language} → ${trace.target.language} · log-probability ${short(trace.translation.log_prob, 2)} · score ${short(trace.translation.score)} · ${way} · ${model.encoder_layers}+${model.decoder_layers} layers, ${model.heads} heads, d ${model.d_model}`;
}

function described(intervention) {
  const { kind, ...fields } = intervention;
  const told = Object.entries(fields).filter(([, value]) => value !== null);
  return `${kind.replace("_", " ")}: ${told.map(([name, value]) => `${name} ${value}`).join(", ")}`;
}

function change() {
  if (!trace.change) return;
  find("#change").hidden = false;
  const words = trace.change.words.map(([kind, word]) => element("span", { class: kind }, `${word} `));
  const { baseline } = trace.change;
  const numbers = `Without it: ${baseline.text} (log-probability ${short(baseline.log_prob, 2)}); with it, the same text has ${short(trace.change.baseline_now, 2)}, a change of ${short(trace.change.baseline_now - baseline.log_prob, 2)}.`;
  find("#change .body").replaceChildren(
    element("p", { class: "formula" }, trace.interventions.map(described).join("; ")),
    element("p", {}, ...words), element("p", { class: "note" }, numbers),
  );
}

function theme(view) {
  const button = find("#theme");
  const root = document.documentElement;
  const set = (name) => {
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "light" : "dark";
    view?.draw();
  };
  set(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  button.addEventListener("click", () => set(root.dataset.theme === "dark" ? "light" : "dark"));
}

heading();
change();
const view = trace.attention.length ? new AttentionView(trace, worked) : null;
theme(view);
stepTable(trace);
wordTable(trace);
beamTree(trace);
attributionView(trace);
