// Round numbers along an axis. Whatever the ends are, there are few of them.

// Far more than any axis needs; numbers so close that they cannot be told apart would need no end of them.
const MOST = 50;

// Whether two numbers are one as far as a picture goes.
export function isFlat(low, high) {
  return !(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)));
}

// Round numbers from `low` to `high`, about so many.
export function ticks(low, high, about) {
  if (!Number.isFinite(low) || !Number.isFinite(high) || isFlat(low, high)) return [];
  const raw = (high - low) / about;
  const ten = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * ten).find((size) => size >= raw) ?? raw;
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: Math.min(last - first + 1, MOST) }, (_, i) => (first + i) * step);
}

// Powers of ten between two numbers above zero, or round numbers where there are fewer than two.
export function logTicks(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const count = last - first + 1;
  if (count < 2) return ticks(low, high, 4).filter((at) => at > 0);
  const every = Math.ceil(count / 6);
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => 10 ** (first + i * every));
}
