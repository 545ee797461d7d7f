"""Real runs against their simulation: jobs under one policy after another through a daemon, then `replay --live-journal`.

    python3 examples/fidelity/run.py --trainyard target/release/trainyard --kind paced
    python3 examples/fidelity/run.py --trainyard target/release/trainyard --kind train

`paced` are jobs that mostly sleep, so that they go alike on a busy machine; `train` are real training programs on shares of
its cores. Each run is a row: the error of the mean completion time, the median and the 90th percentile of the errors of single
jobs. `--most PERCENT` ends with 5 if the mean of any run is off by more.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 300.0

# What is generated for each kind of program, its size in the trial, and its iterations.
KINDS = [
    ("logistic", [], "rows={}", 4000, 80),
    ("svm", [], "rows={}", 4000, 80),
    ("kmeans", ["--set", "clusters=20"], "rows={},centres=20", 2000, 60),
    ("mlp", ["--set", "hidden=16"], "rows={}", 500, 80),
    ("trees", [], "rows={}", 3000, 80),
    ("factorisation", [], "users={},items=300", 300, 60),
]
TRIAL_ITERATIONS = 5

# The machine that is given away, and the size of a worker, by kind of job.
CLUSTERS = {"paced": "2x4:cpu", "train": None}
WORKER_CPUS = {"paced": 1.0, "train": 0.1}


def training(kind, rows, iterations, seed):
    name, settings, data, _, _ = kind
    return ["train-job", name, "--generate", data.format(int(rows)), *settings, "--iterations", str(iterations),
            "--seed", str(seed), "--threads", "1"]


def seconds_per_row(trainyard, kind):
    command = [trainyard, *training(kind, kind[3], TRIAL_ITERATIONS, 1), "--report", "/dev/null", "--output", "json"]
    done = subprocess.run(command, check=True, capture_output=True)
    return json.loads(done.stdout)["seconds"] / TRIAL_ITERATIONS / kind[3]


def draw(given):
    """The jobs: seconds after the beginning, and what is asked for."""
    chance = random.Random(given.seed)
    costs = [seconds_per_row(given.trainyard, kind) for kind in KINDS] if given.kind == "train" else []
    jobs, at = [], 0.0
    for i in range(given.jobs):
        least = chance.choice([1, 1, 2] if given.kind == "paced" else [2, 3, 4])
        work = given.work * chance.uniform(0.3, 1.7)
        if given.kind == "paced":
            iterations = chance.randrange(20, 60)
            command = [sys.executable, "-B", os.path.join(HERE, "paced.py"), str(iterations), str(work / iterations),
                       "0.05", "0.05"]
        else:
            kind, cost = KINDS[i % len(KINDS)], costs[i % len(KINDS)]
            iterations = kind[4]
            rows = min(max(work / iterations / cost, 100), 1e6)
            command = [given.trainyard, *training(kind, rows, iterations, chance.randrange(10**6))]
        length = work / (least * WORKER_CPUS[given.kind])
        jobs.append((at, {
            "name": f"job-{i}", "command": command, "cpus": WORKER_CPUS[given.kind],
            "workers": {"min": least, "max": 4 if given.kind == "paced" else 8},
            "iterations": iterations, "duration": length, "convergence": "sublinear",
            # A training program of one process trains on one node.
            "topology": "anywhere" if given.kind == "paced" else "same_node",
        }))
        at += chance.expovariate(given.jobs / given.within)
    return jobs


class Daemon:
    def __init__(self, given, policy, folder):
        cluster = CLUSTERS[given.kind]
        if cluster is None:
            cluster = os.path.join(given.out, "cluster.toml")
            cpus = (os.cpu_count() or 2) * 0.9 / 2
            with open(cluster, "w") as file:
                file.write(f"[[nodes]]\ncount = 2\ncpus = {cpus:.2f}\n")
        self.folder = folder
        self.process = subprocess.Popen(
            [given.trainyard, "serve", "--listen", "127.0.0.1:0", "--cluster", cluster, "--folder", folder,
             "--policy", policy], stderr=subprocess.DEVNULL)
        self.url = self.file("address")
        self.token = self.file("admin-token")

    def file(self, name):
        path, end = os.path.join(self.folder, name), time.monotonic() + 60
        while time.monotonic() < end:
            if os.path.exists(path):
                with open(path) as file:
                    text = file.read()
                if text.endswith("\n"):
                    return text.strip()
            time.sleep(0.02)
        raise SystemExit(f"the daemon does not write {path}")

    def ask(self, path, body=None, method=None):
        headers = {"Authorization": "Bearer " + self.token}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        if body is not None:
            request.data, request.headers["Content-type"] = json.dumps(body).encode(), "application/json"
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def active(self):
        return [job["id"] for job in self.ask("/v1/jobs?state=active&limit=1000")["jobs"]]

    def leave(self):
        # What was cut off does not run on.
        for job in self.active():
            self.ask(f"/v1/jobs/{job}", method="DELETE")
        end = time.monotonic() + 40
        while self.active() and time.monotonic() < end:
            time.sleep(0.1)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def run(given, policy, jobs, folder):
    daemon = Daemon(given, policy, folder)
    try:
        begun = time.monotonic()
        for at, job in jobs:
            time.sleep(max(0.0, at - (time.monotonic() - begun)))
            daemon.ask("/v1/jobs", job)
        while daemon.active() and time.monotonic() - begun < PATIENCE_S:
            time.sleep(0.2)
    finally:
        daemon.leave()
    command = [given.trainyard, "replay", "--live-journal", folder, "--output", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainyard", default="trainyard")
    parser.add_argument("--kind", choices=sorted(CLUSTERS), default="paced")
    parser.add_argument("--policies", default="fifo,srtf,fair,slaq")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--within", type=float, default=20.0, help="seconds within which they come")
    parser.add_argument("--work", type=float, help="core-seconds of a job, on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, help="per cent by which the mean may be off")
    parser.add_argument("--out", default="trainyard-fidelity")
    given = parser.parse_args()
    given.work = given.work or {"paced": 5.0, "train": 1.5}[given.kind]
    if os.sep in given.trainyard:
        given.trainyard = os.path.abspath(given.trainyard)
    os.makedirs(given.out, exist_ok=True)
    jobs = draw(given)
    print(f"{'policy':8} {'jobs':>5} {'real JCT':>9} {'simulated':>9} {'error':>8} {'p50':>7} {'p90':>7} {'makespan':>9} "
          f"{'preempted':>11} {'resized':>11} {'unmeasured':>11}")
    worst = 0.0
    for policy in given.policies.split(","):
        folder = os.path.join(given.out, f"{given.kind}-{policy}")
        shutil.rmtree(folder, ignore_errors=True)
        it = run(given, policy, jobs, folder)
        real, again, rests = it["real"], it["simulated"], it["rests"]
        error = it["mean_jct_error"]
        worst = max(worst, abs(error))
        makespan = again["makespan_s"] / real["makespan_s"] - 1.0
        print(f"{policy:8} {len(it['jobs']):5} {real['mean_jct_s']:8.2f}s {again['mean_jct_s']:8.2f}s {100 * error:+7.2f}% "
              f"{100 * it['job_error_p50']:6.2f}% {100 * it['job_error_p90']:6.2f}% {100 * makespan:+8.2f}% "
              f"{real['preemptions']:5}/{again['preemptions']:<5} {real['resizes']:5}/{again['resizes']:<5} "
              f"{rests['orders_on_interpolated']:5}/{rests['orders']:<5}", flush=True)
    if given.most is not None and 100 * worst > given.most:
        raise SystemExit(5)


if __name__ == "__main__":
    main()
