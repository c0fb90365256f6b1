#!/usr/bin/python3
"""Counts the mounts attached in the mount namespace of a daemon, as the kernel reports them (FAN_REPORT_MNT, Linux 6.15).

    mounts.py DAEMON

Prints `ready`, and on SIGTERM two numbers: the mounts of the daemon, and those of all other processes, whose names it prints to
stderr.
"""
import ctypes
import os
import signal
import struct
import sys

# From linux/fanotify.h.
CLOEXEC, UNLIMITED_QUEUE, REPORT_MNT, MARK_ADD, MARK_MNTNS = 0x1, 0x10, 0x4000, 0x1, 0x110
MNT_ATTACH, Q_OVERFLOW = 0x1000000, 0x4000

daemon, own, others = int(sys.argv[1]), 0, []
libc = ctypes.CDLL(None, use_errno=True)
group = libc.fanotify_init(CLOEXEC | UNLIMITED_QUEUE | REPORT_MNT, 0)
namespace = os.open(f"/proc/{daemon}/ns/mnt", os.O_RDONLY)
if libc.fanotify_mark(group, MARK_ADD | MARK_MNTNS, ctypes.c_uint64(MNT_ATTACH), namespace, None) != 0:
    sys.exit(f"fanotify_mark of a mount namespace (Linux 6.15): {os.strerror(ctypes.get_errno())}")
# All events of earlier mounts are in the queue by then.
signal.signal(signal.SIGTERM, lambda *_: os.set_blocking(group, False))
print("ready", flush=True)
while True:
    try:
        events = os.read(group, 1 << 16)
    except BlockingIOError:
        break
    while events:
        size, _, _, _, mask, _, pid = struct.unpack_from("=IBBHQii", events)
        events = events[size:]
        if mask & Q_OVERFLOW:
            sys.exit("the kernel lost events")
        if pid == daemon:
            own += 1
            continue
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as name:
                others.append(f"{pid} {name.read().strip()}")
        except OSError:
            others.append(f"{pid} is gone")
print(own, len(others))
print(*others[:8], sep="\n", end="\n" if others else "", file=sys.stderr)
