// Elements, without a line of HTML text: what users and models write can only ever become text.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "htmlFor", "open", "selected"]);

function dress(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, hear] of Object.entries(value)) made.addEventListener(event, hear);
    // Not the attribute `style`, which the content policy forbids.
    else if (key === "style") for (const [name, each] of Object.entries(value)) made.style.setProperty(name, each);
    else if (key === "data") Object.assign(made.dataset, value);
    else if (PROPERTIES.has(key) && key in made) made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const h = (name, attributes = {}, ...children) => dress(document.createElement(name), attributes, children);

export const s = (name, attributes = {}, ...children) => dress(document.createElementNS(SVG, name), attributes, children);

export const find = (selector) => document.querySelector(selector);

// Puts new children in the place of the old; who had the focus keeps it, by its data-key.
export function fill(home, ...children) {
  const active = document.activeElement;
  const key = active && home.contains(active) ? active.dataset.key : null;
  home.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (key) home.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  return home;
}

export function button(label, press, attributes = {}) {
  return h("button", { type: "button", ...attributes, on: { click: press, ...attributes.on } }, label);
}

// Buttons of which one is pressed. options: [[value, label], …]
export function segmented(name, options, chosen, choose) {
  return h("div", { class: "segmented", role: "group", "aria-label": name }, options.map(([value, label]) =>
    button(label, () => choose(value), { "aria-pressed": String(value === chosen), data: { key: `${name}:${value}` } })));
}

export function choice(label, options, chosen, choose, attributes = {}) {
  const select = h("select", { ...attributes, on: { change: (event) => choose(event.target.value) } },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

// Cannot be moved before there is a value to show: it would start from the middle.
export function slider(label, range, hear) {
  const shown = h("output");
  const input = h("input", { type: "range", disabled: true, ...range, on: {
    input: () => hear(Number(input.value), false), change: () => hear(Number(input.value), true),
  } });
  const element = h("label", { class: "slide" }, h("span", {}, label), input, shown);
  const show = (value, text = String(value)) => {
    if (document.activeElement !== input || Number(input.value) !== value) input.value = value;
    input.disabled = false;
    shown.textContent = text;
  };
  return { element, input, show };
}

export function table(heads, rows, attributes = {}) {
  const cell = (name) => (inside) => (inside instanceof Node && /^T[DH]$/.test(inside.tagName) ? inside : h(name, {}, inside));
  const line = (row) => (row instanceof Node ? row : h("tr", {}, row.map(cell("td"))));
  return h("table", attributes, h("thead", {}, h("tr", {}, heads.map(cell("th")))), h("tbody", {}, rows.map(line)));
}

export function bar(share, special = false) {
  return h("span", { class: special ? "track is" : "track" }, h("i", { style: { width: `${100 * Math.max(0, Math.min(1, share))}%` } }));
}

function place(tip, x, y) {
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - width - 6))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
}

export function hideTip() {
  find("#tip").hidden = true;
}

// A box with more about an element, under the pointer or the focus.
export function hint(target, text) {
  const show = (x, y) => {
    const tip = find("#tip");
    tip.textContent = typeof text === "function" ? text() : text;
    tip.hidden = !tip.textContent;
    place(tip, x, y);
  };
  target.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
  target.addEventListener("pointerleave", hideTip);
  target.addEventListener("focus", () => {
    if (!target.matches(":focus-visible")) return;
    const box = target.getBoundingClientRect();
    show(box.left, box.bottom - 12);
  });
  target.addEventListener("blur", hideTip);
  return target;
}

// A colour of the style sheet, "47 91 208", as three numbers, for canvases.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().split(/\s+/).map(Number);
}

let ruler;
export function textWidth(text, size = 12.5) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export const widest = (labels, size) => Math.max(0, ...labels.map((label) => textWidth(label, size)));
