// Numbers: out of base64, and onto the page.

function decoded(tensor) {
  const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
  return tensor.dtype === "uint8" ? bytes : new Float32Array(bytes.buffer);
}

const unpackedTensors = new WeakMap();

// A tensor of a trace; row(i, j) is its last axis.
export function unpack(tensor) {
  if (!tensor) return null;
  if (!unpackedTensors.has(tensor)) {
    const data = decoded(tensor);
    const sizes = tensor.shape.slice(0, -1);
    const last = tensor.shape.at(-1);
    const row = (...index) => {
      const place = sizes.reduce((sum, size, axis) => sum * size + index[axis], 0);
      return data.subarray(place * last, (place + 1) * last);
    };
    unpackedTensors.set(tensor, { shape: tensor.shape, data, row });
  }
  return unpackedTensors.get(tensor);
}

const minus = (text) => (/^-[0.]+$/.test(text) ? text.slice(1) : text.replace("-", "−"));

// Six decimals: as exact as the interface's own float32.
export const exact = (x) => (Number.isFinite(x) ? minus(x.toFixed(6)) : x > 0 ? "∞" : "−∞");

export const short = (x, digits = 3) => (Number.isFinite(x) ? minus(x.toFixed(digits)) : x > 0 ? "∞" : "−∞");

export function percent(p) {
  if (p >= 0.9995) return "100 %";
  if (p >= 0.01) return `${(100 * p).toFixed(1)} %`;
  return p >= 0.00005 ? `${(100 * p).toFixed(2)} %` : p > 0 ? "< 0.01 %" : "0 %";
}

export const count = (n) => n.toLocaleString("en-US").replaceAll(",", "\u202f");

export const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

// A whole number out of the URL, within its bounds.
export function whole(text, fallback, low, high) {
  const value = Number.parseInt(text, 10);
  return clamp(Number.isFinite(value) ? value : fallback, low, high);
}

export function real(text, fallback, low, high) {
  const value = Number.parseFloat(text);
  return clamp(Number.isFinite(value) ? value : fallback, low, high);
}

export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
