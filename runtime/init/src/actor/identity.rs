//! User, groups, limits and capabilities of the process.

use core::ffi::CStr;
use core::fmt::Write;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dev, FileType, Gid, Mode, OFlags, Uid, chmodat, fstat, makedev, mknodat, openat,
};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, fsconfig_create, fsmount, fsopen};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities as capset, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use sys::defence::{Defence, is_off};
use sys::mount::MountAttrFlags;

use super::Init;
use crate::failure::{Failure, Op};
use crate::step::{Capabilities, InitStep, Limit, WithoutNull};

/// Returns the device number of /dev/null.
fn null_number() -> Dev {
    makedev(1, 3)
}

/// Becomes uid 0 and gid 0 of the user namespace, so that created files belong to its root.
pub(crate) fn become_root() -> Result<(), Failure> {
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).op("setresgid")?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).op("setresuid")
}

/// Joins a session keyring of the container's own, if the kernel supports keys.
pub(crate) fn join_keyring(name: &CStr) -> Result<(), Failure> {
    match sys::keyring::join_session(name) {
        Ok(key) => {
            // Best effort, as in runc: the key may be gone or belong to another user in a nested container.
            let _ = sys::keyring::allow_owner_search(key);
            Ok(())
        }
        Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(Failure::new("keyctl KEYCTL_JOIN_SESSION_KEYRING", errno)),
    }
}

/// Sets resource limits.
pub(crate) fn limit_resources(limits: &[Limit]) -> Result<(), Failure> {
    for limit in limits {
        let value = Rlimit { current: limit.soft, maximum: limit.hard };
        setrlimit(limit.resource, value).map_err(|errno| {
            let mut failure = Failure::new("setrlimit", errno);
            let _ = write!(failure, " {:?}", limit.resource);
            failure
        })?;
    }
    Ok(())
}

/// Drops capabilities from the bounding set.
pub(crate) fn limit_capabilities(drop: u64) -> Result<(), Failure> {
    for bit in 0..u64::BITS {
        if drop >> bit & 1 == 0 {
            continue;
        }
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The number is above the kernel's last capability.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(Failure::new("prctl PR_CAPBSET_DROP", errno)),
        }
    }
    Ok(())
}

/// Verifies that the working directory lies inside the root: a directory outside has no path in the container
/// (CVE-2024-21626).
pub(crate) fn verify_directory() -> Result<(), Failure> {
    if sys::fs::working_directory_is_reachable().op("getcwd")? {
        return Ok(());
    }
    Err(Failure::new(
        "current working directory is outside of container mount namespace root -- possible \
         container breakout detected",
        Errno::ACCESS,
    ))
}

/// Sets the effective, permitted and inheritable sets, and raises the ambient capabilities.
pub(crate) fn set_capabilities(sets: &Capabilities) -> Result<(), Failure> {
    capset(
        None,
        CapabilitySets {
            effective: CapabilitySet::from_bits_retain(sets.effective),
            permitted: CapabilitySet::from_bits_retain(sets.permitted),
            inheritable: CapabilitySet::from_bits_retain(sets.inheritable),
        },
    )
    .op("capset")?;
    for bit in (0..u64::BITS).filter(|bit| sets.ambient >> bit & 1 == 1) {
        // The kernel requires that an ambient capability is also permitted and inheritable. If it is not, the
        // capability is not raised, and the start continues (runc warns and continues).
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        let _ = configure_capability_in_ambient_set(capability, true);
    }
    Ok(())
}

