//! Finds the template that a start names, and checks that it suits the container.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use cgroup::Location;
use plan::{Caller, Kernel};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, Uid, openat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use rustix::process::Pid;
use spec::{Hooks, IdMapping, Linux, Namespace, NamespaceKind, Process, Spec, Str};
use sys::wait::{Deadline, ready};

use super::{FOR, FORKED, PROTOCOL, REQUESTS, Refusal, cgroups, verify};
use crate::directory::path_in;
use crate::identity::has_exited;
use crate::{CgroupDriver, Container, Store, annotations};

/// The first version that tells the status of a process that another one has reaped (`sys::exit_info`).
const NEEDED: (u32, u32) = (6, 15);

/// A template that serves requests, with a connection to it.
#[derive(Debug)]
pub(crate) struct Template {
    pub name: String,
    pub connection: OwnedFd,
    /// Its user and PID namespaces, which the new container's are made in.
    pub user: OwnedFd,
    pid: OwnedFd,
    /// The first process of its PID namespace.
    reaper: (Pid, OwnedFd),
    /// Its directory in the state root.
    directory: OwnedFd,
    /// Its bundle.
    bundle: String,
    /// Its cgroup, if dayfly manages the new container's, too.
    pub cgroup: Option<Location>,
    /// The uid on the host of the root of its user namespace.
    pub root: Option<Uid>,
}

impl Template {
    /// Connects to the template `name`, if it suits the container.
    pub fn find(
        store: &Store,
        name: &str,
        spec: &Spec<'_>,
        by: NamedBy,
        driver: CgroupDriver,
    ) -> Result<Self, Refusal> {
        if Caller::probe(None).is_confined() {
            return Err("can be used only by root of the host".into());
        }
        if let Some(lack) = lack() {
            return Err(lack);
        }
        let linux = spec.linux.as_deref().ok_or("needs a new user namespace for each container")?;
        suits(spec, linux)?;
        let container = store.container(name).map_err(|_| "does not exist")?;
        if by == NamedBy::Annotation && !is_for(&container, spec) {
            return Err("is not for this container (\"template create --for\")".into());
        }
        let connection = reach(&container).map_err(|errno| match errno {
            Errno::NOENT => String::from("is a container, but no template"),
            Errno::CONNREFUSED => String::from("has ended"),
            errno => format!("does not answer: {}", sys::errno::describe(errno)),
        })?;
        let (pid, reaper) = container.init().ok_or("has ended")?;
        if mappings(pid, "uid_map") != Some(IdMapping::text(&linux.uid_mappings))
            || mappings(pid, "gid_map") != Some(IdMapping::text(&linux.gid_mappings))
        {
            return Err("maps other ids than this container".into());
        }
        let open = |kind| open_namespace(pid, kind).map_err(|_| "has ended");
        let found = Self {
            name: name.into(),
            connection,
            user: open("user")?,
            pid: open("pid")?,
            reaper: (pid, reaper),
            directory: container.directory,
            bundle: container.record.bundle,
            cgroup: container.record.cgroup.filter(|_| driver == CgroupDriver::Cgroupfs),
            root: cgroups::root_of(&linux.uid_mappings),
        };
        // If the template is still alive now, its pid has not been reused.
        sys::signal::send(found.reaper.1.as_fd(), 0).map_err(|_| "has ended")?;
        Ok(found)
    }

    /// Returns whether the template has ended, or is ending. If its reaper exits, the kernel first kills all processes in
    /// its PID namespace, among them new inits, and creates no more there. The reaper's exit is complete only when all of
    /// them are reaped, also an init that this command has not reaped. If the program alone has ended, nobody listens.
    pub fn has_ended(&self) -> bool {
        let (pid, reaper) = &self.reaper;
        has_exited(reaper) || verify::ends(*pid) || reach_in(&self.directory).is_err()
    }

