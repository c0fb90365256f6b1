//! The exchange with a template and its child, over one connection per start.
//!
//! ```text
//! runtime  → template  F  PID namespace, description of the     once init exists
//!                         program, socket to the stand-in,
//!                         filter, ways into the cgroup
//! child    → runtime   B  child created, in that PID namespace  the kernel adds the child's pidfd
//! runtime  → child     C  streams, other namespaces             once init is ready
//! child    → runtime   R  I am as described                     then verified; init gets the child's pidfd
//! stand-in → child     G  go                                    in place of init's exec
//! ```
//!
//! In place of B and R, E comes with an errno and a message. The template forks, and the child prepares
//! itself, while init mounts.
//!
//! The socket is an AF_UNIX SOCK_SEQPACKET. Numbers are little-endian, descriptors come by SCM_RIGHTS. G comes on the
//! socket to the stand-in.
//!
//! | message | after the letter | descriptors |
//! |---|---|---|
//! | H | version (1); nothing in the answer | |
//! | F | version (1), flags, number of files | PID namespace; description (`body.rs`); socket to the stand-in; with flag 4 the filter (`struct sock_filter`, sealed memfd); with flag 1 the cgroup's directory on v2; the files |
//! | C | the type of each namespace (4 bytes, CLONE_NEW…) | standard input, output, error; the namespaces |
//! | E | errno (4 bytes), text (UTF-8, at most 251 bytes) | |
//!
//! H asks whether the program serves requests; a connection that is closed at once, whether anybody listens.
//!
//! **Fork.** The template enters the PID namespace, makes the child, returns to its own PID namespace, and closes what it
//! got. With flag 1 it calls clone3(2) with CLONE_INTO_CGROUP; if that fails with EACCES, EPERM, ENOENT, EBUSY,
//! EOPNOTSUPP or ENOSYS, or without the flag, fork(2). The child writes `0` to each file, but with flag 2 the first is
//! `cgroup.procs` of v2, which a child that was cloned into the cgroup skips. The others are `tasks` of v1.
//!
//! - The template must ignore SIGCHLD or reap its children at once: the stand-in waits until the program is reaped.
//! - The child itself must send B and R, because the kernel names the sender (SCM_PIDFD).
//! - Who has sent E waits until the runtime closes the connection: if it ended with a message unread, the kernel would
//!   discard the E.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::Cgroup;
use plan::Plan;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdGetfdFlags, pidfd_getfd};
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::mount::{MountAttr, attr, mount_setattr};
use sys::wait::{Deadline, ready};

use super::body::{Body, Sets, sealed};
use super::find::open_namespace;
use super::{PROTOCOL, Refusal, Template, cgroups, printable, verify};
use crate::{Trace, identity};
use trace::Phase;

/// The time within which a template and its child must have done their part once init is ready.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time in which a killed child exits.
const DYING: Duration = Duration::from_secs(2);
/// The name of a template's row in traces.
const TEMPLATE: &str = "template";
/// Says that the child is created in a cgroup v2 directory, which precedes the cgroup's files.
const INTO_CGROUP: u8 = 1;
/// Says that the first of the cgroup's files is that of cgroup v2.
const HAS_UNIFIED: u8 = 2;
/// Says that a seccomp filter follows the socket.
const HAS_FILTER: u8 = 4;
/// The beginning of a reason that a template or its child has given.
const REFUSED: &str = "refused: ";
/// The longest message of a template or its child, in bytes.
const LONGEST: usize = 256;

/// The types of namespaces that the child joins if its own differs from init's, in this order: the mount namespace
/// last, because it changes the root.
const KINDS: [(CloneFlags, &str); 5] = [
    (CloneFlags::NEWIPC, "ipc"),
    (CloneFlags::NEWUTS, "uts"),
    (CloneFlags::NEWNET, "net"),
    (CloneFlags::NEWCGROUP, "cgroup"),
    (CloneFlags::NEWNS, "mnt"),
];

