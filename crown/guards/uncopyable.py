"""A base class for objects over mapped memory, which rejects `copy` and `pickle`."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex

from crown.errors import CrownError


class NotCopyable:
    """Base of classes that ``copy`` and ``pickle`` reject, with CrownError.

    The state of such an object is a reservation of many GiB of address space, and a page-by-page copy would end the
    process. ``class X(NotCopyable, instead="...")`` names the alternative, which subclasses inherit.
    """

    _instead = "keep one and pass it on"

    def __init_subclass__(cls, instead: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if instead is not None:
            cls._instead = instead

    def __copy__(self) -> NoReturn:
        self._refuse()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self._refuse()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CrownError(f"a {type(self).__name__} cannot be copied or pickled: {self._instead}")
