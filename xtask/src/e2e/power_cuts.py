# Writes to an array until the server is killed, and knows of every sector what it may hold then.
# Run by nbdsh; the environment has MODE, STATE (a file that is kept between calls) and SEED:
#   use     reads everything through URI and checks it, then writes until the connection is lost
#   read    reads everything through URI and checks it
#   legs    checks the LEGS, paths separated by ':', of which each has the array's bytes from OFFSET
#           on, one by one
# Says so on standard output; what is wrong is an exception.

import errno
import json
import os
import pickle
import random
import struct
import time

import nbd

SECTOR = 512
# Bytes are used in slots that lie apart, so that there are many regions of an array to be written to
# for the first time.
SLOTS = 512
SLOT_SECTORS = 32
STRIDE = 96 * 1024
SLOT = SLOT_SECTORS * SECTOR
IN_FLIGHT_MAX = 16

seed = int(os.environ["SEED"])
prng = random.Random(seed)


class State:
    def __init__(self):
        # By sector: numbers of the writes whose bytes it may hold, the durable one first; 0 and
        # below are zeros. The last one is what it has to hold while nothing is lost.
        self.histories = [[0] for _ in range(SLOTS * SLOT_SECTORS)]
        self.last_write = 0
        # By sector: the newest write that was answered.
        self.answered = {}
        # Sectors that do not hold what was answered.
        self.lost = 0


def load():
    state = State()
    try:
        with open(os.environ["STATE"], "rb") as file:
            state.__dict__ = pickle.load(file)
    except FileNotFoundError:
        pass
    return state


def store(state):
    with open(os.environ["STATE"] + ".new", "wb") as file:
        pickle.dump(state.__dict__, file)
    os.replace(os.environ["STATE"] + ".new", os.environ["STATE"])


