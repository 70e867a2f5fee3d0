"""Tables of public data sets, each named once: how they are recognized, and what their columns are.

Without a header, a table is one of these if all fields of its first two rows look as in it. With
one, it is if the header has these names. What the caller says of columns goes first.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mfrank.data.columns import Chosen
from mfrank.data.time_units import TimeKind
from mfrank.errors import InputValueError


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLayout:
    """A table of a data set.

    Attributes
    ----------
    name : str
    columns : str
        Names of all columns in order; if it has a header, those that tell it.
    fields : sequence of str
        What each field looks like, as regular expressions; empty if the table has a header.
    separator : str
        Of fields without a header.
    roles : mapping of role to column
        As far as their names do not tell.
    note : str
        What else is said where it is recognized.
    refusal : (problem, remedy) or None
        Why it has no interactions, unless the caller names the user and the item.
    fallback : str or None
        Encoding of lines that are not UTF-8.
    times : TimeKind or None
        Of dates whose order of day and month is known.
    unless : str
        A column by which a table with these names is another one, such as a join of two.
    lacks : str
        Column of users whose rows without one are left out, which is told; ids such as 17850.0
        there are whole numbers.
    """

    name: str
    columns: str
    fields: Sequence[str] = ()
    separator: str = ","
    roles: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    refusal: tuple[str, str] | None = None
    fallback: str | None = None
    times: TimeKind | None = None
    unless: str = ""
    lacks: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.columns.split(",")

    def is_of(self, rows: Sequence[Sequence[str]], separator: str) -> bool:
        """Whether the first rows are those of such a table."""
        if not self.fields:
            is_other = bool(self.unless) and self.unless in rows[0]
            return {*self.names} <= {*rows[0]} and not is_other
        return separator == self.separator and all(
            len(row) == len(self.fields)
            and all(map(re.fullmatch, self.fields, (each.strip() for each in row)))
            for row in rows
        )

    def chosen(self, chosen: Chosen) -> Chosen:
        """The chosen columns, and the known ones for the other roles."""
        if self.refusal is not None and None in (chosen.get("user"), chosen.get("item")):
            problem, remedy = self.refusal
            raise InputValueError(f"this is {self.name}, {problem}:", remedy)
        own = dict(self.roles)
        if "event" in chosen:  # which have weights
            own.pop("value", None)
        return {**chosen, **{r: c for r, c in own.items() if r in chosen and chosen[r] is None}}


def known_layout(
    lines: Iterable[str], chosen: Chosen, separator: str | None = None
) -> KnownLayout | None:
    """The known table that begins with these two lines; None if it is none of them.

    Nor if the caller names columns that it does not have.
    """
    every = [line for line in lines if line.strip()][:2]
    for mark in (separator,) if separator else (",", "\t", ";"):
        rows = list(_rows(every, mark))
        for known in _KNOWN if rows and len(rows[0]) > 1 else ():
            if known.is_of(rows, mark) and (not known.fields or _names_only(known, chosen)):
                return known
    return None


def _names_only(known: KnownLayout, chosen: Chosen) -> bool:
    """Whether all columns that are chosen are of this table."""
    taken = (column for column in chosen.values() if column is not None and column is not False)
    return all(column in known.names for column in taken)


def _rows(lines: Sequence[str], mark: str) -> Iterator[list[str]]:
    if len(mark) != 1:
        return
    bare = (line.lstrip("\ufeff") for line in lines)
    try:
        if mark == "\t":
            yield from csv.reader(bare, delimiter=mark, quoting=csv.QUOTE_NONE)
        else:
            yield from csv.reader(bare, delimiter=mark)
    except csv.Error:
        return


_N, _REAL, _WORD = r"\d+", r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?", r".+"
_HEX_24, _SECOND = "[0-9a-f]{24}", r"-?\d{1,10}"
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_OF_C = r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \+0000 \d{4}"
_MBID = "(?:[0-9a-f-]{36})?"
_REVIEWER, _ASIN, _STARS = "A[0-9A-Z]{10,20}", "[0-9A-Z]{10}", r"[1-5](?:\.0)?"
_BY_ORDER = "join the two by order_id, and pass their user_id and product_id; in Python, "
_JOINED = "`Interactions.from_frame(products.merge(orders, on='order_id'), item='product_id')`"

_KNOWN = (
    KnownLayout(
        name="Steam-200k",
        columns="user,game,event,hours,-",
        fields=(_N, _WORD, "purchase|play", _REAL, "0"),
        roles={"user": "user", "item": "game", "value": "hours", "event": "event"},
        note="the hours of each purchase are 1",
    ),
    KnownLayout(
        name="UserBehavior of Taobao",
        columns="user,item,category,event,timestamp",
        fields=(_N, _N, _N, "pv|buy|cart|fav", _SECOND),
        roles={"user": "user", "item": "item", "event": "event", "timestamp": "timestamp"},
    ),
    KnownLayout(
        name="a log of Tmall (IJCAI-15)",
        columns="user_id,item_id,cat_id,seller_id,brand_id,time_stamp,action_type",
        roles={"user": "user_id", "item": "item_id", "event": "action_type"},
        note="times such as 1111 are a month and a day, of which only the order is right; types of "
        "actions are 0 for clicks, 1 cart, 2 purchases, 3 favourites",
    ),
    KnownLayout(
        name="Last.fm-360k",
        columns="user,artist_id,artist,plays",
        fields=("[0-9a-f]{40}", _MBID, _WORD, _N),
        separator="\t",
        roles={"user": "user", "item": "artist", "value": "plays"},
        note="items are names of artists, because some lack an id",
    ),
    KnownLayout(
        name="Last.fm-1k",
        columns="user,timestamp,artist_id,artist,track_id,track",
        fields=(r"user_\d+", _ISO, _MBID, _WORD, _MBID, ".*"),
        separator="\t",
        roles={"user": "user", "item": "artist", "timestamp": "timestamp"},
        note="items are names of artists, and `item='track'` reads those of tracks",
    ),
    KnownLayout(
        name="check-ins of Gowalla or Brightkite",
        columns="user,timestamp,latitude,longitude,location",
        fields=(_N, _ISO, _REAL, _REAL, r"\w+"),
        separator="\t",
        roles={"user": "user", "item": "location", "timestamp": "timestamp"},
    ),
    KnownLayout(
        name="check-ins of Foursquare (TSMC2014)",
        columns="user,venue,category_id,category,latitude,longitude,offset,timestamp",
        fields=(_N, _HEX_24, _HEX_24, ".*", _REAL, _REAL, _REAL, _OF_C),
        separator="\t",
        roles={"user": "user", "item": "venue", "timestamp": "timestamp"},
        fallback="latin-1",
    ),
    KnownLayout(
        name="check-ins of Foursquare (TIST2015)",
        columns="user,venue,timestamp,offset",
        fields=(_N, _HEX_24, _OF_C, _REAL),
        separator="\t",
        roles={"user": "user", "item": "venue", "timestamp": "timestamp"},
    ),
    KnownLayout(
        name="ratings of Amazon (2014)",
        columns="user,item,rating,timestamp",
        fields=(_REVIEWER, _ASIN, _STARS, _SECOND),
    ),
    KnownLayout(
        name="ratings of Amazon (2018)",
        columns="item,user,rating,timestamp",
        fields=(_ASIN, _REVIEWER, _STARS, _SECOND),
    ),
    KnownLayout(
        name="Book-Crossing",
        columns="User-ID,ISBN,Book-Rating",
        fallback="latin-1",
        note="ratings of 0 are implicit: seen, and not rated",
    ),
    *(
        KnownLayout(
            name="Online Retail",
            columns=f"{invoice},StockCode,Quantity,InvoiceDate,{customer}",
            roles={
                "user": customer,
                "item": "StockCode",
                "value": "Quantity",
                "timestamp": "InvoiceDate",
            },
            fallback="latin-1",
            times="month first",
            lacks=customer,
            note="what was sent back has a quantity below 0, and is subtracted",
        )
        for invoice, customer in (("InvoiceNo", "CustomerID"), ("Invoice", "Customer ID"))
    ),
    KnownLayout(
        name="a log of KuaiRand",
        columns="user_id,video_id,date,hourmin,time_ms,is_click",
        roles={"timestamp": "time_ms"},
    ),
    KnownLayout(
        name="KuaiRec",
        columns="user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio",
        roles={"value": "watch_ratio", "timestamp": "timestamp"},
        note="values are shares of a video that were watched, above 1 where it was watched again",
    ),
    KnownLayout(
        name="transactions of H&M",
        columns="t_dat,customer_id,article_id",
        roles={"user": "customer_id", "item": "article_id", "timestamp": "t_dat"},
    ),
    KnownLayout(
        name="order_products of Instacart",
        columns="order_id,product_id,add_to_cart_order,reordered",
        unless="user_id",
        refusal=(
            "which has no users, and orders.csv says whose each order is",
            _BY_ORDER + _JOINED,
        ),
    ),
    KnownLayout(
        name="orders of Instacart",
        columns="order_id,user_id,eval_set,order_number",
        unless="product_id",
        refusal=(
            "which has no items, and order_products has those of each order",
            _BY_ORDER + _JOINED,
        ),
    ),
    KnownLayout(
        name="page views or events of Outbrain",
        columns="uuid,document_id,timestamp,platform",
        roles={"user": "uuid", "item": "document_id", "timestamp": "timestamp"},
        note="times are milliseconds since the first day, and kept as numbers",
    ),
    KnownLayout(
        name="a click log of Outbrain",
        columns="display_id,ad_id",
        unless="uuid",
        refusal=(
            "which has displays in place of users",
            "join it with events.csv by display_id, and pass `user='uuid'` and `item='ad_id'`",
        ),
    ),
    KnownLayout(
        name="the click log of Avazu",
        columns="hour,C1,banner_pos,site_id,app_id,device_id",
        refusal=(
            "which has impressions of ads, and neither users nor items",
            "if devices on sites are of use, pass `user='device_id'` and `item='site_id'`",
        ),
    ),
    *(
        KnownLayout(
            name="the click log of Criteo",
            columns=",".join(f"-{n}" for n in range(1 - n_labels, 40)),
            fields=("[01]",) * n_labels + (r"(?:-?\d+)?",) * 13 + ("(?:[0-9a-f]{8})?",) * 26,
            separator="\t",
            refusal=(
                "which has impressions of ads with features, and neither users nor items",
                "no model of mfrank learns from it; columns 15 to 40 are hashed categories, whose "
                "meaning is not published",
            ),
        )
        for n_labels in (1, 0)
    ),
)
