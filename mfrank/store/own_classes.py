"""Look up the caller's own classes in a saved model, such as a loss, without running code.

A saved model names a class by its import path, and importing a module runs code. By default,
nothing is therefore imported: the class must be passed, or its module must already be imported.
With ``trust``, the module is imported, but never from the model's folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from mfrank.arrays import check_flags, shown
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import path_of


@dataclass(frozen=True, slots=True)
class OwnClasses:
    """The classes that a saved model may use, in addition to mfrank's.

    Attributes
    ----------
    classes : tuple of type
        Matched by import path or, if they have moved, by name.
    trust : bool
        Whether modules may be imported.
    folder : Path or None
        Folder from which nothing is imported.
    """

    classes: tuple[type, ...] = ()
    trust: bool = False
    folder: Path | None = None

    @classmethod
    def of(cls, classes: Iterable[type], trust: bool, place: Any) -> Self:
        """Check the arguments ``classes`` and ``trust`` of ``load``, whose first is ``place``."""
        check_flags(trust=trust)
        several = [classes] if isinstance(classes, type) else classes
        listed = tuple(several) if isinstance(several, Iterable) else (several,)
        for one in listed:
            if not isinstance(one, type):
                raise InputTypeError(f"`classes` must be a list of classes, got {shown(one)}")
        folder = None if hasattr(place, "read") else path_of(place, "folder").absolute()
        return cls(listed, trust, folder)

    def find(self, path: str, kinds: tuple[type, ...]) -> type[Any]:
        """The class of the import path ``module:Name``, a dataclass derived from one of ``kinds``.

        Raises
        ------
        ValueError
            The class is not allowed, cannot be imported, or is something else.
        """
        module, _, name = path.partition(":")
        own = next((one for one in self.classes if _path(one) == path), None) or next(
            (one for one in self.classes if one.__qualname__ == name), None
        )
        if own is None and module == "__main__":
            raise InputValueError(
                f"class {path!r} is defined in a script or notebook, where no other process can "
                "find it:",
                f"define {name} in a module of its own and import it from there, or pass "
                f"`classes=[{name}]` to load",
            )
        if own is None:
            if self.trust:
                self._import(path, module)
            # Not by getattr, which may run a module's own __getattr__.
            own = getattr(sys.modules.get(module), "__dict__", {}).get(name)
        if own is None:
            raise _not_found(path, module, name, imported=module in sys.modules)
        if not (isinstance(own, type) and issubclass(own, kinds) and is_dataclass(own)):
            wanted = ", ".join(kind.__name__ for kind in kinds)
            raise InputValueError(
                f"{path!r} must be a dataclass derived from {wanted}; got {shown(own)}",
                place=path,
            )
        return own

    def _import(self, path: str, module: str) -> None:
        """Import the module, unless it lies in the folder; any failure is a ValueError."""
        try:
            top = find_spec(module.partition(".")[0])
            if self.folder is not None and top is not None:
                places = [top.origin or "", *(top.submodule_search_locations or [])]
                if any(Path(each).absolute().is_relative_to(self.folder) for each in places):
                    raise ValueError("its module lies in the model's own folder")
            import_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a module raises, even SystemExit
            raise InputValueError(
                f"class {path!r} cannot be imported ({type(error).__name__}: {error}):",
                "define it at the top of a module that Python can import, or load the factors "
                "alone with `mfrank.FactorStore.load`",
            ) from error


IMPORTED = OwnClasses()
"""Only classes whose modules are already imported."""


def _path(one: type) -> str:
    return f"{one.__module__}:{one.__qualname__}"


def _not_found(path: str, module: str, name: str, *, imported: bool) -> InputValueError:
    if imported:
        return InputValueError(
            f"class {path!r} is not in {module}:",
            "define it at the top of a module that Python can import, or load the factors alone "
            "with `mfrank.FactorStore.load`",
        )
    return InputValueError(
        f"the model uses the class {path!r}, whose module is not imported:",
        f"import it first; in the shell, by --import {module}; in Python, `classes=[{name}]` will "
        "do, or `trust=True` if this folder may run code",
    )