def bytes_of(sector, write):
    return struct.pack("<II", write, sector) * (SECTOR // 8) if write > 0 else bytes(SECTOR)


def place(sector):
    return sector // SLOT_SECTORS * STRIDE + sector % SLOT_SECTORS * SECTOR


class Wrong(Exception):
    pass


# What write a sector of these bytes is from, which has to be one that it may be from.
def judge(state, where, sector, found, allowed):
    write = struct.unpack("<I", found[:4])[0]
    if found != bytes_of(sector, write):
        raise Wrong(f"{where}: sector {sector} at {place(sector)} is a mixture: {found[:64]}")
    if all(max(one, 0) != write for one in allowed):
        raise Wrong(f"{where}: sector {sector} at {place(sector)} holds write {write},"
                    f" not one of {allowed}; answered: {state.answered.get(sector)}")
    return write


def judge_slot(state, where, slot, found, base):
    for at in range(SLOT_SECTORS):
        sector = slot * SLOT_SECTORS + at
        history = state.histories[sector]
        write = judge(state, where, sector, found[at * SECTOR:(at + 1) * SECTOR], history)
        if base:
            # What was read once has to be read again.
            state.histories[sector] = [write]
            answered = max(state.answered.pop(sector, 0), 0)
            state.lost += write < answered


def check_export(state, h):
    state.lost = 0
    for slot in prng.sample(range(SLOTS), SLOTS):
        judge_slot(state, "export", slot, h.pread(SLOT, slot * STRIDE), True)
    print(json.dumps({"lost": state.lost}), flush=True)


def check_legs(state):
    offset = int(os.environ["OFFSET"])
    lost = kept = 0
    for leg in os.environ["LEGS"].split(":"):
        with open(leg, "rb") as file:
            for slot in range(SLOTS):
                file.seek(offset + slot * STRIDE)
                found = file.read(SLOT)
                judge_slot(state, leg, slot, found, False)
                for at in range(SLOT_SECTORS):
                    sector = slot * SLOT_SECTORS + at
                    answered = state.answered.get(sector)
                    if answered is None or len(state.histories[sector]) == 1:
                        continue
                    write = struct.unpack("<I", found[at * SECTOR:at * SECTOR + 4])[0]
                    if write == max(answered, 0):
                        kept += 1
                    elif write == max(state.histories[sector][0], 0):
                        lost += 1
    print(json.dumps({"lost": lost, "kept": kept}))


class Writer:
    def __init__(self, state, h):
        self.state = state
        self.h = h
        self.busy = set()
        self.in_flight = 0
        self.event = 0
        # Writes that were answered and that no flush has covered: when, which, where.
        self.unflushed = []
        self.error = 0
        # What a callback found; libnbd does not let it through.
        self.wrong = None

    def done(self, error):
        self.in_flight -= 1
        if error:
            self.error = error
        return not error

    def write(self):
        prng_slot = min(prng.randrange(SLOTS), prng.randrange(SLOTS))
        count = prng.choice([1, 3, 8, 8, 8, 16, prng.randrange(1, SLOT_SECTORS)])
        first = prng.randrange(0, SLOT_SECTORS - count + 1)
        if count % 8 == 0:
            first -= first % 8
        first += prng_slot * SLOT_SECTORS
        sectors = range(first, first + count)
        if not self.busy.isdisjoint(sectors):
            return
        if prng.randrange(4) == 0:
            self.read(sectors)
            return
        self.state.last_write += 1
        write = self.state.last_write
        flags = nbd.CMD_FLAG_FUA if prng.randrange(12) == 0 else 0
        if zero := prng.randrange(10) == 0:
            write = -write
            flags |= prng.choice([0, nbd.CMD_FLAG_NO_HOLE])
        for sector in sectors:
            self.state.histories[sector].append(write)
        self.busy.update(sectors)
        self.in_flight += 1

        def completed(error):
            self.busy.difference_update(sectors)
            if self.done(error.value):
                self.event += 1
                for sector in sectors:
                    self.state.answered[sector] = write
                if flags & nbd.CMD_FLAG_FUA:
                    self.is_durable(sectors, write)
                else:
                    self.unflushed.append((self.event, write, sectors))
            return 1

        if zero:
            self.h.aio_zero(count * SECTOR, place(first), completion=completed, flags=flags)
        else:
            data = b"".join(bytes_of(sector, write) for sector in sectors)
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
            self.h.aio_pwrite(buffer, place(first), completion=completed, flags=flags)

    def read(self, sectors):
        self.busy.update(sectors)
        self.in_flight += 1
        buffer = nbd.Buffer(len(sectors) * SECTOR)

        def completed(error):
            self.busy.difference_update(sectors)
            if self.done(error.value):
                self.judge_read(bytes(buffer.to_bytearray()), sectors)
            return 1

        self.h.aio_pread(buffer, place(sectors[0]), completion=completed)

    def judge_read(self, found, sectors):
        try:
            for at, sector in enumerate(sectors):
                newest = self.state.histories[sector][-1:]
                one = found[at * SECTOR:(at + 1) * SECTOR]
                judge(self.state, "read", sector, one, newest)
        except Wrong as wrong:
            self.wrong = wrong

    def flush(self):
        began = self.event
        self.in_flight += 1

        def completed(error):
            if self.done(error.value):
                covered = [one for one in self.unflushed if one[0] <= began]
                self.unflushed = [one for one in self.unflushed if one[0] > began]
                for _, write, sectors in covered:
                    self.is_durable(sectors, write)
            return 1

        self.h.aio_flush(completion=completed)

    def is_durable(self, sectors, write):
        for sector in sectors:
            history = self.state.histories[sector]
            if write in history:
                del history[:history.index(write)]

    # Until the connection is lost.
    def run(self):
        while not self.error:
            if self.wrong:
                raise self.wrong
            kind = prng.randrange(400)
            if kind == 0:
                # Long enough for the array to rest and become clean.
                self.wait(0)
                time.sleep(prng.choice([0.02, 0.3]))
            elif kind < 6:
                self.flush()
            else:
                self.write()
            self.wait(prng.randrange(IN_FLIGHT_MAX))

    def wait(self, in_flight):
        while self.in_flight > in_flight and not self.error:
            self.h.poll(1000)


def is_lost(error):
    return error in (errno.ENOTCONN, errno.ECONNRESET, errno.ESHUTDOWN, errno.EPIPE)


state = load()
mode = os.environ["MODE"]
if mode == "legs":
    check_legs(state)
else:
    h = nbd.NBD()
    writer = Writer(state, h)
    alive = True
    try:
        h.connect_uri(os.environ["URI"])
        print("connected", flush=True)
        check_export(state, h)
        print("checked", flush=True)
        if mode == "use":
            writer.run()
    except nbd.Error as error:
        if mode == "read":
            raise
        # A dead connection makes its calls fail in more than one way.
        alive = h.aio_is_ready() or h.aio_is_processing()
        if alive:
            raise
    if writer.error and not is_lost(writer.error):
        raise Wrong(f"an operation failed: {os.strerror(writer.error)}")
    store(state)
    print("state kept", flush=True)
