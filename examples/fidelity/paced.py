"""A training job that sleeps instead of working, at a pace that is known: an iteration takes so many worker-seconds.

It keeps to its pace by the clock, so it is as fast on a busy machine as on an idle one. It heeds the contract with jobs: it
reports each iteration, follows the number of workers that it is given, saves at SIGTERM, and goes on from what it saved.

    paced.py ITERATIONS WORKER_SECONDS [START_SECONDS] [SAVE_SECONDS]
"""

import json
import os
import signal
import sys
import time

ITERATIONS = int(sys.argv[1])
WORKER_SECONDS = float(sys.argv[2])
START_SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
SAVE_SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
TICK_SECONDS = 0.005

told = False


def stop(_signal, _frame):
    global told
    told = True


signal.signal(signal.SIGTERM, stop)
state = os.path.join(os.environ["TRAINYARD_CHECKPOINT_DIR"], "state")
control = os.environ["TRAINYARD_CONTROL_FILE"]
progress = os.environ["TRAINYARD_PROGRESS_FILE"]


def report(**values):
    # Of several processes one reports.
    if os.environ.get("RANK", "0") != "0":
        return
    with open(progress, "a") as file:
        file.write(json.dumps(values) + "\n")


def save(iterations):
    if os.environ.get("RANK", "0") != "0":
        return
    with open(state + ".new", "w") as file:
        file.write(str(iterations))
        file.flush()
        os.fsync(file.fileno())
    os.rename(state + ".new", state)
    report(saved=iterations)


def workers():
    try:
        with open(control) as file:
            return max(1, json.load(file)["workers"])
    except (OSError, ValueError):
        return None


done = 0
if os.path.exists(state):
    with open(state) as file:
        done = int(file.read())
time.sleep(START_SECONDS)
held, last = workers() or 1, time.monotonic()
part, looked = 0.0, last
while done < ITERATIONS and not told:
    left = (1.0 - part) * WORKER_SECONDS / held
    time.sleep(min(left, TICK_SECONDS))
    now = time.monotonic()
    part += (now - last) * held / WORKER_SECONDS
    last = now
    held = workers() or held
    while part >= 1.0 and done < ITERATIONS:
        part -= 1.0
        done += 1
        report(iteration=done, loss=1.0 + 3.0 / (1.0 + 0.3 * done))
if told:
    time.sleep(SAVE_SECONDS)
save(done)
