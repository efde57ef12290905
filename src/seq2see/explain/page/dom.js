// Shared functions: tensors, elements, tooltips, formatting of numbers.

function tensorData(tensor) {
  const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
  return tensor.dtype === "uint8" ? bytes : new Float32Array(bytes.buffer);
}

// Decodes a tensor; row(i, j) returns the last axis at these indices.
export function decodeTensor(tensor) {
  const data = tensorData(tensor);
  const [width, ...outer] = [...tensor.shape].reverse();
  const row = (...indices) => {
    let index = 0;
    [...outer].reverse().forEach((size, axis) => { index = index * size + indices[axis]; });
    return data.subarray(index * width, (index + 1) * width);
  };
  return { shape: tensor.shape, data, row };
}

function setAttributes(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Creates an HTML element.
export const h = (name, attributes = {}, ...children) => setAttributes(document.createElement(name), attributes, children);

// Creates an SVG element.
export const s = (name, attributes = {}, ...children) => setAttributes(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

export const query = (selector) => document.querySelector(selector);

export function formatPercent(p) {
  if (p >= 0.9995) return "100 %";
  if (p >= 0.1) return `${(100 * p).toFixed(1)} %`;
  return p >= 0.0005 ? `${(100 * p).toFixed(p >= 0.01 ? 1 : 2)} %` : p > 0 ? "< 0.05 %" : "0 %";
}

export const formatNumber = (x, digits = 3) => (Number.isFinite(x) ? x.toFixed(digits).replace("-", "−") : "−∞");

// Shows a tooltip while the element is under the pointer. text: a string or a function
export function addTooltip(target, text) {
  const tooltip = query("#tooltip");
  target.addEventListener("pointermove", (event) => {
    tooltip.textContent = typeof text === "function" ? text() : text;
    tooltip.hidden = false;
    const { width, height } = tooltip.getBoundingClientRect();
    tooltip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 6)}px`;
    tooltip.style.top = `${Math.min(event.clientY + 16, innerHeight - height - 6)}px`;
  });
  target.addEventListener("pointerleave", () => { tooltip.hidden = true; });
  return target;
}

// Fills an element with buttons of which one is pressed. options: [[value, label], …]
export function fillTabs(parent, options, selected, onSelect) {
  parent.replaceChildren(...options.map(([value, label]) => {
    const button = h("button", { type: "button", "aria-pressed": value === selected }, label);
    button.addEventListener("click", () => onSelect(value));
    return button;
  }));
}

let ruler;
export function textWidth(text, size = 12.5) {
  ruler ??= h("canvas").getContext("2d");
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export const maxTextWidth = (labels) => Math.max(0, ...labels.map((label) => textWidth(label)));
