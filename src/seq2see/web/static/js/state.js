// State of the page. It is kept in the URL: #view?key=value&…
//
// Some keys are shared by all views (the text and its languages). The others belong to one view and are
// restored when that view is opened again.

const SHARED_KEYS = new Set(["text", "source", "target", "lang"]);
const viewStates = new Map();
const listeners = new Set();
let state = parseHash(location.hash);

function parseHash(hash) {
  const [view, query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { ...Object.fromEntries(new URLSearchParams(query)), view: view || "translate" };
}

export function address({ view, ...keys }) {
  const query = new URLSearchParams(Object.entries(keys).filter(([, value]) => value !== undefined && value !== null));
  return `#${view}${query.size ? `?${query}` : ""}`;
}

export const current = () => state;

// Calls `listener(state, previousState)` after each change.
export function subscribe(listener) {
  listeners.add(listener);
}

function notify(previous) {
  for (const listener of listeners) listener(state, previous);
}

// Changes some keys; null removes a key.
export function set(changes, { push = false } = {}) {
  const previous = state;
  state = { ...state };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined) delete state[key];
    else state[key] = String(value);
  }
  const url = address(state);
  if (url === address(previous)) return;
  history[push ? "pushState" : "replaceState"](null, "", url);
  notify(previous);
}

// Returns the state in which another view would be opened.
export function stateOfView(view) {
  if (view === state.view) return state;
  const shared = Object.fromEntries(Object.entries(state).filter(([key]) => SHARED_KEYS.has(key)));
  return { ...viewStates.get(view), ...shared, view };
}

function rememberView(previous) {
  viewStates.set(previous.view, Object.fromEntries(Object.entries(previous).filter(([key]) => !SHARED_KEYS.has(key))));
}

subscribe((now, previous) => { if (now.view !== previous.view) rememberView(previous); });

addEventListener("hashchange", () => {
  const previous = state;
  state = parseHash(location.hash);
  if (address(state) !== address(previous)) notify(previous);
});

// Sets the state of a page that was opened from a saved file.
export function restore(hash) {
  state = parseHash(hash);
}