/// A start whose program a template forks.
pub(crate) struct Fork<'a> {
    pub template: &'a Template,
    /// The child's end of the socket on which its stand-in lets it go.
    socket: OwnedFd,
    init: Option<(Pid, OwnedFd)>,
    child: Option<OwnedFd>,
    request: Option<Request>,
}

/// What the template is sent, besides init's PID namespace.
struct Request {
    /// The description of the program.
    body: OwnedFd,
    filter: Option<OwnedFd>,
    entrances: Entrances,
    /// The capabilities that the program is asked to have, if the configuration names them.
    capabilities: Option<Sets>,
}

impl<'a> Fork<'a> {
    /// Returns a start from `template`, and the socket for init.
    pub fn begin(template: &'a Template) -> Result<(Self, OwnedFd), sys::Error> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, of_init) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .context("socketpair", "stand-in")?;
        sys::sender::name_senders(&template.connection).context("setsockopt", "SO_PASSPIDFD")?;
        Ok((Self { template, socket, init: None, child: None, request: None }, of_init))
    }

    /// Takes the directory of the container's cgroup, which is to be closed late.
    pub fn take_cgroup(&mut self) -> Option<OwnedFd> {
        self.request.as_mut()?.entrances.directory.take()
    }

    /// Returns whether init has exited, or is about to: it waits for the other processes of its PID namespace.
    pub fn has_lost_init(&self) -> bool {
        let lost = |(pid, init): &(Pid, OwnedFd)| identity::has_exited(init) || verify::ends(*pid);
        self.init.as_ref().is_some_and(lost)
    }

    fn request(
        &self,
        plan: &Plan,
        cgroup: Option<&cgroup::Location>,
    ) -> Result<Request, sys::Error> {
        let body = Body::of(plan);
        let filter = plan.filter.as_ref().map(|filter| sealed(c"filter", &filter.instructions()));
        Ok(Request {
            body: body.file()?,
            filter: filter.transpose()?,
            entrances: cgroup.map(|cgroup| self.entrances(cgroup)).transpose()?.unwrap_or_default(),
            capabilities: body.capabilities,
        })
    }

    /// Asks the template to fork, once init exists, and describes the program.
    pub fn ask(
        &mut self,
        init: &Child,
        plan: &Plan,
        cgroup: Option<&cgroup::Location>,
    ) -> Result<(), Refusal> {
        let request = self.request(plan, cgroup).map_err(|error| error.to_string())?;
        self.send(&request, init).map_err(|error| error.to_string())?;
        self.request = Some(request);
        let pidfd = fcntl_dupfd_cloexec(&init.pidfd, 3).map_err(words)?;
        self.init = Some((init.pid, pidfd));
        Ok(())
    }

    fn send(&self, request: &Request, init: &Child) -> Result<(), sys::Error> {
        let Request { body, filter, entrances: Entrances { directory, unified, legacy }, .. } =
            request;
        let namespace = open_namespace(init.pid, "pid").context("open", "PID namespace")?;
        let mut flags = if unified.is_some() { HAS_UNIFIED } else { 0 };
        if directory.is_some() {
            flags |= INTO_CGROUP;
        }
        if filter.is_some() {
            flags |= HAS_FILTER;
        }
        let mut fds = alloc::vec![namespace.as_fd(), body.as_fd(), self.socket.as_fd()];
        fds.extend(filter.iter().chain(directory).map(AsFd::as_fd));
        let count = fds.len();
        fds.extend(unified.iter().chain(legacy).map(AsFd::as_fd));
        let places = u8::try_from(fds.len() - count).map_err(|_| Errno::TOOBIG);
        let message = [b'F', PROTOCOL, flags, places.context("send", "request")?];
        sys::fdpass::send_all(&self.template.connection, &message, &fds).context("send", "request")
    }

