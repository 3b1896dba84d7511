"""The paper's own numbers, and which of them belong beside a data set."""

# The BRNN rows of tables 1 and 4: annotation R@1, 5, 10, median and mean rank, then search; it gives no mean ranks.
RETRIEVAL = {
    "Flickr8K": [16.5, 40.6, 54.2, 7.6, None, 11.8, 32.1, 44.7, 12.4, None],
    "Flickr30K": [22.2, 48.2, 61.4, 4.8, None, 15.2, 37.7, 50.5, 9.2, None],
    "MSCOCO 1K": [38.4, 69.9, 80.5, 1.0, None, 27.4, 60.2, 74.8, 3.0, None],
    "MSCOCO 5K": [16.5, 39.2, 52.0, 9.0, None, 10.7, 29.6, 42.2, 14.0, None],
}
# What the paper compares its BRNN with on Flickr8K (table 4), to stand beside ablations.
RIVALS = {
    "the paper's own DeFrag (with another objective)": [13.8, 35.8, 48.2, 10.4, None, 9.5, 28.2, 40.3, 15.6, None],
    "the paper's dependency tree edges": [14.8, 37.9, 50.0, 9.4, None, 11.6, 31.4, 43.8, 13.2, None],
}
# BLEU-1..4, METEOR, CIDEr, ROUGE-L of table 2; its MSCOCO row is of 5,000 photos.
CAPTIONS = {
    "Flickr8K": [57.9, 38.3, 24.5, 16.0, 16.7, 31.8, None],
    "Flickr30K": [57.3, 36.9, 24.0, 15.7, 15.3, 24.7, None],
    "MSCOCO": [62.5, 45.0, 32.1, 23.0, 19.5, 66.0, None],
}
# Table 3, regions of MSCOCO.
REGIONS = [
    ["the paper (COCO): people", 61.5, 45.2, 30.1, 22.0, None, None, None],
    ["the paper (COCO): best training snippet", 22.9, 10.5, 0.0, 0.0, None, None, None],
    ["the paper (COCO): whole-frame model", 14.2, 6.0, 2.2, 0.0, 13.3, 20.3, 21.0],
    ["the paper (COCO): region model", 35.2, 23.0, 16.1, 14.8, 15.8, 61.6, 35.1],
]
SETS = {"flickr8k": "Flickr8K", "flickr30k": "Flickr30K", "coco": "MSCOCO", "mscoco": "MSCOCO"}
FEW, MANY = 1000, 5000  # photos of MSCOCO's two rows


def paper_set(name):
    """What the paper calls a data set of this name; None if it is none of the paper's.

    Example:
        >>> paper_set("COCO"), paper_set("scenes")
        ('MSCOCO', None)
    """
    return SETS.get(name.lower())


def retrieval_row(name, photos):
    """`(what it is, its numbers)` of the paper's retrieval on this set; of MSCOCO's two the one nearer in photos.

    Example:
        >>> retrieval_row("coco", 894)[0]
        'MSCOCO 1K'
    """
    known = paper_set(name)
    if known == "MSCOCO":
        known += " 1K" if abs(photos - FEW) <= abs(photos - MANY) else " 5K"
    return (known, RETRIEVAL[known]) if known else None


def remark(name, photos, detector=""):
    """What stands beside the figures of a data set: how its photos differ from the paper's."""
    known = paper_set(name)
    if not known:
        return ""
    there = MANY if known == "MSCOCO" and abs(photos - MANY) < abs(photos - FEW) else FEW
    parts = [] if photos == there else [f"{photos:,} photos are not the paper's {there:,}."]
    if known == "MSCOCO" and detector == "yolov4-tiny":
        parts.append("The detector was trained on COCO and has most likely seen these photos with their boxes.")
    return " ".join(parts)
