"""uvicorn's HTTP connection with what it lacks: a time limit for a request's head, a limit on connections, refusals in
JSON that reach the client."""

import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def build_protocol(head_seconds, max_connections, on_refused):
    """A connection class for uvicorn: a client has `head_seconds` to send a request's head, from its first byte."""

    class Connection(H11Protocol):
        _head_timer = None

        def connection_made(self, transport):
            super().connection_made(PatientTransport(transport, self, head_seconds))
            if len(self.connections) > max_connections:
                on_refused("connections")
                self._refuse(503, "Too many connections: try again in a moment", retry_after=True)
            else:
                self._watch_head()

        def connection_lost(self, exc):
            self._forget_head()
            super().connection_lost(exc)

        def data_received(self, data):
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._forget_head()  # a request is under way: its own time limits hold
            elif self._head_timer is None:
                self._watch_head()

        def on_response_complete(self):
            super().on_response_complete()
            if not self.transport.is_closing() and self.conn.their_state is not h11.DONE and self._head_timer is None:
                self._watch_head()  # the rest of a body that was refused is thrown away, for so long

        def send_400_response(self, msg):
            self._refuse(400, msg)

        def _should_upgrade(self):
            return False

        def _watch_head(self):
            self._head_timer = self.loop.call_later(head_seconds, self._head_is_late)

        def _forget_head(self):
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _head_is_late(self):
            self._head_timer = None
            if self.cycle is not None and not self.cycle.response_complete:
                return
            if self.conn.trailing_data[0] and self.cycle is None:
                self._refuse(408, "The request's head took too long")
            else:
                self.transport.close()

        def _refuse(self, status, message, retry_after=False):
            body = json.dumps({"error": message}).encode()
            lines = [
                f"HTTP/1.1 {status} {_reason(status)}",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Connection: close",
                *(["Retry-After: 1"] if retry_after else []),
            ]
            self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            self.transport.close()

    return Connection


class PatientTransport:
    """A transport that closes only when the request was read: a client that still sends would lose the answer.

    For `seconds` at the most what comes is thrown away; a second `close` closes at once.
    """

    def __init__(self, transport, protocol, seconds):
        self._transport, self._protocol, self._seconds = transport, protocol, seconds
        self._closing = False

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def is_closing(self):
        return self._closing or self._transport.is_closing()

    def close(self):
        if self._closing or self._protocol.conn.their_state is not h11.SEND_BODY:
            self._transport.close()
            return
        self._closing = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._protocol.loop.call_later(self._seconds, self._transport.close)


def _reason(status):
    return {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}[status]
