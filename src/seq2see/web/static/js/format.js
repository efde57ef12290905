// Decoding of tensors, formatting and parsing of numbers.

function tensorData(tensor) {
  const bytes = Uint8Array.from(atob(tensor.data), (c) => c.charCodeAt(0));
  return tensor.dtype === "uint8" ? bytes : new Float32Array(bytes.buffer);
}

const decodedTensors = new WeakMap();

// Decodes a tensor of a trace; row(i, j) returns the last axis at these indices.
export function decodeTensor(tensor) {
  if (!tensor) return null;
  if (!decodedTensors.has(tensor)) {
    const data = tensorData(tensor);
    const sizes = tensor.shape.slice(0, -1);
    const width = tensor.shape.at(-1);
    const row = (...indices) => {
      const index = sizes.reduce((sum, size, axis) => sum * size + indices[axis], 0);
      return data.subarray(index * width, (index + 1) * width);
    };
    decodedTensors.set(tensor, { shape: tensor.shape, data, row });
  }
  return decodedTensors.get(tensor);
}

const withMinusSign = (text) => (/^-[0.]+$/.test(text) ? text.slice(1) : text.replace("-", "−"));

export const formatNumber = (x, digits = 3) => (Number.isFinite(x) ? withMinusSign(x.toFixed(digits)) : x > 0 ? "∞" : "−∞");

export const formatExact = (x) => formatNumber(x, 6); // the precision of float32

export function formatPercent(p) {
  if (p >= 0.9995) return "100 %";
  if (p >= 0.01) return `${(100 * p).toFixed(1)} %`;
  return p >= 0.00005 ? `${(100 * p).toFixed(2)} %` : p > 0 ? "< 0.01 %" : "0 %";
}

export const formatCount = (n) => n.toLocaleString("en-US").replaceAll(",", "\u202f");

export const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

// Parses a number of the URL and clamps it.
export function parseReal(text, fallback, low, high) {
  const value = Number.parseFloat(text);
  return clamp(Number.isFinite(value) ? value : fallback, low, high);
}

export const parseInteger = (...range) => Math.trunc(parseReal(...range));

export const dotProduct = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
