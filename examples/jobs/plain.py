"""A training script that knows nothing of Trainyard: it prints its loss.

It is followed with

    progress = 'pattern:step (?P<step>\\d+) loss (?P<loss>\\S+)'

in the description of its job. When it is stopped it loses what it did; `hooked.py` does not.
"""

import argparse
import random
import time


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seconds-a-step", type=float, default=0.01)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()

    # Logistic regression with one feature, by gradient descent with noise.
    dice = random.Random(chosen.seed)
    rows = [(x, 1.0 if 3.0 * x - 1.0 + dice.gauss(0, 0.5) > 0 else 0.0) for x in (dice.gauss(0, 1) for _ in range(200))]
    weight = bias = 0.0
    for step in range(1, chosen.steps + 1):
        x, y = dice.choice(rows)
        error = sigmoid(weight * x + bias) - y
        weight -= 0.5 * error * x
        bias -= 0.5 * error
        time.sleep(chosen.seconds_a_step)
        print(f"step {step} loss {loss(rows, weight, bias):.6f}", flush=True)


def sigmoid(z):
    return 1.0 / (1.0 + 2.718281828459045 ** -max(-30.0, min(30.0, z)))


def loss(rows, weight, bias):
    return sum((sigmoid(weight * x + bias) - y) ** 2 for x, y in rows) / len(rows)


if __name__ == "__main__":
    main()
