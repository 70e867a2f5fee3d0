"""Ten lines in the format of each known table: what is read, and what is told, by every door."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from reading import DOORS, triples

import mfrank
from mfrank.cli.main import main
from tests.support.errors import refuses

HEX = "49bbd6c0f964a520f4531fe{}"
SHA = "00000c289a1829a808ac09c00daf10bc3c4e22{:02}"
MBID = "3bd73256-3905-4f3a-97e2-8b341527f80{}"


def iso(n: int) -> str:
    return f"2010-10-19T23:55:{27 + n}Z"


def second(day: dt.datetime) -> int:
    return int(day.replace(tzinfo=dt.UTC).timestamp())


def of_c(n: int) -> str:
    return f"Tue Apr 03 18:00:{10 + n} +0000 2012"


OCTOBER, APRIL = second(dt.datetime(2010, 10, 19, 23, 55, 27)), 1_333_476_010


class Case(NamedTuple):
    """A line of a number, what it means, a header, the file, and words that are told."""

    line: Callable[[int], str]
    row: Callable[[int], tuple[Any, ...] | None]
    header: str = ""
    file: str = "a.csv"
    told: str = ""
    how: dict[str, Any] = {}  # noqa: RUF012
    encoding: str = "utf-8"


def steam(n: int) -> str:
    return f'{151603712 + n % 3},"Game, the {n % 2}",{"play" if n % 2 else "purchase"},{n or 1}.0,0'


def taobao(n: int) -> str:
    return (
        f"{1 + n % 3},{2268318 + n},2520377,{('pv', 'buy', 'cart', 'fav')[n % 4]},{1511544070 + n}"
    )


def retail(n: int) -> str:
    user = "" if n == 4 else f"{17850 + n}.0"
    sent = "C" if n == 5 else ""
    quantity = -6 if sent else 6 + n
    return f'{sent}5363{n},8512{n}A,"LAMP, £{n}",{quantity},12/{1 + n}/2010 8:26,2.55,{user},UK'


def retail_row(n: int) -> tuple[Any, ...] | None:
    time = second(dt.datetime(2010, 12, 1 + n, 8, 26))
    return None if n == 4 else (17850 + n, f"8512{n}A", -6.0 if n == 5 else 6.0 + n, time)


CASES = {
    "Steam, hours": Case(
        steam, lambda n: (151603712 + n % 3, f"Game, the {n % 2}", float(n or 1)),
        told="recognized as Steam-200k.*which all count alike",
    ),
    "Steam, weights": Case(
        steam, lambda n: (151603712 + n % 3, f"Game, the {n % 2}", 1 + n % 2 * 4.0),
        how={"weights": {"purchase": 1, "play": 5}}, told="whose weights are the values",
    ),
    "Steam, plays": Case(
        steam,
        lambda n: (151603712 + n % 3, f"Game, the {n % 2}", float(n)) if n % 2 else None,
        how={"where": {"event": "play"}},
    ),
    "Taobao": Case(
        taobao, lambda n: (1 + n % 3, 2268318 + n, 1.0, 1511544070 + n),
        told="UserBehavior of Taobao.*which all count alike",
    ),
    "Taobao, weights": Case(
        taobao, lambda n: (1 + n % 3, 2268318 + n, (1.0, 5.0, 3.0, 2.0)[n % 4], 1511544070 + n),
        how={"weights": {"pv": 1, "buy": 5, "cart": 3, "fav": 2}},
    ),
    "Tmall": Case(
        lambda n: f"{n},{n + 7},1,2,3,{829 + n},{n % 4}",
        lambda n: (n, n + 7, 1.0 + n % 4, 829 + n),
        "user_id,item_id,cat_id,seller_id,brand_id,time_stamp,action_type",
        told="only the order is right", how={"weights": {0: 1, 1: 2, 2: 3, 3: 4}},
    ),
    "Tianchi": Case(
        lambda n: f"{n},{n + 7},{1 + n % 4},9q,6977,2014-12-06 0{n}",
        lambda n: (n, n + 7, 1.0, second(dt.datetime(2014, 12, 6, n))),
        "user_id,item_id,behavior_type,user_geohash,item_category,time", told="count alike",
    ),
    "Last.fm-360k": Case(
        lambda n: f'{SHA.format(n)}\t{MBID.format(n) if n else ""}\t"die Ärzte, {n}\t{2137 + n}',
        lambda n: (SHA.format(n), f'"die Ärzte, {n}', 2137.0 + n),
        file="a.tsv", told="items are names of artists",
    ),
    "Last.fm-1k": Case(
        lambda n: f"user_00000{n}\t{iso(n)}\t{MBID.format(n)}\tDeep {n}\t\tFame",
        lambda n: (f"user_00000{n}", f"Deep {n}", 1.0, OCTOBER + n),
        file="a.tsv", told="Last.fm-1k.*item='track'",
    ),
    "Last.fm-1k, tracks": Case(
        lambda n: f'user_00000{n}\t{iso(n)}\t\tDeep\t{MBID.format(n)}\t"Fame {n}',
        lambda n: (f"user_00000{n}", f'"Fame {n}', 1.0, OCTOBER + n),
        file="a.tsv", how={"item": "track"},
    ),
    "Gowalla": Case(
        lambda n: f"{n}\t{iso(n)}\t30.2359091167\t-97.7951395833\t{22847 + n}",
        lambda n: (n, 22847 + n, 1.0, OCTOBER + n), file="a.txt", told="Gowalla or Brightkite",
    ),
    "Brightkite": Case(
        lambda n: f"{n}\t{iso(n)}\t39.7\t-104.9\t88c46bf20db295831bd2d1718ad7e6f{n}",
        lambda n: (n, f"88c46bf20db295831bd2d1718ad7e6f{n}", 1.0, OCTOBER + n), file="a.txt",
    ),
    "Foursquare, TSMC2014": Case(
        lambda n: f"{n}\t{HEX.format(n)}\t{HEX.format(0)}\tCafé\t40.7\t-74.0\t-240\t{of_c(n)}",
        lambda n: (n, HEX.format(n), 1.0, APRIL + n),
        file="a.txt", encoding="latin-1", told="not UTF-8 are read as latin-1",
    ),
    "Foursquare, TIST2015": Case(
        lambda n: f"{n}\t{HEX.format(n)}\t{of_c(n)}\t540",
        lambda n: (n, HEX.format(n), 1.0, APRIL + n),
        file="a.txt",
    ),
    "Amazon 2014": Case(
        lambda n: f"A2CMX45JPSCTU{n},B00ABCDEF{n},5.0,{1400000000 + n}",
        lambda n: (f"A2CMX45JPSCTU{n}", f"B00ABCDEF{n}", 5.0, 1400000000 + n), told="2014",
    ),
    "Amazon 2018": Case(
        lambda n: f"B00ABCDEF{n},A2CMX45JPSCTU{n},5.0,{1400000000 + n}",
        lambda n: (f"A2CMX45JPSCTU{n}", f"B00ABCDEF{n}", 5.0, 1400000000 + n), told="2018",
    ),
    "Yelp": Case(
        lambda n: f'r{n},u{n},b{n},{1 + n % 5},0,"so, so",2016-03-0{1 + n % 9} 00:00:0{n}',
        lambda n: (f"u{n}", f"b{n}", 1.0 + n % 5, second(dt.datetime(2016, 3, 1 + n % 9, 0, 0, n))),
        "review_id,user_id,business_id,stars,useful,text,date",
    ),
    "Goodreads": Case(
        lambda n: f"{n},{948 + n},1,{1 + n % 5},0", lambda n: (n, 948 + n, 1.0 + n % 5),
        "user_id,book_id,is_read,rating,is_reviewed",
    ),
    "RetailRocket": Case(
        lambda n: f"{1433221332117 + n * 1000},{n},{'view' if n % 2 else 'addtocart'},{n + 3},",
        lambda n: (n, n + 3, 1.0, 1433221332 + n),
        "timestamp,visitorid,event,itemid,transactionid", told="milliseconds since 1970",
    ),
    "H&M": Case(
        lambda n: f"2018-09-2{n},{SHA.format(n)},066371300{n},0.05,2",
        lambda n: (SHA.format(n), f"066371300{n}", 1.0, second(dt.datetime(2018, 9, 20 + n))),
        "t_dat,customer_id,article_id,price,sales_channel_id", told="H&M.*timestamp 't_dat'",
    ),
    "Online Retail": Case(
        retail, retail_row,
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country",
        encoding="latin-1", told="sent back.*1 row without 'CustomerID' left out",
    ),
    "Online Retail II": Case(
        retail, retail_row,
        "Invoice,StockCode,Description,Quantity,InvoiceDate,Price,Customer ID,Country",
    ),
    "Book-Crossing": Case(
        lambda n: f'"27672{n}";"03454510é{n}";"{n}"',
        lambda n: (276720 + n, f"03454510é{n}", float(n)) if n else None,  # 0 is only seen
        '"User-ID";"ISBN";"Book-Rating"', encoding="latin-1", told="0 are implicit.*only seen",
    ),
    "MovieLens 100K": Case(
        lambda n: f"{n}\t{242 + n}\t{1 + n % 5}\t{881250949 + n}",
        lambda n: (n, 242 + n, 1.0 + n % 5, 881250949 + n), file="u.data",
    ),
    "MovieLens 1M": Case(
        lambda n: f"{n}::{242 + n}::{1 + n % 5}::{978300760 + n}",
        lambda n: (n, 242 + n, 1.0 + n % 5, 978300760 + n), file="ratings.dat",
    ),
    "MovieLens 32M": Case(
        lambda n: f"{n},{242 + n},{1 + n % 5}.0,{978300760 + n}",
        lambda n: (n, 242 + n, 1.0 + n % 5, 978300760 + n), "userId,movieId,rating,timestamp",
    ),
    "KuaiRand": Case(
        lambda n: f"{n},{n + 7},2022040{1 + n % 2},{2300 + n},{1649430000000 + 1000 * n},{n % 2}",
        lambda n: (n, n + 7, 1.0, 1649430000 + n), "user_id,video_id,date,hourmin,time_ms,is_click",
        told="a log of KuaiRand.*timestamp 'time_ms'",
    ),
    "KuaiRec": Case(
        lambda n: f"{n},{n + 7},13838,{10867 + n},2020-07-05 00:00:00.5,20200705,"
        f"{1593878903 + n}.438,{n + 1}.25",
        lambda n: (n, n + 7, n + 1.25, 1593878903 + n),
        "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio",
        told="KuaiRec.*shares of a video",
    ),
    "Outbrain": Case(
        lambda n: f"1fd5f051fba64{n},{120 + n},{31905835 + n},1,RS,2",
        lambda n: (f"1fd5f051fba64{n}", 120 + n, 1.0, 31905835 + n),
        "uuid,document_id,timestamp,platform,geo_location,traffic_source", told="kept as numbers",
    ),
}  # fmt: skip


def written(folder: Path, case: Case) -> Path:
    lines = [case.header] * bool(case.header) + [case.line(n) for n in range(10)]
    file = folder / case.file
    file.write_bytes("".join(f"{line}\n" for line in lines).encode(case.encoding))
    return file


def merged(case: Case) -> list[tuple[Any, ...]]:
    cells = dict[Any, list[Any]]()
    for row in filter(None, map(case.row, range(10))):
        cell = cells.setdefault(row[:2], [0.0, *row[3:]])
        cell[0] += row[2]
    return sorted(((*pair, *cell) for pair, cell in cells.items()), key=repr)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CASES)
def test_known_tables_are_read_without_flags(
    tmp_path: Path, name: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    case = CASES[name]
    assert triples(DOORS[door](written(tmp_path, case), **case.how)) == merged(case)
    place = 0
    for words in filter(None, case.told.split(".*")):
        place = caplog.text.find(words, place)
        assert place >= 0, words
    assert len(set(caplog.messages)) == len(caplog.messages)  # each line once


REFUSED = {
    "order_products": (
        "order_id,product_id,add_to_cart_order,reordered\n2,33120,1,1\n",
        "order_id",
    ),
    "orders": ("order_id,user_id,eval_set,order_number,order_dow\n2,1,prior,1,2\n", "order_id"),
    "clicks": ("display_id,ad_id,clicked\n1,42337,0\n1,139684,1\n", "events.csv.*uuid"),
    "avazu": (
        "id,click,hour,C1,banner_pos,site_id,site_domain,app_id,device_id\n1,0,14,10,0,1f,f3,28,a9\n",
        "user='device_id'.*item='site_id'",
    ),
    "criteo": (
        ("0\t1\t\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2" + "\t68fd1e64" * 26 + "\n") * 2,
        "hash",
    ),
}


@pytest.mark.parametrize("door", ["whole", "portions", "piped"])
@pytest.mark.parametrize("name", REFUSED)
def test_tables_without_users_or_items_are_told_what_they_are(
    tmp_path: Path, door: str, name: str
) -> None:
    text, remedy = REFUSED[name]
    file = tmp_path / f"{name}.csv"
    file.write_text(text)
    with refuses(ValueError, None, place="", remedy=remedy):
        DOORS[door](file)


JOINED = {
    "Instacart": (
        "order_id,user_id,eval_set,order_number,product_id,add_to_cart_order,reordered",
        1,
    ),
    "Outbrain": ("display_id,ad_id,clicked,uuid", 3),
}


@pytest.mark.parametrize("name", JOINED)
def test_tables_that_are_joined_as_advised_are_read(tmp_path: Path, name: str) -> None:
    header, user = JOINED[name]
    names = header.split(",")
    item = "product_id" if name == "Instacart" else "ad_id"
    rows = [[str(10 * n + place) for place in range(len(names))] for n in (1, 2)]
    file = tmp_path / "joined.csv"
    file.write_text("\n".join([header, *map(",".join, rows)]) + "\n")
    how = {"user": names[user], "item": item} if name == "Outbrain" else {}
    data = mfrank.Interactions.from_file(file, value=False, **how)
    assert data.user_ids.labels.tolist() == [int(row[user]) for row in rows]
    assert data.item_ids.labels.tolist() == [int(row[names.index(item)]) for row in rows]


def test_what_the_caller_says_goes_first(tmp_path: Path) -> None:
    read = mfrank.Interactions.from_file
    amazon = written(tmp_path, CASES["Amazon 2018"])
    assert read(amazon, columns=["user", "item", "-", "-"]).user_ids.labels[0] == "B00ABCDEF0"
    assert read(amazon, user=1, item=2).user_ids.labels[0] == "B00ABCDEF0"
    assert read(amazon, value=False).user_ids.labels[0] == "A2CMX45JPSCTU0"
    assert read(amazon, value="timestamp", timestamp=False).user_items.data.max() > 10**9
    avazu = tmp_path / "avazu.csv"
    avazu.write_text(REFUSED["avazu"][0])
    assert read(avazu, user="device_id", item="site_id").nnz == 1
    steam = written(tmp_path, CASES["Steam, hours"])
    hours = read(steam, value="hours", weights={"purchase": None, "play": 2}).user_items.data
    assert hours.sum() == 2 * (1 + 3 + 5 + 7 + 9)


def test_users_who_are_missing_elsewhere_are_still_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, CASES["Online Retail"])
    file.write_bytes(file.read_bytes().replace(b"InvoiceNo", b"number"))
    with refuses(ValueError, None, place="line 6", remedy="drop the row"):
        mfrank.Interactions.from_file(file, item="StockCode", timestamp=False, encoding="cp1252")
    file = written(tmp_path, CASES["Online Retail"])
    file.write_bytes(file.read_bytes().replace(b"12/3/2010", b"13/3/2010"))
    with refuses(ValueError, None, place="line 4", remedy="write dates"):
        mfrank.Interactions.from_file(file)


def test_the_command_line_tells_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(written(tmp_path, CASES["Taobao"]))
    assert main(["info", file, "--weights", "pv=1,buy=5,cart=none,fav=2"]) == 0
    assert "UserBehavior of Taobao" in capsys.readouterr().err
    assert main(["info", file, "--where", "event=buy"]) == 0
    places = str(written(tmp_path, CASES["Foursquare, TSMC2014"]))
    assert main(["ingest", places, "--folder", str(tmp_path / "x"), "--dry-run"]) == 0
    assert "about 10 rows" in capsys.readouterr().out
    (tmp_path / "a.csv").write_text(REFUSED["avazu"][0])
    assert main(["info", file]) == 2
    assert "pass --user device_id and --item site_id" in capsys.readouterr().err
