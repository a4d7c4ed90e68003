"""multipart/form-data (RFC 7578): a form read while it arrives, and the parts of a form to send.

`FormReader` takes any pieces of a body apart into text fields, which it keeps, and one file, whose bytes it hands on as
they come. What the fields of a route mean is the route's business (`transcriptions.py`). The grammar itself is
python-multipart's; this module adds what a gateway needs beyond it: bounds, one meaning for each name, and an end that
must have been reached.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from smg.protocol.failures import FormFailure

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartParser

# More than any client sends, and few enough that a form of nothing but parts costs little.
MAX_PARTS: Final = 64
MAX_PART_HEADERS: Final = 16
MAX_PART_HEADER_BYTES: Final = 8 * 1024
# A prompt is the longest of them, and models read far less.
MAX_FIELD_BYTES: Final = 64 * 1024
# RFC 2046 section 5.1.1.
MAX_BOUNDARY_BYTES: Final = 70
_BOUNDARY: Final = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]*[0-9A-Za-z'()+_,./:=?-]")
# Browsers do not escape backslashes, so one at the end of a value looks like an escape of the closing quote.
_PARAMETER: Final = re.compile(
    rb';[ \t]*([^\s=;"]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|"[^"]*"(?=[ \t]*(?:;|\Z))|[^;"]*)[ \t]*', re.DOTALL
)
# A line feed in a value would be the end of the header to some readers, and not to others.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ESCAPED: Final = re.compile(rb'\\(["\\])')
_PLAIN_ENCODINGS: Final = frozenset({b"", b"7bit", b"8bit", b"binary"})
# What it warns of is answered to the client, and quotes bytes of the client's.
_LOGGER: Final = "python_multipart.multipart"

Data = bytes | memoryview


@dataclass(slots=True)
class FilePart:
    """A file of a form: its name and type as the client put them (empty without), and its size so far."""

    filename: str = ""
    content_type: str = ""
    size: int = 0


@dataclass(slots=True)
class Form:
    """What a form holds: text fields by name, each with all its values in order, and the file if there is one."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    file: FilePart | None = None


def boundary_of(content_type: bytes | None) -> bytes:
    """The boundary that a `Content-Type` announces. Raises FormFailure for any other type, and without a boundary."""
    kind, separator, rest = (content_type or b"").partition(b";")
    if kind.strip(b" \t").lower() != b"multipart/form-data":
        raise FormFailure("The request must have the header Content-Type: multipart/form-data")
    boundary = _parameters(separator + rest).get(b"boundary", b"")
    if len(boundary) > MAX_BOUNDARY_BYTES or not _BOUNDARY.fullmatch(boundary):
        raise FormFailure("The Content-Type has no boundary of 1 to 70 characters")
    return boundary


