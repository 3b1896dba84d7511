"""Answers TF Serving's REST and gRPC calls on this machine, and offers a page to try the model in a browser.

FOLDER is what `imagesent export` wrote; without one the shipped model is served. A new version in the folder is
picked up while the server runs. Ctrl-C or SIGTERM finishes what is under way.

example:
  imagesent serve exported/imagesent
  curl -d '{"instances": [{"b64": "'$(base64 -w0 photo.jpg)'"}]}' http://127.0.0.1:8501/v1/models/imagesent:predict
"""

from pathlib import Path
from urllib.parse import quote


def add_arguments(parser):
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder with numbered versions; its name is the model's name"
    )
    parser.add_argument("--config", type=Path, help="TF Serving's models.config instead of one folder")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other machines in (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8501, help="of REST and the page (default: %(default)s)")
    parser.add_argument("--grpc-port", type=int, default=8500, help="of gRPC (default: %(default)s)")
    parser.add_argument(
        "--max-batch-size", type=int, default=32, help="photos computed together (default: %(default)s)"
    )
    parser.add_argument("--max-queue", type=int, default=128, help="photos waiting before 503 (default: %(default)s)")
    parser.add_argument("--max-body-mb", type=float, default=32, help="largest request (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for a request (default: %(default)s)")
    parser.add_argument("--no-cors", action="store_true", help="do not let pages of other sites call the REST API")


def run(args):
    from keras_imagesent.errors import InputError
    from keras_imagesent.serving.server import Server, read_models_config
    from keras_imagesent.shipped import shipped

    if args.folder and args.config:
        raise InputError("give either a folder or --config, not both")
    for name in ("max_batch_size", "max_queue", "max_body_mb", "timeout"):
        if getattr(args, name) <= 0:
            raise InputError(f"--{name.replace('_', '-')} must be more than 0, not {getattr(args, name):g}")
    if args.config:
        models = read_models_config(args.config)
    else:
        folder = args.folder or shipped("imagesent")
        models = {folder.resolve().name: folder}
    print(f"loading {', '.join(models)} ...", flush=True)
    server = Server(
        models,
        host=args.host,
        rest_port=args.port,
        grpc_port=args.grpc_port,
        max_batch_size=args.max_batch_size,
        max_queued_rows=args.max_queue,
        max_body_bytes=int(args.max_body_mb * 2**20),
        timeout=args.timeout,
        cors=not args.no_cors,
    )
    for name in models:
        print(f"REST  http://{args.host}:{server.rest_port}/v1/models/{name}:predict")
    print(f"gRPC  {args.host}:{server.grpc_port}")
    name = next(iter(models))  # the page asks for "imagesent" unless told otherwise
    query = "" if name == "imagesent" else f"?model={quote(name)}"
    print(f"page  http://{args.host}:{server.rest_port}/{query}", flush=True)
    server.run()
