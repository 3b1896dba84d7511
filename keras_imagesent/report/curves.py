"""Training curves as SVG, from the `log.csv` of a run."""

import csv
from html import escape
from pathlib import Path

from keras_imagesent.errors import InputError

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 400, 220, 70, 28, 12  # the longest label, -1.23e-05, fits left of the axis
SHARES = ("bleu4", "cider")  # measures that the logs hold as parts of one; shown in percent
COLOURS = ("var(--c4)", "var(--c3)")


def read_log(run):
    """The numeric columns of a run's `log.csv`: name -> one value (or None) for each epoch.

    Example:

    >>> read_log("runs/alignment")["loss"]
    [41.2, 30.9, 27.5]
    """
    path = Path(run) / "log.csv"
    if not path.exists():
        raise InputError(f"{run} is not a run folder: it has no log.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [_number(row[name]) for row in rows] for name in (rows[0] if rows else {})}
    columns = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    return dict(_percent(name, values) for name, values in columns.items())


def _percent(name, values):
    if name.removeprefix("val_") not in SHARES:
        return name, values
    return f"{name}, %", [None if value is None else 100 * value for value in values]


def draw_curves(log):
    """HTML with one chart for each measure that changes; `val_x` shares the chart of `x`."""
    told = {name: line for name, line in log.items() if name not in ("epoch", "seconds")}
    told = {name: line for name, line in told.items() if len(line) == 1 or len(set(line)) > 1}
    names = [name for name in told if not (name.startswith("val_") and name[4:] in told)]
    pairs = [[name, f"val_{name}"] if f"val_{name}" in log else [name] for name in names]
    return '<div class="curves">' + "".join(_chart({name: log[name] for name in pair}) for pair in pairs) + "</div>"


def _chart(lines):
    values = [v for line in lines.values() for v in line if v is not None]
    low, high = min(values), max(values)
    if high == low:
        low, high = low - 1, high + 1
    epochs = max(len(line) for line in lines.values())

    def place(epoch, value):
        x = LEFT + (WIDTH - LEFT - 10) * (epoch / max(epochs - 1, 1))
        return x, TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    parts = []
    for step in range(5):
        value = low + (high - low) * step / 4
        _, y = place(0, value)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">epoch 1</text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end">{epochs}</text>')
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        points = [place(epoch, value) for epoch, value in enumerate(line) if value is not None]
        dash = ' stroke-dasharray="6 4"' if name.startswith("val_") else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    names = list(lines)
    title = names[0] if len(names) == 1 else f"{names[0]}: training solid, validation dashed"
    last = {name: next(v for v in reversed(line) if v is not None) for name, line in lines.items()}
    said = "; ".join(f"{name} ends at {value:.4g}" for name, value in last.items())
    return (
        f'<figure class="curve"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}; {said}")}">'
        f"{''.join(parts)}</svg></figure>"
    )


def _number(text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if abs(value) < 1e300 else None  # NaN compares false
