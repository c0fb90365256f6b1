"""Tests of dayfly_template with a runtime that the tests play. They need root and Linux 6.15.

    python3 test_dayfly_template.py
    python3 test_dayfly_template.py measure [RUNS]

The second form measures how long a child takes, and prints the medians.
"""

import array
import contextlib
import ctypes
import errno
import json
import os
import platform
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
UNIFIED = "/sys/fs/cgroup/unified"
FREEZER = "/sys/fs/cgroup/freezer"
GROUP = "dayfly-test-template"

# The host's ids of the template's user namespace.
BASE = 100000

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
JOINED = {"net": NEWNET, "ipc": NEWIPC, "uts": NEWUTS, "mnt": NEWNS}

# The capabilities that engines give to a container.
CAPABILITIES = 0xA80425FB
SYS_ADMIN = 1 << 21
NET_BIND_SERVICE = 1 << 10

# The flags of message F.
INTO_CGROUP, FIRST_IS_UNIFIED, HAS_FILTER = 1, 2, 4

SO_PASSPIDFD, SCM_PIDFD = 76, 4
SCM_CREDENTIALS = 2

libc = ctypes.CDLL(None, use_errno=True)

# What the program reports is what a program sees of its new container.
PROGRAM = """
import ctypes, json, os, random, resource, signal, socket, ssl, struct, subprocess, sys, tempfile
import threading, time
import dayfly_template

libc = ctypes.CDLL(None)
socket.setdefaulttimeout(0.0001)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
opened = os.open("/dev/null", os.O_RDONLY)

def session_keyring():
    return libc.syscall(219 if os.uname().machine == "aarch64" else 250, 0, -3, 0)

keyring = session_keyring()
if "HANDLER" in os.environ:
    signal.signal(signal.SIGCHLD, lambda *_: None)
if "THREAD" in os.environ:
    os.register_at_fork(after_in_child=lambda: threading.Thread(
        target=time.sleep, args=(60,), daemon=True).start())
if "UNDUMPABLE" in os.environ:
    libc.prctl(4, 0, 0, 0, 0)
if "AMBIENT" in os.environ:
    header, sets = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    libc.capget(header, sets)
    sets = list(struct.unpack("=6I", sets.raw))
    sets[2] |= 1 << 10
    libc.capset(header, struct.pack("=6I", *sets))
    libc.prctl(47, 2, 10, 0, 0)

called = []
dayfly_template.register(lambda: called.append(sys.argv[1:]))
ssl.RAND_bytes(1)
names = tempfile._get_candidate_names()
next(names)
filler = [b"%d" % number * 60 for number in range(int(os.environ.get("FILLER_MB", 0)) * 2500)]
clock = {}
for step in os.environ.get("STEPS", "").split():
    def timed(self, *arguments, step=step, call=getattr(dayfly_template._Child, step)):
        start = time.perf_counter_ns()
        result = call(self, *arguments)
        clock[step] = (time.perf_counter_ns() - start) / 1000
        return result
    setattr(dayfly_template._Child, step, timed)

try:
    dayfly_template.wait()
except BaseException as error:
    os.write(1, b"an exception has reached the program: %r" % error)
    raise

def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return error.errno

def libc_thread_id():
    address = ctypes.c_ulong()
    libc.prctl(40, ctypes.byref(address), 0, 0, 0)
    return ctypes.c_int.from_address(address.value).value

if sys.argv[1:] == ["strict"]:
    os.write(1, b"{}\\n")
    os._exit(7)
if sys.argv[1:] == ["clock"]:
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    print(json.dumps({"clock": clock, "faults": faults}), flush=True)
    os._exit(0)
umask = os.umask(0)
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t") for line in file.read().splitlines())
report = {
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "env": dict(os.environ),
    "cwd": os.getcwd(), "umask": umask, "ids": os.getresuid() + os.getresgid(),
    "groups": os.getgroups(), "pid": os.getpid(), "sid": os.getsid(0), "called": called,
    "thread": [threading.get_native_id(), libc_thread_id()],
    "random": random.random(), "ssl": ssl.RAND_bytes(8).hex(), "name": next(
        tempfile._get_candidate_names()),
    "priority": attempt(os.getpriority, os.PRIO_PROCESS, 0),
    "reopened": attempt(lambda: os.close(os.open("/proc/self/fd/2", os.O_WRONLY))),
    "status": attempt(lambda: subprocess.call(["/bin/sh", "-c", "exit 3"])),
    "files": sorted({int(name) for name in os.listdir("/proc/self/fd")} - {opened}),
    "signals": {name: status[name] for name in ("SigPnd", "SigBlk", "SigIgn", "SigCgt")},
    "dumpable": libc.prctl(3, 0, 0, 0, 0), "keyrings": [keyring, session_keyring()],
    "buffering": [sys.stdout.line_buffering, sys.stdout.isatty(), sys.stdout.seekable()],
    "zone": time.localtime(0).tm_hour,
}
print(json.dumps(report), flush=True)
print("to stderr", file=sys.stderr, flush=True)
print("read", sys.stdin.readline().strip(), flush=True)
sys.stdin.readline()
os._exit(5)
"""


