"""Uses `heliostat top` in a terminal of its own, as somebody at a keyboard does.

top_session.py STEPS COLUMNS ROWS END PROGRAM ARGUMENT...

Each line of the file STEPS is `see TEXT` (wait until it was drawn since the last key or size), `key
TEXT`, `size COLUMNS ROWS`, or `find TEXT`: only what changes is drawn, but for another size, at
which all is, so that another size is taken until the text is there. END is how it is ended: keys,
the name of a signal, or hangup: the terminal goes away. What the terminal was like before it has to be like afterwards.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PATIENCE_S = 30


def set_size(terminal, columns, rows):
    size = struct.pack("HHHH", rows, columns, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


class Session:
    def __init__(self, columns, rows, command):
        self.master, self.terminal = pty.openpty()
        set_size(self.terminal, columns, rows)
        self.before = termios.tcgetattr(self.terminal)
        self.drawn = b""
        self.child = os.fork()
        if self.child == 0:
            os.setsid()
            fcntl.ioctl(self.terminal, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(self.terminal, descriptor)
            os.environ["TERM"] = "xterm-256color"
            os.execv(command[0], command)

    def read(self, wait_s):
        if select.select([self.master], [], [], wait_s)[0]:
            self.drawn += os.read(self.master, 1 << 16)

    def see(self, text):
        end = time.monotonic() + PATIENCE_S
        while text not in self.words():
            if time.monotonic() > end:
                sys.exit(f"{text!r} was not drawn: {self.words()[-2000:]!r}")
            self.read(0.1)

    def find(self, text):
        for columns in range(100, 100 + 2 * PATIENCE_S):
            self.size(columns, 30)
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                self.read(0.1)
            if text in self.words():
                return
        sys.exit(f"{text!r} is not there: {self.words()[-2000:]!r}")

    def size(self, columns, rows):
        self.drawn = b""
        set_size(self.master, columns, rows)

    def words(self):
        """What was drawn, with a blank for each order to the terminal."""
        return " ".join(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", self.drawn).decode().split())

    def key(self, text):
        self.drawn = b""
        os.write(self.master, text.encode().decode("unicode_escape").encode())

    def wait_alone(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if os.waitpid(self.child, os.WNOHANG)[0]:
                return 0
            time.sleep(0.05)
        os.kill(self.child, signal.SIGKILL)
        return "it does not end with its terminal"

    def wait(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.read(0.05)
            child, status = os.waitpid(self.child, os.WNOHANG)
            if child:
                return os.waitstatus_to_exitcode(status)
        sys.exit("it does not end")


def main():
    steps, columns, rows, how, *command = sys.argv[1:]
    session = Session(int(columns), int(rows), command)
    for line in open(steps).read().splitlines():
        what, rest = line.split(" ", 1)
        if what == "see":
            session.see(rest)
        elif what == "key":
            session.key(rest)
        elif what == "size":
            session.size(*map(int, rest.split()))
        elif what == "find":
            session.find(rest)
        else:
            sys.exit(f"what is {line!r}?")
        print("done:", line, flush=True)
    if how == "hangup":
        os.close(session.master)
        sys.exit(session.wait_alone())
    if how == "keys":
        session.key("q")
    else:
        session.drawn = b""
        os.kill(session.child, getattr(signal, how))
    code = session.wait()
    session.read(0.2)
    if code != 0:
        sys.exit(f"it ended with {code}: {session.drawn!r}")
    if termios.tcgetattr(session.terminal) != session.before:
        sys.exit("the terminal is not what it was")
    for order in (b"\x1b[?1049l", b"\x1b[?25h"):
        if order not in session.drawn:
            sys.exit(f"{order!r} was not sent in the end: {session.drawn!r}")


main()
