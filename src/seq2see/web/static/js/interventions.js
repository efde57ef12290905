// Interventions in the URL, and as the service expects them.
//
//   ablate     decoder.1.cross.3,encoder.0.feed_forward,encoder.1   heads, sublayers, layers
//   scale      decoder.1.cross:0.5                                  attention scores × 0.5
//   mask       decoder.cross:3,4                                    key positions that are masked
//   positions  encoder:off,decoder:3                                positions ablated, or shifted by 3

const splitList = (text) => (text ? text.split(",").filter(Boolean) : []);

function parseAblations(addresses) {
  const heads = new Map();
  const result = [];
  for (const name of addresses) {
    const [stack, layer, sublayer, head] = name.split(".");
    const location = { stack, layer: Number(layer) };
    if (sublayer === undefined) result.push({ kind: "ablate_layer", ...location });
    else if (head === undefined) result.push({ kind: "ablate_sublayer", ...location, sublayer });
    else heads.set(`${stack}.${layer}.${sublayer}`, [...(heads.get(`${stack}.${layer}.${sublayer}`) ?? []), Number(head)]);
  }
  for (const [address, numbers] of heads) {
    const [stack, layer, attention] = address.split(".");
    result.push({ kind: "ablate_heads", stack, layer: Number(layer), attention, heads: numbers.sort((a, b) => a - b) });
  }
  return result;
}

function parseScale(text) {
  const [address, factor] = (text ?? "").split(":");
  if (!address || factor === undefined) return [];
  const [stack, layer, attention] = address.split(".");
  return [{ kind: "scale_scores", stack, layer: Number(layer), attention, factor: Number(factor) }];
}

function parseMask(text) {
  const [address, keys] = (text ?? "").split(":");
  if (!keys) return [];
  const [stack, attention] = address.split(".");
  return [{ kind: "mask_keys", stack, attention, keys: splitList(keys).map(Number) }];
}

function parsePositions(text) {
  return splitList(text).map((each) => {
    const [stack, setting] = each.split(":");
    return setting === "off" ? { kind: "ablate_positions", stack } : { kind: "shift_positions", stack, offset: Number(setting) };
  });
}

export const parseInterventions = ({ ablate, scale, mask, positions }) => [
  ...parseAblations(splitList(ablate)), ...parseScale(scale), ...parseMask(mask), ...parsePositions(positions),
];

// Returns the state without heads and layers that the model does not have: the URL may be of another model.
export function dropUnsupported(state, config) {
  const exists = (address) => {
    const [stack, layer, , head] = address.split(".");
    return Number(layer) < config[`${stack}_layers`] && Number(head ?? 0) < config.heads;
  };
  return {
    ...state, ablate: splitList(state.ablate).filter(exists).join(","),
    scale: exists((state.scale ?? "").split(":")[0]) ? state.scale : undefined,
  };
}

// Returns the state without masked positions beyond the end of the sentence.
export function dropMissingTokens(state, tokenCount) {
  const [address, keys] = state.mask.split(":");
  const existing = splitList(keys).filter((key) => Number(key) < tokenCount);
  return { ...state, mask: existing.length ? `${address}:${existing}` : undefined };
}

export const NO_INTERVENTIONS = { ablate: null, scale: null, mask: null, positions: null };

// Adds a name to a list of the URL, or removes it.
export function toggle(text, name) {
  const names = splitList(text);
  const next = names.includes(name) ? names.filter((each) => each !== name) : [...names, name];
  return next.join(",") || null;
}

export const listIncludes = (text, name) => splitList(text).includes(name);

export function maskedKeys(text, address) {
  const [own, keys] = (text ?? "").split(":");
  return own === address ? splitList(keys).map(Number) : [];
}

// Returns "off", a shift, or null if the positions of the stack are unchanged.
export const positionSetting = (text, stack) => splitList(text).find((each) => each.startsWith(`${stack}:`))?.split(":")[1] ?? null;

export function withPositionSetting(text, stack, setting) {
  const others = splitList(text).filter((each) => !each.startsWith(`${stack}:`));
  return [...others, ...(setting === null ? [] : [`${stack}:${setting}`])].join(",") || null;
}