def call(name, *arguments):
    """Calls a function of libc, and raises its error."""
    if getattr(libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


def mount(source, target, kind, flags=0, data=None):
    words = [word.encode() if word else None for word in (source, target, kind)]
    call("mount", *words, ctypes.c_ulong(flags), data)


def send(connection, message, descriptors=()):
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    connection.sendmsg([message], control if descriptors else [], socket.MSG_NOSIGNAL)


def receive(connection):
    """Receives a message. Returns it with its descriptors, the sender's pid and its pidfd."""
    message, control, _, _ = connection.recvmsg(65536, 4096, socket.MSG_CMSG_CLOEXEC)
    found = {SCM_CREDENTIALS: [None], SCM_PIDFD: [None], socket.SCM_RIGHTS: []}
    for _, kind, content in control:
        numbers = array.array("i")
        numbers.frombytes(content)
        found[kind] = numbers.tolist()
    return message, found[socket.SCM_RIGHTS], found[SCM_CREDENTIALS][0], found[SCM_PIDFD][0]


def close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def memfd(data):
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    return descriptor


def uncover(directory):
    """Makes a directory reachable for other users, in a mount namespace of the caller's own."""
    parts = directory.split("/")
    parents = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    covered = [path for path in parents if not os.stat(path).st_mode & 0o001]
    if not covered:
        return
    descriptor = os.open(directory, os.O_PATH)
    mount("tmpfs", covered[0], "tmpfs", 0, b"mode=755")
    os.makedirs(directory, exist_ok=True)
    mount("/proc/self/fd/%d" % descriptor, directory, None, 0x1000)  # MS_BIND
    os.close(descriptor)


class World:
    """The container of a template: PID 1 is a reaper, PID 2 is the template."""

    def __init__(self, directory, command, environment=(), cgroup=None):
        self.path = os.path.join(directory, "socket")
        self.command = command
        self.environment = {"PATH": "/usr/bin:/bin", "WARM": "1", **dict(environment)}
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        listener.bind(self.path)
        listener.listen(64)
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.control.close()
                self._enter(control, listener, cgroup)
            except BaseException as error:
                print("World:", repr(error), file=sys.stderr, flush=True)
            finally:
                os._exit(1)
        control.close()
        listener.close()
        self._map()

    def _map(self):
        receive(self.control)
        for name in ("uid_map", "gid_map"):
            with open("/proc/%d/%s" % (self.pid, name), "w") as file:
                file.write("0 %d 65536" % BASE)
        self.control.send(b"mapped")

    def _enter(self, control, listener, cgroup):
        # A control socket of another world would keep that world alive.
        kept = control.fileno(), listener.fileno()
        for number in range(3, 1024):
            if number not in kept:
                with contextlib.suppress(OSError):
                    os.close(number)
        if cgroup:
            with open(cgroup + "/cgroup.procs", "w") as file:
                file.write("0")
        call("unshare", NEWNS)
        mount(None, "/", None, 0x44000)  # MS_REC | MS_PRIVATE
        uncover(sys.base_prefix)
        call("unshare", NEWUSER)
        control.send(b"map")
        control.recv(16)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        call("unshare", NEWNS | NEWPID | NEWUTS | NEWIPC | NEWNET)
        if os.fork() == 0:
            self._reap(control, listener)
        listener.close()
        os.wait()

    def _reap(self, control, listener):
        """Is PID 1."""
        mount("proc", "/proc", "proc")
        template = os.fork()
        if template == 0:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            listener.set_inheritable(True)
            variables = dict(self.environment, DAYFLY_TEMPLATE=str(listener.fileno()))
            os.execve(sys.executable, self.command, variables)
        listener.close()
        while True:
            order = control.recv(65536)
            if order[:4] == b"init" and os.fork() == 0:
                self._start_init(control, json.loads(order[4:].decode()))
            elif order == b"kill":
                os.kill(template, signal.SIGTERM)
                os.waitpid(template, 0)
                control.send(b"killed")
            elif not order:
                os._exit(0)

    @staticmethod
    def _start_init(control, files):
        call("unshare", NEWNS | NEWPID | NEWUTS | NEWIPC | NEWNET)
        if os.fork() != 0:
            os._exit(0)
        mount("proc", "/proc", "proc")
        if files:
            mount("tmpfs", "/etc", "tmpfs")
        for path, content in files.items():
            if content == "|":
                os.mkfifo(path)
            elif content.startswith("-> "):
                os.symlink(content[3:], path)
            else:
                with open(path, "w", encoding="latin-1") as file:
                    file.write(content)
                os.chmod(path, 0o600 if content.startswith("private") else 0o644)
        names = ["pid", *JOINED]
        send(control, b"init", [os.open("/proc/self/ns/" + name, os.O_RDONLY) for name in names])
        while True:
            signal.pause()

    def make_init(self, files=None):
        """Makes the PID 1 of a new container, which may have files of its own in /etc."""
        self.control.send(b"init" + json.dumps(files or {}).encode())
        message, descriptors, pid, _ = receive(self.control)
        assert message == b"init", message
        return Init(pid, dict(zip(["pid", *JOINED], descriptors)))

    def kill_template(self):
        self.control.send(b"kill")
        receive(self.control)

    def connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def ask(self, message, descriptors=()):
        """Sends one message. Returns the errno and the text of the answer."""
        with self.connect() as connection:
            send(connection, message, descriptors)
            return read_failure(connection.recv(65536))

    def close(self):
        self.control.close()
        os.waitpid(self.pid, 0)


class Init:
    """The PID 1 of a new container."""

    def __init__(self, pid, namespaces):
        self.pid = pid
        self.namespaces = namespaces

    def close(self):
        if self.namespaces:
            os.kill(self.pid, signal.SIGKILL)
            close(self.namespaces.values())
            self.namespaces = {}


def read_failure(answer):
    assert answer[:1] == b"E", answer
    return struct.unpack("<i", answer[1:5])[0], answer[5:].decode()


class Child:
    """A child, as the runtime sees it."""

    def __init__(self, world, init, command):
        self.init = init
        self.command = command
        self.connection = world.connect()
        for option in (socket.SO_PASSCRED, SO_PASSPIDFD):
            self.connection.setsockopt(socket.SOL_SOCKET, option, 1)
        self.stub = None
        self.mine = []
        self.streams = []

    def prepare(self, *arguments, filter=None, owner=0, text=None, **changes):
        """Prepares what the child needs: the description of its program, and its streams."""
        body = {
            "args": [*self.command, *arguments], "env": ["PATH=/usr/bin:/bin"], "homeOf": None,
            "cwd": "/", "umask": 0o22, "uid": 0, "gid": 0, "groups": [], "noNewPrivileges": False,
            "capabilities": {name: CAPABILITIES for name in (
                "bounding", "effective", "permitted")},
            "keyring": "dayfly-test", "seccomp": None,
        }
        body["capabilities"].update(inheritable=0, ambient=0)
        body.update(changes)
        self.stub, stub = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stub.settimeout(20)
        (stdin, self.stdin), (self.stdout, stdout) = os.pipe(), os.pipe()
        self.stderr, stderr = os.pipe()
        os.fchown(stderr, owner, -1)
        self.mine += [self.stdin, self.stdout, self.stderr]
        if text is None:
            text = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape")
        self.description = [memfd(text), stub.detach()]
        if filter is not None:
            self.description.append(memfd(filter))
        self.streams = [stdin, stdout, stderr]

    def request(self, cgroup=None, procs=(), flags=0):
        """Asks the template for the child."""
        if len(self.description) == 3:
            flags |= HAS_FILTER
        passed = self.description
        if cgroup:
            flags |= INTO_CGROUP
            passed.append(os.open(cgroup, os.O_RDONLY))
        passed += [os.open(path, os.O_WRONLY) for path in procs]
        self.started = time.perf_counter_ns()
        message = bytes((ord("F"), 1, flags, len(procs)))
        send(self.connection, message, [self.init.namespaces["pid"], *passed])
        close(passed)

    def born(self):
        answer = self.connection.recv(65536)
        self.born_after = time.perf_counter_ns() - self.started
        return answer

    def enter(self, message=None, descriptors=None):
        """Sends the container to the child, which may be gone."""
        if message is None:
            message = b"C" + struct.pack("<%dI" % len(JOINED), *JOINED.values())
        if descriptors is None:
            descriptors = self.streams + [self.init.namespaces[name] for name in JOINED]
        self.entered = time.perf_counter_ns() - self.started
        send(self.connection, message, descriptors)
        close(self.streams)
        self.streams = []

    def ready(self):
        """Returns the answer of the child: R, or the errno and the text of its failure."""
        answer, _, self.pid, self.pidfd = receive(self.connection)
        self.ready_after = time.perf_counter_ns() - self.started
        self.mine.append(self.pidfd)
        return answer if answer == b"R" else read_failure(answer)

    def go(self):
        """Lets the child go. Returns its report."""
        self.stub.send(b"G")
        return json.loads(self.read_line() or "{}")

    def read_line(self):
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self.stdout, 1)
            if not part:
                break
            line += part
        return line.decode()

    def status(self):
        with open("/proc/%d/status" % self.pid) as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    def end(self):
        """Waits for the end of the child, which its parent does not see."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(10000))

    def close(self):
        self.connection.close()
        if self.stub:
            self.stub.close()
        close(self.mine + self.streams)


def make_filter(pairs, otherwise):
    """Makes a filter that answers calls by their number, and others otherwise."""
    code = struct.pack("=HBBI", 0x20, 0, 0, 0)  # load the number of the call
    for number, answer in pairs:
        code += struct.pack("=HBBI", 0x15, 0, 1, number)  # skip the answer if it is another
        code += struct.pack("=HBBI", 0x06, 0, 0, answer)
    return code + struct.pack("=HBBI", 0x06, 0, 0, otherwise)


ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
ARM = platform.machine() == "aarch64"
GETPRIORITY = 141 if ARM else 140
# sendto, recvfrom, close, capset, what a program needs to report (write, exit_group), and what an
# interpreter needs for its memory (brk, mmap, munmap, madvise, futex).
FEW = (206, 207, 57, 91, 64, 94, 214, 222, 215, 233, 98) if ARM else (
    44, 45, 3, 126, 1, 231, 12, 9, 11, 28, 202)


class Case(unittest.TestCase):
    """A template that the tests of a class share."""

    module = False
    variables = {}
    # The time from message B to message C.
    delay = 0
    refused = 0

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="dayfly-template-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.chmod(cls.directory, 0o755)
        shutil.copy(os.path.join(HERE, "dayfly_template.py"), cls.directory)
        program = os.path.join(cls.directory, "program.py")
        with open(program, "w") as file:
            file.write(PROGRAM)
        cls.command = [sys.executable, "-B", program]
        cls.environment = dict(cls.variables)
        if cls.module:
            cls.command = [sys.executable, "-B", "-m", "program"]
            cls.environment["PYTHONPATH"] = cls.directory
        cls.world = World(cls.directory, [*cls.command, "warm"], cls.environment)
        cls.addClassCleanup(cls.world.close)

    def make_directory(self, name, owner, group):
        """Makes a directory that only its owner and its group may enter."""
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        os.chown(path, owner, group)
        os.chmod(path, 0o770)
        return path

    def start(self, *arguments, world=None, request=None, files=None, **changes):
        """Asks for a child."""
        world = world or self.world
        init = world.make_init(files)
        self.addCleanup(init.close)
        child = Child(world, init, self.command)
        self.addCleanup(child.close)
        child.prepare(*arguments, **changes)
        child.request(**request or {})
        return child

    def run_child(self, *arguments, **changes):
        """Starts a child. Returns it with its report."""
        child = self.start(*arguments, **changes)
        self.assertEqual(child.born(), b"B")
        time.sleep(self.delay)
        child.enter()
        self.assertEqual(child.ready(), b"R")
        return child, child.go()

    def refuse(self, *arguments, message=None, descriptors=None, **changes):
        """Returns the failure of a child, which then ends without a word of the program."""
        child = self.start(*arguments, **changes)
        self.assertEqual(child.born(), b"B")
        # What fails may have failed before the child gets the container, or after that.
        time.sleep(0.002 * self.refused)
        Case.refused = (self.refused + 1) % 5
        child.enter(message, descriptors)
        failure = child.ready()
        child.connection.shutdown(socket.SHUT_WR)
        self.assertEqual(child.connection.recv(16), b"")
        self.assertTrue(child.end())
        self.assertEqual(os.read(child.stdout, 100), b"")
        return failure


class Programs(Case):
    """What the program of the new container sees."""

    def test_directories(self):
        for name, owner, group in (("root's", BASE, BASE), ("user's", 0, BASE + 6)):
            path = self.make_directory(name, owner, group)
            _, report = self.run_child(uid=5, gid=6, cwd=path)
            self.assertEqual(report["cwd"], path)

    def test_command_and_environment(self):
        zone = "TZ=XYZ-3"
        entries = ["A=1", "A=2", "B=x=y", "EMPTY=", "none", "=x", "BYTES=\udcff\u00e4", zone,
                   "LC_ALL=C"]
        child, report = self.run_child("one", "zwei \u00e4", env=entries, cwd="/usr", umask=0o77)
        self.assertEqual(report["argv"], [self.command[-1], "one", "zwei \u00e4"])
        if sys.version_info >= (3, 10):
            self.assertEqual(report["orig_argv"], [*self.command, "one", "zwei \u00e4"])
        expected = {"A": "1", "B": "x=y", "EMPTY": "", "BYTES": "\udcff\u00e4", "TZ": "XYZ-3",
                    "LC_ALL": "C"}
        self.assertEqual(report["env"], expected)
        self.assertEqual(report["zone"], 3)
        self.assertEqual(report["cwd"], "/usr")
        self.assertEqual(report["umask"], 0o77)
        self.assertEqual(report["pid"], report["sid"])
        self.assertEqual(report["called"], [["one", "zwei \u00e4"]])
        self.assertEqual(report["status"], 3)

    def test_locale(self):
        """The interpreter sets LC_CTYPE in the locale C, as it does in an ordinary start."""
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        for variables in ({}, {"LANG": "C"}, {"LANG": "C.UTF-8"}, {"LC_ALL": "C"},
                          {"LC_ALL": "", "LC_CTYPE": "POSIX"}, {"LC_CTYPE": "C.UTF-8"}):
            with self.subTest(variables):
                ordinary = subprocess.run([sys.executable, "-c", code], env=variables, timeout=20,
                                          stdout=subprocess.PIPE)
                entries = ["%s=%s" % entry for entry in variables.items()]
                _, report = self.run_child(env=entries)
                self.assertEqual(report["env"], json.loads(ordinary.stdout.decode()))
                _, report = self.run_child(env=entries, homeOf=70000)
                self.assertEqual(report["env"].pop("HOME"), "/")
                self.assertEqual(report["env"], json.loads(ordinary.stdout.decode()))

    def test_streams(self):
        child, report = self.run_child()
        # The last is the directory that the program lists.
        self.assertEqual(report["files"][:3], [0, 1, 2])
        self.assertEqual(len(report["files"]), 4)
        self.assertEqual(report["buffering"], [False, False, False])
        os.write(child.stdin, b"a line\n")
        self.assertEqual(child.read_line(), "read a line\n")
        self.assertEqual(os.read(child.stderr, 100), b"to stderr\n")
        os.write(child.stdin, b"\n")
        self.assertTrue(child.end())

    def test_signals(self):
        """The program handles, ignores and blocks the signals that it does in an ordinary start."""
        variables = {**self.environment, "PATH": "/usr/bin:/bin"}
        ordinary = subprocess.run(
            self.command, env=variables, input=b"\n\n", timeout=20, cwd=self.directory,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        _, report = self.run_child()
        expected = json.loads(ordinary.stdout.splitlines()[0].decode())
        self.assertEqual(report["signals"], expected["signals"])

    def test_keyring(self):
        _, report = self.run_child()
        of_template, own = report["keyrings"]
        self.assertGreater(own, 0)
        self.assertNotEqual(own, of_template)

    def test_home(self):
        """HOME is that of the container's own passwd(5)."""
        entry = "other:x:123:1:::\nuser:x:1234:1::%s:/bin/sh"
        find = {"homeOf": 1234, "env": ["LC_ALL=C"]}
        user = {"uid": 5, "gid": 5, "capabilities": None}
        for content, change, expected in (
            (entry % "/home/user", {}, "/home/user"),
            (entry % "/home/user", user, "/home/user"),
            (entry % "/home/\xff\xe4", {}, "/home/\udcff\udce4"),
            (entry % "" + "\nsame:x:1234:1::/same:", {}, "/same"),
            (entry % "/home/user", {"homeOf": 123}, "/"),
            (entry % "/home/user", {"homeOf": 12}, "/"),
            (entry % "/a\0b", {}, "/"),
            ("\n::\nx:y\n", {}, "/"),
            ("private\n" + entry % "/home/user", user, "/"),
            # The image decides what is in this place.
            ("|", {}, "/"),
            ("-> /dev/zero", {}, "/"),
            ("-> /etc", {}, "/"),
            ("-> /proc/self/mem", {}, "/"),
            ("-> passwd", {}, "/"),
        ):
            with self.subTest((content, change)):
                _, report = self.run_child(files={"/etc/passwd": content}, **{**find, **change})
                self.assertEqual(report["env"], {"LC_ALL": "C", "HOME": expected})
        _, report = self.run_child(files={"/etc/group": ""}, **find)
        self.assertEqual(report["env"], {"LC_ALL": "C", "HOME": "/"})
        files = {"/etc/passwd": entry % "/home/user"}
        _, report = self.run_child(files=files, env=["LC_ALL=C", "HOME=/own"])
        self.assertEqual(report["env"], {"LC_ALL": "C", "HOME": "/own"})

    def test_zone(self):
        """The time zone is that of the container."""
        block = b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, 0, 1, 4)
        block += struct.pack(">lBB", 3 * 3600, 0, 0) + b"XYZ\0"
        zone = (block * 2 + b"\nXYZ-3\n").decode("latin-1")
        for path, entries in (("/etc/localtime", []), ("/etc/zone", ["TZ=:/etc/zone"])):
            _, report = self.run_child(files={path: zone}, env=entries)
            self.assertEqual(report["zone"], 3)

    def test_root_with_a_filter(self):
        code = make_filter([(GETPRIORITY, ERRNO | errno.ENOTSUP)], ALLOW)
        child, report = self.run_child(filter=code, seccomp={"flags": 0})
        self.assertEqual(report["priority"], errno.ENOTSUP)
        self.check_status(child, CAPABILITIES, CAPABILITIES, 0, 0, no_new_privileges=0, seccomp=2)

    def test_user(self):
        code = make_filter([(GETPRIORITY, ERRNO | errno.ENOTSUP)], ALLOW)
        mask = NET_BIND_SERVICE
        sets = {"bounding": CAPABILITIES, "effective": mask, "permitted": mask,
                "inheritable": mask, "ambient": mask | SYS_ADMIN}
        child, report = self.run_child(
            uid=1000, gid=1001, groups=[7, 8], capabilities=sets, noNewPrivileges=True,
            filter=code, seccomp={"flags": 0})
        self.assertEqual(report["ids"], [1000] * 3 + [1001] * 3)
        self.assertEqual(report["groups"], [7, 8])
        self.check_status(child, mask, CAPABILITIES, mask, mask, no_new_privileges=1, seccomp=2)

    def test_user_with_a_filter_that_needs_a_capability(self):
        sets = dict.fromkeys(("bounding", "effective", "permitted", "inheritable", "ambient"), 0)
        child, report = self.run_child(uid=5, gid=5, capabilities=sets, seccomp={"flags": 0},
                                       filter=make_filter([], ALLOW))
        self.check_status(child, 0, 0, 0, 0, no_new_privileges=0, seccomp=2)

    def test_user_without_capabilities(self):
        child, report = self.run_child(uid=5, gid=5, groups=None, capabilities=None, owner=BASE + 5)
        self.assertEqual(child.status()["CapPrm"], "0" * 16)
        self.assertEqual(child.status()["CapEff"], "0" * 16)
        # The user can open the files of its own streams, as after an execve.
        self.assertEqual(report["reopened"], None)

    def test_strict_filter(self):
        code = make_filter([(number, ALLOW) for number in FEW], KILL)
        child, _ = self.run_child("strict", filter=code, seccomp={"flags": 0})
        self.assertTrue(child.end())

    def check_status(self, child, own, bounding, inheritable, ambient, no_new_privileges, seccomp):
        status = child.status()
        found = {name: int(status[name], 16) for name in status if name.startswith("Cap")}
        self.assertEqual(found, {"CapPrm": own, "CapEff": own, "CapBnd": bounding,
                                 "CapInh": inheritable, "CapAmb": ambient})
        self.assertEqual(status["NoNewPrivs"], str(no_new_privileges))
        self.assertEqual(status["Seccomp"], str(seccomp))

    def test_namespaces(self):
        child, report = self.run_child()
        names = os.listdir("/proc/%d/ns" % child.pid)
        for name in set(names) - {"time_for_children"}:
            own, other = (os.readlink("/proc/%d/ns/%s" % (pid, name))
                          for pid in (child.pid, child.init.pid))
            self.assertEqual(own, other, name)
        self.assertEqual(report["pid"], 2)

    def test_random_numbers(self):
        reports = [self.run_child()[1] for _ in range(3)]
        for name in ("random", "ssl", "name"):
            self.assertEqual(len({report[name] for report in reports}), 3, name)

    def test_end_without_go(self):
        child = self.start()
        self.assertEqual(child.born(), b"B")
        child.enter()
        self.assertEqual(child.ready(), b"R")
        child.stub.close()
        self.assertTrue(child.end())
        self.assertEqual(os.read(child.stdout, 10), b"")