impl Init<'_> {
    /// Enters the working directory as root first: root may enter directories that the user may not
    /// enter (such as a bind mount of the caller's own directory). If root may not enter the
    /// directory (root-squashing NFS), init tries again later as the user.
    pub(super) fn change_directory(&mut self, path: &CStr) -> Result<(), Failure> {
        match rustix::process::chdir(path) {
            Err(Errno::ACCESS | Errno::PERM) => {
                self.cwd_denied = true;
                Ok(())
            }
            result => result.op("chdir"),
        }
    }

    /// Changes groups before the user, because the change of user removes the right to change groups. The permitted
    /// capabilities stay until [`set_capabilities`].
    pub(super) fn change_user(
        &mut self,
        uid: u32,
        gid: u32,
        groups: Option<&[Gid]>,
        without_null: WithoutNull,
    ) -> Result<(), Failure> {
        own_standard_streams(uid, without_null)?;
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        // A process loses its capabilities only when none of its uids is 0 any more.
        let keeps = uid != 0;
        if keeps {
            set_keep_capabilities(true).op("prctl PR_SET_KEEPCAPS")?;
        }
        if let Some(groups) = groups {
            set_thread_groups(groups).op("setgroups")?;
        }
        set_thread_res_gid(group, group, group).op("setresgid")?;
        set_thread_res_uid(user, user, user).op("setresuid")?;
        if keeps {
            set_keep_capabilities(false).op("prctl PR_SET_KEEPCAPS")?;
        }
        // If fs.suid_dumpable is not 0, the change of ids has made the process dumpable.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).op("prctl PR_SET_DUMPABLE")?;
        if !self.cwd_denied {
            return Ok(());
        }
        let path = self.job.steps.iter().find_map(|step| match step {
            InitStep::ChangeDirectory { path } => Some(*path),
            _ => None,
        });
        path.map_or(Ok(()), |path| rustix::process::chdir(path).op("chdir"))
    }
}

/// Makes the user the owner of pipes and terminals on 0, 1 and 2, so that the user can reopen /dev/stdout. Errors
/// are ignored, as in runc. /dev/null keeps its owner. The host's /dev/null is replaced by the container's own: root of
/// the container may own the host's inode, and could change its mode through /proc/self/fd.
fn own_standard_streams(uid: u32, without_null: WithoutNull) -> Result<(), Failure> {
    let mut own = None;
    let streams = [sys::stdio::stdin(), sys::stdio::stdout(), sys::stdio::stderr()];
    for (number, stream) in streams.into_iter().enumerate() {
        let Ok(stat) = fstat(stream) else { continue };
        if stat.st_rdev != null_number() {
            if stat.st_uid != uid {
                let _ = rustix::fs::fchown(stream, Some(Uid::from_raw(uid)), None);
            }
            continue;
        }
        if is_off(Defence::OwnNull) {
            continue;
        }
        if own.is_none() {
            let opened = open_null();
            own = match (opened, without_null) {
                (Ok(null), _) => Some(null),
                (Err(failure), WithoutNull::Keep) if failure.errno == Errno::NOENT => None,
                (Err(failure), WithoutNull::Private) => match make_null() {
                    Ok(made) => Some(made),
                    Err(_) if number == 0 => {
                        end_input(stream, uid)?;
                        continue;
                    }
                    Err(_) => return Err(failure),
                },
                (Err(failure), _) => return Err(failure),
            };
        }
        if let Some(null) = &own {
            sys::stdio::replace(stream, null.as_fd()).op("dup2")?;
        }
    }
    Ok(())
}

/// Creates a private null device on a detached file system. The container may change this node freely, because nothing
/// else uses it. Fails for root of a user namespace.
fn make_null() -> Result<OwnedFd, Errno> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let everybody = Mode::from_raw_mode(0o666);
    mknodat(&tree, c"null", FileType::CharacterDevice, everybody, null_number())?;
    // Sets the mode independently of the program's umask.
    chmodat(&tree, c"null", everybody, AtFlags::empty())?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&tree, c"null", flags, Mode::empty())
}

/// Makes standard input a pipe without a writer.
fn end_input(stream: BorrowedFd<'static>, uid: u32) -> Result<(), Failure> {
    let (empty, _) = pipe_with(PipeFlags::CLOEXEC).op("pipe2")?;
    let _ = rustix::fs::fchown(&empty, Some(Uid::from_raw(uid)), None);
    sys::stdio::replace(stream, empty.as_fd()).op("dup2")
}

/// Opens the container's own /dev/null, and verifies that it is the null device.
fn open_null() -> Result<OwnedFd, Failure> {
    const REOPEN: &str = "reopen /dev/null of the standard streams as the container's own \
         (add that device to the container, or use streams other than /dev/null)";
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let null = sys::inside::open_absolute(c"/dev/null", flags).op(REOPEN)?;
    let stat = fstat(&null).op("fstat")?;
    let is_null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == null_number();
    if is_null { Ok(null) } else { Err(Failure::new(REOPEN, Errno::NODEV)) }
}
