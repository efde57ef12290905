// The state of the page, which is its address: #view?name=value&…
//
// Some names belong to all views (the text and its languages); the others belong to one view, which
// finds them again when one comes back to it.

const SHARED = new Set(["text", "source", "target", "lang"]);
const remembered = new Map();
const listeners = new Set();
let state = parsed(location.hash);

function parsed(hash) {
  const [view, query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { ...Object.fromEntries(new URLSearchParams(query)), view: view || "translate" };
}

export function address({ view, ...names }) {
  const query = new URLSearchParams(Object.entries(names).filter(([, value]) => value !== undefined && value !== null));
  return `#${view}${query.size ? `?${query}` : ""}`;
}

export const current = () => state;

export function subscribe(hear) {
  listeners.add(hear);
}

function tell(before) {
  for (const hear of listeners) hear(state, before);
}

// Changes some names; null takes one away.
export function set(changes, { push = false } = {}) {
  const before = state;
  state = { ...state };
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined) delete state[name];
    else state[name] = String(value);
  }
  const url = address(state);
  if (url === address(before)) return;
  history[push ? "pushState" : "replaceState"](null, "", url);
  tell(before);
}

// The state in which another view would be opened.
export function elsewhere(view) {
  if (view === state.view) return state;
  const shared = Object.fromEntries(Object.entries(state).filter(([name]) => SHARED.has(name)));
  return { ...remembered.get(view), ...shared, view };
}

function keep(before) {
  remembered.set(before.view, Object.fromEntries(Object.entries(before).filter(([name]) => !SHARED.has(name))));
}

subscribe((now, before) => { if (now.view !== before.view) keep(before); });

addEventListener("hashchange", () => {
  const before = state;
  state = parsed(location.hash);
  if (address(state) !== address(before)) tell(before);
});

// Opened from a saved file, the page begins where it was saved.
export function begin(hash) {
  state = parsed(hash);
}
