// Sinusoidal positional encodings of "Attention Is All You Need" in float64, computed as in seq2see.model.positional_encodings.

export const LAYOUTS = ["interleaved", "halves"];
export const FREQUENCIES = ["paper", "tensor2tensor"];

// Returns one vector for each of `count` positions: sin(p·f) and cos(p·f) for size/2 frequencies f.
export function sinusoid(count, size, layout, frequencies) {
  const pairs = Math.floor(size / 2);
  const last = frequencies === "paper" ? pairs : Math.max(pairs - 1, 1);
  return Array.from({ length: count }, (_, position) => {
    const vector = new Float64Array(2 * pairs);
    for (let i = 0; i < pairs; i += 1) {
      const angle = position * Math.exp(-Math.log(10000) * (i / last));
      const [sine, cosine] = layout === "halves" ? [i, pairs + i] : [2 * i, 2 * i + 1];
      vector[sine] = Math.sin(angle);
      vector[cosine] = Math.cos(angle);
    }
    return vector;
  });
}