class Rehearsed(Programs):
    """Children that wait for their container, and rehearse meanwhile."""

    delay = 0.01


class Signals(Case):
    """Signals that a child gets before its container is complete."""

    def interrupt(self, child, pid, times):
        """Interrupts a child, which then ends without a word of the program."""
        with contextlib.suppress(ProcessLookupError):
            for _ in range(times):
                os.kill(pid, signal.SIGINT)
        answer, _, _, pidfd = receive(child.connection)
        if pidfd is not None:
            child.pidfd = pidfd
            child.mine.append(pidfd)
        if answer or times == 1:
            self.assertEqual(read_failure(answer), (errno.EIO, "KeyboardInterrupt()"))
        child.connection.shutdown(socket.SHUT_RDWR)
        self.assertTrue(child.end())
        self.assertEqual(os.read(child.stdout, 100), b"")

    def test_before_the_container(self):
        for times in (1, 1, 30, 30):
            child = self.start()
            answer, _, pid, child.pidfd = receive(child.connection)
            child.mine.append(child.pidfd)
            self.assertEqual(answer, b"B")
            close(child.streams)
            child.streams = []
            self.interrupt(child, pid, times)

    def test_before_go(self):
        for times in (1, 1, 30, 30):
            child = self.start()
            self.assertEqual(child.born(), b"B")
            child.enter()
            self.assertEqual(child.ready(), b"R")
            self.interrupt(child, child.pid, times)


