"""Tables of results: how they are written as Markdown and JSON, with what made them."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from keras_imagesent.errors import InputError

BY_THING = ("things", "classes_named")  # tables of shares: a row each thing, a column each model


@dataclass
class Table:
    """One table of results.

    Args:
        name: short, for file names and JSON keys.
        title: one line above the table.
        columns: the heads, the first of them for the rows' names.
        rows: lists as long as `columns`; numbers may be `(mean, standard deviation)`, None is left empty.
        note: what a reader should know.
        command: the command that makes it again.
        split: the photos it is measured on.
        seed: of the training.
        data_set: the name of the data set whose photos they are, if it has one.

    Example:
        Table("retrieval", "Retrieval", ["model", "R@1"], [["ours", 22.31], ["the paper", 16.5]]).to_markdown()
    """

    name: str
    title: str
    columns: list
    rows: list
    note: str = ""
    command: str = ""
    split: str = ""
    seed: int | None = None
    data_set: str = ""
    digits: int = field(default=1, repr=False)

    @property
    def full_title(self):
        """The title with the data set's name."""
        return f"{self.title}, {self.data_set}" if self.data_set else self.title

    def to_markdown(self):
        """The table with its title, note, split, seed and command."""
        cells = [list(map(str, self.columns)), *([self._cell(value) for value in row] for row in self.rows)]
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
        widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(self.columns))]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in cells
        ]
        rule = (
            "| "
            + " | ".join("-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths))
            + " |"
        )
        made = [f"split {self.split}"] if self.split else []
        made += [f"seed {self.seed}"] if self.seed is not None else []
        made += [f"`{self.command}`"] if self.command else []
        parts = [f"### {self.full_title}", "\n".join([lines[0], rule, *lines[1:]]), self.note, ", ".join(made)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_json(self):
        """The table as a JSON text, numbers unrounded."""
        return json.dumps({k: v for k, v in asdict(self).items() if k != "digits"}, indent=2, ensure_ascii=False)

    def _cell(self, value):
        if value is None:
            return ""
        if isinstance(value, tuple):
            return f"{value[0]:.{self.digits}f} ± {value[1]:.{self.digits}f}"
        return f"{value:.{self.digits}f}" if isinstance(value, float) else str(value)


def read_tables(path):
    """The tables that `imagesent evaluate --out` wrote, as dicts."""
    path = Path(path)
    try:
        tables = json.loads((path / "tables.json" if path.is_dir() else path).read_text("utf-8"))
        if not all({"name", "columns", "rows"} <= set(table) for table in tables):
            raise ValueError
    except FileNotFoundError:
        raise InputError(f"no file {path}: `imagesent evaluate --out {path}` writes such tables") from None
    except (ValueError, TypeError):
        raise InputError(f"{path}: no tables of `imagesent evaluate`") from None
    return tables


def put_beside(table, name, others):
    """Adds the shares of another evaluation of the same photos to a table of things, a column each of its models.

    Args:
        table: the `Table` to widen, if it is one of things; else it stays as it is.
        name: what to call the others.
        others: the other evaluation's tables, as dicts.

    Example:
        >>> put_beside(table, "today", read_tables("before/tables.json"))
    """
    for other in others if table.name in BY_THING else ():
        if other["name"] == table.name and other.get("data_set", "") in (table.data_set, ""):
            shares = {row[0]: row[1:] for row in other["rows"]}
            nothing = [None] * (len(other["columns"]) - 1)
            table.columns += [f"{name}: {column}" for column in other["columns"][1:]]
            table.rows = [[*row, *shares.get(row[0], nothing)] for row in table.rows]
