"""A training script with Trainyard's hook: it reports, saves when it is told to, and goes on where it was.

Its results are the same however often it is stopped. Without Trainyard it runs all the same, and saves into `./checkpoints`.
The hook is found if it is installed (`pip install ./python`) or beside these examples.
"""

import argparse
import json
import os
import random
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
    options.add_argument("--checkpoint-every-s", type=float, default=1.0)
    chosen = options.parse_args()

    with trainyard.job(checkpoint_every_s=chosen.checkpoint_every_s) as session:
        path = session.checkpoint_dir / "state.json"
        state = load(path) or {"step": 0, "weights": [0.0, 0.0]}
        print(f"begins after step {state['step']}", flush=True)

        @session.on_resize
        def resized(control):
            print(f"has {control.workers} workers now", flush=True)

        rows = data(chosen.seed)
        while state["step"] < chosen.steps:
            train(state, rows, chosen.seed)
            time.sleep(chosen.seconds_a_step)
            session.report(state["step"], loss(state, rows), accuracy(state, rows))
            if session.should_checkpoint():
                save(path, state)
                session.checkpointed(state["step"])
            if session.should_stop():
                print(f"stops after step {state['step']}", flush=True)
                return
        save(path, state)
        session.checkpointed(state["step"])
        print(f"done, loss {loss(state, rows):.6f}", flush=True)


def data(seed):
    dice = random.Random(seed)
    features = [dice.gauss(0, 1) for _ in range(200)]
    return [(x, 1.0 if 3.0 * x - 1.0 + dice.gauss(0, 0.5) > 0 else 0.0) for x in features]


def train(state, rows, seed):
    # What is drawn depends on the step alone, so a state needs no generator.
    x, y = random.Random(1_000_003 * seed + state["step"]).choice(rows)
    weight, bias = state["weights"]
    error = sigmoid(weight * x + bias) - y
    state["weights"] = [weight - 0.5 * error * x, bias - 0.5 * error]
    state["step"] += 1


def loss(state, rows):
    weight, bias = state["weights"]
    return sum((sigmoid(weight * x + bias) - y) ** 2 for x, y in rows) / len(rows)


def accuracy(state, rows):
    weight, bias = state["weights"]
    return sum((weight * x + bias > 0) == (y > 0) for x, y in rows) / len(rows)


def sigmoid(z):
    return 1.0 / (1.0 + 2.718281828459045 ** -max(-30.0, min(30.0, z)))


def load(path):
    return json.loads(path.read_text()) if path.exists() else None


def save(path, state):
    """Replaces the file as a whole, so that there is always a good one."""
    new = path.with_suffix(".new")
    with open(new, "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


if __name__ == "__main__":
    main()
