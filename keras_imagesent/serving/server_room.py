"""The bytes of requests that may be in memory at a time, for both doors."""

import threading


class Room:
    """Counts bytes under way. What does not fit is refused by the caller.

    Example:
        >>> room = Room(100)
        >>> room.take(60), room.take(60)
        (True, False)
    """

    def __init__(self, most_bytes):
        self.most_bytes = most_bytes
        self.bytes = 0
        self._lock = threading.Lock()

    def take(self, number):
        """True if there was room for so many more bytes."""
        with self._lock:
            if self.bytes + number > self.most_bytes:
                return False
            self.bytes += number
            return True

    def give(self, number):
        with self._lock:
            self.bytes -= number
