// Interventions in the address, and as the service takes them.
//
//   off     decoder.1.cross.3,encoder.0.feed_forward,encoder.1   heads, sublayers, layers
//   scale   decoder.1.cross:0.5                                  scores × 0.5
//   hide    decoder.cross:3,4                                    tokens that nobody looks at
//   pos     encoder:off,decoder:3                                positions off, or shifted

const listed = (text) => (text ? text.split(",").filter(Boolean) : []);

function switchedOff(names) {
  const heads = new Map();
  const made = [];
  for (const name of names) {
    const [stack, layer, part, head] = name.split(".");
    const place = { stack, layer: Number(layer) };
    if (part === undefined) made.push({ kind: "layer_off", ...place });
    else if (head === undefined) made.push({ kind: "sublayer_off", ...place, sublayer: part });
    else heads.set(`${stack}.${layer}.${part}`, [...(heads.get(`${stack}.${layer}.${part}`) ?? []), Number(head)]);
  }
  for (const [site, numbers] of heads) {
    const [stack, layer, attention] = site.split(".");
    made.push({ kind: "heads_off", stack, layer: Number(layer), attention, heads: numbers.sort((a, b) => a - b) });
  }
  return made;
}

function scaled(text) {
  const [site, factor] = (text ?? "").split(":");
  if (!site || factor === undefined) return [];
  const [stack, layer, attention] = site.split(".");
  return [{ kind: "scale", stack, layer: Number(layer), attention, factor: Number(factor) }];
}

function hidden(text) {
  const [site, keys] = (text ?? "").split(":");
  if (!keys) return [];
  const [stack, attention] = site.split(".");
  return [{ kind: "hide", stack, attention, keys: listed(keys).map(Number) }];
}

function moved(text) {
  return listed(text).map((each) => {
    const [stack, how] = each.split(":");
    return how === "off" ? { kind: "positions_off", stack } : { kind: "positions_shift", stack, by: Number(how) };
  });
}

export const interventionsOf = ({ off, scale, hide, pos }) => [...switchedOff(listed(off)), ...scaled(scale), ...hidden(hide), ...moved(pos)];

// The state without the heads and layers that a model has not: it may come from another model.
export function fitting(state, model) {
  const has = (name) => {
    const [stack, layer, , head] = name.split(".");
    return Number(layer) < model[`${stack}_layers`] && Number(head ?? 0) < model.heads;
  };
  return { ...state, off: listed(state.off).filter(has).join(","), scale: has((state.scale ?? "").split(":")[0]) ? state.scale : undefined };
}

// The state without hidden tokens that a sentence of this many tokens has not.
export function within(state, tokens) {
  const [site, keys] = state.hide.split(":");
  const left = listed(keys).filter((key) => Number(key) < tokens);
  return { ...state, hide: left.length ? `${site}:${left}` : undefined };
}

export const NONE = { off: null, scale: null, hide: null, pos: null };

// A list in the address with one name more, or less.
export function toggled(text, name) {
  const names = listed(text);
  const next = names.includes(name) ? names.filter((each) => each !== name) : [...names, name];
  return next.join(",") || null;
}

export const includes = (text, name) => listed(text).includes(name);

export function keysOf(text, site) {
  const [at, keys] = (text ?? "").split(":");
  return at === site ? listed(keys).map(Number) : [];
}

export const positionsOf = (text, stack) => listed(text).find((each) => each.startsWith(`${stack}:`))?.split(":")[1] ?? null;

export function withPositions(text, stack, how) {
  const others = listed(text).filter((each) => !each.startsWith(`${stack}:`));
  return [...others, ...(how === null ? [] : [`${stack}:${how}`])].join(",") || null;
}
