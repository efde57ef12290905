// Any state as one file, which needs neither the service nor the network.
//
// Modules cannot be loaded from files, so each travels as a data: URL under a name of its own in an
// import map, and their imports are written by those names.
import { usedAnswers } from "./api.js";
import { h } from "./dom.js";
import { address, current } from "./store.js";

const IMPORT = /(\bfrom\s+|\bimport\s+)"(\.{1,2}\/[^"]+)"/g;
const POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";

async function text(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return response.text();
}

async function modules(entry) {
  const found = new Map();
  const waiting = [entry];
  while (waiting.length) {
    const url = waiting.pop();
    if (found.has(url.href)) continue;
    const code = await text(url);
    found.set(url.href, code.replace(IMPORT, (_, words, path) => {
      const next = new URL(path, url);
      waiting.push(next);
      return `${words}"${moduleName(next)}"`;
    }));
  }
  return found;
}

const moduleName = (url) => `seq2see${new URL(url).pathname.split("/js").at(-1)}`;

function base64(code) {
  const bytes = new TextEncoder().encode(code);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary);
}

// JSON inside a script element: "<" could end it, or open a comment.
const quoted = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

const escaped = (words) => words.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

// The page's own parts, empty: it draws itself again.
const frame = () => [...document.body.children].filter((part) => part.id).map((part) => part.cloneNode(false).outerHTML).join("\n");

async function page() {
  const styles = await Promise.all([...document.querySelectorAll('link[rel="stylesheet"]')].map((link) => text(link.href)));
  const found = await modules(new URL("main.js", import.meta.url));
  const imports = Object.fromEntries([...found].map(([url, code]) => [moduleName(url), `data:text/javascript;base64,${base64(code)}`]));
  return `<!doctype html>
<html lang="${document.documentElement.lang}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(document.title)}</title>
<link rel="icon" href="data:,">
<style>${styles.join("\n")}</style>
</head>
<body>
${frame()}
<script type="application/json" id="saved">${quoted({ hash: address(current()), answers: usedAnswers() })}</script>
<script type="importmap">${quoted({ imports })}</script>
<script type="module">import "${moduleName(new URL("main.js", import.meta.url))}";</script>
</body>
</html>
`;
}

export async function saveAsHtml() {
  const url = URL.createObjectURL(new Blob([await page()], { type: "text/html" }));
  const link = h("a", { href: url, download: `seq2see-${current().view}.html` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