    /// Opens the ways into a cgroup.
    fn entrances(&self, location: &cgroup::Location) -> Result<Entrances, sys::Error> {
        let Template { cgroup: own, root, .. } = self.template;
        let is_granted = own
            .as_ref()
            .zip(*root)
            .is_some_and(|(own, root)| cgroups::grant_child(own, location, root));
        let open = || -> Result<Entrances, cgroup::Error> {
            let cgroup = Cgroup::open(location)?;
            Ok(Entrances {
                directory: cgroup.dir_fd().filter(|_| is_granted).and_then(alone),
                unified: cgroup.unified_procs_fd()?,
                legacy: cgroup.entrances(true)?,
            })
        };
        open().map_err(|_| sys::Error::new("open", location.directory().to_string(), Errno::NOENT))
    }

    /// Lets the child into the container, once init is ready, and verifies that the child is as described. Returns its
    /// pidfd. If this fails, the child is killed.
    pub fn complete(&mut self, plan: &Plan, trace: &Trace) -> Result<OwnedFd, Refusal> {
        let result = self.try_complete(plan, trace);
        if let (Err(_), Some(child)) = (&result, &self.child) {
            let _ = sys::signal::send(child.as_fd(), 9);
            sys::pidfd::wait_for_exit(child, DYING);
        }
        result
    }

    fn try_complete(&mut self, plan: &Plan, trace: &Trace) -> Result<OwnedFd, Refusal> {
        let (init, init_pidfd) = self.init.as_ref().ok_or("was not asked")?;
        // Hooks may have taken any time until now.
        let (template, deadline) = (self.template, Deadline::after(PATIENCE));
        let await_answer = |step, kind| {
            let answer = trace.wait(Phase::Sync, step, "", TEMPLATE, || {
                Ok::<_, sys::Error>(answer(template, deadline, kind))
            });
            answer.map_err(|error| error.to_string())?
        };
        let container = Interior::of(*init, init_pidfd);
        let born = await_answer("await fork", b'B')?;
        let pid = verify::pid_of(&born).map_err(|reason| last_words(template, deadline, reason))?;
        // A sender with capabilities in its PID namespace may name another process there, even init.
        if pid == *init {
            return Err("has an unknown child".into());
        }
        self.child = Some(born);
        let admit = || self.admit(&container?, pid);
        if let Err(error) = trace.work(Phase::Bootstrap, "admit forked program", "", admit) {
            return Err(last_words(template, deadline, error.to_string()));
        }
        // Done while the child enters the container.
        let since = trace.clock();
        verify::match_limits(*init, pid)
            .map_err(|reason| last_words(template, deadline, reason))?;
        let capabilities = self.request.as_ref().and_then(|request| request.capabilities);
        let model = verify::Model::of(*init, capabilities, plan.filter.is_some());
        trace.add(Phase::Security, "limit forked program", "", (since, trace.clock()));
        let child = await_answer("await forked program", b'R')?;
        let since = trace.clock();
        if verify::pid_of(&child)? != pid {
            return Err("has two children".into());
        }
        model.compare(pid)?;
        trace.add(Phase::Security, "verify forked program", "", (since, trace.clock()));
        // If the child is still alive now, its pid has not been reused.
        match sys::signal::send(child.as_fd(), 0) {
            Ok(()) => Ok(child),
            Err(_) => Err("lost its child".into()),
        }
    }

    /// Lets the child into the container that init has made: sends init's standard streams, and the namespaces that the
    /// child is not in already.
    fn admit(&self, container: &Interior, child: Pid) -> Result<(), sys::Error> {
        let mut message = alloc::vec![b'C'];
        let mut fds: Vec<BorrowedFd<'_>> = container.streams.iter().map(AsFd::as_fd).collect();
        for ((kind, name), namespace) in KINDS.into_iter().zip(&container.namespaces) {
            let wanted = fstat(namespace).context("fstat namespace", name)?;
            if verify::namespace(child, name) != Some(verify::identity(wanted)) {
                self.check_owner(namespace).context("pass namespace", name)?;
                message.extend_from_slice(&sys::raw::halves(kind.bits())[0].to_le_bytes());
                fds.push(namespace.as_fd());
            }
        }
        sys::fdpass::send_all(&self.template.connection, &message, &fds)
            .context("send", "namespaces")
    }

