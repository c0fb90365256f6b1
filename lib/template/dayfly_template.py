"""Templates for dayfly: programs that have imported their modules before their containers exist.

A template is a container in which a Python program has done its warm-up. For each new container,
dayfly asks the template for a child, and the child becomes the program of that container. The new
container thus has its program without the time that the imports take.

    import decimal, http.client, json   # the warm-up
    import dayfly_template
    dayfly_template.wait()
    main()

wait() returns in the child, where sys.argv, os.environ, the working directory, the user, the
standard streams, the capabilities and the seccomp filter are those of the new container. In the
template, wait() serves requests and never returns. In an ordinary start, where the environment has
no variable DAYFLY_TEMPLATE, wait() returns at once and does nothing. The same program therefore
works with and without a template.

What a program must know:

- The template must have one thread when it calls wait(). Only the calling thread exists in a child,
  and what the others held would stay locked. Start threads after wait().
- Children share what the warm-up made: open files and sockets, epoll descriptors, ids. Open
  connections and event loops after wait(). A directory that the warm-up leaves open is a way from
  the container to the files of the template. The warm-up must not read standard input.
- What the warm-up does at a fork (os.register_at_fork) is done in each child before the child is in
  its container. It must not start threads.
- wait() stops the collection of garbage until it returns. Objects of the warm-up are never
  collected in a child: collecting them would copy each of their pages (gc.freeze).
- The state of random numbers is new in each child for the modules random, ssl and tempfile.
  Other libraries must be seeded again by a callable that is registered with register(). A callable
  is called in the child right before wait() returns. A library that notices a fork by the process
  id or by pthread_atfork(3) may not notice it here: a child may have the same id as the template,
  in another namespace, and may be made by clone3(2).
- All children of a template share one seed of hash(), as with PYTHONHASHSEED. Do not rely on
  hash() to be different in each container, or secret.
- Variables that the interpreter reads at its start (PYTHONPATH, LC_ALL ...) have their effect in
  the template only. TZ has its effect in the child. A child has no variables that the warm-up has
  set.
- A template that was saved to disk (dayfly template create --save) may go on after a reboot, or on
  another host. When it calls wait(), it must have no socket, pipe, epoll, timer or other such
  descriptor open, and no child process. Times of CLOCK_MONOTONIC, addresses and tokens that the
  warm-up keeps may be those of another host: renew them by register().
- /proc/self/cmdline, /proc/self/environ and /proc/self/exe are those of the template.
"""

import errno
import gc
import os
import stat
import sys

__all__ = ["after", "register", "wait"]

_VARIABLE = "DAYFLY_TEMPLATE"

if _VARIABLE in os.environ:
    # An ordinary start needs none of these, and importing them takes several milliseconds. A child
    # must not import them: it may have another root directory then.
    import array
    import ctypes
    import io
    import json
    import select
    import signal
    import socket
    import struct
    import threading
    import time

# The callables that a child calls right before wait() returns, in this order.
after = []

# The arguments as the interpreter got them. A warm-up may change sys.argv later.
_ARGUMENTS = sys.argv[1:]

_VERSION = 1
_INTO_CGROUP = 1
_FIRST_IS_UNIFIED = 2
_HAS_FILTER = 4

# A peer that connects and then says nothing delays all others: the template serves one at a time.
_PATIENCE_MS = 1000

# The runtime gives up a child after this time.
_LAST_WORDS_MS = 5000

# The interpreter notes what it has looked up when it has run the same code a few times.
_REHEARSALS = 8

# A template that waits to be saved ends if it was neither saved nor restored after this time.
_SAVED_WITHIN_MS = 60000

# The id of a template's program in its PID namespace. Those of its children are smaller: libraries
# that notice a fork by the id notice this one.
_PROGRAM = 300

# As much of passwd(5) is read.
_LONGEST_PASSWD = 1 << 20

_HUGE = 2 << 20
_SYS_ADMIN = 1 << 21
_CLONE_NEWPID = 0x20000000
_NAMESPACES = {
    0x00000080: "time",
    0x00020000: "mnt",
    0x02000000: "cgroup",
    0x04000000: "uts",
    0x08000000: "ipc",
    0x10000000: "user",
    _CLONE_NEWPID: "pid",
    0x40000000: "net",
}


def register(function):
    """Registers a callable for each child to call right before wait() returns.

    The callable gets no arguments. register() returns it, and so can be used as a decorator.
    """
    after.append(function)
    return function


def wait():
    """Serves requests in a template. Returns in a child, and at once in an ordinary start.

    Raises RuntimeError in a template that has several threads or no usable socket, or that has
    changed sys.argv before it imported this module.
    """
    if _VARIABLE not in os.environ:
        return
    template = _Template(os.environ.pop(_VARIABLE))
    if template.is_saved:
        template.wait_on_disk()
    try:
        request = template.serve()
        _Child(template, request.connection).become(request)
    except BaseException as error:
        # No exception may reach the program before its container is complete: a program could
        # catch the exception and go on with the rights of the template. The handler of a signal
        # may raise another exception here.
        goes_on = False
        try:
            goes_on = template.is_original()
            if not goes_on:
                _send_failure(template.connection, error)
                if template.expects_container:
                    _await_end(template.connection)
        except BaseException:
            goes_on = False
        if not goes_on:
            os._exit(1)
        raise
    for function in after:
        function()


