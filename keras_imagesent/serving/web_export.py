"""A folder for any static web server: the live page, with the networks running in the visitor's browser."""

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.errors import InputError
from keras_imagesent.runtime.about import NAME, checksum, read_about
from keras_imagesent.serving.onnx_export import export_onnx

HERE = Path(__file__).parent
PACKAGE = "onnxruntime-web@1"  # the npm package
RUNTIME = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
SCRIPT = '<script src="live.js"></script>'


def export_web(
    photo_model, folder: str | Path, runtime: str | Path | None = None, precision: str = "int8"
) -> list[Path]:
    """Writes the page, the ONNX files and ONNX Runtime Web; returns the paths of the larger files.

    Args:
        photo_model: with every part: the page captions, describes and aligns.
        folder: to write to; serve it with any web server, such as `python -m http.server -d FOLDER`.
        runtime: a folder with the `dist` files of the npm package onnxruntime-web; None asks npm for them.
        precision: of the stored weights (see `export_onnx`); int8 is the smallest download.

    Example:
        >>> export_web(load_photo_model(), "site", runtime="node_modules/onnxruntime-web/dist")
    """
    folder = Path(folder)
    with tempfile.TemporaryDirectory() as temporary:
        source = find_runtime(runtime) if runtime else fetch_runtime(Path(temporary))
        written = export_onnx(photo_model, folder, precision=precision)
        return [*written, *write_page(folder, source)]


def write_page(folder: Path, runtime: Path) -> list[Path]:
    """Puts the page and the runtime beside exported ONNX files; returns the runtime's paths."""
    page = (HERE / "live" / "index.html").read_text("utf-8")
    if SCRIPT not in page:
        raise RuntimeError(f"live/index.html has no line {SCRIPT}")
    scripts = f'<script src="{RUNTIME[0]}"></script>\n{SCRIPT}\n<script src="local.js"></script>'
    write_whole(folder / "index.html", page.replace(SCRIPT, scripts))
    shared = [path for path in sorted((HERE / "live").iterdir()) if path.suffix in (".css", ".js")]
    for path in [*shared, HERE / "web" / "local.js", *(runtime / name for name in RUNTIME)]:
        shutil.copyfile(path, folder / path.name)
    about = read_about(folder)
    write_whole(folder / NAME, json.dumps({**about, "format": "web"}, indent=1, ensure_ascii=False))
    names = ["index.html", *(path.name for path in shared), "local.js", *RUNTIME, NAME]
    names += [file["file"] for file in about["files"]]
    version = hashlib.sha256("".join(checksum(folder / name) for name in names).encode()).hexdigest()[:16]
    worker = (HERE / "web" / "offline.js").read_text("utf-8")
    worker = worker.replace("FILES = []", f"FILES = {json.dumps(['./', *names])}").replace("VERSION", version)
    write_whole(folder / "offline.js", worker)
    return [folder / name for name in RUNTIME]


def find_runtime(folder: str | Path) -> Path:
    """The folder with ONNX Runtime Web's files: itself, its `dist`, or what npm made of it."""
    for place in (Path(folder), Path(folder) / "dist", Path(folder) / "node_modules" / "onnxruntime-web" / "dist"):
        if all((place / name).is_file() for name in RUNTIME):
            return place
    raise InputError(f"{folder} has no {', '.join(RUNTIME)}: name the folder dist of the npm package onnxruntime-web")


def fetch_runtime(folder: Path) -> Path:
    """Asks npm for ONNX Runtime Web and unpacks it."""
    cure = f"Or fetch it elsewhere (npm pack {PACKAGE}) and name the unpacked folder: --web-runtime FOLDER"
    try:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, timeout=300)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except FileNotFoundError:
        raise InputError(f"the page needs onnxruntime-web from npm, and npm is not installed. {cure}") from None
    except (subprocess.SubprocessError, ValueError, tarfile.TarError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise InputError(f"npm could not fetch {PACKAGE}: {said[0] if said else 'no answer'}. {cure}") from None
    return find_runtime(folder / "package")
