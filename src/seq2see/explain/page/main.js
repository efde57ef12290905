// Reads the trace that is embedded in the page and draws all sections.
import { AttentionView } from "./attention.js";
import { drawAttentionSteps } from "./attention_steps.js";
import { drawAttribution } from "./attribution.js";
import { drawBeamTree } from "./beam_tree.js";
import { formatNumber, h, query } from "./dom.js";
import { drawSteps, drawWordAlternatives } from "./steps.js";

const trace = JSON.parse(query("#trace").textContent);

function drawHeading() {
  query("#source").textContent = trace.source.text;
  query("#target").textContent = trace.translation.text;
  const { model } = trace;
  const decoding = trace.is_forced ? "forced decoding" : `beam size ${trace.search.beam_size}`;
  query("#facts").textContent = `${trace.source.language} → ${trace.target.language} · log-probability ${formatNumber(trace.translation.log_prob, 2)} · score ${formatNumber(trace.translation.score)} · ${decoding} · ${model.encoder_layers}+${model.decoder_layers} layers, ${model.heads} heads, d_model ${model.d_model}`;
}

function formatIntervention(intervention) {
  const { kind, ...fields } = intervention;
  const values = Object.entries(fields).filter(([, value]) => value !== null);
  return `${kind.replace("_", " ")}: ${values.map(([name, value]) => `${name} ${value}`).join(", ")}`;
}

function drawEffect() {
  const effect = trace.intervention_effect;
  if (!effect) return;
  query("#effect").hidden = false;
  const words = effect.word_diff.map(([kind, word]) => h("span", { class: kind }, `${word} `));
  const { baseline, baseline_log_prob_after: after } = effect;
  const note = `Without interventions: ${baseline.text} (log-probability ${formatNumber(baseline.log_prob, 2)}). With interventions, the log-probability of this text is ${formatNumber(after, 2)}, a change of ${formatNumber(after - baseline.log_prob, 2)}.`;
  query("#effect .body").replaceChildren(
    h("p", { class: "formula" }, trace.interventions.map(formatIntervention).join("; ")),
    h("p", {}, ...words), h("p", { class: "note" }, note),
  );
}

function addThemeButton(view) {
  const button = query("#theme");
  const root = document.documentElement;
  const setTheme = (name) => {
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "light" : "dark";
    view?.draw();
  };
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  button.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
}

drawHeading();
drawEffect();
addThemeButton(trace.attention.length ? new AttentionView(trace, drawAttentionSteps) : null);
drawSteps(trace);
drawWordAlternatives(trace);
drawBeamTree(trace);
drawAttribution(trace);
