# Requests that well-behaved clients never send, and what the protocol says about each.
# Run by nbdsh; the environment has URI, SOCKET and EXPORT.

import errno
import os
import random
import socket
import struct

import nbd

URI = os.environ["URI"]


def connect(contexts=()):
    handle = nbd.NBD()
    # libnbd would refuse to send what this script is about.
    handle.set_strict_mode(0)
    for context in contexts:
        handle.add_meta_context(context)
    handle.connect_uri(URI)
    return handle


def refused(what, call, *errors):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum in errors, f"{what}: {error.errno}, not one of {errors}"
        return
    raise AssertionError(f"{what}: not refused")


h = connect(["base:allocation"])
size = h.get_size()

# Unaligned requests against a model: every byte is where it should be.
prng = random.Random(1)
span = 256 * 1024
model = bytearray(span)
h.pwrite(bytes(model), 0)
for _ in range(600):
    length = prng.choice([1, 2, 511, 512, 513, 4095, 4096, 4097, prng.randrange(1, 30000)])
    offset = prng.randrange(0, span - length)
    kind = prng.randrange(6)
    if kind < 2:
        data = prng.randbytes(length)
        h.pwrite(data, offset, nbd.CMD_FLAG_FUA if kind == 0 else 0)
        model[offset:offset + length] = data
    elif kind == 2:
        h.zero(length, offset, prng.choice([0, nbd.CMD_FLAG_NO_HOLE, nbd.CMD_FLAG_FUA]))
        model[offset:offset + length] = bytes(length)
    elif kind == 3:
        h.cache(length, offset)
    else:
        data = h.pread(length, offset, nbd.CMD_FLAG_DF if kind == 4 else 0)
        assert data == model[offset:offset + length], f"other bytes at {offset}+{length}"
h.flush()
assert h.pread(span, 0) == model

# Trimmed bytes read as zeros or as before, nothing else, and what is beside them stays.
h.trim(10000, 4097)
data = h.pread(span, 0)
assert all(now in (0, then) for now, then in zip(data[4097:14097], model[4097:14097]))
assert data[:4097] == model[:4097] and data[14097:] == model[14097:]

# FAST_ZERO either is fast, or is refused before anything changed.
before = h.pread(65536, 65536)
try:
    h.zero(65536, 65536, nbd.CMD_FLAG_FAST_ZERO)
    assert h.pread(65536, 65536) == bytes(65536)
except nbd.Error as error:
    assert error.errnum in (errno.ENOTSUP, errno.EOPNOTSUPP), error
    assert h.pread(65536, 65536) == before

# At the end of the device.
h.pwrite(b"x" * 512, size - 512)
assert h.pread(512, size - 512) == b"x" * 512
assert h.pread(1, size - 1) == b"x"
out = (errno.EINVAL, errno.ENOSPC)
refused("read at the end", lambda: h.pread(1, size), errno.EINVAL)
refused("read across the end", lambda: h.pread(1024, size - 512), errno.EINVAL)
refused("write at the end", lambda: h.pwrite(b"y", size), *out)
refused("write across the end", lambda: h.pwrite(b"y" * 1024, size - 512), *out)
refused("zero across the end", lambda: h.zero(1024, size - 512), *out)
refused("trim across the end", lambda: h.trim(1024, size - 512), *out)
refused("cache across the end", lambda: h.cache(1024, size - 512), *out)
refused("read far outside", lambda: h.pread(512, 2**63 - 512), errno.EINVAL)
refused("write far outside", lambda: h.pwrite(b"y" * 512, 2**63 - 512), *out)
assert h.pread(512, size - 512) == b"x" * 512, "a refused write changed something"

# Without any bytes: what happens is the server's choice, but it has to answer.
for call in (lambda: h.pread(0, 0), lambda: h.pwrite(b"", 0), lambda: h.trim(0, 0),
             lambda: h.zero(0, 0), lambda: h.cache(0, 0)):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == errno.EINVAL, error

# Larger than the largest.
most = 32 * 1024 * 1024
assert len(h.pread(most, 0)) == most
h.pwrite(bytes(most), size - most)
h.pwrite(b"x" * 512, size - 512)
too_large = (errno.EINVAL, errno.EOVERFLOW)
refused("read of 32 MiB and 1", lambda: h.pread(most + 1, 0), *too_large)
assert h.pread(512, size - 512) == b"x" * 512

# Unknown flags.
for flag in (1 << 6, 1 << 15):
    refused("read with unknown flag", lambda: h.pread(512, 0, flag), errno.EINVAL)
    refused("write with unknown flag", lambda: h.pwrite(bytes(512), 0, flag), errno.EINVAL)
    refused("flush with unknown flag", lambda: h.flush(flag), errno.EINVAL)
    refused("trim with unknown flag", lambda: h.trim(512, 0, flag), errno.EINVAL)

