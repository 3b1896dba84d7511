"""The front door, as a person types it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_imagesent import __version__, cli
from keras_imagesent.cli.main import VERBS, complain, main, verb_parser


def run(*arguments):
    """`python -m keras_imagesent ...` in a process of its own."""
    return subprocess.run([sys.executable, "-m", "keras_imagesent", *arguments], capture_output=True, text=True)


def test_help_lists_every_verb_and_loads_no_tensorflow():
    code = "import sys; from keras_imagesent.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(f"  {verb} " in out for verb in VERBS)
    modules = out.splitlines()[-1]
    assert not any(f"'{heavy}'" in modules for heavy in ("tensorflow", "keras", "numpy", "PIL"))


def test_help_answers_in_under_a_second():
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        assert run("--help").returncode == 0
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1


def test_every_file_with_a_run_is_a_verb():
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py") if "\ndef run(args)" in path.read_text()}
    assert files == {verb.replace("-", "_") for verb in VERBS}


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"imagesent {__version__}\n"


def test_no_verb_prints_the_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: imagesent VERB")


def test_a_misspelt_verb_is_answered_with_the_nearest(capsys):
    assert main(["scene"]) == 2
    assert capsys.readouterr().err == "imagesent: there is no verb 'scene': did you mean `imagesent scenes`?\n"


def test_an_unknown_verb_points_to_the_help():
    done = run("xyzzy")
    assert done.returncode == 2
    assert done.stderr == "imagesent: there is no verb 'xyzzy': `imagesent --help` lists the verbs.\n"


def test_a_complaint_is_one_line_whatever_the_names_in_it(capsys):
    assert complain("no photo a\nb\u2028c.jpg") == 2
    assert capsys.readouterr().err == "imagesent: no photo a b c.jpg\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb):
    parser, _ = verb_parser(verb)
    text = parser.format_help()
    assert f"imagesent {verb} " in text.partition("\n\n")[2]
    assert all(action.help for action in parser._actions)


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_refused_in_two_lines(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        parser, _ = verb_parser(verb)
        parser.parse_args(["--no-such-option"])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith(f"imagesent {verb}: ")
