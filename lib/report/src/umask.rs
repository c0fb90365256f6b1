//! The umask of a program that writes files that others rely on.

use rustix::fs::Mode;
use rustix::process::umask;

/// Keeps users outside the group from writing to the files and directories that this process makes, unless they are
/// made for everybody on purpose: a umask that would let them becomes 022, as if nobody had changed it. Some daemons
/// run with the umask 0, and expect each program to set modes itself.
pub fn guard() {
    let own = umask(Mode::WGRP | Mode::WOTH);
    if own.contains(Mode::WOTH) {
        umask(own);
    }
}