class Rights(Case):
    """A template that has more rights than its children get."""

    variables = {"AMBIENT": "1", "HANDLER": "1", "UNDUMPABLE": "1"}

    def test_ambient_capabilities(self):
        sets = dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), CAPABILITIES)
        child, report = self.run_child(capabilities={**sets, "ambient": 0})
        self.assertEqual(child.status()["CapAmb"], "0" * 16)
        parent = int(child.status()["PPid"])
        with open("/proc/%d/status" % parent) as file:
            self.assertIn("CapAmb:\t%016x" % NET_BIND_SERVICE, file.read())

    def test_user(self):
        """A program that has made its /proc that of root keeps it so."""
        _, report = self.run_child(uid=5, gid=5, capabilities=None)
        self.assertEqual(report["dumpable"], 0)

    test_signals = Programs.test_signals


class Threads(Case):
    """A program that starts a thread in each child, which would have the rights of the template."""

    variables = {"THREAD": "1"}

    def test_threads(self):
        self.assertEqual(self.refuse(), (errno.EINVAL, "setns: mnt namespace"))
        null = os.open("/dev/null", os.O_RDWR)
        self.addCleanup(os.close, null)
        failure = self.refuse(message=b"C", descriptors=[null] * 3)
        self.assertEqual(failure, (errno.EINVAL, "unshare: the process has several threads"))


