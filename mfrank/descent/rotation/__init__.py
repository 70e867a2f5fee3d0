"""Descent by rotation: blocks of users meet blocks of items, some at the same time.

D blocks of users and D of items make D rounds of D meetings an epoch, of which no two of a round
have a row in common (``layout``). A meeting is an ordinary descent on the rows of both blocks, and
a task of its own (``meeting``); ``engine`` sends the rows and collects them.

An epoch is as in one process. Items are dealt to the blocks anew in every epoch, at random. A user
is visited once, in the block that has most of their positives: as every positive is as likely to
be there, and every other item as well, the mean of a gradient over the deals is that of a list of
the whole catalog. The meetings of a round share their batches:
of a batch, a meeting makes about 1 / D, with negatives from 1 / D of the items. So a batch updates
as many users and items, and draws each item as often, as in one process; only the positives of a
list are fewer, as they lie in one block.
"""

from __future__ import annotations

from mfrank.descent.rotation.engine import rotate
from mfrank.descent.rotation.layout import count_blocks

__all__ = ["count_blocks", "rotate"]
