"""A certificate for this machine that nobody has signed but itself."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = timedelta(days=2)


def self_signed(folder):
    """Make one in a folder; returns the files of its key and of itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _LIFE, now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "key.pem", folder / "cert.pem"
    private = serialization.PrivateFormat.PKCS8
    files[0].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    files[1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return files


def server_context(key, cert):
    """What a server with it listens with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context
