"""multipart/form-data by hand, put together and taken apart."""

import re

BOUNDARY = "a-boundary-of-tests"
FORM = f"content-type: multipart/form-data; boundary={BOUNDARY}"
AUDIO = b"RIFF\r\n--" + bytes(range(256))


def part(name, value, *headers, filename=None):
    """One part, from its delimiter to the line end that closes it."""
    disposition = f'Content-Disposition: form-data; name="{name}"'
    if filename is not None:
        disposition += f'; filename="{filename}"'
    head = "\r\n".join([f"--{BOUNDARY}", disposition, *headers, "", ""]).encode()
    return head + (value if isinstance(value, bytes) else value.encode()) + b"\r\n"


def file(value=AUDIO, filename="a.wav", *headers, name="file"):
    return part(name, value, *(headers or ["Content-Type: audio/wav"]), filename=filename)


def form(*parts):
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def model(name="m"):
    return part("model", name)


def parts_of(content_type, body):
    """(name, file name, value) of every part of a form."""
    boundary = re.fullmatch(r"multipart/form-data; boundary=(\S+)", content_type)[1].encode()
    first, *pieces, last = (b"\r\n" + body).split(b"\r\n--" + boundary)
    assert (first, last) == (b"", b"--\r\n")
    found = []
    for piece in pieces:
        head, value = piece.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
        names = re.search(r'name="([^"]*)"(?:; filename="([^"]*)")?', head.decode())
        found.append((names[1], names[2], value))
    return found
