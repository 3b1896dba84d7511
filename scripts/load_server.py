"""`imagesent serve` under load: one client, 64 clients for three minutes, 500 clients, and its cold start.

    python scripts/load_server.py [FOLDER] [--seconds 180] [--photo photo.jpg]

FOLDER holds version folders (default: saved_models/imagesent). Throughput is compared with the SavedModel's own, called
in batches of 32 by another process before and after; the clients are a process of their own, whose processor time is
taken from the cores that the server could have had, and said. Needs quiet cores.
"""

import argparse
import base64
import concurrent.futures
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
BATCH, THREADS = 32, 2  # of the server
ALONE = """
import sys, threading, time
import tensorflow as tf, tensorflow_text
call = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = tf.constant([open(sys.argv[2], "rb").read()] * int(sys.argv[4]))
call(image_bytes=rows)
one, done = [], []
for _ in range(10):
    began = time.perf_counter()
    call(image_bytes=rows[:1])
    one.append(time.perf_counter() - began)
began, used = time.perf_counter(), time.process_time()
until = began + float(sys.argv[3])
def work():
    while time.perf_counter() < until:
        call(image_bytes=rows)
        done.append(len(rows))
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[5]))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(done) / (time.perf_counter() - began), sorted(one)[5], (time.process_time() - used) / sum(done))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "saved_models" / "imagesent")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--photo", type=Path, default=ROOT / "saved_models" / "aligned.jpg")
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout whose server is measured")
    args = parser.parse_args()
    version = max((path for path in args.folder.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    body = json.dumps({"instances": [{"b64": base64.b64encode(args.photo.read_bytes()).decode()}]})

    before = measure_alone(version, args.photo, args.seconds / 6)
    server, port, cold = start(args.tree, args.folder, body)
    print(f"cold start to the first answer: {cold:.1f} s", flush=True)
    time.sleep(15)  # the rest of the warm-up
    path = f"/v1/models/{args.folder.resolve().name}:predict"
    report("1 client", *load(port, path, body, 1, 20))
    print(f"  the model itself: {1000 * before[1]:.0f} ms")
    used = processor_time(server)
    answers, seconds, share = load(port, path, body, 64, args.seconds)
    each = (processor_time(server) - used) / len(answers)
    rate = report("64 clients", answers, seconds, share)
    report("500 clients", *load(port, path, body, 500, 30))
    report("64 clients again", *load(port, path, body, 64, 30))
    server.terminate()
    server.wait()
    after = measure_alone(version, args.photo, args.seconds / 6)
    alone = (before[0] + after[0]) / 2
    cores = psutil.cpu_count()
    print(
        f"SavedModel alone: {before[0]:.1f} and {after[0]:.1f} photos/s; the server {rate / alone:.0%} of it, "
        f"{rate / (alone * (1 - share / cores)):.0%} with the clients' {share:.2f} of {cores} cores subtracted"
    )
    print(
        f"processor time for a photo (other work changes it less): SavedModel {1000 * before[2]:.0f} and "
        f"{1000 * after[2]:.0f} ms, server {1000 * each:.0f} ms"
    )


def processor_time(process):
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def measure_alone(version, photo, seconds):
    """(photos a second, seconds for one, processor seconds for one of a batch) of the SavedModel without a server."""
    command = [sys.executable, "-c", ALONE, str(version), str(photo), str(seconds), str(BATCH), str(THREADS)]
    return tuple(map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))


def start(tree, folder, body):
    """The server's process, its port, and the seconds until its first answer."""
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "keras_imagesent",
        "serve",
        str(folder.resolve()),
        "--port",
        "0",
        "--grpc-port",
        "0",
    ]
    server = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = next(line for line in server.stdout if line.startswith("REST"))
    port = int(re.search(r":(\d+)/", line)[1])
    status, _ = ask(http.client.HTTPConnection("127.0.0.1", port), f"/v1/models/{folder.resolve().name}:predict", body)
    assert status == 200
    return server, port, time.perf_counter() - began


def ask(connection, path, body):
    began = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status, time.perf_counter() - began


def load(port, path, body, clients, seconds):
    """[(status, latency)] of clients that ask at once again (refused: in a second), the time, their share of a core."""
    until = time.perf_counter() + seconds
    go = threading.Barrier(clients)

    def client(_):
        connection, answers = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
        go.wait()
        while time.perf_counter() < until:
            answers.append(ask(connection, path, body))
            if answers[-1][0] == 503:
                time.sleep(1.0)  # what Retry-After says
        return answers

    began, used = time.perf_counter(), time.process_time()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = [answer for found in pool.map(client, range(clients)) for answer in found]
    seconds = time.perf_counter() - began
    return answers, seconds, (time.process_time() - used) / seconds


def report(name, answers, seconds, share):
    """Prints a line; returns good answers a second."""
    good = np.array([latency for status, latency in answers if status == 200])
    refused = np.array([latency for status, latency in answers if status == 503])
    other = sum(status not in (200, 503) for status, _ in answers)
    p50, p99 = np.percentile(good, [50, 99]) * 1000
    line = f"{name}: {len(good) / seconds:.1f} photos/s, p50 {p50:.0f} ms, p99 {p99:.0f} ms, {other} errors"
    if len(refused):
        line += f", {len(refused)} refused within {1000 * np.percentile(refused, 99):.0f} ms (p99)"
    print(f"{line}; clients' processor time {share:.2f} cores", flush=True)
    return len(good) / seconds


if __name__ == "__main__":
    main()
