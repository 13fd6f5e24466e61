"""The function of `hashlib` that otherwise comes from OpenSSL."""

import hashlib
import hmac


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Password based key derivation function 2 (PKCS #5 v2.0) with HMAC as its pseudorandom function."""
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    start = hmac.new(bytes(password), None, hash_name)
    dklen = start.digest_size if dklen is None else dklen
    if dklen < 1:
        raise ValueError("key length must be greater than 0.")
    # The two halves of HMAC, each with the block of the key already hashed.
    size = hashlib.new(hash_name).block_size
    key = bytes(password) if len(password) <= size else hashlib.new(hash_name, password).digest()
    key = key.ljust(size, b"\0")
    inner = hashlib.new(hash_name, bytes(byte ^ 0x36 for byte in key))
    outer = hashlib.new(hash_name, bytes(byte ^ 0x5C for byte in key))

    def digest(text):
        one, two = inner.copy(), outer.copy()
        one.update(text)
        two.update(one.digest())
        return two.digest()

    done = b""
    while len(done) < dklen:
        part = digest(bytes(salt) + (len(done) // start.digest_size + 1).to_bytes(4))
        total = int.from_bytes(part)
        for _ in range(iterations - 1):
            part = digest(part)
            total ^= int.from_bytes(part)
        done += total.to_bytes(start.digest_size)
    return done[:dklen]