    /// Puts the container into the template's user and PID namespaces: the user namespace is joined instead of created,
    /// and the container's own PID namespace becomes a child of the template's.
    pub fn enter(&self, spec: &mut Spec<'_>, id: &str, bundle: &str) {
        let Some(linux) = &mut spec.linux else { return };
        let path = |fd: &OwnedFd| Some(Str::from(format!("/proc/self/fd/{}", fd.as_raw_fd())));
        for namespace in &mut linux.namespaces {
            if namespace.kind == NamespaceKind::User {
                namespace.path = path(&self.user);
            }
        }
        linux.namespaces.push(Namespace { kind: NamespaceKind::Pid, path: path(&self.pid) });
        // The path in the template's own bundle is the same for all containers of that bundle.
        if bundle == self.bundle || linux.cgroups_path.as_deref().is_none_or(str::is_empty) {
            let cgroup = self.cgroup.as_ref();
            linux.cgroups_path =
                cgroup.and_then(|cgroup| cgroups::of_child(cgroup, id)).map(Str::from);
        }
        spec.annotations.insert(FORKED.into(), self.name.clone().into());
    }
}

/// Who has named a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The command line.
    Option,
    /// The container's configuration, which may come from a user who owns neither the host nor the template.
    Annotation,
}

/// Returns whether a template was made for containers with one of this container's annotations.
fn is_for(template: &Container, spec: &Spec<'_>) -> bool {
    let mut own = template.record.annotations.iter();
    own.find(|(key, _)| key == FOR).is_some_and(|(_, pair)| annotations::has(spec, pair))
}

/// Connects to a template without waiting.
pub(super) fn reach(container: &Container) -> Result<OwnedFd, Errno> {
    reach_in(&container.directory)
}

fn reach_in(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let path = path_in(directory.as_fd(), REQUESTS);
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    // The close of a descriptor that the template passes could take any time (SO_LINGER).
    sys::sender::refuse_descriptors(&socket);
    Ok(socket)
}

/// Whether a template serves requests.
pub(super) enum Greeting {
    Serves,
    /// It did not answer in time.
    Silent,
    /// Nobody listens any more.
    Ended,
}

/// Asks a template whether it serves requests, and waits for the answer.
pub(super) fn greet(container: &Container, deadline: Deadline) -> Greeting {
    let asked = reach(container).and_then(|connection| {
        send(&connection, &[b'H', PROTOCOL], SendFlags::NOSIGNAL).map(|_| connection)
    });
    let Ok(connection) = asked else { return Greeting::Ended };
    let mut fds = [PollFd::new(&connection, PollFlags::IN)];
    if ready(&mut fds, deadline) != Ok(true) {
        return Greeting::Silent;
    }
    let mut answer = [0u8; 1];
    match recv(&connection, &mut answer, RecvFlags::DONTWAIT) {
        Ok((_, length)) if length > 0 => Greeting::Serves,
        _ => Greeting::Ended,
    }
}

