// What each head is good for: the preference between two words, with one head after the other off.
import { isSaved } from "./api.js";
import { matrix } from "./draw/matrix.js";
import { button, fill, h } from "./dom.js";
import { exact, short } from "./numbers.js";
import { show, showError } from "./sentence.js";
import { t } from "./text.js";

export const same = (text, word) => text.toLowerCase() === word.trim().toLowerCase();

export const chancesOf = (trace, place, rivals) => rivals.map((word) => trace.steps[place].top.find((each) => same(each.text, word)) ?? null);

// log p(one) − log p(other), or null where one of them is not among the likeliest.
export function preferenceOf(trace, place, rivals) {
  const [one, other] = chancesOf(trace, place, rivals);
  return one && other ? one.log_prob - other.log_prob : null;
}

const sitesOf = (trace) => trace.attention.map(({ stack, layer, kind, heads }) => ({ stack, layer, kind, count: heads.length, name: `${stack}.${layer}.${kind}` }));

// `without(head)` asks for the same translation with one more head off.
export function removalsCard(trace, place, rivals, without, key) {
  const before = preferenceOf(trace, place, rivals);
  const status = h("p", { class: "status", role: "status" });
  const body = h("div", { class: "scroll" });
  const start = button(t("removals.run"), () => run(), { disabled: before === null || isSaved(), data: { key: `removals:${key}` } });
  async function run() {
    start.disabled = true;
    try {
      const sites = sitesOf(trace);
      const all = sites.reduce((sum, { count }) => sum + count, 0);
      const changes = [];
      for (const { stack, layer, kind, count } of sites) {
        const row = [];
        for (let head = 0; head < count; head += 1) {
          show(status, "busy", t("removals.busy", { done: changes.flat().length + row.length, all }));
          const now = preferenceOf(await without({ kind: "heads_off", stack, layer, attention: kind, heads: [head] }), place, rivals);
          row.push(now === null ? null : now - before);
        }
        changes.push(row);
      }
      show(status, "");
      fill(body, drawn(sites, changes, key));
    } catch (error) {
      start.disabled = false;
      if (error.name !== "AbortError") showError(status, error, run);
    }
  }
  return [h("h3", {}, t("removals.title", { one: rivals[0], other: rivals[1] })), start, status, body];
}

function drawn(sites, changes, key) {
  const known = changes.flat().filter((change) => change !== null).map(Math.abs);
  const most = Math.max(1e-9, ...known);
  const told = (r, c) => (changes[r][c] === null ? t("pronoun.small") : `${changes[r][c] > 0 ? "+" : ""}${short(changes[r][c])}`);
  const figure = {
    name: t("removals.name"), role: t("matrix"), rows: sites.map(({ name }) => name), columns: Array.from({ length: Math.max(...sites.map(({ count }) => count)) }, (_, head) => String(head)),
    share: (r, c) => (changes[r][c] ?? 0) / most, hidden: (r, c) => (changes[r][c] ?? null) === null, text: (r, c) => `${sites[r].name}.${c}: ${told(r, c)}`,
  };
  const picture = matrix(figure, null);
  picture.dataset.key = `matrix:removals:${key}`;
  return [picture, h("p", { class: "note" }, t("removals.note"), " ", h("span", { data: { number: `removals:${key}` } }, exact(most)))];
}
