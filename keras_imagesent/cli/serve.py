"""Answers TF Serving's REST and gRPC calls on this machine, and offers a page to try the model in a browser.

FOLDER is what `imagesent export` wrote; without one the shipped model is served. A new version in the folder is
picked up while the server runs. Ctrl-C or SIGTERM finishes what is under way. docs/serving.md says more.

example:
  imagesent serve exported/imagesent
  curl -H 'Content-Type: application/json' -d '{"instances": [{"b64": "'$(base64 -w0 photo.jpg)'"}]}' \\
    http://127.0.0.1:8501/v1/models/imagesent:predict
"""

import os
import sys
from pathlib import Path
from urllib.parse import quote

API_KEY = "IMAGESENT_API_KEY"


def add_arguments(parser):
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder with numbered versions; its name is the model's name"
    )
    parser.add_argument("--config", type=Path, help="TF Serving's models.config instead of one folder")
    parser.add_argument(
        "--config-poll-seconds", type=float, default=0, help="read --config anew so often (default: never)"
    )
    parser.add_argument(
        "--allow-reload", action="store_true", help="let gRPC clients change the config: a SavedModel runs as code"
    )
    parser.add_argument("--batching", type=Path, help="TF Serving's batching parameters file")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8501, help="of REST and the page (default: %(default)s)")
    parser.add_argument("--grpc-port", type=int, default=8500, help="of gRPC (default: %(default)s)")
    parser.add_argument("--max-batch-size", type=int, help="photos computed together (default: 32)")
    parser.add_argument("--max-queue", type=int, help="photos waiting before 503 (default: 128)")
    parser.add_argument("--max-body-mb", type=float, default=32, help="largest request (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for a request (default: %(default)s)")
    parser.add_argument(
        "--read-timeout", type=float, default=10, help="seconds for a request to arrive (default: %(default)s)"
    )
    parser.add_argument("--cors", action="store_true", help="let pages of other sites call the REST API")
    parser.add_argument(
        "--allowed-hosts",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names of this server beside its addresses and localhost; * for any",
    )
    parser.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help=f"clients must send the key in it (or in the environment's {API_KEY}) as Authorization: Bearer KEY",
    )
    parser.add_argument("--tls", type=Path, nargs=2, metavar=("CERTIFICATE", "KEY"), help="PEM files: HTTPS and TLS")


def run(args):
    import logging

    from keras_imagesent.errors import InputError
    from keras_imagesent.serving.server import Server
    from keras_imagesent.serving.server_config import read_batching_config, read_models_config
    from keras_imagesent.shipped import shipped

    if args.folder and args.config:
        raise InputError("give either a folder or --config, not both")
    if args.config_poll_seconds and not args.config:
        raise InputError("--config-poll-seconds needs --config")
    for name in ("max_batch_size", "max_queue", "max_body_mb", "timeout", "read_timeout"):
        if getattr(args, name) is not None and getattr(args, name) <= 0:
            raise InputError(f"--{name.replace('_', '-')} must be more than 0, not {getattr(args, name):g}")
    if args.config:
        models = read_models_config(args.config)
    else:
        folder = args.folder or shipped("imagesent")
        models = {folder.resolve().name: folder}
    batching = read_batching_config(args.batching) if args.batching else {}
    given = {"max_batch_size": args.max_batch_size, "max_queued_rows": args.max_queue}
    batching |= {name: value for name, value in given.items() if value is not None}
    api_key = read_api_key(args.api_key_file)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    print(f"loading {', '.join(models)} ...", flush=True)
    import_tensorflow()
    poll = args.config_poll_seconds
    server = Server(
        models,
        host=args.host,
        rest_port=args.port,
        grpc_port=args.grpc_port,
        max_body_bytes=int(args.max_body_mb * 2**20),
        timeout=args.timeout,
        read_timeout=args.read_timeout,
        cors=args.cors,
        allowed_hosts=args.allowed_hosts,
        api_key=api_key,
        tls=args.tls,
        reload_folder=(args.config.parent if args.config else Path.cwd()) if args.allow_reload else None,
        read_config=(lambda: read_models_config(args.config)) if poll else None,
        poll_seconds=poll or 2.0,
        **batching,
    )
    scheme = "https" if args.tls else "http"
    for name in models:
        print(f"REST  {scheme}://{args.host}:{server.rest_port}/v1/models/{name}:predict")
    print(f"gRPC  {args.host}:{server.grpc_port}")
    name = next(iter(models))  # the page asks for "imagesent" unless told otherwise
    query = "" if name == "imagesent" else f"?model={quote(name)}"
    print(f"page  {scheme}://{args.host}:{server.rest_port}/{query}", flush=True)
    finished = server.run()
    # At once: Python takes seconds to free TensorFlow, and a call of the model that cannot be stopped would keep it.
    os._exit(0 if finished else 1)


def import_tensorflow():
    """Without Keras, which TensorFlow imports for its optimizers: a SavedModel needs none, and it takes a second."""
    if "keras" in sys.modules:
        return
    sys.modules["keras"] = None  # "not installed", which TensorFlow bears
    try:
        import tensorflow  # noqa: F401
    finally:
        del sys.modules["keras"]


def read_api_key(path):
    """The key that clients must send: from the file, else from the environment; None for no key."""
    from keras_imagesent.errors import InputError

    if path is None:
        return os.environ.get(API_KEY) or None
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): write the key into it") from None
    if not key:
        raise InputError(f"{path} is empty: write the key into it")
    return key
