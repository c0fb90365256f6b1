//! The directory of a container in a store, with its changes: tells whose it is, and whether its container still
//! exists.
//!
//! Three links in the directory say this. `owner` leads to the container's directory in a state root. `claim` adds the
//! boot, the time of creation and the mount namespace, as a lease of ids does: the state root may be on a mount that
//! other mount namespaces do not have. `process` names the container's init, which may outlive its directory in the
//! state root.
//!
//! A target of at most 59 bytes is in the link's inode on ext4, and a longer one takes a block. An ext4 without a journal
//! that is mounted with `discard` waits for the device whenever a block is freed: 2 to 4 ms on a virtual disk. So `claim`
//! has numbers of base 36.
//!
//! Garbage collections keep the directory as long as init lives, in whatever mount or PID namespace, and as long as the
//! state root may exist where it is out of sight. A start does not take over the directory of a container with the same
//! id in another state root.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fs::{CWD, readlinkat, symlinkat};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;
use sys::identity::Identity;

use crate::Error;
use crate::census::{LazyCensus, own_mount_namespace};
use crate::owner::{Owner, Presence};

const OWNER: &str = "owner";
const CLAIM: &str = "claim";
const PROCESS: &str = "process";
/// The file with a number that differs from boot to boot (random(4)).
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Writes into the directory `home` whose it is.
///
/// # Errors
/// Those of symlink(2).
pub fn claim(home: &str, owner: &Owner) -> Result<(), sys::Error> {
    link(home, CLAIM, &claim_text(&boot()?, owner, own_mount_namespace()?))?;
    link(home, OWNER, &owner.directory)
}

/// Returns the target of the link [`CLAIM`].
fn claim_text(boot: &str, owner: &Owner, mount_namespace: u64) -> String {
    format!("{boot} {} {}", base36(owner.since), base36(mount_namespace))
}

/// Writes the container's init into the directory `home`.
///
/// # Errors
/// Those of symlink(2).
pub fn add_process(home: &str, identity: Identity) -> Result<(), sys::Error> {
    link(home, PROCESS, &format!("{}", identity.0))
}

/// Returns whether the directory `home` belongs to this owner, and not to a container with the same id in another state
/// root or mount namespace. A directory without links belongs to everybody: its creator was killed.
///
/// # Errors
/// Those of readlink(2), except for a missing directory.
pub fn is_of(home: &str, owner: &Owner) -> Result<bool, sys::Error> {
    Ok(match Links::read(home)? {
        Some(links) => {
            links.owner.directory == owner.directory
                && (links.owner.since == 0 || links.owner.since == owner.since)
        }
        None => true,
    })
}

/// Removes a container's directory in a store that a killed command has left, for a new container with the same id.
///
/// # Errors
/// If the directory may belong to another container that still exists; failing system calls.
pub fn remove_left(home: &str, owner: &Owner) -> Result<(), Error> {
    if let Some(links) = Links::read(home)? {
        let presence = match links.owner.directory == owner.directory {
            // The directory that has this path here is that of the new container, so nothing is left here of the other.
            true => Presence::NotSeen,
            false => links.owner.is_there(),
        };
        if let Some(user) = Judge::default().user(&links, presence)? {
            let whose = &links.owner.directory;
            return Err(Error::InUse { directory: home.into(), whose: whose.clone(), user });
        }
    }
    remove(home)
}

/// Removes the directory of a container in a store, and the mounts below it.
///
/// # Errors
/// Those of umount2(2) and unlink(2).
pub fn remove(home: &str) -> Result<(), Error> {
    let path = CString::new(home).map_err(|_| sys::Error::new("remove", home, Errno::INVAL))?;
    crate::unmount_below(&path)?;
    Ok(crate::remove_all(&path)?)
}

/// Why a directory in a store is not to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// The container exists in a state root, or may exist in one that is not visible here.
    Container,
    /// This process is the container's init.
    Process(Pid),
}

/// Decides whether the containers of directories still exist.
#[derive(Default)]
pub struct Judge {
    /// A snapshot of the host's processes, taken on first use, once for all directories.
    census: LazyCensus,
}

