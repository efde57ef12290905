// What was expected at each step, what each layer would have said, and other words.
import { element, find, percent, short, unpacked } from "./base.js";

function bar(p) {
  const box = element("span", { class: "bar" }, element("i", { style: `width:${100 * p}%` }));
  const both = document.createDocumentFragment();
  both.append(box, percent(p));
  return both;
}

function chip(candidate, chosen) {
  const kind = candidate.id === chosen ? "chip is" : "chip";
  return element("span", { class: kind }, element("b", {}, candidate.text), element("small", {}, percent(candidate.probability)));
}

const cell = (kind, ...inside) => element("td", kind ? { class: kind } : {}, ...inside);
const title = (text, kind = "") => element("th", { class: kind }, text);

export function stepTable(trace) {
  const lens = trace.lens.map((layer) => ({ ...layer, probability: unpacked(layer.probability).data }));
  const head = element("tr", {}, title("given"), title("emitted", "left"), title("probability", "left"), title("rank"), title("entropy"), title("likeliest", "left"), ...lens.map(({ layer }) => title(`layer ${layer}`, "left")));
  const rows = trace.steps.map((step, t) => {
    const token = trace.target.tokens[t];
    const given = t ? trace.target.tokens[t - 1].text : trace.start.text;
    const layers = lens.map((layer) => cell("left", chip(layer.top[t][0], token.id), layer.top[t][0].id === token.id ? "" : element("small", { class: "formula" }, percent(layer.probability[t]))));
    return element("tr", {}, cell("", given), cell("left", element("b", {}, token.text)), cell("left", bar(step.probability)), cell("", String(step.rank)), cell("", short(step.entropy, 2)), cell("left", ...step.top.slice(0, 5).map((c) => chip(c, token.id))), ...layers);
  });
  find("#steps .body").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

export function wordTable(trace) {
  if (!trace.words.length) return;
  find("#words").hidden = false;
  const head = element("tr", {}, title("word"), title("probability", "left"), title("instead", "left"));
  const rows = trace.words.map((choice) => element("tr", {}, cell("", element("b", {}, trace.target.words[choice.word].text)), cell("left", bar(choice.probability)), cell("left", ...choice.alternatives.map((c) => chip(c, -1)))));
  find("#words .body").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}
