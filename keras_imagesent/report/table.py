"""A table of `imagesent evaluate` as HTML."""

from html import escape


def table_html(table):
    """One table of `imagesent evaluate` with what made it."""
    columns, rows = table["columns"], table["rows"]
    head = "".join(f'<th scope="col"{_right(_is_number(rows, i))}>{escape(str(c))}</th>' for i, c in enumerate(columns))
    body = "".join(
        "<tr>"
        + "".join(f"<td{_right(_is_number(rows, i))}>{cell(value)}</td>" for i, value in enumerate(row))
        + "</tr>"
        for row in rows
    )
    note = f"<p class='soft'>{escape(table['note'])}</p>" if table.get("note") else ""
    full_title = ", ".join(filter(None, (table["title"], table.get("data_set"))))
    made = ", ".join(f"{name} {table[name]}" for name in ("split", "seed") if table.get(name) not in (None, ""))
    command = f"<pre>{escape(table['command'])}</pre>" if table.get("command") else ""
    return (
        f'<section class="card"><div class="scroll"><table><caption>{escape(full_title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
        f"<p class='soft'>{escape(made)}</p>{command}</section>"
    )


def cell(value):
    """A number or a text as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):  # mean and standard deviation
        return " ± ".join(f"{part:.1f}" for part in value)
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1 else f"{value:.1f}" if abs(value) < 1e4 else f"{value:.0f}"
    return escape(str(value))


def _is_number(rows, column):
    return any(isinstance(row[column], (int, float, list, tuple)) for row in rows if column < len(row))


def _right(number):
    return ' class="number"' if number else ""
