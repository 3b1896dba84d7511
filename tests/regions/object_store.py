"""A real S3 server (moto) on the loopback, to read photos from an object store."""

import contextlib
import subprocess
import sys
import time
import urllib.request

import pytest
from pyarrow import fs

from tests.search.qdrant_server import free_port


@contextlib.contextmanager
def object_store():
    """Runs a server; the environment says where it is, as it would for a store of one's own."""
    place = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", place.partition(":")[2]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://{place}/moto-api/", server)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", f"http://{place}")
            patch.setenv("AWS_ACCESS_KEY_ID", "test")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            yield fs.S3FileSystem(endpoint_override=place, scheme="http", allow_bucket_creation=True)
    finally:
        server.kill()
        server.wait()


def _wait_for(address, server):
    for _ in range(1200):
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
            return
        assert server.poll() is None, "the S3 server has stopped"
        time.sleep(0.1)
    raise AssertionError("the S3 server does not start within two minutes")


def upload(store, folder, bucket):
    """Copies a local folder into a bucket."""
    store.create_dir(bucket)
    fs.copy_files(str(folder), bucket, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
