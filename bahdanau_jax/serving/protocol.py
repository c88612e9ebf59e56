"""HTTP as uvicorn reads it, where also what is no HTTP is answered as JSON."""

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bahdanau_jax.serving.api_errors import DESCRIBED, as_json

MALFORMED = as_json(
    {"error": "this is no valid HTTP/1.1 request", "what_to_do": f"use an HTTP client; {DESCRIBED}"}
)


class Protocol(H11Protocol):
    """uvicorn's protocol by h11 with errors of the common shape."""

    def send_400_response(self, msg: str) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(MALFORMED)).encode()),
            (b"connection", b"close"),
        ]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=MALFORMED), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
