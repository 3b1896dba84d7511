"""What one client can take from the others: attacks on every bound, small and quick."""

import base64
import contextlib
import json
import logging
import socket
import struct
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.data.photo_header import read_header
from keras_imagesent.regions.photo import BROKEN, decode_pixels
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.server_json import parse_json
from keras_imagesent.serving.server_photos import check_photos, smaller_photo
from keras_imagesent.serving.server_tensors import MAX_FIELDS
from keras_imagesent.serving.warmup import write_warmup
from tests.serving.hostile_photos import hostile_photos, huge_png, later_frame_gif
from tests.serving.photos import draw, encode, odd_photos
from tests.serving.toy import GOOD, ask, save_photo_toy, save_toy

READ = 2.0  # seconds for a request to arrive


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_toy(folder / "toy" / "1")
    save_photo_toy(folder / "photos" / "1")
    photo = encode(draw(20, 10, 1))
    first = [("serving_default", {"image_bytes": [photo]}), ("spin", {"n": np.int64([1])})]
    write_warmup(folder / "photos" / "1", "photos", first)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    models = {"toy": folder / "toy", "photos": folder / "photos"}
    limits = {"max_body_bytes": 4 * 2**20, "max_bytes_under_way": 8 * 2**20, "max_connections": 40}
    times = {"timeout": 6.0, "read_timeout": READ, "drain_seconds": 1.0}
    with Server(models, rest_port=0, grpc_port=0, batch_threads=1, **limits, **times) as running:
        yield running


def toy_answers(server):
    return ask(server, "/v1/models/toy:predict", {"instances": [GOOD]})[0] == 200


def read_photos(server, photos):
    rows = [{"b64": base64.b64encode(photo).decode()} for photo in photos]
    code, answer = ask(server, "/v1/models/photos:predict", {"instances": rows})
    assert code == 200, answer
    return [row["status"] for row in answer["predictions"]]


# --- photos ---


def test_hostile_photos_are_refused_at_once_and_harm_no_other_row(server):
    good = encode(draw(20, 10, 1))
    for name, (photo, status) in hostile_photos().items():
        began = time.monotonic()
        assert read_photos(server, [good, photo, good]) == ["ok", status, "ok"], name
        assert time.monotonic() - began < 6, name


def test_the_graph_refuses_them_too():
    """TF Serving has no server of ours before the graph."""
    photos = hostile_photos()
    _, status = decode_pixels(tf.constant([photo for photo, _ in photos.values()]), 8)
    wanted = [BROKEN if wanted != "ok" else "ok" for _, wanted in photos.values()]
    assert [text.decode() for text in status.numpy()] == wanted


def test_headers_are_read_as_pillow_reads_them():
    from io import BytesIO

    from PIL import Image

    photos = odd_photos()
    for name, photo in photos.items():
        header = read_header(photo)
        assert (header.width, header.height) == Image.open(BytesIO(photo)).size, name
        assert header.refusal is None, name
    gif = later_frame_gif()
    (cut,) = check_photos({"image_bytes": tf.constant([gif]).numpy()})[0]["image_bytes"]
    assert cut == encode(draw(8, 8, 1).convert("P"), "GIF")
    for length in range(0, 200, 7):  # headers that end early
        for photo in photos.values():
            read_header(photo[:length])


