//! The store's lock: shared by commands that use unreferenced objects, exclusive for commands that remove them.

use super::Store;
use crate::apart::{apart, receive};
use crate::error::{Error, Result, unfit};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::{Errno, retry_on_intr};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// The store's lock. While it is held shared, no unreferenced object is removed; while it is held exclusively, no other
/// command uses unreferenced objects.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing the descriptor releases the lock")] OwnedFd);

/// A process that holds the lock.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process id of the holder; 0 if the holder is in another PID namespace.
    pid: u32,
    /// Whether the lock is exclusive: the holder removes objects and finishes soon.
    pub removes: bool,
}

impl Store {
    /// Takes the shared lock: nothing is removed until the lock is dropped. Waits up to `patience` for a command that
    /// removes objects.
    ///
    /// # Errors
    /// Those of flock(2); after the timeout [`Error::Unfit`], which names the holder.
    pub fn rely(&self, patience: Duration) -> Result<Lock> {
        self.wait(FlockOperation::LockShared, patience)?.ok_or_else(|| self.held(patience))
    }

    /// Takes the exclusive lock, waiting up to `patience`.
    ///
    /// # Errors
    /// As [`Store::rely`].
    pub fn claim(&self, patience: Duration) -> Result<Lock> {
        self.claim_within(patience)?.ok_or_else(|| self.held(patience))
    }

    /// Takes the exclusive lock, waiting up to `patience`; returns `None` after the timeout.
    ///
    /// # Errors
    /// Those of flock(2).
    pub fn claim_within(&self, patience: Duration) -> Result<Option<Lock>> {
        self.wait(FlockOperation::LockExclusive, patience)
    }

    /// Takes the exclusive lock without waiting; returns `None` if another process holds the lock.
    ///
    /// # Errors
    /// Those of flock(2).
    pub fn try_claim(&self) -> Result<Option<Lock>> {
        let file = self.lock_file()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            result => {
                result.map(|()| Some(Lock(file))).map_err(Error::at("lock", self.lock_path()))
            }
        }
    }

    /// Returns a holder of the lock, or `None` if there is none or /proc/locks does not list it.
    pub fn holder(&self) -> Option<Holder> {
        let stat = fstat(self.lock_file().ok()?).ok()?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        parse(&fs::read_to_string("/proc/locks").ok()?, &place)
    }

    fn lock_path(&self) -> PathBuf {
        self.root.join("lock")
    }

    fn lock_file(&self) -> Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        open(self.lock_path(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(Error::at("open", self.lock_path()))
    }

    fn wait(&self, how: FlockOperation, patience: Duration) -> Result<Option<Lock>> {
        let file = self.lock_file()?;
        // flock(2) has no timeout, so a separate thread waits for the lock. That thread ends with this process at the
        // latest.
        let waiting = apart(move || retry_on_intr(|| flock(&file, how)).map(|()| Lock(file)));
        let lock = receive(&waiting, patience)?;
        lock.transpose().map_err(Error::at("lock", self.lock_path()))
    }

    fn held(&self, patience: Duration) -> Error {
        let (seconds, path) = (patience.as_secs(), self.lock_path());
        let who = self.holder().map_or_else(|| "another process".to_owned(), |by| by.to_string());
        unfit!(
            "{who} has held {} for {seconds} s: wait for its end, longer with --wait SECONDS, or end it",
            path.display()
        )
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pid == 0 {
            return f.write_str("a process of another PID namespace");
        }
        write!(f, "process {}", self.pid)?;
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words: Vec<String> = line
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .take(8)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        if words.is_empty() { Ok(()) } else { write!(f, " ({})", words.join(" ")) }
    }
}

/// Returns the first holder of a file's lock in the text of /proc/locks (proc_locks(5)).
fn parse(locks: &str, place: &str) -> Option<Holder> {
    locks.lines().find_map(|line| {
        // "1: FLOCK  ADVISORY  WRITE 701 08:01:1234 0 EOF"; "->" marks a waiting process.
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, mode, pid, at, ..] = words[..] else { return None };
        (at == place).then(|| Holder { pid: pid.parse().unwrap_or(0), removes: mode == "WRITE" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_holds_nothing() {
        let locks = "1: FLOCK  ADVISORY  READ  12 08:01:7 0 EOF\n2: FLOCK  ADVISORY  WRITE 13 08:01:9 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 14 08:01:8 0 EOF\n3: POSIX  ADVISORY  WRITE 15 08:01:8 0 EOF\n";
        assert_eq!(parse(locks, "08:01:9"), Some(Holder { pid: 13, removes: true }));
        assert_eq!(parse(locks, "08:01:7"), Some(Holder { pid: 12, removes: false }));
        assert_eq!(parse(locks, "08:01:8"), None);
    }
}
