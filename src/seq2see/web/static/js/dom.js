// Elements and controls. They are created without HTML strings, so that texts of users and models cannot become markup.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "htmlFor", "open", "selected"]);

const isContent = (child) => child !== null && child !== undefined && child !== false;

function setAttributes(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    // Set as properties: the content security policy forbids the attribute `style`.
    else if (key === "style") for (const [name, each] of Object.entries(value)) element.style.setProperty(name, each);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (PROPERTIES.has(key) && key in element) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(isContent));
  return element;
}

// Creates an HTML element.
export const h = (name, attributes = {}, ...children) => setAttributes(document.createElement(name), attributes, children);

// Creates an SVG element.
export const s = (name, attributes = {}, ...children) => setAttributes(document.createElementNS(SVG, name), attributes, children);

export const query = (selector) => document.querySelector(selector);

// Replaces the children of an element. The focus stays on the control with the same data-key.
export function replaceContent(parent, ...children) {
  const active = document.activeElement;
  const key = active && parent.contains(active) ? active.dataset.key : null;
  parent.replaceChildren(...children.flat(Infinity).filter(isContent));
  if (key) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  return parent;
}

export function button(label, onClick, attributes = {}) {
  return h("button", { type: "button", ...attributes, on: { click: onClick, ...attributes.on } }, label);
}

// Buttons of which one is pressed. options: [[value, label], …]
export function segmented(name, options, selected, onSelect) {
  return h("div", { class: "segmented", role: "group", "aria-label": name }, options.map(([value, label]) =>
    button(label, () => onSelect(value), { "aria-pressed": String(value === selected), data: { key: `${name}:${value}` } })));
}

export function selectField(label, options, selected, onSelect, attributes = {}) {
  const select = h("select", { ...attributes, on: { change: (event) => onSelect(event.target.value) } },
    options.map(([value, text]) => h("option", { value, selected: value === selected }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

// A slider. It is disabled until show() sets a value. onInput(value, done): `done` is true when it is released.
export function slider(label, range, onInput) {
  const output = h("output");
  const input = h("input", { type: "range", disabled: true, ...range, on: {
    input: () => onInput(Number(input.value), false), change: () => onInput(Number(input.value), true),
  } });
  const element = h("label", { class: "slide" }, h("span", {}, label), input, output);
  const show = (value, text = String(value)) => {
    if (document.activeElement !== input || Number(input.value) !== value) input.value = value;
    input.disabled = false;
    output.textContent = text;
  };
  return { element, input, show };
}

// Listeners of an SVG element that is used as a button.
export const pressable = (onPress) => ({
  click: onPress, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onPress(); } },
});

// A list of labels with their values. rows: [[label, content, attributes of the content], …]
export function facts(rows) {
  return h("dl", { class: "facts" }, rows.map(([label, content, attributes]) => [h("dt", {}, label), h("dd", attributes, content)]));
}

// rows: arrays of cells, or finished <tr> elements
export function table(headers, rows, attributes = {}) {
  const cell = (name) => (content) => (content instanceof Node && /^T[DH]$/.test(content.tagName) ? content : h(name, {}, content));
  const line = (row) => (row instanceof Node ? row : h("tr", {}, row.map(cell("td"))));
  return h("table", attributes, h("thead", {}, h("tr", {}, headers.map(cell("th")))), h("tbody", {}, rows.map(line)));
}

// A horizontal bar for a share between 0 and 1.
export function shareBar(share, isHighlighted = false) {
  return h("span", { class: isHighlighted ? "track is" : "track" }, h("i", { style: { width: `${100 * Math.max(0, Math.min(1, share))}%` } }));
}

function positionTooltip(tooltip, x, y) {
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - width - 6))}px`;
  tooltip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
}

export function hideTooltip() {
  query("#tooltip").hidden = true;
}

// Shows a tooltip while the element is under the pointer or has the keyboard focus. text: a string or a function
export function addTooltip(target, text) {
  const show = (x, y) => {
    const tooltip = query("#tooltip");
    tooltip.textContent = typeof text === "function" ? text() : text;
    tooltip.hidden = !tooltip.textContent;
    positionTooltip(tooltip, x, y);
  };
  target.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
  target.addEventListener("pointerleave", hideTooltip);
  target.addEventListener("focus", () => {
    if (!target.matches(":focus-visible")) return;
    const box = target.getBoundingClientRect();
    show(box.left, box.bottom - 12);
  });
  target.addEventListener("blur", hideTooltip);
  return target;
}

// Returns a color of the style sheet, such as "47 91 208", as three numbers, for canvases.
export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().split(/\s+/).map(Number);
}

let ruler;
export function textWidth(text, size = 12.5) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export const maxTextWidth = (labels, size) => Math.max(0, ...labels.map((label) => textWidth(label, size)));