IN_BOUNDED_MEMORY = """
import resource, sys
from keras_imagesent.serving.server_photos import smaller_photo
from tests.serving.hostile_photos import huge_png
photo = huge_png()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bmp = smaller_photo(photo)
print(len(photo), len(bmp), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_huge_photo_is_reduced_in_bounded_memory():
    """120 megapixels of gray in 141 KB: the graph of older exports took 7 GB."""
    out = subprocess.run([sys.executable, "-c", IN_BOUNDED_MEMORY], capture_output=True, text=True, check=True).stdout
    size, smaller, kilobytes = map(int, out.split())
    assert size < 200_000 and 0 < smaller <= 12_100_000
    assert kilobytes < 400_000
    header = read_header(huge_png(100, 80))
    assert (header.kind, header.width, header.height) == ("png", 100, 80)


def test_a_smaller_photo_shows_the_same(server):
    photo = draw(4000, 3000, 3)
    photo.putalpha(200)
    png = encode(photo, "PNG", compress_level=1)
    small = smaller_photo(png)
    assert len(small) <= 3 * 4_000_000 + 100
    pixels, status = decode_pixels(tf.constant([png, small]), 16)
    assert status.numpy().tolist() == [b"ok", b"ok"]
    assert abs(pixels[0] - pixels[1]).numpy().max() <= 3


# --- requests ---


def test_json_of_many_values_is_refused_before_it_is_parsed(server):
    body = b'{"instances":[' + b"[]," * 1_200_000 + b"[]]}"
    began = time.monotonic()
    code, answer = ask(server, "/v1/models/toy:predict", body)
    assert (code, "more than 500,000 values" in answer["error"]) == (413, True)
    assert time.monotonic() - began < 6
    with pytest.raises(ServingError):
        parse_json(b"{" * 600_000)


def raw_call(server, data, method="/tensorflow.serving.PredictionService/Predict"):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        return channel.unary_unary(method)(data, timeout=20)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x12\x00" * (MAX_FIELDS + 1), "more than 50,000 fields"),  # empty inputs: 75 times their size in memory
        (b"\x12\x06\x12\x04\x12\x02\x12\x00" * 20_000, "more than 50,000 fields"),  # dimensions, nested
        (b"\x12\x05\x12\x03\x72\x01\x00", "resources and variants are not taken"),
        (b"\x0a\xff\xff\xff\x7f", "not a PredictRequest message"),
        (b"\x0b", "not a PredictRequest message"),
        (b"\x0a\x03\x0a\x01\xff", "not a PredictRequest message"),  # a name that is no UTF-8
        (b"\xff" * 11, "not a PredictRequest message"),
        (b"", "Missing ModelSpec"),
    ],
)
def test_messages_are_checked_before_they_are_parsed(server, data, message):
    with pytest.raises(grpc.RpcError) as refused:
        raw_call(server, data)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert message in refused.value.details()
    assert "x-request-id" in dict(refused.value.trailing_metadata())


def head(length, path="/v1/models/toy:predict"):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@contextlib.contextmanager
def connection(server):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=15) as opened:
        yield opened


def test_uploads_that_stall_make_room_for_others(server):
    """Bodies one byte short of the limit fill the room; they are ended when others need it."""
    length = server.max_body_bytes
    with connection(server) as first, connection(server) as second:
        for stalled in (first, second):
            stalled.sendall(head(length) + b" " * (length - 1))
        deadline = time.monotonic() + 5
        while server.room.bytes < 2 * (length - 1):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(1.1)
        assert toy_answers(server)
        answers = [stalled.recv(1000) for stalled in (first, second)]
    assert all(b" 408 " in answer and b'{"error":' in answer for answer in answers)
    assert server.room.bytes == 0


def test_a_head_or_body_that_does_not_come_ends_in_time(server):
    with connection(server) as silent, connection(server) as partial, connection(server) as slow:
        partial.sendall(b"GET /v1/models/toy HT")
        slow.sendall(head(100) + b"{")
        began = time.monotonic()
        assert silent.recv(1000) == b""
        assert b"408" in partial.recv(1000)
        answer = slow.recv(2000)
        while b"}" not in answer:  # head and body may come apart
            answer += slow.recv(2000)
        assert b" 408 " in answer and b"body took too long" in answer
        assert time.monotonic() - began < READ + 5
    with connection(server) as broken:
        broken.sendall(b"\0\1\2 nonsense\r\n\r\n")
        assert json.loads(broken.recv(1000).partition(b"\r\n\r\n")[2]) == {"error": "Invalid HTTP request received."}


def test_more_connections_than_allowed_are_refused_in_json(server):
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connection(server)) for _ in range(41)]
        answer = opened[-1].recv(1000)
        assert b" 503 " in answer and b"Retry-After: 1" in answer and b'"error"' in answer
    time.sleep(0.2)
    assert toy_answers(server)


def test_grpc_calls_that_bring_no_message_make_room(server):
    release = threading.Event()

    def never():
        release.wait(20)
        yield from ()

    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        method = channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
        stalled = [method.future(never(), timeout=20) for _ in range(20)]
        time.sleep(0.5)
        began = time.monotonic()
        with pytest.raises(grpc.RpcError) as refused:
            raw_call(server, b"")
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert time.monotonic() - began < 8
        assert {call.exception(timeout=10).code() for call in stalled} == {grpc.StatusCode.CANCELLED}
        release.set()


def test_a_call_that_takes_too_long_frees_its_worker(server):
    """The only worker is busy for ever; after the deadline it is stopped and answers others."""
    began = time.monotonic()
    code, answer = ask(server, "/v1/models/photos:predict", {"signature_name": "spin", "instances": [10**15]})
    assert (code, answer) == (504, {"error": "Timed out after 6 seconds"})
    assert toy_answers(server)
    assert time.monotonic() - began < 12


def test_a_client_that_leaves_takes_its_work_along_without_a_word(server, caplog):
    body = json.dumps({"signature_name": "spin", "instances": [10**15]}).encode()
    with caplog.at_level(logging.INFO):
        with connection(server) as leaving:
            leaving.sendall(head(len(body), "/v1/models/photos:predict") + body)
            time.sleep(0.4)
        with connection(server) as leaving:
            leaving.sendall(head(1000) + b"{")
        began = time.monotonic()
        assert toy_answers(server)
        assert time.monotonic() - began < 5  # not after the 6 seconds of the first
    assert caplog.text == ""


def test_a_kept_connection_is_told_when_the_server_drains(folder):
    """Stopping at a time when clients hold connections loses none of their requests."""
    server = Server({"toy": folder / "toy"}, rest_port=0, grpc_port=None, drain_seconds=3.0).__enter__()
    body = json.dumps({"instances": [GOOD]}).encode()
    with connection(server) as kept:

        def exchange():
            kept.sendall(head(len(body)) + body)
            answer = b""
            while b"]\n}" not in answer and b"}]}" not in answer:
                answer += kept.recv(1000)
            return answer

        assert b"onnection: close" not in exchange()
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        time.sleep(0.3)
        assert ask(server, "/readyz")[0] == 503
        assert b"onnection: close" in exchange()
        assert kept.recv(10) == b""
    stopping.join(10)
    assert not stopping.is_alive()


def test_stopping_is_bounded_while_a_call_runs_for_ever(folder):
    server = Server(
        {"photos": folder / "photos"}, rest_port=0, grpc_port=None, timeout=2.0, drain_seconds=0.2
    ).__enter__()
    body = json.dumps({"signature_name": "spin", "instances": [10**15]}).encode()
    with connection(server) as waiting:
        waiting.sendall(head(len(body), "/v1/models/photos:predict") + body)
        time.sleep(0.3)
        began = time.monotonic()
        assert server.stop()
        assert time.monotonic() - began < 12


def test_struct_of_the_attack_photos():
    """The attacks are what they say: the later frame is large, the pieces are many."""
    gif = later_frame_gif()
    assert struct.pack("<HH", 20_000, 20_000) in gif and len(gif) < 2000
    assert len(hostile_photos()["pieces"][0]) > 900_000
