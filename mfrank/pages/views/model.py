"""A model: settings, sizes, curves and times of its fit, and how popular what it lists is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mfrank.pages.asked import Asked
from mfrank.pages.pictures import curve
from mfrank.pages.world import World
from mfrank.store import seconds_of

_CURVES = {
    "objective": "Objective",
    "valid": "Held-out metric of early stopping",
    "seconds": "Seconds of each epoch",
}


def model(world: World, asked: Asked) -> dict[str, Any]:
    """What a store knows of its fit."""
    index = asked.place("index", len(world.models))
    store = world.models[index].store
    entries = None if store.counts is None else int(store.counts.users.sum())
    cells = store.n_users * store.n_items
    return {
        "model": index,
        "names": world.names,
        "others": world.links("model"),
        "kind": store.fitter["name"],
        "settings": list(_settings(store.fitter["options"])),
        "sizes": {
            "users": store.n_users,
            "items": store.n_items,
            "factors": store.user_factors.shape[1],
            "interactions": entries,
            "density": None if entries is None or not cells else entries / cells,
            "dtype": str(store.user_factors.dtype),
        },
        "versions": dict(store.versions),
        "epochs": len(store.history),
        "seconds": seconds_of(store.history),
        "curves": [
            {"name": name, "title": title, **drawn}
            for name, title in _CURVES.items()
            if (drawn := curve([epoch.get(name) for epoch in store.history])) is not None
        ],
        "history": [dict(epoch) for epoch in store.history],
    }


def _settings(options: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Names and values of options, those of options within by a dot."""
    rows: list[tuple[str, str]] = []
    for name, value in options.items():
        if isinstance(value, Mapping) and "name" in value:
            rows.append((prefix + name, str(value["name"])))
            rows.extend(_settings(value.get("options", {}), f"{prefix}{name}."))
        else:
            rows.append((prefix + name, str(value)))
    return rows
