"""Memory that code which follows a stranger's numbers may ask for, counted before it is given."""

import math
from collections.abc import Mapping
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from bayesmri.errors import ModelError

LEAST = 1024  # bytes that any tensor counts: a million empty ones are no less a burden


class Allowance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, tensors made anew may take `most` bytes in all; more is a ModelError instead of an allocation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here: without this, torch's compiler is imported on the first use, 0.6 s."""
        return False

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._most, self._left = most, most

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        size = args[0] if args else None
        if isinstance(size, list | tuple) and all(isinstance(n, int) for n in size):
            self._left -= max(LEAST, 4 * math.prod(size))
            if self._left < 0:
                raise ModelError(
                    f"it describes a network of more than {self._most / 1e6:.0f} MB, which its weights do not fill"
                )
        return func(*args, **(kwargs or {}))
