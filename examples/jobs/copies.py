"""A training script that may run as several copies of itself: they are merged now and then, and go on from what came of that.

It is `hooked.py` with a state in a safetensors file, which copies need, and a few lines more. A real script takes the
package `safetensors`; here the file is written by hand, so that nothing has to be installed.
"""

import argparse
import json
import os
import random
import struct
import sys
import time
from pathlib import Path

try:
    import trainyard
except ImportError:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import trainyard


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seconds-a-step", type=float, default=0.01)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()

    with trainyard.job(checkpoint_every_s=10.0) as session:
        path = session.checkpoint_dir / "state.safetensors"
        weights, step = [0.0, 0.0], 0
        if path.exists():
            weights, step = load(path)
            session.resumed(step)
        rows = data(chosen.seed)
        # Each copy draws otherwise than the others.
        dice = random.Random(1_000_003 * chosen.seed + 1000 * step + session.copy)
        since = step
        print(f"copy {session.copy} of {session.copies} begins after step {step}", flush=True)
        while step < chosen.steps:
            weights = train(weights, dice.choice(own(rows, session.part, chosen.seed + since)))
            step += 1
            time.sleep(chosen.seconds_a_step)
            session.report(step, loss(weights, rows))
            if session.should_checkpoint():
                save(path, weights, step)
                session.checkpointed(step)
            if session.is_merged():
                weights, step = load(path)
                since = step
                print(f"merged: goes on after step {step}", flush=True)
            if session.should_stop():
                print(f"stops after step {step}", flush=True)
                return
        save(path, weights, step)
        session.checkpointed(step)
        print(f"done, loss {loss(weights, rows):.6f}", flush=True)


def data(seed):
    dice = random.Random(seed)
    features = [dice.gauss(0, 1) for _ in range(200)]
    return [(x, 1.0 if 3.0 * x - 1.0 + dice.gauss(0, 0.5) > 0 else 0.0) for x in features]


def own(rows, part, seed):
    """The rows that are this copy's own until it is merged: a part of an order that all copies draw alike."""
    if part is None:
        return rows
    begin, end = (round(fraction * len(rows)) for fraction in part)
    return random.Random(seed).sample(rows, len(rows))[begin:end] or rows


def train(weights, row):
    (weight, bias), (x, y) = weights, row
    error = sigmoid(weight * x + bias) - y
    return [weight - 0.5 * error * x, bias - 0.5 * error]


def loss(weights, rows):
    weight, bias = weights
    return sum((sigmoid(weight * x + bias) - y) ** 2 for x, y in rows) / len(rows)


def sigmoid(z):
    return 1.0 / (1.0 + 2.718281828459045 ** -max(-30.0, min(30.0, z)))


def save(path, weights, step):
    """Replaces the file as a whole, so that there is always a good one."""
    head = {
        "weights": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
        "step": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]},
    }
    text = json.dumps(head).encode()
    new = path.with_suffix(".part")
    with open(new, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + struct.pack("<2dq", *weights, step))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def load(path):
    bytes = path.read_bytes()
    begin = 8 + struct.unpack("<Q", bytes[:8])[0]
    head = json.loads(bytes[8:begin])

    def tensor(name, form):
        start, end = head[name]["data_offsets"]
        return struct.unpack(form, bytes[begin + start : begin + end])

    return list(tensor("weights", "<2d")), tensor("step", "<q")[0]


if __name__ == "__main__":
    main()
