"""The parts of a region's or a word's vector, side by side: [region | frame | prior].

`region` has `dim` numbers: what a region and a word have in common (Eqs. 1, 6). `frame`, with `frame_dim` numbers, is
the same for the whole frame: every region of a photo carries the frame's. `prior` is one number, the last: the log of
the detector's score in a region's vector, 1 in a word's. The dot product of two such vectors adds the three up. A model
without `frame_dim` or without a prior lacks that part.
"""

PRIOR = slice(-1, None)


def region_part(dim):
    """Where the region's numbers stand.

    Example:
        >>> region_part(384)
        slice(0, 384, None)
    """
    return slice(0, dim)


def frame_part(dim, frame_dim):
    """Where the whole frame's numbers stand.

    Example:
        >>> frame_part(384, 256)
        slice(384, 640, None)
    """
    return slice(dim, dim + frame_dim)
