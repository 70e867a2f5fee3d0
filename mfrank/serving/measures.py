"""Counts and times of requests, in the text format that Prometheus reads."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter

from mfrank._version import __version__
from mfrank.serving.live_model import LiveModel

__all__ = ["Measures"]

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Measures:
    """What was asked and how long it took, by route; touched by one thread, the event loop's."""

    def __init__(self) -> None:
        self.in_progress = 0
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._began = time.time()

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._answered[route, method, status] += 1
        row = self._seconds.setdefault(route, [0.0] * (len(_BUCKETS) + 2))
        row[bisect_left(_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def text(self, live: LiveModel) -> str:
        """All measures, one a line."""
        lines: list[str] = []

        def family(name: str, kind: str, about: str, *samples: tuple[str, float]) -> None:
            lines.extend((f"# HELP mfrank_{name} {about}", f"# TYPE mfrank_{name} {kind}"))
            lines.extend(f"mfrank_{name}{suffix} {value:.15g}" for suffix, value in samples)

        model = live.current
        family("info", "gauge", "Version.", (_labels(version=__version__), 1))
        family(
            "requests_total",
            "counter",
            "Requests answered.",
            *(
                (_labels(route=route, method=method, status=str(status)), count)
                for (route, method, status), count in sorted(self._answered.items())
            ),
        )
        family("request_seconds", "histogram", "Time to an answer.", *self._histogram())
        family(
            "requests_in_progress", "gauge", "Requests not yet answered.", ("", self.in_progress)
        )
        family("start_time_seconds", "gauge", "Unix time of the start.", ("", self._began))
        family("model_loaded_seconds", "gauge", "Unix time of the load.", ("", live.since))
        family("model_users", "gauge", "Users of the model.", ("", len(model.user_ids)))
        family("model_items", "gauge", "Items of the model.", ("", len(model.item_ids)))
        family("model_reloads_total", "counter", "Newer models loaded.", ("", live.loads))
        family("model_reload_failures_total", "counter", "Unreadable models.", ("", live.failures))
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[tuple[str, float]]:
        samples = []
        for route, row in sorted(self._seconds.items()):
            counts, total = row[:-1], 0.0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += count
                samples.append(("_bucket" + _labels(route=route, le=bound), total))
            samples.append(("_sum" + _labels(route=route), row[-1]))
            samples.append(("_count" + _labels(route=route), total))
        return samples


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
