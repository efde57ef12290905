// Requests to the service. Responses are cached; a saved page contains the responses it needs.
import { responses as savedResponses } from "./embedded.js";

const MAX_CACHED = 60;
const responses = new Map();
const used = new Set(); // keys of the responses that the current state was drawn from
const saved = savedResponses && new Map(Object.entries(savedResponses));

export class RequestError extends Error {
  constructor(message, status, code = null, limit = null) {
    super(message);
    Object.assign(this, { status, code, limit });
  }
}

const cacheKey = (path, body) => (body === undefined ? path : `${path} ${JSON.stringify(body)}`);

export const clearUsedResponses = () => used.clear();

export function usedResponses() {
  return Object.fromEntries([...used].filter((key) => responses.has(key)).map((key) => [key, responses.get(key)]));
}

export function apiKey(value) {
  if (value !== undefined) sessionStorage.setItem("api_key", value);
  return saved ? "" : sessionStorage.getItem("api_key") ?? "";
}

function store(key, response) {
  responses.delete(key);
  responses.set(key, response);
  for (const oldest of responses.keys()) {
    if (responses.size <= MAX_CACHED) break;
    if (!used.has(oldest)) responses.delete(oldest);
  }
}

async function parseResponse(response) {
  const text = await response.text();
  let body = null;
  try { body = JSON.parse(text); } catch { /* not JSON: the error of a proxy */ }
  if (response.ok && body) return body;
  throw new RequestError(body?.error ?? `HTTP ${response.status}`, response.status, response.headers.get("X-Error-Code"), body?.limit);
}

function withAuthorization(headers = {}) {
  const key = apiKey();
  return key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
}

async function send(path, body, signal) {
  if (body === undefined) return parseResponse(await fetch(path, { headers: withAuthorization(), signal }));
  const headers = withAuthorization({ "Content-Type": "application/json" });
  return parseResponse(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

// Returns the JSON response: GET without a body, else POST. `fresh` ignores the cache.
export async function fetchJson(path, body, { signal, fresh = false } = {}) {
  const key = cacheKey(path, body);
  used.add(key);
  if (saved) {
    if (saved.has(key)) return store(key, saved.get(key)), saved.get(key);
    throw new RequestError("", 0);
  }
  if (!fresh && responses.has(key)) return responses.get(key);
  const response = await send(path, body, signal);
  store(key, response);
  return response;
}

// Like fetchJson, but the response is neither cached nor saved.
export const fetchUncached = (path, { signal } = {}) => send(path, undefined, signal);

// Returns a cached response, or null.
export function cachedResponse(path, body) {
  const key = cacheKey(path, body);
  const response = (saved ?? responses).get(key) ?? null;
  if (response) used.add(key);
  return response;
}

// Replaces a cached response, such as the log of a training run, which grows.
export function setCached(path, response) {
  used.add(path);
  store(path, response);
}

// Translates a file and returns the path of its download.
export async function translateFile(file, source, target) {
  const form = new FormData();
  form.append("file", file);
  form.append("source", source);
  form.append("target", target);
  const response = await parseResponse(await fetch("translate_file", { method: "POST", body: form, headers: withAuthorization() }));
  return new URL(response.translatedFileUrl, location.href).pathname.replace(/^.*(?=\/download_file\/)/, "").slice(1);
}
