"""What waits for a module of torch's that takes long to import and that most programs never do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_waiting: dict[str, Callable[[], None]] = {}


class _ThenCalls(Loader):
    """Loads a module as its own loader does, and then calls what has waited for it."""

    def __init__(self, loader: Any, call: Callable[[], None]) -> None:
        self.loader, self.call = loader, call

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.call()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


class _Finder(MetaPathFinder):
    """Finds a module that is waited for by the finders behind this one. A look-up need not lead to
    an import, and threads look up side by side: so it changes nothing, and the finder stays."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        call = _waiting.get(name)
        if call is None:
            return None
        finders = iter(list(sys.meta_path))
        if self not in finders:  # goes forward to it
            return None
        for finder in finders:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec and find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ThenCalls(spec.loader, call)
                return spec
        return None


_finder = _Finder()


def when_imported(name: str, call: Callable[[], None]) -> None:
    """Calls ``call()`` now if the module is there, else once it has been imported, and again where
    it is loaded anew: so a second call of it must change nothing."""
    _waiting[name] = call
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    if name in sys.modules:
        call()