/// Returns the reason why a forked program cannot have what the configuration asks for, if any. The patterns name all
/// fields: a new field does not compile before it is decided here whether a forked program can have it. Of the fields
/// that are left out, init's steps set those of the container, and the child of the template gets those of the process
/// from its request and from init.
fn suits(spec: &Spec<'_>, linux: &Linux<'_>) -> Result<(), Refusal> {
    let Spec {
        process,
        hooks,
        linux: _,
        oci_version: _,
        root: _,
        hostname: _,
        domainname: _,
        mounts: _,
        annotations: _,
        vm: _,
        solaris: _,
        windows: _,
        zos: _,
        freebsd: _,
    } = spec;
    let Hooks {
        create_container,
        start_container,
        prestart: _,
        create_runtime: _,
        poststart: _,
        poststop: _,
    } = hooks;
    let Linux {
        uid_mappings: _,
        gid_mappings: _,
        namespaces: _,
        intel_rdt,
        memory_policy,
        personality,
        sysctl: _,
        resources: _,
        cgroups_path: _,
        devices: _,
        net_devices: _,
        seccomp: _,
        rootfs_propagation: _,
        masked_paths: _,
        readonly_paths: _,
        mount_label: _,
        time_offsets: _,
    } = linux;
    for (kind, name) in [
        (NamespaceKind::User, "user"),
        (NamespaceKind::Pid, "PID"),
        (NamespaceKind::Mount, "mount"),
    ] {
        if linux.namespace(kind).is_none_or(|namespace| namespace.path.is_some()) {
            return Err(format!("needs a new {name} namespace for each container"));
        }
    }
    if let Some(reason) = maps_root(linux) {
        return Err(reason.into());
    }
    // A hook in the container's PID namespace is dumpable after its exec, so the template could trace it; before
    // pivot_root(2), its root is the host's.
    if !create_container.is_empty() || !start_container.is_empty() {
        return Err("cannot fork a program with hooks inside the container".into());
    }
    let Some(process) = process else { return Ok(()) };
    let Process {
        terminal,
        scheduler,
        io_priority,
        apparmor_profile,
        selinux_label,
        // For `has_admin`.
        capabilities: _,
        user: _,
        console_size: _,
        args: _,
        env: _,
        cwd: _,
        rlimits: _,
        no_new_privileges: _,
        oom_score_adj: _,
        // For programs of `exec`, which a template does not fork.
        exec_cpu_affinity: _,
    } = process;
    let unsuitable = [
        (*terminal, "a terminal"),
        (scheduler.is_some(), "a scheduler"),
        (io_priority.is_some(), "an I/O priority"),
        (apparmor_profile.as_ref().is_some_and(|name| !name.is_empty()), "AppArmor"),
        (selinux_label.as_ref().is_some_and(|label| !label.is_empty()), "SELinux"),
        (linux.namespace(NamespaceKind::Time).is_some(), "a time namespace"),
        (intel_rdt.is_some(), "linux.intelRdt"),
        (has_admin(process), "CAP_SYS_ADMIN"),
        (memory_policy.is_some(), "a memory policy"),
        (personality.is_some(), "a personality"),
    ];
    match unsuitable.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, what)) => Err(format!("cannot fork a program with {what}")),
        None => Ok(()),
    }
}

/// Returns whether a process has CAP_SYS_ADMIN. In the user namespace that all containers of a template share, it would
/// lead to the template and to all of them (file handles of namespaces, Linux 6.18).
fn has_admin(process: &Process<'_>) -> bool {
    let Some(sets) = &process.capabilities else { return process.user.uid == 0 };
    let mut all = sets.bounding.iter().chain(&sets.permitted).chain(&sets.effective);
    all.any(|name| name.as_str() == "CAP_SYS_ADMIN")
}

/// Returns a reason if the host's root is among the mapped ids: as that user, a template could write files of the host
/// once it has removed the mounts that protect them, which its user namespace owns.
pub(super) fn maps_root(linux: &Linux<'_>) -> Option<&'static str> {
    let mut all = linux.uid_mappings.iter().chain(&linux.gid_mappings);
    let is_root = |mapping: &IdMapping| mapping.host_id == 0 && mapping.size > 0;
    all.any(is_root).then_some("needs ids that do not include the host's root")
}

/// Returns what the kernel lacks for templates, if anything.
pub(super) fn lack() -> Option<Refusal> {
    let (major, minor) = Kernel::probe().version;
    let is_old = (major, minor) < NEEDED;
    is_old.then(|| {
        let (wanted, least) = NEEDED;
        format!("needs Linux {wanted}.{least}; this is {major}.{minor}")
    })
}

/// Opens a namespace of a process.
pub(super) fn open_namespace(pid: Pid, kind: &str) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/{}/ns/{kind}", pid.as_raw_nonzero());
    openat(CWD, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Reads the id mappings of a process, one per line.
fn mappings(pid: Pid, file: &str) -> Option<String> {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    let map = sys::fs::read_text(path.as_str()).ok()?;
    let mut lines = String::new();
    for line in map.lines() {
        let mut words = line.split_whitespace();
        let _ = writeln!(lines, "{} {} {}", words.next()?, words.next()?, words.next()?);
    }
    Some(lines)
}
