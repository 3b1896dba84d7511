"""scripts/results on small tables, and RESULTS.md as it stands: nothing in it is written by hand."""

import json
import shutil
import subprocess
import sys

import pytest

from keras_imagesent.evaluation.tables import Table
from tests.conftest import ROOT

HEADS = [f"{way} {what}" for way in ("annotation", "search") for what in ("R@1", "R@5", "R@10", "Med r", "Mean r")]


def write_tables(file, *tables):
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([json.loads(table.to_json()) for table in tables]))


@pytest.fixture
def runs(tmp_path):
    """What scripts/train_shipped and scripts/departures leave, in small."""
    runs = tmp_path / "my runs"
    rows = [["best", *[26.34] * 10], ["best, its 5 best epochs", *[(25.0, 1.26)] * 10]]
    rows += [["the paper's BRNN, Flickr8K test", *[16.5, 40.6, 54.2, 7.6, None] * 2]]
    command = f"imagesent evaluate {runs}/prepared"
    lengths = Table("word_magnitudes", "Mean length of word vectors", ["smallest", "word"], [[6.271, "treat"]])
    lengths.command = command
    retrieval = Table("retrieval", "Retrieval", ["model", *HEADS], rows, "1000 photos.", command, "val", 0)
    boxes = ["region chosen by", "IoU >= 0.5, %", "pointing, %"]
    chosen = [["best", 38.1, 60.6], ["best, MRF with beta 0", 37.9, 60.3]]
    grounding = Table("grounding", "Phrase grounding", boxes, chosen, "", command, "val", 0)
    for table in (retrieval, grounding):
        table.data_set = "flickr8k"
    theirs = [["best", *[45.0] * 10], ["the paper's BRNN, MSCOCO 1K test", *[38.4] * 10]]
    coco = Table("retrieval", "Retrieval", ["model", *HEADS], theirs, "894 photos.", command, "val", 0, "coco")
    write_tables(runs / "evaluation/tables.json", retrieval, grounding, coco, lengths)
    rows = [["one epoch", *[10.0] * 10], rows[-1]]
    other = Table("retrieval", "Retrieval", ["model", *HEADS], rows, "", f"{command} --fast", "val", 0)
    write_tables(runs / "ablations/one-epoch/tables.json", other)
    (runs / "times.txt").write_text("prepare 3 s\n")
    return runs


def run(*arguments):
    command = [sys.executable, ROOT / "scripts/results", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def pages(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_tables_of_runs_become_two_pages(runs, tmp_path):
    done = run("--runs", runs, "--commit", "abc123", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    made = pages(tmp_path / "out")
    kept = {"shipped.json", "ablations-one-epoch.json", "about.json", "times.txt"}
    assert set(made) == {"RESULTS.md", "docs/VECTOR_LENGTHS.md", *(f"docs/results/{name}" for name in kept)}
    page = made["RESULTS.md"]
    screen, tables = page.split("## Where the numbers come from")
    assert len(screen.splitlines()) < 60
    assert "| best | 26.3 / 26.3 / 26.3 / 26.3 | 26.3 / 26.3 / 26.3 / 26.3 |" in screen
    assert "25.0 ± 1.3 / 25.0 ± 1.3" in screen and "| best | 38.1 | 60.6 |" in screen and "MRF" not in screen
    assert "by the code of commit abc123" in " ".join(tables.split()) and "| best, MRF with beta 0 | 37.9 " in tables
    assert page.count("`imagesent evaluate runs/shipped/prepared`") == 1  # each command once, numbered
    assert "2. `imagesent evaluate runs/shipped/prepared --fast`" in page and "Command 2, split val, seed 0." in page
    assert "### Retrieval, one epoch" in page and "prepare 3 s" in page and str(runs) not in page
    assert page.count("the paper's BRNN, Flickr8K") == 2  # in the summary and in the first table, not in the ablation's
    assert "| best | 45.0 / 45.0 / 45.0 / 45.0 |" in screen and "the paper's BRNN, MSCOCO 1K test" in screen
    assert page.index("## Flickr8k dev") < page.index("## MSCOCO dev") < page.index("894 photos.")
    assert "treat" not in page and "| 6.27 " in made["docs/VECTOR_LENGTHS.md"]


def test_written_twice_it_is_the_same_and_other_runs_stay(runs, tmp_path):
    out = tmp_path / "out"
    assert run("--runs", runs, "--out", out).returncode == 0
    first = pages(out)
    assert run("--out", out).returncode == 0 and run("--runs", runs, "--out", out).returncode == 0
    assert pages(out) == first
    (runs / "ablations/one-epoch").rename(runs / "ablations/two-epochs")
    scenes = tmp_path / "scenes"
    write_tables(
        scenes / "tables/alignment/tables.json", Table("truth", "True captions", ["by", "true, %"], [["a", 9.5]])
    )
    assert run("--runs", runs, "--scenes", scenes, "--out", out).returncode == 0
    names = set(pages(out))
    assert "docs/results/ablations-two-epochs.json" in names and "docs/results/ablations-one-epoch.json" not in names
    assert run("--runs", runs, "--out", out).returncode == 0 and set(pages(out)) == names  # the scenes stay
    rows = [
        ["edges of dependency trees", *[14.0] * 10],
        ["the paper's dependency tree edges, Flickr8K test", *[14.8] * 10],
    ]
    write_tables(
        tmp_path / "paper/tables/alignments-0/tables.json", Table("retrieval", "Retrieval", ["model", *HEADS], rows)
    )
    assert run("--paper", tmp_path / "paper", "--out", out).returncode == 0
    page = pages(out)["RESULTS.md"]
    assert page.index("## The paper's own recipe") < page.index("the paper's dependency tree edges, Flickr8K test")


def test_nothing_to_write_is_told(tmp_path):
    done = run("--out", tmp_path)
    assert done.returncode == 1 and "no tables in" in done.stderr and "--runs" in done.stderr
    done = run("--runs", tmp_path / "none", "--out", tmp_path)
    assert done.returncode == 1 and "evaluation/tables.json" in done.stderr


def test_the_page_is_what_the_script_writes(tmp_path):
    shutil.copytree(ROOT / "docs/results", tmp_path / "docs/results")
    assert run("--out", tmp_path).returncode == 0
    for page in ("RESULTS.md", "docs/VECTOR_LENGTHS.md"):
        assert (tmp_path / page).read_text() == (ROOT / page).read_text(), f"{page}: run scripts/results"