class FormReader:
    """Reads one form. `wanted` are the text fields to keep, `file` is the name of the file if there may be one; other
    parts are skipped.
    """

    def __init__(
        self,
        boundary: bytes,
        wanted: Collection[str],
        file: str | None = None,
        max_field_bytes: int = MAX_FIELD_BYTES,
    ) -> None:
        self.form = Form()
        self._wanted = frozenset(wanted)
        self._file = file
        self._max_field_bytes = max_field_bytes
        self._ended = False
        self._parts = 0
        self._headers: dict[bytes, bytes] = {}
        self._header = [b"", b""]
        self._name: str | None = None
        self._value: bytearray | None = None
        self._taking_file = False
        self._out: list[Data] = []
        self._parser = self._new_parser(boundary)

    def feed(self, piece: bytes) -> list[Data]:
        """Take the next bytes of the body; returns those of the file among them. Raises FormFailure."""
        from python_multipart.exceptions import MultipartParseError  # noqa: PLC0415  loaded with the first form

        try:
            self._parser.write(piece)
        except MultipartParseError:
            raise FormFailure("The request body is no multipart/form-data with the boundary it announces") from None
        out, self._out = self._out, []
        return out

    def finish(self) -> Form:
        """The form, once all of the body has been fed. Raises FormFailure if its end is missing."""
        if not self._ended:
            raise FormFailure("The form ends before its closing boundary")
        return self.form

    # --- what the parser calls

    def _new_parser(self, boundary: bytes) -> MultipartParser:
        from python_multipart.multipart import MultipartParser  # noqa: PLC0415  loaded with the first form

        logging.getLogger(_LOGGER).disabled = True
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
            max_header_count=MAX_PART_HEADERS,
            max_header_size=MAX_PART_HEADER_BYTES,
        )

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise FormFailure(f"The form has more than {MAX_PARTS} parts")
        self._headers = {}
        self._value = None
        self._taking_file = False

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0] += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1] += data[start:end]

    def _header_end(self) -> None:
        name, value = self._header
        self._header = [b"", b""]
        name = name.lower()
        if name in self._headers:
            raise FormFailure("A part of the form repeats a header")
        if _CONTROL.search(value):
            raise FormFailure("A header of the form has control characters")
        self._headers[name] = value.strip(b" \t")

    def _headers_finished(self) -> None:
        disposition, separator, rest = self._headers.get(b"content-disposition", b"").partition(b";")
        parameters = _parameters(separator + rest)
        if disposition.strip(b" \t").lower() != b"form-data" or b"name" not in parameters:
            raise FormFailure("A part of the form has no Content-Disposition: form-data with a name")
        if self._headers.get(b"content-transfer-encoding", b"").lower() not in _PLAIN_ENCODINGS:
            raise FormFailure("A part of the form has a Content-Transfer-Encoding, which forms do not use")
        name = self._name = parameters[b"name"].decode(errors="replace")
        if name == self._file:
            if self.form.file is not None:
                raise FormFailure(f"The form has more than one '{name}'")
            content_type = self._headers.get(b"content-type", b"").decode(errors="replace")
            self.form.file = FilePart(_filename(parameters), content_type)
            self._taking_file = True
        elif name in self._wanted:
            self._value = bytearray()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._taking_file and self.form.file is not None:
            self.form.file.size += end - start
            self._out.append(data if end - start == len(data) else memoryview(data)[start:end])
        elif self._value is not None:
            if len(self._value) + end - start > self._max_field_bytes:
                raise FormFailure(f"The field '{self._name}' has more than {self._max_field_bytes} bytes")
            self._value += data[start:end]

    def _part_end(self) -> None:
        if self._value is None or self._name is None:
            return
        try:
            value = self._value.decode()
        except UnicodeDecodeError:
            raise FormFailure(f"The field '{self._name}' is not UTF-8") from None
        self.form.fields.setdefault(self._name, []).append(value)
        self._value = None

    def _end(self) -> None:
        self._ended = True


def render(fields: Iterable[tuple[str, str]], name: str, file: FilePart, boundary: bytes) -> tuple[bytes, bytes]:
    """A form of these fields and one file: what comes before the file's bytes, and what after them.

    The boundary must not occur in any value; whoever chooses it at random may rely on that.
    """
    parts = [render_fields([(key, value, b"") for key, value in fields], boundary)]
    kind = b"Content-Type: %b\r\n" % file.content_type.encode() if file.content_type else b""
    parts.append(
        b'--%b\r\nContent-Disposition: form-data; name="%b"; filename="%b"\r\n%b\r\n'
        % (boundary, _quoted(name), _quoted(file.filename), kind)
    )
    return b"".join(parts), b"\r\n--%b--\r\n" % boundary


def render_fields(fields: Iterable[tuple[str, str, bytes]], boundary: bytes) -> bytes:
    """The parts of text fields: (name, value, content type or nothing). What ends the form is not among them."""
    return b"".join(
        [
            b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n%b\r\n%b\r\n'
            % (boundary, _quoted(name), b"Content-Type: %b\r\n" % kind if kind else b"", value.encode())
            for name, value, kind in fields
        ]
    )


def _quoted(text: str) -> bytes:
    """A parameter's value in the way of browsers, which RFC 7578 leaves as the common one: UTF-8, three characters
    escaped. Unlike theirs it does not end in what some readers take for an escaped quote.
    """
    trailing = len(text) - len(text.rstrip("\\"))
    text += "\\" * (trailing % 2)
    return text.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22").encode()


def _parameters(text: bytes) -> dict[bytes, bytes]:
    """The parameters that follow a header's first word, quotes removed. Raises FormFailure if they are none."""
    found: dict[bytes, bytes] = {}
    at = 0
    text = text.rstrip(b" \t;")
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            raise FormFailure("A header of the form has parameters that cannot be read")
        name, value = match[1].lower(), match[2]
        if name in found:
            raise FormFailure("A header of the form repeats a parameter")
        found[name] = _ESCAPED.sub(rb"\1", value[1:-1]) if value[:1] == b'"' else value.rstrip(b" \t")
        at = match.end()
    return found


def _filename(parameters: dict[bytes, bytes]) -> str:
    """A file's name: as it stands, or in the extended notation that some older clients use instead."""
    plain = parameters.get(b"filename")
    if plain is not None:
        return plain.decode(errors="replace")
    charset, _, rest = parameters.get(b"filename*", b"").partition(b"'")
    value = unquote_to_bytes(rest.partition(b"'")[2])
    return value.decode("latin-1" if charset.lower() == b"iso-8859-1" else "utf-8", errors="replace")