impl Judge {
    /// Returns whether the container of the directory `home` is gone. False for a directory that does not say whose it
    /// is.
    ///
    /// # Errors
    /// If the links or the host's processes cannot be read.
    pub fn is_left(&mut self, home: &str) -> Result<bool, Error> {
        let Some(links) = Links::read(home)? else { return Ok(false) };
        let presence = links.owner.is_there();
        Ok(self.user(&links, presence)?.is_none())
    }

    /// Returns whether a path that is missing here does not exist in its mount namespace `mount_namespace` either, 0 if
    /// unknown.
    ///
    /// # Errors
    /// If the host's processes cannot be read.
    pub fn is_out_of_sight(&mut self, mount_namespace: u64) -> Result<bool, Error> {
        let own = own_mount_namespace()?;
        Ok(self.census.get()?.is_out_of_sight(mount_namespace, own))
    }

    fn user(&mut self, links: &Links, presence: Presence) -> Result<Option<User>, Error> {
        if presence == Presence::There {
            return Ok(Some(User::Container));
        }
        if links.boot.as_ref().is_some_and(|then| boot().is_ok_and(|now| *then != now)) {
            return Ok(None);
        }
        let census = self.census.get()?;
        if let Some(pid) = links.process.and_then(|identity| census.find(identity)) {
            return Ok(Some(User::Process(pid)));
        }
        // A directory of an earlier version does not say in which mount namespace its owner is: in this one.
        let mount_namespace = match links.mount_namespace {
            0 => own_mount_namespace()?,
            known => known,
        };
        let is_gone = presence.is_final(mount_namespace, census)?;
        Ok((!is_gone).then_some(User::Container))
    }
}

/// What the links in a directory say.
struct Links {
    /// The boot in which the directory was made.
    boot: Option<String>,
    owner: Owner,
    mount_namespace: u64,
    process: Option<Identity>,
}

impl Links {
    /// Reads the links; returns `None` if the directory does not say whose it is.
    fn read(home: &str) -> Result<Option<Self>, sys::Error> {
        let Some(directory) = target(home, OWNER)? else { return Ok(None) };
        let claim = target(home, CLAIM)?;
        let claim = claim.as_deref().and_then(|text| text.split_once(' '));
        let boot = claim.map(|(boot, _)| boot.into());
        let (since, mount_namespace) = claim.and_then(|(_, rest)| times(rest)).unwrap_or_default();
        let owner = Owner { since, directory };
        let process = target(home, PROCESS)?.and_then(|text| text.parse().ok()).map(Identity);
        Ok(Some(Self { boot, owner, mount_namespace, process }))
    }
}

/// Returns the time of creation and the mount namespace of a claim, which is the text of an owner in earlier versions.
fn times(rest: &str) -> Option<(u64, u64)> {
    if rest.contains('/') {
        return Owner::parse(rest).map(|(owner, mount_namespace)| (owner.since, mount_namespace));
    }
    let (since, mount_namespace) = rest.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 36).ok();
    Some((number(since)?, number(mount_namespace)?))
}

/// Formats a number with digits and small letters.
fn base36(number: u64) -> String {
    let digit = char::from_digit(u32::try_from(number % 36).unwrap_or(0), 36);
    let mut digits = if number < 36 { String::new() } else { base36(number / 36) };
    digits.extend(digit);
    digits
}

/// Returns the number of this boot.
fn boot() -> Result<String, sys::Error> {
    Ok(sys::fs::read_text(BOOT).context("read", BOOT)?.trim().into())
}

fn link(home: &str, name: &str, target: &str) -> Result<(), sys::Error> {
    let path = format!("{home}/{name}");
    symlinkat(target, CWD, path.as_str()).context("symlink", path)
}

