"""Captions beside the photos: XMP sidecars that photo managers read, and alt texts of a folder."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.errors import InputError

MADE_BY = "keras_imagesent"
_XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="{made_by}">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about=""
    xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/">
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">{caption}</rdf:li></rdf:Alt></dc:description>
   <Iptc4xmpCore:AltTextAccessibility>
    <rdf:Alt><rdf:li xml:lang="x-default">{caption}</rdf:li></rdf:Alt>
   </Iptc4xmpCore:AltTextAccessibility>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def write_sidecar(photo: str | Path, caption: str) -> Path:
    """Writes `photo.jpg.xmp` beside the photo: the caption as its description and its alt text.

    A sidecar of another program is left alone and named: it holds somebody's edits.

    Example:
        >>> write_sidecar("dog.jpg", "a dog runs")
        PosixPath('dog.jpg.xmp')
    """
    path = Path(f"{photo}.xmp")
    if path.exists() and f'x:xmptk="{MADE_BY}"' not in path.read_text("utf-8", errors="replace"):
        raise InputError(f"{path} is there already and not ours: left as it is")
    return write_whole(path, _XMP.format(made_by=MADE_BY, caption=escape(caption)))


def write_alt_texts(path: str | Path, photos: Sequence[str | Path], captions: Sequence[str]) -> Path:
    """Writes the captions of many photos as alt texts: `.csv` (filename, alt) or `.html` (a page of the photos).

    Example:
        >>> write_alt_texts("alt.html", ["dog.jpg"], ["a dog runs"])
        PosixPath('alt.html')
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [["filename", "alt"], *zip(map(str, photos), captions, strict=True)]
        )
        return write_whole(path, text.getvalue())
    figures = []
    for photo, caption in zip(photos, captions, strict=True):
        source = quote(str(Path(photo).resolve()))
        figures.append(
            f"<figure><img src={quoteattr(source)} alt={quoteattr(caption)} loading=lazy>"
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )
    page = (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Alt texts</title>\n'
        "<style>body{font-family:sans-serif;display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;width:20rem}"
        "img{width:100%}</style>\n" + "\n".join(figures) + "\n</html>\n"
    )
    return write_whole(path, page)


def check_alt_path(path: str | Path) -> None:
    """Refuses a name that is neither `.csv` nor `.html`, before the work."""
    if Path(path).suffix.lower() not in (".csv", ".html"):
        raise InputError(f"--alt-text {path}: name a .csv or a .html file")
