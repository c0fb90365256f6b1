//! The standard streams of the commands that a worker starts.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Command, Stdio};

/// What a command reads and writes.
pub(crate) enum Streams {
    Files(File),
    Terminal { master: OwnedFd, slave: OwnedFd },
}

impl Streams {
    /// A file in memory.
    pub(crate) fn files() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(Self::Files(File::from(file)))
    }

    /// A terminal of an unusual size.
    pub(crate) fn terminal() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(
            name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        tcsetwinsize(&slave, Winsize { ws_row: 37, ws_col: 113, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok(Self::Terminal { master, slave })
    }

    /// Makes these a command's standard streams.
    pub(crate) fn give(&self, command: &mut Command) -> io::Result<()> {
        match self {
            Self::Files(file) => {
                command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
            }
            Self::Terminal { slave, .. } => {
                command
                    .stdin(slave.try_clone()?)
                    .stdout(slave.try_clone()?)
                    .stderr(slave.try_clone()?);
            }
        }
        Ok(())
    }

    /// Returns what the command wrote.
    pub(crate) fn text(&mut self) -> String {
        let mut bytes = Vec::new();
        match self {
            Self::Files(file) => {
                let _ = file.rewind();
                let _ = file.read_to_end(&mut bytes);
            }
            Self::Terminal { master, .. } => {
                let flags = rustix::fs::fcntl_getfl(master.as_fd()).unwrap_or(OFlags::empty());
                let _ = rustix::fs::fcntl_setfl(master.as_fd(), flags | OFlags::NONBLOCK);
                let mut part = [0; 4096];
                while let Ok(count @ 1..) = rustix::io::read(master.as_fd(), &mut part) {
                    let _ = bytes.write_all(&part[..count]);
                }
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
