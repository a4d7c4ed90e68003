"""How `--tenant-api-key` is written: a tenant and its key, separated by the first colon."""

from __future__ import annotations

from smg.config.options import Form


def split_tenant_key(text: str) -> tuple[str, str]:
    """(tenant, key) of `tenant:key`, both trimmed; the key may hold colons, and is empty if there is none."""
    tenant, _, key = text.partition(":")
    return tenant.strip(), key.strip()


def _complaint(text: str) -> str | None:
    tenant, key = split_tenant_key(text)
    if not tenant:
        return "must be written <tenant>:<key>, with a tenant before the first colon"
    if not key:
        return "must be written <tenant>:<key>, with a key behind the first colon"
    return None


TENANT_KEY = Form("TENANT:KEY", _complaint, lambda text: ":".join(split_tenant_key(text)))