# Block status: everything once, and one run where one is asked for.
runs = []
h.block_status(size, 0, lambda context, offset, entries, error: runs.append(entries))
assert sum(runs[0][::2]) >= 1 and runs[0][1] == 0, "the beginning holds data"
runs = []
h.block_status(1 << 20, 0, lambda context, offset, entries, error: runs.append(entries),
               nbd.CMD_FLAG_REQ_ONE)
assert len(runs[0]) == 2, "more than one run"
assert runs[0][0] <= 1 << 20, "a run beyond what was asked for"

# What one connection has written and flushed, another one sees.
other = connect()
h.pwrite(b"seen" * 128, 1 << 20)
h.flush()
assert other.pread(512, 1 << 20) == b"seen" * 128
other.shutdown()

# A write larger than the largest: an error or a closed connection, and the server lives.
large = connect()
try:
    large.pwrite(bytes(most + 4096), 0)
    raise AssertionError("a write of more than 32 MiB was not refused")
except nbd.Error:
    pass
assert connect().pread(512, size - 512) == b"x" * 512


# By hand, what libnbd cannot be talked into.
def receive(raw, count):
    data = b""
    while len(data) < count:
        part = raw.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def greet():
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(10)
    raw.connect(os.environ["SOCKET"])
    magic, option_magic, flags = struct.unpack(">8s8sH", receive(raw, 18))
    assert magic == b"NBDMAGIC" and option_magic == b"IHAVEOPT" and flags & 1
    raw.sendall(struct.pack(">I", 3))
    return raw


def option(raw, number, data=b""):
    raw.sendall(struct.pack(">8sII", b"IHAVEOPT", number, len(data)) + data)


def option_reply(raw, number):
    magic, option_number, kind, length = struct.unpack(">QIII", receive(raw, 20))
    assert magic == 0x3E889045565A9 and option_number == number
    return kind, receive(raw, length)


def export_name(raw):
    option(raw, 1, os.environ["EXPORT"].encode())
    assert struct.unpack(">Q", receive(raw, 10)[:8]) == (size,)


def command(raw, kind, flags=0, offset=0, length=0, cookie=7, magic=0x25609513):
    raw.sendall(struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length))


def simple_reply(raw, cookie=7):
    magic, error, replied = struct.unpack(">IIQ", receive(raw, 16))
    assert magic == 0x67446698 and replied == cookie
    return error


def is_closed(raw):
    try:
        while receive(raw, 1):
            pass
    except (EOFError, ConnectionResetError):
        return True


UNSUPPORTED = 2**31 + 1

raw = greet()
option(raw, 12345, b"what is this")
assert option_reply(raw, 12345)[0] == UNSUPPORTED, "an unknown option"
option(raw, 5)
assert option_reply(raw, 5)[0] in (UNSUPPORTED, 2**31 + 2), "STARTTLS is not offered"
option(raw, 6, struct.pack(">IH", 100, 0))
assert option_reply(raw, 6)[0] == 2**31 + 3, "INFO with a length that does not fit"
name = b"no-such-export"
option(raw, 6, struct.pack(">I", len(name)) + name + struct.pack(">H", 0))
assert option_reply(raw, 6)[0] == 2**31 + 6, "an unknown export"
export_name(raw)
command(raw, 99)
assert simple_reply(raw) == errno.EINVAL, "an unknown command"
command(raw, 7, length=512)
assert simple_reply(raw) == errno.EINVAL, "BLOCK_STATUS without a context"
command(raw, 0, length=4)
assert simple_reply(raw) == 0
receive(raw, 4)
command(raw, 2)
assert is_closed(raw), "DISC closes"

raw = greet()
export_name(raw)
command(raw, 0, magic=0xDEADBEEF)
assert is_closed(raw), "a wrong magic closes"

raw = greet()
raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
assert is_closed(raw), "a web browser is sent away"

raw = greet()
option(raw, 1, b"no-such-export")
assert is_closed(raw), "EXPORT_NAME has no other way to say no"

raw = greet()
option(raw, 2)
assert option_reply(raw, 2)[0] == 1 and is_closed(raw), "ABORT is answered, then closes"

# A client that leaves in the middle of everything.
raw = greet()
export_name(raw)
command(raw, 1, offset=0, length=1 << 20)
raw.sendall(bytes(1000))
raw.close()

assert connect().pread(512, size - 512) == b"x" * 512
print("all odd requests answered")