    /// Checks that a namespace belongs to the template's user namespace: it may not get one of the host.
    fn check_owner(&self, namespace: &OwnedFd) -> Result<(), Errno> {
        let owner = sys::nsfs::owner(namespace.as_fd())?;
        match sys::nsfs::is_same(owner.as_fd(), self.template.user.as_fd())? {
            true => Ok(()),
            false => Err(Errno::PERM),
        }
    }
}

/// What the child needs of the container that init has made.
struct Interior {
    streams: [OwnedFd; 3],
    /// Those of [`KINDS`].
    namespaces: [OwnedFd; KINDS.len()],
}

impl Interior {
    /// Opens init's streams and namespaces, once init is ready.
    fn of(init: Pid, pidfd: &OwnedFd) -> Result<Self, sys::Error> {
        // Init has replaced streams of the host that the container must not get (`own_standard_streams`).
        let stream = |number| {
            pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).context("pidfd_getfd", "init")
        };
        let open = |at: usize| {
            let (_, name) = KINDS[at];
            open_namespace(init, name).context("open namespace", name)
        };
        Ok(Self {
            streams: [stream(0)?, stream(1)?, stream(2)?],
            namespaces: [open(0)?, open(1)?, open(2)?, open(3)?, open(4)?],
        })
    }
}

/// The ways into a cgroup.
#[derive(Default)]
struct Entrances {
    /// The directory on cgroup v2, if the template may fork into it. It is on a mount of its own: when the last
    /// descriptor is closed, the kernel waits for an RCU grace period, some 0.1 ms. The child should not be the one that closes it last.
    directory: Option<OwnedFd>,
    /// cgroup.procs of cgroup v2.
    unified: Option<OwnedFd>,
    /// `tasks` of each v1 hierarchy.
    legacy: Vec<OwnedFd>,
}

/// Returns the directory on a mount of its own, read-only and attached nowhere. From the directory on the host's mount,
/// the template could walk up to the host's root. For CLONE_INTO_CGROUP, the mount does not matter.
fn alone(directory: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(directory, c"", flags).ok()?;
    let set = attr::RDONLY | attr::NOSUID | attr::NODEV | attr::NOEXEC;
    mount_setattr(tree.as_fd(), false, &MountAttr { set, ..MountAttr::default() }).ok()?;
    Some(tree)
}

/// Returns the reason that a child has given before it ended, or else `reason`, with which its end was noticed.
fn last_words(template: &Template, deadline: Deadline, reason: Refusal) -> Refusal {
    match answer(template, deadline, b'E') {
        Err(said) if said.starts_with(REFUSED) => said,
        _ => reason,
    }
}

/// Waits for an answer of this kind; returns the pidfd of its sender.
fn answer(template: &Template, deadline: Deadline, kind: u8) -> Result<OwnedFd, Refusal> {
    let connection = &template.connection;
    let mut bytes = [0u8; LONGEST];
    let (length, sender) = loop {
        match sys::sender::receive(connection, &mut bytes) {
            Err(Errno::AGAIN) => {}
            // The child has ended with a message unread.
            Err(Errno::CONNRESET) => break (0, None),
            result => break result.map_err(words)?,
        }
        let mut fds = [PollFd::new(connection, PollFlags::IN)];
        if !ready(&mut fds, deadline).map_err(|error| error.to_string())? {
            return Err(format!("did not answer within {} s", PATIENCE.as_secs()));
        }
    };
    match bytes.get(..length).unwrap_or_default() {
        [only] if *only == kind => sender.ok_or_else(|| "has an unknown child".into()),
        [] => Err("ended before it had forked the program".into()),
        [b'E', a, b, c, d, text @ ..] => {
            let number = i32::from_le_bytes([*a, *b, *c, *d]);
            let errno = match number {
                1..4096 => Errno::from_raw_os_error(number),
                _ => Errno::IO,
            };
            let text = printable(&String::from_utf8_lossy(text));
            Err(format!("{REFUSED}{text}: {}", sys::errno::describe(errno)))
        }
        _ => Err("sent an unknown answer".into()),
    }
}

fn words(errno: Errno) -> Refusal {
    sys::errno::describe(errno).into()
}
