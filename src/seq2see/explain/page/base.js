// What the views share: numbers from base64, elements, and the box that follows the pointer.

export function numbers(tensor) {
  const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
  return tensor.dtype === "uint8" ? bytes : new Float32Array(bytes.buffer);
}

// A tensor as nested rows of typed arrays: at(array, i, j) gives its last axis.
export function unpacked(tensor) {
  const data = numbers(tensor);
  const [last, ...before] = [...tensor.shape].reverse();
  const row = (...index) => {
    let place = 0;
    [...before].reverse().forEach((size, axis) => { place = place * size + index[axis]; });
    return data.subarray(place * last, (place + 1) * last);
  };
  return { shape: tensor.shape, data, row };
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const find = (selector) => document.querySelector(selector);

export function percent(p) {
  if (p >= 0.9995) return "100 %";
  if (p >= 0.1) return `${(100 * p).toFixed(1)} %`;
  return p >= 0.0005 ? `${(100 * p).toFixed(p >= 0.01 ? 1 : 2)} %` : p > 0 ? "< 0.05 %" : "0 %";
}

export const short = (x, digits = 3) => (Number.isFinite(x) ? x.toFixed(digits).replace("-", "−") : "−∞");

export function hint(target, text) {
  const tip = find("#tip");
  target.addEventListener("pointermove", (event) => {
    tip.textContent = typeof text === "function" ? text() : text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 6)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - height - 6)}px`;
  });
  target.addEventListener("pointerleave", () => { tip.hidden = true; });
  return target;
}

// Buttons of which one is pressed.
export function tabs(home, options, chosen, choose) {
  home.replaceChildren(...options.map(([value, label]) => {
    const button = element("button", { type: "button", "aria-pressed": value === chosen }, label);
    button.addEventListener("click", () => choose(value));
    return button;
  }));
}

let ruler;
export function textWidth(text, size = 12.5) {
  ruler ??= element("canvas").getContext("2d");
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export const widest = (labels) => Math.max(0, ...labels.map((label) => textWidth(label)));
