//! A saved template: images of its processes, and a file that names the digest of each image.
//!
//! Images are code and memory that will run with the template's rights. Their directory, and all directories of its
//! path, must be such that only the caller can have changed them. The digests show an image that was damaged, or
//! replaced by that of another checkpoint. Another process compares them while criu begins: before the processes
//! continue, the comparison must have succeeded.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, openat, statat};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::{UnmountFlags, unmount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};

use super::images::Directory;
use super::{changes, mountinfo, mounts};
use crate::path::absolute;
use crate::{Error, record};

/// The file with the [`Saved`], which is written last.
const FILE: &str = "template.json";
/// The image of the clocks. Without it, the processes have the clocks of the host: a template's children are
/// containers, whose clocks do not continue those of a checkpoint.
const CLOCKS: &str = "timens-0.img";
/// The largest number of images.
const MOST: usize = 1 << 16;

/// What a directory says of the template in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// criu's name of the socket in whose place the template gets that of its requests.
    pub socket: String,
    /// The SHA-256 of each image.
    sha256: BTreeMap<String, String>,
}

impl Saved {
    /// Makes the directory of a template if it is missing.
    ///
    /// # Errors
    /// If others could change the directory, or read its files.
    pub fn begin(path: &str) -> Result<(), Error> {
        let images = Directory::make(path)?;
        check_place(path)?;
        images.check_closed()
    }

    /// Removes an earlier template from the directory.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn forget(path: &str) -> Result<(), Error> {
        let images = Directory::open(path)?;
        if accessat(&images.fd, FILE, Access::EXISTS, AtFlags::empty()).is_ok() {
            images.names()?.iter().try_for_each(|name| images.remove(name))?;
            images.remove(FILE)?;
        }
        Ok(())
    }

    /// Completes the directory of a template that was saved. Its processes have the socket with this name.
    ///
    /// # Errors
    /// If a file cannot be read, written or removed.
    pub fn write(path: &str, socket: String) -> Result<(), Error> {
        let images = Directory::open(path)?;
        images.remove(CLOCKS)?;
        images.write_sizes(changes::extent(&images)?)?;
        let mut sha256 = BTreeMap::new();
        for name in images.names()? {
            let digest = digest(&images, &name).context("read", images.object(&name))?;
            sha256.insert(name, digest);
        }
        images.write(FILE, record::to_json(FILE, &Self { socket, sha256 })?.as_bytes())
    }

    /// Reads the file of a directory.
    pub(super) fn read(images: &Directory) -> Result<Self, Error> {
        images.check_closed()?;
        let text = match images.read(FILE, 1 << 24) {
            Err(Error::System(error)) if error.errno == Errno::NOENT => {
                return Err(Error::Text(format!(
                    "{} has no template: {FILE} is missing, which \"template create --save\" writes last",
                    images.path
                )));
            }
            text => text?,
        };
        let saved: Self =
            serde_json::from_slice(&text).map_err(|error| images.damaged(FILE, error))?;
        let found = images.names()?;
        if let Some(name) = found.iter().find(|name| !saved.sha256.contains_key(*name)) {
            return Err(images.damaged(name, format_args!("{FILE} does not name it")));
        }
        if let Some(name) = saved.sha256.keys().find(|name| !found.contains(*name)) {
            return Err(images.damaged(name, "it is missing"));
        }
        Ok(saved)
    }

    /// Begins to compare the images with their digests.
    pub(super) fn verify<'a>(&'a self, images: &'a Directory) -> Result<Comparison<'a>, Error> {
        let names: Vec<_> = self.sha256.iter().take(MOST).collect();
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).context("pipe", "digests")?;
        let child = match clone3(CloneFlags::empty(), None).context("clone3", "digests")? {
            Clone::Parent(child) => child,
            Clone::Child => {
                let differs = |(name, wanted): &(&String, &String)| {
                    digest(images, name).as_ref() != Ok(*wanted)
                };
                let number = names.iter().position(differs).unwrap_or(names.len());
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let _ = rustix::io::write(&theirs, &number.to_ne_bytes());
                sys::start::exit(0)
            }
        };
        Ok(Comparison { images, names: self.sha256.keys().collect(), answer: ours, child })
    }
}

