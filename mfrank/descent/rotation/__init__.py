"""Descent by rotation: blocks of users meet blocks of items, several at a time.

With D blocks of users and D of items, an epoch has D rounds of D meetings; two meetings of a round
have no row in common (``layout``). A meeting is a task (``meeting``): an ordinary descent on the
rows of both blocks. ``engine`` sends and collects the rows.

An epoch resembles an epoch in one process. Items are assigned to blocks at random in every epoch. A
user is visited once, in the block with most of their positives. All positives are equally likely to
be in that block, and so are all other items, so the mean gradient over the assignments is the
gradient of a list of the whole catalog. The meetings of a round share their batches: a meeting
makes about 1 / D of a batch, with negatives from 1 / D of the items. A batch thus updates as many
users and items, and draws each item as often, as in one process. Only the positives of a list are
fewer, because they are in one block.
"""

from mfrank.descent.rotation.engine import rotate
from mfrank.descent.rotation.layout import Deal, count_blocks, deal, pairs, user_bounds
from mfrank.descent.rotation.meeting import meet

__all__ = ["Deal", "count_blocks", "deal", "meet", "pairs", "rotate", "user_bounds"]
