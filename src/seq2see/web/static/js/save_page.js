// Saves the current state as one HTML file that needs neither the service nor the network.
//
// A page that is opened from a file cannot import modules from files. Each module is therefore embedded as a data: URL
// under a name in an import map, and its imports are replaced by these names.
import { usedResponses } from "./api.js";
import { h } from "./dom.js";
import { address, current } from "./state.js";

const IMPORT = /(\bfrom\s+|\bimport\s+)"(\.{1,2}\/[^"]+)"/g;
const CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";

async function fetchText(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return response.text();
}

// Returns the source of all modules that the entry imports, by URL.
async function collectModules(entry) {
  const sources = new Map();
  const pending = [entry];
  while (pending.length) {
    const url = pending.pop();
    if (sources.has(url.href)) continue;
    const code = await fetchText(url);
    sources.set(url.href, code.replace(IMPORT, (_, keyword, path) => {
      const imported = new URL(path, url);
      pending.push(imported);
      return `${keyword}"${moduleName(imported)}"`;
    }));
  }
  return sources;
}

const moduleName = (url) => `seq2see${new URL(url).pathname.split("/js").at(-1)}`;

function base64(code) {
  const bytes = new TextEncoder().encode(code);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary);
}

// Returns JSON for a script element, in which "<" could end the element or open a comment.
const scriptJson = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

const escapeHtml = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

// Returns the elements of the page without their content, which is drawn again when the file is opened.
const emptyBody = () => [...document.body.children].filter((element) => element.id).map((element) => element.cloneNode(false).outerHTML).join("\n");

async function buildPage() {
  const styles = await Promise.all([...document.querySelectorAll('link[rel="stylesheet"]')].map((link) => fetchText(link.href)));
  const sources = await collectModules(new URL("main.js", import.meta.url));
  const imports = Object.fromEntries([...sources].map(([url, code]) => [moduleName(url), `data:text/javascript;base64,${base64(code)}`]));
  return `<!doctype html>
<html lang="${document.documentElement.lang}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(document.title)}</title>
<link rel="icon" href="data:,">
<style>${styles.join("\n")}</style>
</head>
<body>
${emptyBody()}
<script type="application/json" id="saved">${scriptJson({ hash: address(current()), responses: usedResponses() })}</script>
<script type="importmap">${scriptJson({ imports })}</script>
<script type="module">import "${moduleName(new URL("main.js", import.meta.url))}";</script>
</body>
</html>
`;
}

export async function savePage() {
  const url = URL.createObjectURL(new Blob([await buildPage()], { type: "text/html" }));
  const link = h("a", { href: url, download: `seq2see-${current().view}.html` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