/// A comparison of images with their digests, by another process.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    images: &'a Directory,
    names: Vec<&'a String>,
    answer: OwnedFd,
    child: Child,
}

impl Comparison<'_> {
    /// Waits for the result.
    ///
    /// # Errors
    /// If an image differs, with its name.
    pub fn end(self) -> Result<(), Error> {
        let mut number = [0; 4];
        let read = retry_on_intr(|| rustix::io::read(&self.answer, &mut number));
        let _ = launch::wait(&self.child.pidfd);
        let number = usize::try_from(u32::from_ne_bytes(number)).unwrap_or(usize::MAX);
        match (read, self.names.get(number)) {
            (Ok(4), None) if number == self.names.len() => Ok(()),
            (Ok(4), Some(name)) => {
                Err(self.images.damaged(name, format_args!("its SHA-256 is not that in {FILE}")))
            }
            _ => Err(Error::text("the images are not verified: the process that reads them ended")),
        }
    }
}

/// Unmounts what a template's program does not use. The mounts would take most of the time of a restore, and no child of
/// the template is in its mount namespace. The root and /proc stay.
///
/// # Errors
/// If the mount table cannot be read, or the mount namespace cannot be entered.
pub(crate) fn leave_mounts((pid, pidfd): &(Pid, OwnedFd)) -> Result<(), Error> {
    let mut lines = mountinfo::read(&format!("/proc/{}/mountinfo", pid.as_raw_nonzero()))?;
    lines.retain(|line| line.point != "/" && line.point != "/proc");
    // First the mounts below others.
    lines.sort_by_key(|line| line.point.len());
    let errand = || {
        sys::ns::join_process(pidfd.as_fd(), CloneFlags::NEWNS)?;
        for line in lines.iter().rev() {
            // A mount with open files stays.
            let _ = unmount(line.point.as_str(), UnmountFlags::NOFOLLOW);
        }
        Ok(0)
    };
    Ok(sys::errand::ask(None, errand).map(drop).context("setns", "mount namespace")?)
}

/// Returns the SHA-256 of an image in hexadecimal digits.
fn digest(images: &Directory, name: &str) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(&images.fd, name, flags, Mode::empty())?;
    let mut digits = String::with_capacity(64);
    for byte in sys::sha256::digest_file(&file)? {
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

/// Refuses a path if a user other than the caller could have let it lead to this directory: by a link or a directory
/// of theirs. Others may write to a directory with the sticky bit, such as /tmp.
///
/// # Errors
/// If there is such a link or directory, which the error names.
pub(crate) fn check_place(path: &str) -> Result<(), Error> {
    let path = absolute(path)?;
    let directory = sys::fs::open_dir(CWD, path.as_str()).context("open", &path)?;
    for path in [path, mounts::path_of(directory.as_fd())?] {
        let ends = path.match_indices('/').map(|(at, _)| at.max(1));
        for part in ends.chain([path.len()]).filter_map(|end| path.get(..end)) {
            let stat = statat(CWD, part, AtFlags::SYMLINK_NOFOLLOW).context("stat", part)?;
            let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            let is_closed = stat.st_mode & 0o022 == 0 || stat.st_mode & 0o1000 != 0;
            if !is_own || !is_link && !is_closed {
                return Err(Error::Text(format!(
                    "{part} is another user's or can be written to by others: a template must be in directories \
                     that only its owner can change"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let own = std::env::temp_dir().join(format!("dayfly-saved-{}", std::process::id()));
        std::fs::create_dir(&own).unwrap();
        if rustix::process::geteuid().is_root() {
            check_place(own.to_str().unwrap()).unwrap();
        }
        let open = own.join("open/inner");
        std::fs::create_dir_all(&open).unwrap();
        rustix::fs::chmod(own.join("open"), Mode::from_raw_mode(0o777)).unwrap();
        let error = check_place(open.to_str().unwrap()).unwrap_err();
        assert!(alloc::string::ToString::to_string(&error).contains("/open is another"), "{error}");
        std::fs::remove_dir_all(&own).unwrap();
    }
}
