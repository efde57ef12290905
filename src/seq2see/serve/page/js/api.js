// The service. Answers are kept, so that going back costs nothing; a saved file brings its own.

const KEPT = 60;
const answers = new Map();
const used = new Set(); // what the state on the screen was made from
let saved = null;

export class Refused extends Error {
  constructor(message, status, reason = null) {
    super(message);
    Object.assign(this, { status, reason });
  }
}

const named = (path, body) => (body === undefined ? path : `${path} ${JSON.stringify(body)}`);

export function openSaved(record) {
  saved = new Map(Object.entries(record));
}

export const isSaved = () => saved !== null;

export const forgetUsed = () => used.clear();

export function usedAnswers() {
  return Object.fromEntries([...used].filter((name) => answers.has(name)).map((name) => [name, answers.get(name)]));
}

export function apiKey(given) {
  if (given !== undefined) sessionStorage.setItem("api_key", given);
  return saved ? "" : sessionStorage.getItem("api_key") ?? "";
}

function keep(name, answer) {
  answers.delete(name);
  answers.set(name, answer);
  for (const oldest of answers.keys()) {
    if (answers.size <= KEPT) break;
    if (!used.has(oldest)) answers.delete(oldest);
  }
}

async function read(response) {
  const text = await response.text();
  let answer = null;
  try { answer = JSON.parse(text); } catch { /* not JSON: an error of something in between */ }
  if (response.ok && answer) return answer;
  throw new Refused(answer?.error ?? `HTTP ${response.status}`, response.status, response.headers.get("X-Reason"));
}

function headers(more = {}) {
  const key = apiKey();
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function send(path, body, signal) {
  if (body === undefined) return read(await fetch(path, { headers: headers(), signal }));
  const json = headers({ "Content-Type": "application/json" });
  return read(await fetch(path, { method: "POST", headers: json, body: JSON.stringify(body), signal }));
}

// Asks; `fresh` asks again what was answered before.
export async function ask(path, body, { signal, fresh = false } = {}) {
  const name = named(path, body);
  used.add(name);
  if (saved) {
    if (saved.has(name)) return keep(name, saved.get(name)), saved.get(name);
    throw new Refused("", 0);
  }
  if (!fresh && answers.has(name)) return answers.get(name);
  const answer = await send(path, body, signal);
  keep(name, answer);
  return answer;
}

// Asks for what is of use once, and is neither kept nor saved.
export const askOnce = (path, { signal } = {}) => send(path, undefined, signal);

// What has been answered already, or null.
export function known(path, body) {
  const name = named(path, body);
  const answer = (saved ?? answers).get(name) ?? null;
  if (answer) used.add(name);
  return answer;
}

// Replaces an answer that grows, such as the log of a run.
export function note(path, answer) {
  used.add(path);
  keep(path, answer);
}

export async function translateFile(file, source, target) {
  const form = new FormData();
  form.append("file", file);
  form.append("source", source);
  form.append("target", target);
  const answer = await read(await fetch("translate_file", { method: "POST", body: form, headers: headers() }));
  return new URL(answer.translatedFileUrl, location.href).pathname.replace(/^.*(?=\/download_file\/)/, "").slice(1);
}

// Runs the newest of several jobs: a new one ends the one before.
export function newest() {
  let controller = null;
  return async (job) => {
    controller?.abort();
    const mine = new AbortController();
    controller = mine;
    try {
      await job(mine.signal);
    } catch (error) {
      if (error.name !== "AbortError" && !mine.signal.aborted) throw error;
    }
  };
}
