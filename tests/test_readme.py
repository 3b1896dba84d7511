"""Every command of the README, pasted into a shell: all but the two scripts and Docker."""

import base64
import csv
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from keras_imagesent.data.scenes import make_scenes

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
NOT_HERE = ("scripts/demo", "scripts/test")
# Into a folder of its own, without the network: what it depends on is here already.
PYTHON, HERE = shlex.quote(sys.executable), shlex.quote(str(ROOT))  # the folder's name may have a blank
INSTALL = f"{PYTHON} -m pip install --no-index --no-deps --no-build-isolation --target installed {HERE}"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def readme_commands():
    """Every command of the README on one line, but for those not run here."""
    lines = [line for block in blocks("sh") for line in block.replace("|\n ", "|").splitlines()]
    return [line for line in lines if not line.startswith(NOT_HERE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A newcomer's folder: photos (one is called dog.jpg), tables of captions, sentences."""
    folder = tmp_path_factory.mktemp("newcomer")
    make_scenes(folder / "scenes", 160, seed=1)
    (folder / "scenes" / "images").rename(folder / "photos")
    images = json.loads((folder / "scenes" / "dataset.json").read_text())["images"]
    shutil.copyfile(folder / "photos" / images[0]["filename"], folder / "photos" / "dog.jpg")
    with open(folder / "captions.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["filename", "caption"])
        for image in images:
            table.writerows([image["filename"], sentence["raw"]] for sentence in image["sentences"])
    few = [{**image, "split": "test" if n < 4 else "train"} for n, image in enumerate(images[:12])]
    (folder / "dataset_flickr8k.json").write_text(json.dumps({"dataset": "flickr8k", "images": few}))
    (folder / "Flickr8k_Dataset").symlink_to(folder / "photos")
    (folder / "sentences.txt").write_text("a dog runs over the grass\na man in a red shirt\n")
    return folder


def run(command, folder, **options):
    environment = {
        **os.environ,
        "PATH": f"{folder / 'installed' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "installed"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    return subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, text=True, **options)


def wait_for(address, seconds=120):
    for _ in range(seconds):
        try:
            return urllib.request.urlopen(address).read()
        except OSError:
            time.sleep(1)
    raise AssertionError(f"nothing answers at {address}")


def test_the_commands_of_the_readme_work(folder):
    commands = readme_commands()
    assert len(commands) > 15
    server = None
    try:
        for command in commands:
            if command.startswith("imagesent serve"):
                server = run(f"exec {command}", folder)
                wait_for("http://127.0.0.1:8501/v1/models/imagesent")
                continue
            typed = INSTALL if command == "pip install ." else command
            process = run(typed, folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, f"{command}\n{output[-3000:]}"
            if command.startswith("imagesent search --photo"):
                assert "a dog runs over the grass" in output
            if "curl" in command:
                assert json.loads(output[output.index("{") :])["predictions"][0]["captions"][0]
                for block in blocks("python"):  # the models in Python, and the server's client
                    asked = run(f"{PYTHON} -c '{block.strip()}'", folder)
                    assert asked.wait(300) == 0
                server.send_signal(signal.SIGTERM)
                assert server.wait(60) == 0
    finally:
        if server:
            server.kill()
    made = ("described.png", "aligned.png", "prepared/problems.json", "runs/captioner/model.keras", "pairs.jsonl")
    made += ("installed/keras_imagesent/saved_models/backbone.keras", "tables.json")
    made += ("report/index.html", "exported/imagesent/1/saved_model.pb", "found.html")
    assert [name for name in made if not (folder / name).exists()] == []


def test_curl_sends_a_photo_larger_than_an_argument_may_be(tmp_path):
    """Linux takes 128 KB in one argument; photos are larger."""
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    (tmp_path / "photos").mkdir()
    photo = os.urandom(300_000)
    (tmp_path / "photos" / "dog.jpg").write_bytes(photo)
    (command,) = (command for command in readme_commands() if "curl" in command)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        command = command.replace("8501", str(server.server_port))
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert base64.b64decode(json.loads(received[0])["instances"][0]["b64"]) == photo


def test_every_file_that_the_readme_names_is_there():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