class Modules(Case):
    """A template that was started with -m."""

    module = True

    def test_command(self):
        _, report = self.run_child("x", "y")
        self.assertEqual(report["argv"], [os.path.join(self.directory, "program.py"), "x", "y"])


class Failures(Case):
    """What children and the template refuse."""

    def tearDown(self):
        """The template goes on, whatever it has refused."""
        _, report = self.run_child("still")
        self.assertEqual(report["argv"][1:], ["still"])

    def test_another_program(self):
        number, text = self.refuse(args=["/bin/sh", "-c", "true"])
        self.assertEqual(number, errno.ENOEXEC)
        own = " ".join(self.command)
        self.assertEqual(text, "the program is /bin/sh -c true, but the template's is " + own)

    def test_steps(self):
        self.assertEqual(self.refuse(cwd="/none"), (errno.ENOENT, "chdir: /none"))
        self.assertEqual(self.refuse(uid=70000), (errno.EINVAL, "setresuid: 70000"))
        self.assertEqual(self.refuse(seccomp={"flags": 0}, filter=b"12345678")[1], "seccomp")
        self.assertEqual(self.refuse(cwd=self.make_directory("a", 0, 0))[0], errno.EACCES)

    def test_bodies(self):
        for change in ({"uid": "x"}, {"env": 1}, {"capabilities": {}}, {"groups": "x"},
                       {"homeOf": "x"}, {"env": ["A=\0"]}, {"text": b"no JSON"}, {"text": b""},
                       {"text": b"[]"}, {"text": b"{}"}):
            with self.subTest(change):
                self.assertNotEqual(self.refuse(**change)[0], 0)

    def test_filters(self):
        wrong = (errno.EBADMSG, "recvmsg: message F with a wrong filter")
        self.assertEqual(self.refuse(seccomp={"flags": 0}), wrong)
        self.assertEqual(self.refuse(filter=make_filter([], ALLOW)), wrong)

    def test_flags(self):
        """The number of descriptors must be that of the flags."""
        wrong = (errno.EBADMSG, "recvmsg: message F with wrong descriptors")
        for request in ({"flags": HAS_FILTER}, {"flags": INTO_CGROUP},
                        {"flags": FIRST_IS_UNIFIED}):
            with self.subTest(request):
                child = self.start(request=request)
                self.assertEqual(read_failure(child.born()), wrong)
        child = self.start(filter=b"", request={"flags": INTO_CGROUP})
        self.assertEqual(read_failure(child.born()), wrong)

    def test_containers(self):
        """Message C must have three streams, and a descriptor for each type of namespace."""
        null = os.open("/dev/null", os.O_RDWR)
        self.addCleanup(os.close, null)
        kind = struct.pack("<I", NEWUTS)
        wrong = (errno.EBADMSG, "recvmsg: message C with wrong descriptors")
        for message, count in ((b"C", 0), (b"C", 2), (b"C", 4), (b"C" + kind, 3),
                               (b"C" + kind, 5), (b"C" + kind * 2, 4)):
            with self.subTest((message, count)):
                self.assertEqual(self.refuse(message=message, descriptors=[null] * count), wrong)
        for message in (b"D", b"C1", b"C" + kind + b"123"):
            with self.subTest(message):
                failure = self.refuse(message=message, descriptors=[null] * 3)
                self.assertEqual(failure, (errno.EPROTO, "recvmsg: unknown message"))
        failure = self.refuse(message=b"C" + kind, descriptors=[null] * 4)
        self.assertEqual(failure, (errno.EINVAL, "setns: uts namespace"))
        failure = self.refuse(message=b"C" * 100, descriptors=[null] * 4)
        self.assertEqual(failure, (errno.EBADMSG, "recvmsg: the message is too long"))

    def test_end_instead_of_a_container(self):
        child = self.start()
        self.assertEqual(child.born(), b"B")
        child.connection.shutdown(socket.SHUT_WR)
        self.assertEqual(child.connection.recv(100), b"")
        self.assertEqual(child.stub.recv(100), b"")

    def test_messages(self):
        null = os.open("/dev/null", os.O_RDONLY)
        self.addCleanup(os.close, null)
        ask = self.world.ask
        self.assertEqual(ask(b"X")[0], errno.EPROTO)
        self.assertEqual(ask(b"F\2\0\0", [null] * 3)[0], errno.EPROTO)
        self.assertEqual(ask(b"F\1\x80\0", [null] * 3)[0], errno.EPROTO)
        self.assertEqual(ask(b"F\1")[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\0\0")[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\0\0", [null] * 2)[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\0\1", [null] * 3)[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\2\0", [null] * 3)[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\0\0", [null] * 253)[0], errno.EBADMSG)
        self.assertEqual(ask(b"F" * 5000, [null] * 20)[0], errno.EBADMSG)
        self.assertEqual(ask(b"F\1\0\0", [null] * 3), (errno.EINVAL, "setns pid namespace"))
        init = self.world.make_init()
        self.addCleanup(init.close)
        namespace = init.namespaces["pid"]
        self.assertEqual(ask(b"F\1\1\0", [namespace] + [null] * 3), (errno.EBADF, "clone3"))

    def test_questions(self):
        """The template answers whether it serves, and goes on."""
        with self.world.connect() as connection:
            send(connection, b"H\1")
            self.assertEqual(connection.recv(100), b"H")
            self.assertEqual(connection.recv(100), b"")
        null = os.open("/dev/null", os.O_RDONLY)
        self.addCleanup(os.close, null)
        with self.world.connect() as connection:
            send(connection, b"H\1", [null])
            self.assertEqual(connection.recv(100), b"H")
        self.assertEqual(self.world.ask(b"H\2")[0], errno.EPROTO)
        self.assertEqual(self.world.ask(b"H")[0], errno.EPROTO)
        self.assertEqual(self.world.ask(b"H\1\1")[0], errno.EPROTO)

    def test_peers(self):
        self.world.connect().close()
        with self.world.connect() as silent:
            self.assertEqual(read_failure(silent.recv(100))[0], errno.ETIMEDOUT)
        with self.world.connect() as connection:
            send(connection, b"X")
        child = self.start()
        child.connection.close()
        child = self.start()
        self.assertEqual(child.born(), b"B")
        child.connection.close()

    def test_dead_namespace(self):
        init = self.world.make_init()
        self.addCleanup(close, init.namespaces.values())
        os.kill(init.pid, signal.SIGKILL)
        time.sleep(0.2)
        child = Child(self.world, init, self.command)
        self.addCleanup(child.close)
        child.prepare()
        child.request()
        self.assertEqual(read_failure(child.born()), (errno.ENOMEM, "fork"))

    def test_procs_files(self):
        child = self.start(request={"procs": ["/dev/full"]})
        self.assertEqual(read_failure(child.born()), (errno.ENOSPC, "write: procs file 0"))

    def test_descriptors(self):
        """The template keeps none of what it has received."""
        def count():
            child, _ = self.run_child()
            parent = int(child.status()["PPid"])
            return len(os.listdir("/proc/%d/fd" % parent))
        before = count()
        self.test_messages()
        self.test_questions()
        self.test_flags()
        self.refuse(cwd="/none")
        self.assertEqual(count(), before)


class Endings(Case):
    """A template that ends."""

    def test_end_of_the_template(self):
        child, _ = self.run_child()
        self.world.kill_template()
        with self.assertRaises(ConnectionRefusedError):
            self.world.connect()
        os.write(child.stdin, b"on\n")
        self.assertEqual(child.read_line(), "read on\n")


@contextlib.contextmanager
def cgroups():
    """Makes cgroups for a template and a child, which the template's root may move processes to."""
    parent = os.path.join(UNIFIED, GROUP)
    own, other = (os.path.join(parent, name) for name in ("template", "child"))
    old = os.path.join(FREEZER, GROUP)
    made = []
    try:
        for path in (parent, own, other, old):
            if os.path.isdir(os.path.dirname(path)):
                os.mkdir(path)
                made.append(path)
        for path in (parent, other):
            os.chown(path + "/cgroup.procs", BASE, BASE)
        yield own, other, old if old in made else None
    finally:
        for path in reversed(made):
            remove(path)


def remove(path):
    """Removes a cgroup when its last process is gone."""
    for _ in range(200):
        try:
            os.rmdir(path)
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.02)
    print("cgroup %s is still in use" % path, file=sys.stderr)


class Cgroups(Case):
    """Children in cgroups."""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(UNIFIED + "/cgroup.procs"):
            print("no test of cgroups: %s is not a cgroup2" % UNIFIED)
            raise unittest.SkipTest("no cgroup2")
        super().setUpClass()

    def check(self, clone, writable=True):
        with cgroups() as (own, other, old):
            world = World(self.directory, [*self.command, "warm"], {}, own)
            try:
                if not writable:
                    os.chown(other + "/cgroup.procs", 0, 0)
                # After a clone into the cgroup, the child must not write to the first file: it
                # could not write to this one.
                first = "/dev/full" if clone and writable else other + "/cgroup.procs"
                procs = [first] + ([old + "/cgroup.procs"] if old else [])
                request = {"procs": procs, "flags": FIRST_IS_UNIFIED}
                if clone:
                    request["cgroup"] = other
                child = self.start(world=world, request=request)
                self.assertEqual(child.born(), b"B")
                child.enter()
                self.assertEqual(child.ready(), b"R")
                report = child.go()
                with open("/proc/%d/cgroup" % child.pid) as file:
                    lines = file.read().split("\n")
                self.assertIn("0::/%s/child" % GROUP, lines)
                if old:
                    self.assertTrue(any("freezer:/" + GROUP in line for line in lines), lines)
                self.assertEqual(report["thread"], [report["pid"]] * 2)
                self.assertEqual(report["status"], 3)
                child.init.close()
            finally:
                world.close()

    def test_clone(self):
        self.check(clone=True)

    def test_files(self):
        self.check(clone=False)

    def test_clone_that_is_denied(self):
        self.check(clone=True, writable=False)


class Starts(unittest.TestCase):
    """Starts without a container."""

    def run_python(self, code, **variables):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")
        listener.listen()
        self.addCleanup(listener.close)
        number = str(listener.fileno())
        variables = {name: value.replace("N", number) for name, value in variables.items()}
        return subprocess.run(
            [sys.executable, "-B", "-c", code, "x"], cwd=HERE, env=variables, timeout=20,
            pass_fds=[listener.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            universal_newlines=True).stdout

    def test_ordinary(self):
        code = ("import sys, dayfly_template as t; t.register(print); t.wait();"
                "print(sys.argv, 'json' in sys.modules)")
        self.assertEqual(self.run_python(code), "['-c', 'x'] False\n")

    def test_threads(self):
        code = ("import dayfly_template, threading, time\n"
                "threading.Thread(target=time.sleep, args=(1,)).start()\n"
                "dayfly_template.wait()")
        self.assertIn("RuntimeError: a template must have one thread, but 2 are running: "
                      "start threads after wait()", self.run_python(code, DAYFLY_TEMPLATE="N"))

    def test_changed_arguments(self):
        for change in ("append('y')", "insert(1, 'y')"):
            code = "import sys; sys.argv.%s; import dayfly_template; dayfly_template.wait()"
            self.assertIn("RuntimeError: sys.argv has been changed: import dayfly_template before "
                          "that", self.run_python(code % change, DAYFLY_TEMPLATE="N"))

    def test_exceptions(self):
        """An exception ends a template, as the handler of a signal may want."""
        code = ("import dayfly_template, signal\n"
                "signal.signal(signal.SIGALRM, lambda *_: print('stop') or 1 / 0)\n"
                "signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
                "try:\n    dayfly_template.wait()\n"
                "except ZeroDivisionError as error:\n    print(error)")
        self.assertEqual(self.run_python(code, DAYFLY_TEMPLATE="N"), "stop\ndivision by zero\n")

    def test_no_socket(self):
        code = "import dayfly_template; dayfly_template.wait()"
        for value in ("", "x", "0", "77"):
            self.assertIn("RuntimeError: DAYFLY_TEMPLATE=%s: " % value,
                          self.run_python(code, DAYFLY_TEMPLATE=value))


STEPS = ["_leave_template", "_prepare", "_join_keyring", "_join", "_take_streams", "_change_user",
         "_take_capabilities", "_take_files", "_confine"]

# The real runtime sends C when init is ready, which is mostly within 1 ms of B.
DELAYS_MS = (0, 0.3, 1, 3)


def measure(runs):
    """Prints how long children take, as medians in microseconds."""
    print("C to R, when C comes so many ms after B. Faults: of the memory, when C comes at once.")
    print("%-30s %7s %s %7s" % (
        "", "F to B", " ".join("%7s" % ("%g ms" % delay) for delay in DELAYS_MS), "faults"))
    for size in (0, 40):
        variables = {"FILLER_MB": str(size), "STEPS": " ".join(STEPS)}
        case = type("Measured", (Case,), {"variables": variables})
        case.setUpClass()
        try:
            with cgroups() as (own, other, _), contextlib.closing(
                World(case.directory, [*case.command, "warm"], case.environment, own)
            ) as world:
                procs = {"procs": [other + "/cgroup.procs"], "flags": FIRST_IS_UNIFIED}
                for name, request in (
                    ("fork, no cgroup", {}),
                    ("fork, procs file", procs),
                    ("clone3 into cgroup", {"cgroup": other, **procs}),
                ):
                    ways = measure_way(world, case.command, runs, request)
                    at_once = ways[0]
                    title = "%d MB, %s" % (at_once[3] // 1024, name)
                    print("%-30s %7.0f %s %7.0f" % (
                        title, at_once[0], " ".join("%7.0f" % way[1] for way in ways),
                        at_once[2]), flush=True)
                print("  " + ", ".join("%s %.0f" % (name.strip("_").replace("_", " "), spent)
                                       for name, spent in zip(STEPS, at_once[4:])))
        finally:
            case.doClassCleanups()


def measure_way(world, command, runs, request):
    """Measures one way of making children. The delays alternate, as the load of the host varies."""
    code = make_filter([(number, ERRNO | errno.EPERM) for number in range(500, 520)], ALLOW)
    inits = [world.make_init() for _ in range(runs * len(DELAYS_MS))]
    time.sleep(1)
    results = [[] for _ in DELAYS_MS]
    for number, init in enumerate(inits):
        child = Child(world, init, command)
        child.prepare("clock", seccomp={"flags": 4}, filter=code)
        child.request(**request)
        assert child.born() == b"B"
        pause(DELAYS_MS[number % len(DELAYS_MS)] / 1000)
        child.enter()
        assert child.ready() == b"R"
        with open("/proc/%s/status" % child.status()["PPid"]) as file:
            memory = int(file.read().split("RssAnon:")[1].split()[0])
        report = child.go()
        child.end()
        results[number % len(DELAYS_MS)].append((
            child.born_after / 1000, (child.ready_after - child.entered) / 1000,
            report["faults"], memory, *(report["clock"][step] for step in STEPS)))
        child.close()
        # Moves to a cgroup that follow each other closely take less time than a move alone.
        time.sleep(0.05)
    for init in inits:
        init.close()
    return [[statistics.median(column) for column in zip(*rows)] for rows in results]


def pause(seconds):
    """Sleeps, more exactly than time.sleep() where the time is short."""
    end = time.perf_counter() + seconds
    time.sleep(max(0, seconds - 0.0002))
    while time.perf_counter() < end:
        pass


def setUpModule():
    release = tuple(int(number) for number in platform.release().split(".")[:2])
    reason = "not root" if os.getuid() else ""
    if release < (6, 15):
        reason = "Linux is older than 6.15"
    if reason:
        print("no tests: " + reason)
        raise unittest.SkipTest(reason)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if sys.argv[1:2] == ["measure"]:
        measure(int((sys.argv[2:] or ["50"])[0]))
    else:
        unittest.main()
