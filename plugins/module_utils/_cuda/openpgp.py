# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of the keys in an OpenPGP key file, so that a key is known before it is trusted.

Only what that takes: armour (RFC 4880, section 6.2), packet headers (4.2), and the version 4
fingerprint (12.2), which is the SHA-1 over the key packet. Signatures are apt's business.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

_PUBLIC_KEY = 6


class KeyFileError(Exception):
    """The file is no OpenPGP public key."""


def dearmor(data: bytes) -> bytes:
    """The packets of a key file, armoured or not.

    Args:
        data: The file.

    Returns:
        Binary packets.

    Raises:
        KeyFileError: The armour is damaged.
    """
    if b"-----BEGIN PGP" not in data:
        return data
    found = re.findall(
        rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(.*?)-----END PGP PUBLIC KEY BLOCK-----",
        data.replace(b"\r\n", b"\n"),
        re.DOTALL,
    )
    if not found:
        raise KeyFileError("no complete block 'PGP PUBLIC KEY BLOCK'")
    packets = b""
    for block in found:
        _, separator, body = block.partition(b"\n\n")
        lines = (body if separator else block).split(b"\n")
        text = b"".join(line for line in lines if not line.startswith(b"="))
        try:
            packets += base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise KeyFileError(f"damaged armour: {error}") from error
    return packets


def _length(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Body length of a packet, and where its body begins."""
    if first & 0x40:  # the new form
        one = data[at]
        if one < 192:
            return one, at + 1
        if one < 224:
            return ((one - 192) << 8) + data[at + 1] + 192, at + 2
        if one == 255:
            return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
        raise KeyFileError("a key packet in parts")
    kind = first & 3
    if kind == 3:
        raise KeyFileError("a packet without a length")
    size = 1 << kind
    return int.from_bytes(data[at : at + size], "big"), at + size


def fingerprints(data: bytes) -> list[str]:
    """Fingerprints of the primary keys in a key file.

    Args:
        data: An armoured or binary key file, one key or several.

    Returns:
        Upper-case hexadecimal, 40 characters each, in the file's order.

    Raises:
        KeyFileError: It is none, or damaged.
    """
    packets, at, found = dearmor(data), 0, []
    try:
        while at < len(packets):
            first = packets[at]
            if not first & 0x80:
                raise KeyFileError("no OpenPGP data")
            tag = first & 0x3F if first & 0x40 else (first >> 2) & 0xF
            size, start = _length(packets, at + 1, first)
            body = packets[start : start + size]
            if len(body) != size:
                raise KeyFileError("the file ends inside a packet")
            if tag == _PUBLIC_KEY:
                if body[:1] != b"\x04":
                    raise KeyFileError("a key that is not of version 4")
                head = b"\x99" + len(body).to_bytes(2, "big")
                # The fingerprint's own definition; nothing is protected by this digest alone.
                found.append(hashlib.sha1(head + body, usedforsecurity=False).hexdigest().upper())
            at = start + size
    except IndexError as error:
        raise KeyFileError("the file ends inside a packet") from error
    if not found:
        raise KeyFileError("no public key in it")
    return found


def normalise(fingerprint: str) -> str:
    """A fingerprint without spaces, in upper case.

    Raises:
        KeyFileError: It is not 40 hexadecimal digits.
    """
    text = re.sub(r"\s", "", fingerprint).upper()
    if not re.fullmatch(r"[0-9A-F]{40}", text):
        raise KeyFileError(f"{fingerprint!r} is no fingerprint: 40 hexadecimal digits are")
    return text
