//! Moves the command of an unprivileged user into a user namespace in which the user is root. Images and other root
//! filesystems from layers require this, because mounting overlayfs requires root, at least of a user namespace.
//!
//! The command itself enters the namespace, and then executes itself again. No process stays outside, so that
//! terminals, signals and exit codes behave as usual. The execve(2) is needed because the running binary is on a mount
//! of the former mount namespace, and `launch::seal_self` cannot make a read-only copy of such a mount. The user's own
//! id is mapped to root. If newuidmap and newgidmap are in the PATH, the ids that /etc/subuid and /etc/subgid grant are
//! mapped to the ids from 1 on.
//!
//! `exec` joins the user namespace by init's pidfd. `delete` makes a user namespace with the same ids, because files in
//! the upper layer may belong to them.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use plan::Caller;
use plan::step::{IdHelper, ParentStep};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat, readlinkat, stat};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};
use spec::{IdMapping, Linux};
use sys::Context;
use sys::clone::{Clone, CloneFlags, clone3_bound};
use sys::stdio::Stderr;
use trace::Phase;

use crate::{Container, Error, Trace, owner};

/// The files that grant ids.
const GRANTS: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// If this process does not run as root, moves it into a new user and mount namespace, as root of the user namespace.
///
/// # Errors
/// If the host does not allow users to create user namespaces, or if newuidmap or newgidmap fail.
pub fn enter(env: sys::Args, trace: &Trace) -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let caller = Caller::probe(env.env("PATH"));
    trace.work(Phase::Platform, "enter user namespace", "", || match granted(&caller)? {
        Some(helpers) => enter_mapped(&helpers),
        None => enter_alone(&caller),
    })?;
    execute_again(env);
    Ok(())
}

/// Executes this program again. Returns only if the program's file has been replaced or cannot be executed. This
/// process then continues, and `launch::seal_self` copies its binary later.
fn execute_again(args: sys::Args) {
    const OWN: &str = "/proc/self/exe";
    let open = || -> Result<OwnedFd, Errno> {
        let path = readlinkat(CWD, OWN, Vec::new())?;
        let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (named, own) = (fstat(&file)?, stat(OWN)?);
        match (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) {
            true => Ok(file),
            false => Err(Errno::NOENT),
        }
    };
    if let Ok(file) = open() {
        let _ = sys::exec::execve_fd(file.as_fd(), args, None);
    }
}

/// Returns the commands that map the ids granted to the user, or `None` if there are no such ids or no helpers.
fn granted(caller: &Caller) -> Result<Option<[IdHelper; 2]>, Error> {
    let number = caller.uid.to_string();
    let name = owner::name(caller.uid);
    let map = |path: &str, own: u32| {
        let text = sys::fs::read_text(path).unwrap_or_default();
        let ranges = rootfs::ids::granted_to(&text, &[&name, &number]);
        let mut map = Vec::from([IdMapping { container_id: 0, host_id: own, size: 1 }]);
        let mut next = 1u32;
        for (first, count) in ranges {
            let size = count.min(u32::MAX - next);
            map.push(IdMapping { container_id: next, host_id: first, size });
            next += size;
        }
        map
    };
    let linux = Linux {
        uid_mappings: map(GRANTS[0], caller.uid),
        gid_mappings: map(GRANTS[1], caller.gid),
        ..Linux::default()
    };
    if linux.uid_mappings.len() == 1 || linux.gid_mappings.len() == 1 || !caller.can_map() {
        return Ok(None);
    }
    match caller.map_ids(&linux)? {
        ParentStep::MapIdsThrough(helpers) => Ok(Some(helpers)),
        _ => Ok(None),
    }
}

fn unshare() -> Result<(), Error> {
    sys::ns::unshare(CloneFlags::NEWUSER | CloneFlags::NEWNS).map_err(|errno| {
        let hint = match errno {
            Errno::NOSPC => ": user.max_user_namespaces is 0, or used up",
            Errno::PERM | Errno::ACCESS => {
                ": users cannot create user namespaces on this host (docs/rootless.md)"
            }
            _ => "",
        };
        Error::Text(format!(
            "an image requires a user namespace if the caller is not root: unshare: {}{hint}",
            sys::errno::describe(errno)
        ))
    })
}

/// Maps the user's own id only.
fn enter_alone(caller: &Caller) -> Result<(), Error> {
    unshare()?;
    let files = [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("0 {} 1\n", caller.uid)),
        ("gid_map", format!("0 {} 1\n", caller.gid)),
    ];
    for (name, text) in files {
        let path = format!("/proc/self/{name}");
        sys::fs::write_at(CWD, path.as_str(), text.as_bytes()).context("write", path)?;
    }
    Ok(())
}

/// Maps the granted ids. A child process that stays outside the namespace runs newuidmap and newgidmap.
fn enter_mapped(helpers: &[IdHelper; 2]) -> Result<(), Error> {
    let (go_on, goes_on) = pipe_with(PipeFlags::CLOEXEC).context("pipe", "")?;
    let own = getpid();
    let child = match clone3_bound().context("clone3", "who maps ids")? {
        Clone::Parent(child) => child,
        Clone::Child => {
            drop(goes_on);
            sys::start::exit(map(own, helpers, &go_on))
        }
    };
    drop(go_on);
    let entered = unshare();
    if entered.is_ok() {
        write(&goes_on, b"1").context("write", "pipe")?;
    }
    drop(goes_on);
    let status = launch::wait(&child.pidfd).context("waitid", "who maps ids")?;
    entered?;
    match status.exit_status() {
        Some(0) => Ok(()),
        _ => Err(Error::text("the ids of /etc/subuid and /etc/subgid could not be mapped")),
    }
}

/// Runs in the child. Waits until the parent has entered its new user namespace, and then maps the parent's ids.
fn map(member: Pid, helpers: &[IdHelper; 2], go_on: &OwnedFd) -> i32 {
    match read(go_on, &mut [0u8]) {
        Ok(1) => {}
        _ => return 1,
    }
    match launch::map_ids(member, helpers) {
        Ok(()) => 0,
        Err(error) => {
            let _ = core::fmt::Write::write_fmt(&mut Stderr, format_args!("error: {error}\n"));
            1
        }
    }
}

impl Container {
    /// Joins the user namespace that [`enter`] created for the command that created the container. Only in this user
    /// namespace may the caller enter the container. Does nothing if that command had no such user namespace, if the
    /// container has its own user namespace, or if the caller is root.
    ///
    /// # Errors
    /// Those of setns(2).
    pub fn join_its_makers(&self) -> Result<(), Error> {
        if !self.record.confined || self.owns(CloneFlags::NEWUSER) {
            return Ok(());
        }
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let Some((_, init)) = self.init() else { return Ok(()) };
        self.trace.point("join", "user namespace")?;
        match sys::ns::join_process(init.as_fd(), CloneFlags::NEWUSER) {
            // EINVAL: this process is already in that namespace.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(sys::Error::new("setns", "user namespace", errno).into()),
        }
    }
}
