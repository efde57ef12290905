// State of the page. It is kept in the URL: #view?key=value&…
//
// Some keys are shared by all views (the text and its languages). The others belong to one view and are
// restored when that view is opened again.

import { hash } from "./embedded.js";

const SHARED_KEYS = new Set(["text", "sentence", "source", "target", "lang"]);
const viewStates = new Map();
let listener = () => {};
let state = parseHash(hash);

function parseHash(hash) {
  const [view, query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { ...Object.fromEntries(new URLSearchParams(query)), view: view || "translate" };
}

export function address({ view, ...keys }) {
  const query = new URLSearchParams(Object.entries(keys).filter(([, value]) => value !== undefined && value !== null));
  return `#${view}${query.size ? `?${query}` : ""}`;
}

export const current = () => state;

// Calls `callback(state, previousState)` after each change.
export function subscribe(callback) {
  listener = callback;
}

function notify(previous) {
  if (state.view !== previous.view) rememberView(previous);
  listener(state, previous);
}

function change(next) {
  const previous = state;
  const url = address(next);
  if (url === address(previous)) return;
  state = next;
  try { history.replaceState(null, "", url); } catch { /* the frame of a notebook has no URL */ }
  notify(previous);
}

// Changes some keys; null removes a key.
export function set(changes) {
  const entries = Object.entries({ ...state, ...changes }).filter(([, value]) => value !== null && value !== undefined);
  change(Object.fromEntries(entries.map(([key, value]) => [key, String(value)])));
}

// Returns the state in which another view would be opened.
export function stateOfView(view) {
  if (view === state.view) return state;
  const shared = Object.fromEntries(Object.entries(state).filter(([key]) => SHARED_KEYS.has(key)));
  return { ...viewStates.get(view), ...shared, view };
}

// Opens a view without a link, which the frame of a notebook cannot follow.
export const openView = (view) => change(stateOfView(view));

function rememberView(previous) {
  viewStates.set(previous.view, Object.fromEntries(Object.entries(previous).filter(([key]) => !SHARED_KEYS.has(key))));
}

addEventListener("hashchange", () => {
  const previous = state;
  state = parseHash(location.hash);
  if (address(state) !== address(previous)) notify(previous);
});
