"""Descent by rotation: blocks of users meet blocks of items, some at the same time.

With D blocks of users and D of items, an epoch has D rounds of D meetings; no two meetings of a
round have a row in common (``layout``). A meeting is an ordinary descent on the rows of both
blocks, and a task of its own (``meeting``); ``engine`` sends the rows and collects them.

An epoch resembles one in a single process. Items are dealt to the blocks anew in every epoch, at
random. A user is visited once, in the block that has most of their positives. All positives are
equally likely to be in that block, and so are all other items, so the mean of a gradient over the
deals is that of a list of the whole catalog. The meetings of a round share their batches: a meeting
makes about 1 / D of a batch, with negatives from 1 / D of the items. So a batch updates as many
users and items, and draws each item as often, as in one process; only the positives of a list are
fewer, because they lie in one block.
"""

from mfrank.descent.rotation.engine import rotate
from mfrank.descent.rotation.layout import Deal, count_blocks, deal, pairs, user_bounds
from mfrank.descent.rotation.meeting import meet

__all__ = ["Deal", "count_blocks", "deal", "meet", "pairs", "rotate", "user_bounds"]