/// Returns the target of a link; `None` if there is no such link.
fn target(home: &str, name: &str) -> Result<Option<String>, sys::Error> {
    let path = format!("{home}/{name}");
    match readlinkat(CWD, path.as_str(), Vec::new()) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(errno) => Err(sys::Error::new("readlink", path, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    /// Makes a directory of a store in a scratch directory; returns both, and its owner, which exists.
    fn home(test: &str) -> (std::path::PathBuf, String, Owner) {
        let top = std::env::temp_dir().join(format!("dayfly-home-{test}-{}", std::process::id()));
        for directory in ["home", "root/id"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        fs::write(top.join("root/id/record"), "").unwrap();
        let path = |name: &str| top.join(name).to_str().unwrap().into();
        let owner = Owner { since: 5, directory: path("root/id") };
        (top.clone(), path("home"), owner)
    }

    #[test]
    fn only_what_is_gone_everywhere_is_left() {
        let (top, home, owner) = home("left");
        assert_eq!(Judge::default().is_left(&home), Ok(false), "says nothing");
        claim(&home, &owner).unwrap();
        assert_eq!(Judge::default().is_left(&home), Ok(false), "has a record");
        fs::remove_dir_all(top.join("root")).unwrap();
        assert_eq!(Judge::default().is_left(&home), Ok(true));
        // The path may exist in another mount namespace, which has processes.
        let mut other = Command::new("unshare");
        other.args(["-m", "sh", "-c", "echo; exec cat"]);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let is_apart = other.stdout.take().unwrap().read(&mut [0]).unwrap() == 1;
        if is_apart {
            let inode = fs::metadata(format!("/proc/{}/ns/mnt", other.id())).unwrap().ino();
            fs::remove_file(format!("{home}/claim")).unwrap();
            link(&home, CLAIM, &claim_text(&boot().unwrap(), &owner, inode)).unwrap();
            assert_eq!(Judge::default().is_left(&home), Ok(false));
            // After a reboot, the namespace may have the number of another one.
            fs::remove_file(format!("{home}/claim")).unwrap();
            link(&home, CLAIM, &format!("another-boot {}", owner.text(inode))).unwrap();
            assert_eq!(Judge::default().is_left(&home), Ok(true));
        } else {
            std::eprintln!("skipped in part: needs root");
        }
        drop(other.stdin.take());
        other.wait().unwrap();
        fs::remove_file(format!("{home}/claim")).unwrap();
        // A directory of an earlier version.
        assert_eq!(Judge::default().is_left(&home), Ok(true));
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn claims_fit_into_an_inode_and_those_of_versions_before_are_read() {
        let owner = Owner { since: 1_796_009_153_131_430_133, directory: "/run/a b".into() };
        let text = claim_text(&boot().unwrap(), &owner, 4_026_532_177);
        assert!(text.len() < 60, "{text}");
        let read = |text: &str| times(text.split_once(' ').unwrap().1);
        assert_eq!(read(&text), Some((owner.since, 4_026_532_177)));
        assert_eq!(read(&format!("boot {}", owner.text(7))), Some((owner.since, 7)));
        assert_eq!(read("boot 5"), None);
    }

    #[test]
    fn a_living_process_keeps_its_directory() {
        let (top, home, owner) = home("process");
        claim(&home, &owner).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        add_process(&home, Identity::of(pid, &pidfd).unwrap()).unwrap();
        fs::remove_dir_all(top.join("root")).unwrap();
        assert_eq!(Judge::default().is_left(&home), Ok(false));
        let again = Owner { since: 6, ..owner.clone() };
        let refused = remove_left(&home, &again).unwrap_err();
        assert!(matches!(&refused, Error::InUse { user: User::Process(user), .. } if *user == pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Judge::default().is_left(&home), Ok(true));
        assert_eq!(is_of(&home, &owner), Ok(true));
        assert_eq!(is_of(&home, &again), Ok(false));
        remove_left(&home, &again).unwrap();
        assert!(!top.join("home").exists());
        assert_eq!(is_of(&home, &again), Ok(true));
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn another_container_keeps_its_directory() {
        let (top, home, owner) = home("another");
        claim(&home, &owner).unwrap();
        let other = Owner { since: 6, directory: "/run/other/id".into() };
        let refused = remove_left(&home, &other).unwrap_err();
        assert!(matches!(&refused, Error::InUse { user: User::Container, .. }), "{refused:?}");
        fs::remove_file(top.join("root/id/record")).unwrap();
        remove_left(&home, &other).unwrap();
        fs::remove_dir_all(top).unwrap();
    }
}
