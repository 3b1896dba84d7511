"""The front door: `imagesent VERB ...`, one file a verb, and only the chosen verb's file is imported."""

import argparse
import difflib
import importlib
import os
import sys

from keras_imagesent import __version__
from keras_imagesent.errors import InputError
from keras_imagesent.silence import silence_libraries

# In the order of a person's work. A verb is cli/<verb_with_underscores>.py: `add_arguments`, `run`, help as docstring.
VERBS = {
    "caption": "write captions for photos",
    "describe": "write a caption for every region of a photo",
    "scenes": "make the generated data set: coloured objects, sentences, known boxes",
    "prepare": "photos and sentences in, region vectors on disk",
    "train-alignment": "learn which words belong to which region",
    "align": "tie the phrases of sentences to regions",
    "train-captioner": "learn to caption photos or regions",
    "calibrate": "learn how sure captions and search results are, on photos set aside",
    "evaluate": "measure retrieval, captions and grounding; print the tables",
    "export": "write a SavedModel, ONNX or LiteRT files",
    "serve": "answer TF Serving's REST and gRPC calls, with a page to try the model",
    "index": "store a collection's regions for search",
    "search": "find regions and photos by words",
    "report": "write the pages people look at",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is two lines, not the whole usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")


def overall_help():
    """The text of `imagesent --help`."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {line}" for verb, line in VERBS.items())
    return (
        "usage: imagesent VERB ...\n\n"
        "Photos and sentences: align words with regions, caption photos and their regions, serve both.\n\n"
        f"verbs:\n{verbs}\n\n"
        "  imagesent VERB --help  explains a verb and shows an example\n"
        "  imagesent --version    prints the version\n\n"
        "example:\n  imagesent caption photo.jpg\n"
    )


def verb_parser(verb):
    """The parser of one verb, and the function that runs it."""
    module = importlib.import_module(f"keras_imagesent.cli.{verb.replace('-', '_')}")
    parser = Parser(
        prog=f"imagesent {verb}",
        description=module.__doc__.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser, module.run


def main(argv=None):
    """Runs one verb and returns the exit status: 0 done, 2 the input was wrong.

    Example:

    >>> main(["caption", "photo.jpg"])
    0
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv in ([], ["-h"], ["--help"], ["help"]):
        print(overall_help(), end="")
        return 0
    if argv == ["--version"]:
        print(f"imagesent {__version__}")
        return 0
    verb, *rest = argv
    if verb not in VERBS:
        close = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean `imagesent {close[0]}`?" if close else "`imagesent --help` lists the verbs."
        print(f"imagesent: there is no verb {verb!r}: {hint}", file=sys.stderr)
        return 2
    silence_libraries()
    try:
        parser, run = verb_parser(verb)
        return run(parser.parse_args(rest)) or 0
    except InputError as error:
        return complain(error)
    except BrokenPipeError:  # `imagesent ... | head`: the reader has left; say nothing, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # no permission, disk full, a file where a folder should be
        if error.strerror is None:
            raise
        return complain(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    except KeyboardInterrupt:
        print("imagesent: stopped", file=sys.stderr)
        return 130


def complain(message):
    """Prints what is wrong on stderr; returns the exit status of wrong input."""
    print("imagesent:", " ".join(str(message).splitlines()), file=sys.stderr)  # names may hold line breaks
    return 2
