"""What a search may try: families of models, by ladder, and baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mfrank.tuning.family import Family

__all__ = ["Space"]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Families by ladder, and baselines, which are fitted once, before the search.

    Families of a ladder climb the same rungs, from narrow and quick to wide, and compete for them.
    """

    ladders: Mapping[str, tuple[Family, ...]]
    baselines: tuple[Family, ...] = ()

    @classmethod
    def of_one(cls, family: Family) -> Space:
        """The space of a single family."""
        return cls({family.name: (family,)})

    def with_readers_first(self) -> Space:
        """The same for values that vary: of each ladder, the families that read them come first."""
        ladders = {
            name: tuple(sorted(of, key=lambda family: not family.uses_values))
            for name, of in self.ladders.items()
        }
        return Space(ladders, self.baselines)

    def families(self) -> Iterator[Family]:
        """Those of all ladders."""
        for of_ladder in self.ladders.values():
            yield from of_ladder

    def named(self, name: str) -> Family:
        """The family or baseline of this name."""
        every = (*self.families(), *self.baselines)
        return next(family for family in every if family.name == name)

    def ladder_of(self, family: str) -> str | None:
        """The name of the ladder of a family; None for a baseline."""
        return next((name for name, of in self.ladders.items() if self.named(family) in of), None)
