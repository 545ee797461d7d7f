// The marks of axes, for ends of every kind: few, in order, within the ends, and always there in the end.
// Usage: node ticks.mjs MODULE

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const { isFlat, logTicks, ticks } = await import(pathToFileURL(process.argv[2]));

const close = [[0.3, 0.30000000000000004], [100, 100.00000000000003], [1e17, 1e17 + 16], [2 ** 53 - 2, 2 ** 53 - 1], [0, 0], [5, 4]];
for (const [low, high] of close) {
  assert.deepEqual(ticks(low, high, 4), [], `${low} ${high}`);
  assert.ok(isFlat(low, high));
}
for (const odd of [NaN, Infinity, -Infinity]) assert.deepEqual(ticks(odd, 1, 4), []);
assert.deepEqual(ticks(0, 10, 4), [0, 5, 10]);
assert.deepEqual(ticks(-1, 1, 4), [-1, -0.5, 0, 0.5, 1]);
assert.deepEqual(logTicks(0.001, 10), [0.001, 0.01, 0.1, 1, 10]);
assert.equal(logTicks(2, 3).length > 0, true);

// Ends from a generator with a seed: of all sizes, near to each other and far apart.
let state = 1;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
for (let i = 0; i < 20_000; i++) {
  const low = (random() - 0.5) * 10 ** (random() * 40 - 20);
  const high = low + Math.abs(low) * 10 ** (random() * 30 - 20);
  const marks = ticks(low, high, 4);
  assert.ok(marks.length <= 12, `${low} ${high}: ${marks.length}`);
  const slack = (high - low) * 1e-6;
  for (const [k, mark] of marks.entries()) {
    assert.ok(mark >= low - slack && mark <= high + slack, `${low} ${high}: ${mark}`);
    assert.ok(k === 0 || mark > marks[k - 1], `${low} ${high}: ${marks}`);
  }
  if (!isFlat(low, high)) assert.ok(marks.length >= 1, `${low} ${high}`);
}