class _Failure(Exception):
    """A step that failed, as the runtime is to see it."""

    def __init__(self, number, text):
        super().__init__(number, text)
        self.number = number
        self.text = text


def _attempt(step, function, *arguments):
    """Calls a function, and adds the name of the step to its error."""
    try:
        return function(*arguments)
    except OSError as error:
        raise _Failure(error.errno or errno.EIO, step) from None


class _System:
    """The system calls that the os module lacks."""

    _NUMBERS = {
        # keyctl, seccomp, getcwd, set_robust_list, get_robust_list
        "x86_64": (250, 317, 79, 273, 274),
        "aarch64": (219, 277, 17, 99, 100),
    }
    _CLONE3 = 435

    # The kernel may be too old for it, or the template may not move a process to this cgroup. The
    # child can then still move itself by the files that the runtime has opened.
    _CANNOT_CLONE_INTO = {
        errno.EACCES, errno.EPERM, errno.ENOENT, errno.EBUSY, errno.EOPNOTSUPP, errno.ENOSYS,
    }

    def __init__(self):
        machine = os.uname().machine
        if machine not in self._NUMBERS or sys.maxsize < 2**32:
            raise RuntimeError("templates do not work on %s" % machine)
        (self._keyctl, self._seccomp, self._getcwd, self._set_robust_list,
         self._get_robust_list) = self._NUMBERS[machine]
        # PyDLL keeps the lock of the interpreter, without which a clone would be unsafe.
        library = ctypes.PyDLL(None, use_errno=True)
        self._setns = library.setns
        self._prctl = library.prctl
        self._prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self._capset = library.capset
        self._unshare = library.unshare
        self._madvise = library.madvise
        self._madvise.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
        self._syscall = library.syscall
        self._syscall.argtypes = [ctypes.c_long] * 6
        self._syscall.restype = ctypes.c_long
        # Only glibc has it.
        self._malloc_trim = getattr(library, "malloc_trim", None)
        self._thread_id = self._thread_id_address()
        self._robust_list = self._find_robust_list()
        self._clone_arguments = ctypes.create_string_buffer(88)
        self._buffer = ctypes.create_string_buffer(4096)
        # What the object does not have yet, it would look up in the child.
        python = ctypes.pythonapi
        self._before_fork = python.PyOS_BeforeFork
        self._after_fork_parent = python.PyOS_AfterFork_Parent
        self._after_fork_child = python.PyOS_AfterFork_Child
        for hook in (self._before_fork, self._after_fork_parent, self._after_fork_child):
            hook.restype = None

    @staticmethod
    def _check(result):
        """Returns the result of a call, or raises its error."""
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def syscall(self, number, *arguments):
        """Makes a system call by its number."""
        padding = (0,) * (5 - len(arguments))
        return self._check(self._syscall(number, *arguments, *padding))

    def prctl(self, option, *arguments):
        """Makes a prctl call. The kernel requires zeros as the arguments that are not used."""
        padding = (0,) * (4 - len(arguments))
        return self._check(self._prctl(option, *arguments, *padding))

    def setns(self, descriptor, kind):
        """Joins a namespace."""
        self._check(self._setns(descriptor, kind))

    def _thread_id_address(self):
        """Returns where libc keeps the thread's id, or None if that is not known.

        With musl, the kernel knows the address of a lock instead: a clone must not write to it.
        """
        address = ctypes.c_ulong()
        try:
            self.prctl(40, ctypes.addressof(address))  # PR_GET_TID_ADDRESS
        except OSError:
            return None
        if not address.value:
            return None
        found = ctypes.c_int.from_address(address.value).value
        return address.value if found == threading.get_native_id() else None

    def _find_robust_list(self):
        """Returns the address and the size of the list of robust mutexes, or None."""
        found = (ctypes.c_ulong * 2)()
        try:
            address = ctypes.addressof(found)
            self.syscall(self._get_robust_list, 0, address, address + 8)
        except OSError:
            return None
        return (found[0], found[1]) if found[0] else None

    def clone_into(self, cgroup):
        """Clones the process into a cgroup. Returns None where only fork can be used."""
        return self._clone(0x200000000, 0, 0, cgroup)  # CLONE_INTO_CGROUP

    def clone_as(self, pid):
        """Clones the process. The clone has this id, or another where only fork can be used."""
        struct.pack_into("=i", self._buffer, 0, pid)
        cloned = self._clone(0, ctypes.addressof(self._buffer), 1, 0)
        return os.fork() if cloned is None else cloned

    def _clone(self, flags, ids, count, cgroup):
        if self._thread_id is None:
            return None
        # CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, as fork of libc has them: with the id of the
        # template, raise(3) and the mutexes of libc would not work.
        struct.pack_into(
            "=11Q", self._clone_arguments, 0, flags | 0x01000000 | 0x00200000, 0,
            self._thread_id, 0, signal.SIGCHLD, 0, 0, 0, ids, count, cgroup,
        )
        address = ctypes.addressof(self._clone_arguments)
        self._before_fork()
        pid = self._syscall(self._CLONE3, address, 88, 0, 0, 0)
        if pid == 0:
            # The kernel forgets the list at a clone. fork of libc tells it again, too.
            if self._robust_list:
                self._syscall(self._set_robust_list, *self._robust_list, 0, 0, 0)
            self._after_fork_child()
            return 0
        number = ctypes.get_errno()
        self._after_fork_parent()
        if pid < 0 and number not in self._CANNOT_CLONE_INTO:
            raise OSError(number, os.strerror(number))
        return pid if pid > 0 else None

    def trim(self):
        """Gives memory that is free back to the kernel, so that it is not saved."""
        if self._malloc_trim:
            self._malloc_trim(0)

    def collapse(self):
        """Puts the memory of the template into huge pages, where the kernel says what it is.

        A fork copies one entry for a huge page instead of 512.
        """
        try:
            file = open("/proc/self/smaps", errors="surrogateescape")
        except OSError:
            return
        with file:
            for line in file:
                words = line.split()
                if words[0] == "Rss:":
                    used = int(words[1]) << 10
                    # Memory that is reserved but not used would become used.
                    if is_heap and used >= (end - start) // 4 * 3:
                        self._collapse(start, end)
                elif not words[0].endswith(":"):
                    start, end = (int(bound, 16) for bound in words[0].split("-"))
                    name = words[5] if len(words) > 5 else "[heap]"
                    is_heap = words[1] == "rw-p" and name.startswith(("[heap]", "[anon:"))

    def _collapse(self, start, end):
        start = -(-start // _HUGE) * _HUGE
        end = end // _HUGE * _HUGE
        if start < end:
            # MADV_COLLAPSE. It fails where the kernel does not have it, or has no such page.
            self._madvise(start, end - start, 25)

    def verify_one_thread(self):
        """Verifies that the process has one thread: what limits a thread does not limit others."""
        self._check(self._unshare(0x10000))  # CLONE_THREAD, which changes nothing

    def join_keyring(self, name):
        """Joins a session keyring of this name."""
        # A buffer of another length would be of another type, and making a type takes long.
        self._buffer.value = name
        self.syscall(self._keyctl, 1, ctypes.addressof(self._buffer))  # KEYCTL_JOIN_SESSION_KEYRING

    def verify_directory(self):
        """Verifies that the working directory lies inside the root.

        os.getcwd() may search the path of a directory outside the root by itself. The kernel says
        what it knows.
        """
        self.syscall(self._getcwd, ctypes.addressof(self._buffer), 4096)
        if self._buffer[0] != b"/":
            raise _Failure(
                errno.EACCES,
                "getcwd: current working directory is outside of container mount namespace root"
                " -- possible container breakout detected",
            )

    def capset(self, effective, permitted, inheritable):
        """Sets the capabilities of the process."""
        header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
        low = [mask & 0xFFFFFFFF for mask in (effective, permitted, inheritable)]
        high = [mask >> 32 & 0xFFFFFFFF for mask in (effective, permitted, inheritable)]
        self._check(self._capset(header, struct.pack("=6I", *low, *high)))

    def load_filter(self, flags, instructions):
        """Loads a seccomp filter."""
        code = ctypes.cast(instructions, ctypes.c_void_p).value
        struct.pack_into("@HP", self._buffer, 0, len(instructions) // 8, code)
        # SECCOMP_SET_MODE_FILTER
        if self.syscall(self._seccomp, 1, flags, ctypes.addressof(self._buffer)):
            raise OSError(errno.EINVAL, "the flags return a value")


def _receive(connection, size):
    """Receives a message and its descriptors. An empty message is the end of the connection."""
    data, control, flags, _ = connection.recvmsg(
        size, socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, content in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[:len(content) // 4 * 4])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        _close(descriptors)
        raise _Failure(errno.EBADMSG, "recvmsg: the message is too long")
    return data, list(descriptors)


def _is_readable(connection, patience_ms):
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(patience_ms))


def _close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def _send_failure(connection, error):
    """Tells the runtime what failed. The runtime may be gone."""
    if isinstance(error, _Failure):
        number, text = error.number, error.text
    else:
        number, text = getattr(error, "errno", None) or errno.EIO, repr(error)
    message = struct.pack("<ci", b"E", number) + text[:1000].encode("utf-8", "replace")
    try:
        connection.send(message, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        pass


def _await_end(connection):
    """Waits until the runtime has closed the connection, or kills the process.

    If the process ended at once, the runtime could not send message C, and would not read what
    has failed.
    """
    while _is_readable(connection, _LAST_WORDS_MS) and connection.recv(64):
        pass


class _Request:
    """A request for a child: its connection and its descriptors."""

    def __init__(self, connection):
        self.connection = connection
        self.descriptors = []

    def receive(self):
        """Receives the request. Returns False if there is none: the peer has gone or only asked."""
        if not _is_readable(self.connection, _PATIENCE_MS):
            raise _Failure(errno.ETIMEDOUT, "recvmsg: no message")
        message, self.descriptors = _receive(self.connection, 16)
        if not message and not self.descriptors:
            return False
        if message == bytes((ord("H"), _VERSION)):
            # The runtime asks whether the warm-up is over.
            self.connection.send(b"H", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            return False
        if message[:2] != bytes((ord("F"), _VERSION)):
            raise _Failure(errno.EPROTO, "recvmsg: unknown message or version")
        if len(message) != 4:
            raise _Failure(errno.EBADMSG, "recvmsg: message F of a wrong length")
        _, _, flags, count = message
        if flags & ~(_INTO_CGROUP | _FIRST_IS_UNIFIED | _HAS_FILTER):
            raise _Failure(errno.EPROTO, "recvmsg: unknown flags")
        rest = list(self.descriptors)
        wanted = 3 + bool(flags & _HAS_FILTER) + bool(flags & _INTO_CGROUP) + count
        if len(rest) != wanted or (flags & _FIRST_IS_UNIFIED and not count):
            raise _Failure(errno.EBADMSG, "recvmsg: message F with wrong descriptors")
        self.namespace, self.body, self.stub = rest.pop(0), rest.pop(0), rest.pop(0)
        self.filter = rest.pop(0) if flags & _HAS_FILTER else None
        self.cgroup = rest.pop(0) if flags & _INTO_CGROUP else None
        self.procs = rest
        self.first_is_unified = bool(flags & _FIRST_IS_UNIFIED)
        return True

    def close(self):
        """Closes the connection and the descriptors in the template."""
        self.connection.close()
        _close(self.descriptors)


class _Template:
    """The process that has done the warm-up."""

    def __init__(self, number):
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise RuntimeError(
                "a template must have one thread, but %d are running: start threads after wait()"
                % threads
            )
        self.system = _System()
        self.listener, self.is_saved = self._open_listener(number)
        self.program = _Program()
        _complete_streams()
        # The template returns to its own PID namespace after each child.
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.identity = self._identify()
        self.is_child = False
        self.expects_container = False
        self.dumpable = int(self.system.prctl(3) == 1)  # PR_GET_DUMPABLE
        self.bounding = self._find_bounding_set()
        self.connection = None
        # The kernel reaps the children. What a program in its warm-up wanted is for the children.
        self.on_child_exit = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.collects = gc.isenabled()
        gc.collect()
        gc.disable()
        # A collection writes to all objects it looks at, and the kernel would copy each of their
        # pages for the child. Frozen objects are not looked at.
        gc.freeze()
        if not self.is_saved:
            self.system.collapse()
        self.null_body = None
        if os.getresuid() == (0, 0, 0):
            self._prepare_rehearsals()

    def _find_bounding_set(self):
        """Returns the capabilities that a child can still get, as a mask."""
        mask = 0
        for bit in range(64):
            try:
                mask |= self.system.prctl(23, bit) << bit  # PR_CAPBSET_READ
            except OSError:
                # The number is above the kernel's last capability.
                break
        return mask

    def _prepare_rehearsals(self):
        """Makes the body of a plan that changes nothing."""
        umask = os.umask(0)
        os.umask(umask)
        self.null_body = json.dumps({
            "args": self.program.command, "cwd": ".", "umask": umask, "uid": 0,
            "env": [name + "=" + value for name, value in os.environ.items()],
            "gid": os.getgid(), "groups": None, "capabilities": None, "noNewPrivileges": False,
            "keyring": None, "homeOf": None, "seccomp": None,
        }).encode()
        for _ in range(_REHEARSALS):
            self.rehearse()

    def rehearse(self):
        """Does what a child does with its plan, but changes nothing.

        Each page that a child uses for the first time costs it a page fault, and these faults are
        most of its time. A child has them in advance, while it waits for its plan. The template
        has looked up in advance what a child would otherwise look up.
        """
        if self.null_body is None:
            return
        runtime, connection = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        plan = None
        try:
            plan = _Plan(self.null_body, os.dup(connection.fileno()), None)
            streams = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2))
            runtime.sendmsg([b"C"], [streams])
            plan.enter(*_receive(connection, 64))
            _Child(self, connection).rehearse(plan)
        except Exception:
            # Such as a working directory that does not exist any more.
            self.null_body = None
        finally:
            if plan:
                plan.close_descriptors()
                plan.stub.close()
            connection.close()
            runtime.close()

    @staticmethod
    def _identify():
        """Returns what no other process has. The id alone is not enough: each namespace has it."""
        return os.getpid(), os.stat("/proc/self/ns/pid").st_ino

    def is_original(self):
        """Returns whether this process is the template, and not one of its children."""
        # A container may have anything in the place of /proc.
        if self.is_child:
            return False
        try:
            return self._identify() == self.identity
        except OSError:
            return False

    @staticmethod
    def _open_listener(number):
        """Takes the socket that the runtime has passed on.

        Returns it, and whether the template is to be saved: then it does not listen.
        """
        try:
            listener = socket.socket(fileno=int(number))
        except (ValueError, OSError) as error:
            raise RuntimeError("%s=%s: %s" % (_VARIABLE, number, error)) from None
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if (listener.family, listener.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            raise RuntimeError("%s=%s: not a socket of dayfly" % (_VARIABLE, number))
        listener.set_inheritable(False)
        # Without this, accept() would fail where the runtime has set O_NONBLOCK.
        listener.setblocking(True)
        return listener, not listens

    def wait_on_disk(self):
        """Waits until the template was saved, and restored from the images.

        Nothing that depends on the host may be open meanwhile. A restore makes the socket of
        requests of the socket that stays. Returns in a child that serves requests: the process that
        is restored is the first of its PID namespace, and would end all containers with it.
        """
        self.system.trim()
        # Even /dev may be missing after the restore.
        root = os.open("/", os.O_RDONLY)
        for number in range(3):
            os.dup2(root, number)
        _close([root, self.own])
        with self.listener.dup() as runtime:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stays:
                # An abstract name that the kernel chooses.
                stays.bind(b"")
                stays.listen(1)
                os.dup2(stays.fileno(), self.listener.fileno(), inheritable=False)
            name = self.listener.getsockname()
            runtime.send(b"P", socket.MSG_NOSIGNAL)
        # After a restore, the runtime connects at once.
        is_called = True
        while self.listener.getsockname() == name:
            if not is_called:
                os._exit(1)
            is_called = _is_readable(self.listener, _SAVED_WITHIN_MS)
        everything = range(1, signal.NSIG)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pid = self.system.clone_as(_PROGRAM)
        if pid != 0:
            self._reap(pid, everything)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.identity = self._identify()
        _reseed()

    def _reap(self, program, everything):
        """Passes signals on to the template, and reaps, until no process is left."""
        os.closerange(0, 1 << 20)
        name = ctypes.create_string_buffer(b"reaper")
        self.system.prctl(15, ctypes.addressof(name))  # PR_SET_NAME
        status = 0
        while True:
            number = signal.sigwaitinfo(everything).si_signo
            try:
                if number != signal.SIGCHLD:
                    os.kill(program, number)
                while number == signal.SIGCHLD:
                    pid, end = os.waitpid(-1, os.WNOHANG)
                    if pid == program:
                        exited = os.WIFEXITED(end)
                        status = os.WEXITSTATUS(end) if exited else 128 + os.WTERMSIG(end)
                    if pid == 0:
                        break
            except ChildProcessError:
                os._exit(status)
            except OSError:
                # The template has ended, but not its children.
                pass

    def serve(self):
        """Serves requests for ever. Returns the request in each child."""
        while True:
            request = self._accept()
            if request is None:
                continue
            try:
                if request.receive() and self._start(request):
                    return request
            except Exception as error:
                if not self.is_original():
                    raise
                _send_failure(request.connection, error)
            request.close()

    def _accept(self):
        try:
            self.connection, _ = self.listener.accept()
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                raise
            # Such as too many open files on the host. Trying again at once would use a whole CPU.
            time.sleep(0.01)
            return None
        # The warm-up may have called socket.setdefaulttimeout().
        self.connection.setblocking(True)
        return _Request(self.connection)

    def _start(self, request):
        """Makes a child in the PID namespace of its container. Returns True in the child."""
        _attempt("setns pid namespace", self.system.setns, request.namespace, _CLONE_NEWPID)
        try:
            pid = self._clone(request)
        except BaseException:
            if self.is_original():
                self._return()
            raise
        if pid == 0:
            self.is_child = True
            return True
        self._return()
        return False

    def _clone(self, request):
        if request.cgroup is not None:
            pid = _attempt("clone3", self.system.clone_into, request.cgroup)
            if pid == 0 and request.first_is_unified:
                # The child is already in this cgroup.
                del request.procs[0]
            if pid is not None:
                return pid
        return _attempt("fork", os.fork)

    def _return(self):
        """Makes the next children of the template members of its own PID namespace."""
        try:
            self.system.setns(self.own, _CLONE_NEWPID)
        except OSError as error:
            # What the template starts next would be in a container of somebody else.
            raise SystemExit("dayfly_template: setns own pid namespace: %s" % error) from None


def _complete_streams():
    """Opens /dev/null for each standard stream that is closed, and flushes the others.

    Descriptors that arrive later must not get the numbers 0 to 2. What is not flushed now would be
    written again by each child.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open("/dev/null", os.O_RDWR), True)
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, mode, closefd=False))
        elif mode == "w":
            try:
                stream.flush()
            except (OSError, ValueError):
                pass


class _Program:
    """The interpreter and the script of the template."""

    def __init__(self):
        self.command = list(getattr(sys, "orig_argv", ())) or self._read_command()
        # With -m and -c, sys.argv[0] differs from the command line, but the number is the same.
        self.last = len(self.command) - len(_ARGUMENTS) - 1
        if self.last < 1 or self.command[self.last + 1:] != _ARGUMENTS:
            raise RuntimeError("sys.argv has been changed: import dayfly_template before that")
        self.locale = self._find_locale()

    @staticmethod
    def _read_command():
        """Reads the command line where Python does not tell it (before 3.10)."""
        with open("/proc/self/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]

    @staticmethod
    def _find_locale():
        """Returns LC_CTYPE if the interpreter has set it (PEP 538), otherwise None."""
        try:
            with open("/proc/self/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            return None
        is_given = any(entry.startswith(b"LC_CTYPE=") for entry in entries)
        return None if is_given else os.environb.get(b"LC_CTYPE")

    def complete(self, environment):
        """Adds to an environment what the interpreter would add at its start."""
        locale = environment.get(b"LC_CTYPE") or environment.get(b"LANG") or b"C"
        if self.locale and locale in (b"C", b"POSIX") and not environment.get(b"LC_ALL"):
            environment[b"LC_CTYPE"] = self.locale

    def verify(self, arguments):
        """Verifies that a command line starts the same script by the same interpreter."""
        own = self.command[:self.last + 1]
        wanted = arguments[:self.last + 1]
        if own != wanted:
            raise _Failure(
                errno.ENOEXEC,
                "the program is %s, but the template's is %s" % (" ".join(wanted), " ".join(own)),
            )

    def assume(self, arguments):
        """Makes sys.argv that of a verified command line."""
        sys.argv[1:] = arguments[self.last + 1:]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = arguments


class _Plan:
    """What the program of a container is like. It is all read before the child does any of it."""

    def __init__(self, body, stub, instructions):
        self.filter = instructions
        # What message C brings.
        self.streams = []
        self.namespaces = []
        self.stub = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, stub)
        self.stub.setblocking(True)
        try:
            self._read(json.loads(body.decode("utf-8", "surrogateescape")))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _Failure(errno.EBADMSG, "body: %r" % error) from None

    def enter(self, message, descriptors):
        """Reads message C: the container, which is complete now."""
        if not message and not descriptors:
            os._exit(1)
        if message[:1] != b"C" or len(message) % 4 != 1:
            raise _Failure(errno.EPROTO, "recvmsg: unknown message")
        kinds = struct.unpack("<%dI" % (len(message) // 4), message[1:])
        if len(descriptors) != 3 + len(kinds):
            raise _Failure(errno.EBADMSG, "recvmsg: message C with wrong descriptors")
        self.streams = descriptors[:3]
        self.namespaces = list(zip(descriptors[3:], kinds))

    def close_descriptors(self):
        """Closes all descriptors but the stub."""
        while self.namespaces:
            os.close(self.namespaces.pop()[0])
        while self.streams:
            os.close(self.streams.pop())

    def _read(self, body):
        # The body is UTF-8, but the interpreter may have another encoding for its arguments.
        self.arguments = [os.fsdecode(_encode(word)) for word in body["args"]]
        self.environment = self._read_environment(body["env"])
        self.directory = _encode(body["cwd"])
        self.umask = int(body["umask"])
        self.uid = int(body["uid"])
        self.gid = int(body["gid"])
        self.groups = body["groups"]
        self.no_new_privileges = body["noNewPrivileges"]
        self.keyring = None if body["keyring"] is None else _encode(body["keyring"])
        self.home_of = None if body["homeOf"] is None else int(body["homeOf"])
        self._read_capabilities(body["capabilities"])
        if body["seccomp"] is not None:
            self.filter_flags = int(body["seccomp"]["flags"])
        if (body["seccomp"] is None) != (self.filter is None):
            raise _Failure(errno.EBADMSG, "recvmsg: message F with a wrong filter")

    @staticmethod
    def _read_environment(entries):
        environment = {}
        for entry in entries:
            name, separator, value = _encode(entry).partition(b"=")
            # Python itself skips entries without a name, and uses the first of several.
            if name and separator:
                environment.setdefault(name, value)
        return environment

    def _read_capabilities(self, body):
        self.bounding = None
        self.ambient = 0
        self.sets = None
        if body is not None:
            self.bounding = int(body["bounding"])
            self.ambient = int(body["ambient"])
            self.sets = [int(body[name]) for name in ("effective", "permitted", "inheritable")]
        elif self.uid != 0:
            # An execve would take them from a user other than root.
            self.sets = [0, 0, 0]


def _encode(text):
    return text.encode("utf-8", "surrogateescape")


def _read_all(descriptor):
    """Reads a file in memory from its beginning, wherever its offset is.

    A buffer that is longer than the file would be memory that the child takes and gives back.
    """
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


class _Child:
    """The process that becomes the program of a new container."""

    def __init__(self, template, connection):
        self.template = template
        self.system = template.system
        self.connection = connection
        self.plan = None

    def become(self, request):
        """Becomes the program. Returns when the new container says so."""
        self._enter_cgroups(request.procs)
        self._send(b"B", self.connection)
        self.template.expects_container = True
        plan = self._read_plan(request)
        self._leave_template(request)
        self.plan = plan
        self._prepare()
        self._begin_session()
        # Last, as message C often comes before this, and then a rehearsal would only take time.
        if not _is_readable(self.connection, 0):
            self.template.rehearse()
        message, descriptors = _attempt("recvmsg: C", _receive, self.connection, 64)
        self.template.expects_container = False
        plan.enter(message, descriptors)
        self._join_keyring()
        self._join()
        self._take()
        self._take_files()
        self._confine()
        self._await_go()

    def rehearse(self, plan):
        """Does what needs a plan, with a plan that changes nothing."""
        self.plan = plan
        if self.template.is_original():
            self._prepare()
            # In a child, libc would note the zone by the name of TZ, but from the template's files.
            self._take_files()
        self._take()
        self._confine()

    def _prepare(self):
        """Does what does not depend on the container, which the runtime still makes."""
        self.template.program.verify(self.plan.arguments)
        os.umask(self.plan.umask)
        self._limit_capabilities()
        self._take_program()

    def _take(self):
        """Takes the streams, the user and the capabilities, in the container."""
        self._take_streams()
        self._change_user()
        self._take_capabilities()

    @staticmethod
    def _enter_cgroups(files):
        for number, descriptor in enumerate(files):
            _attempt("write: procs file %d" % number, os.write, descriptor, b"0")

    @staticmethod
    def _send(message, connection):
        _attempt("send: %s" % message.decode(), connection.send, message, socket.MSG_NOSIGNAL)

    @staticmethod
    def _read_plan(request):
        body = _attempt("pread: body", _read_all, request.body)
        instructions = None
        if request.filter is not None:
            instructions = _attempt("pread: filter", _read_all, request.filter)
        return _Plan(body, request.stub, instructions)

    def _leave_template(self, request):
        """Gives up what is the template's."""
        self.template.listener.close()
        os.close(self.template.own)
        _close(number for number in request.descriptors if number != request.stub)
        on_child_exit = self.template.on_child_exit
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if on_child_exit is None else on_child_exit)
        if os.getpid() == self.template.identity[0]:
            _reseed()

    def _join(self):
        for descriptor, kind in self.plan.namespaces:
            step = "setns: %s namespace" % _NAMESPACES.get(kind, kind)
            _attempt(step, self.system.setns, descriptor, kind)

    @staticmethod
    def _begin_session():
        _attempt("setsid", os.setsid)

    def _join_keyring(self):
        """Joins the session keyring that init has made, and that must be init's.

        Init has made it before message C, and has let others find it.
        """
        if self.plan.keyring is None:
            return
        try:
            self.system.join_keyring(self.plan.keyring)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise _Failure(error.errno, "keyctl: join session keyring") from None

    def _take_streams(self):
        # Before Python 3.13, the thread keeps the number that it has in the template.
        threading.main_thread()._set_native_id()
        for number, descriptor in enumerate(self.plan.streams):
            _attempt("dup2: %d" % number, os.dup2, descriptor, number)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            _renew(stream)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=os.isatty(1))

    def _change_user(self):
        """Enters the working directory, and becomes the user.

        Root may enter directories that the user may not enter, and the reverse (NFS without root).
        The groups come before the user: the user may not change them.
        """
        plan = self.plan
        denied = False
        step = "chdir: %s" % os.fsdecode(plan.directory)
        try:
            os.chdir(plan.directory)
        except PermissionError:
            denied = True
        except OSError as error:
            raise _Failure(error.errno, step) from None
        if plan.uid != 0:
            _attempt("prctl: PR_SET_KEEPCAPS", self.system.prctl, 8, 1)
        if plan.groups is not None:
            _attempt("setgroups: %s" % plan.groups, os.setgroups, plan.groups)
        _attempt("setresgid: %d" % plan.gid, os.setresgid, plan.gid, plan.gid, plan.gid)
        _attempt("setresuid: %d" % plan.uid, os.setresuid, plan.uid, plan.uid, plan.uid)
        if plan.uid != 0:
            _attempt("prctl: PR_SET_KEEPCAPS", self.system.prctl, 8, 0)
        if denied:
            _attempt(step, os.chdir, plan.directory)
        _attempt("getcwd: %s" % os.fsdecode(plan.directory), self.system.verify_directory)

    def _limit_capabilities(self):
        if self.plan.bounding is None:
            return
        surplus = self.template.bounding & ~self.plan.bounding
        for bit in range(surplus.bit_length()):
            if surplus >> bit & 1:
                # PR_CAPBSET_DROP
                _attempt("prctl: PR_CAPBSET_DROP", self.system.prctl, 24, bit)

    def _take_capabilities(self):
        plan = self.plan
        if plan.sets is not None:
            effective, permitted, inheritable = plan.sets
            if self._keeps_sys_admin():
                effective |= _SYS_ADMIN
                permitted |= _SYS_ADMIN
            _attempt("capset", self.system.capset, effective, permitted, inheritable)
            # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
            _attempt("prctl: PR_CAP_AMBIENT", self.system.prctl, 47, 4)
        for bit in range(64):
            if plan.ambient >> bit & 1:
                try:
                    self.system.prctl(47, 2, bit)  # PR_CAP_AMBIENT_RAISE
                except OSError:
                    # It must also be permitted and inheritable. runc continues as well.
                    pass
        # The change of user has made the files of /proc/self those of root, and /dev/stdout is
        # one of them. An execve would undo this. The warm-up may have wanted it.
        _attempt("prctl: PR_SET_DUMPABLE", self.system.prctl, 4, self.template.dumpable)
        if plan.no_new_privileges:
            _attempt("prctl: PR_SET_NO_NEW_PRIVS", self.system.prctl, 38, 1)

    def _keeps_sys_admin(self):
        """Returns whether loading the filter needs a capability that the program may not have."""
        return self.plan.filter is not None and not self.plan.no_new_privileges

    def _take_program(self):
        plan = self.plan
        if plan.home_of is not None:
            plan.environment[b"HOME"] = b"/"
        self.template.program.complete(plan.environment)
        try:
            # clear() copies the list of names for each name.
            for name in list(os.environb):
                del os.environb[name]
            os.environb.update(plan.environment)
        except ValueError as error:
            raise _Failure(errno.EINVAL, "environment: %s" % error) from None
        self.template.program.assume(plan.arguments)

    def _take_files(self):
        """Takes what the files of the container say, as its user."""
        if self.plan.home_of is not None:
            self._find_home()
        # The time zone may also be that of /etc/localtime.
        time.tzset()

    def _find_home(self):
        """Sets HOME from the container's own passwd(5), where the configuration does not say it.

        The image may have anything in the place of this file. Without these flags, open() would
        wait for the writer of a FIFO, or make a terminal that of the session.
        """
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        wanted = b"%d" % self.plan.home_of
        try:
            descriptor = os.open("/etc/passwd", flags)
            try:
                is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
                text = os.pread(descriptor, _LONGEST_PASSWD, 0) if is_file else b""
            finally:
                os.close(descriptor)
            for line in text.split(b"\n"):
                fields = line.split(b":")
                if len(fields) > 5 and fields[2] == wanted and fields[5]:
                    os.environb[b"HOME"] = fields[5]
                    return
        except (OSError, ValueError):
            # HOME stays what it is for a user without an entry.
            pass

    def _confine(self):
        """Loads the filter, and says that the child is ready.

        The filter may forbid most calls. What follows it are capset, send, recv and close.
        """
        plan = self.plan
        plan.close_descriptors()
        _attempt("unshare: the process has several threads", self.system.verify_one_thread)
        if plan.filter is not None:
            _attempt("seccomp", self.system.load_filter, plan.filter_flags, plan.filter)
            if plan.sets is not None and self._keeps_sys_admin():
                _attempt("capset", self.system.capset, *plan.sets)
        self._send(b"R", self.connection)

    def _await_go(self):
        try:
            answer = self.plan.stub.recv(16)
        except OSError:
            answer = b""
        if answer != b"G":
            os._exit(1)
        self.plan.stub.close()
        self.connection.close()
        if self.template.collects:
            gc.enable()


def _renew(stream):
    """Makes a standard stream forget what it knew of its old file, such as whether it can seek.

    The objects stay the same: loggers and others have references to them.
    """
    if type(stream) is not io.TextIOWrapper:
        return
    # With PYTHONUNBUFFERED, there is no buffer, and its place has the file itself.
    buffer = stream.buffer
    raw = getattr(buffer, "raw", buffer)
    if type(raw) is not io.FileIO or raw.closefd or raw.fileno() > 2 or not raw.seekable():
        return
    fresh = io.FileIO(raw.fileno(), raw.mode, closefd=False)
    fresh.name = raw.name
    if buffer is raw:
        buffer = fresh
    else:
        buffer.__init__(fresh)
    stream.__init__(
        buffer, stream.encoding, stream.errors, None if raw.readable() else "\n",
        stream.line_buffering, stream.write_through,
    )


def _reseed():
    """Separates the random numbers of the children from each other.

    OpenSSL and tempfile notice a fork by the process id. In the PID namespace of its container, a
    child often has the same id as the template has in its own.
    """
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(os.urandom(48), 48.0)
    tempfile = sys.modules.get("tempfile")
    if getattr(tempfile, "_name_sequence", None) is not None:
        tempfile._name_sequence = None
