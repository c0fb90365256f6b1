//! `start`: ensures that a shim listens for the container's group, and returns its address.
//!
//! The daemon is a clone of the started program; no program is executed. Everything that is likely to fail precedes the
//! clone and the answer. So the answer means that a shim is running, whose socket already listens.
//!
//! The daemon continues only when the answer is written. If `start` is killed before, nobody learns the address, and
//! the daemon exits.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use cgroup::{Cgroup, Hierarchies, Location};
use container::Trace;
use plan::FastPaths;
use proto::messages::options::Options;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{chdir, getpid, setsid};
use rustix::thread::{CoreSchedulingScope, create_core_scheduling_cookie};
use sys::Context;
use sys::clone::{Clone, CloneFlags, clone3};
use sys::signal::SignalSet;

use super::bundle::write_whole;
use super::delete::ADDRESS;
use super::params::{Params, answer};
use super::settings::Settings;
use super::socket::{self, Claim};
use super::{Failure, address, group};
use crate::flags::Flags;
use crate::log::Log;

/// The environment variable that requests a core scheduling cookie for the shim (PR_SCHED_CORE).
const SCHED_CORE: &str = "SCHED_CORE";
/// The maximum oom_score_adj (proc_pid_oom_score_adj(5)).
const GREATEST_SCORE: i32 = 1000;
/// SIGPIPE's bit.
const PIPE: SignalSet = SignalSet(1 << 12);

/// The resources of a shim that serves calls.
#[derive(Debug)]
pub struct Daemon {
    /// The socket to which containerd connects: listening, non-blocking, close-on-exec.
    pub listener: OwnedFd,
    /// The socket's path. [`Daemon::retire`] removes the socket's file.
    pub socket_path: String,
    /// containerd's namespace.
    pub namespace: String,
    /// The container for which the shim was started.
    pub id: String,
    /// The group that the shim serves: the id of the pod or of the container, or the value of the group annotation.
    pub group: String,
    /// The absolute path of the bundle of the container `id`. The shim's working directory is `/`.
    pub bundle: String,
    /// The address of containerd's event socket, if given.
    pub publish_address: Option<String>,
    /// The address of containerd's main socket; empty if not given.
    pub grpc_address: String,
    /// The options passed to `start`.
    pub options: Options,
    /// The settings of the host.
    pub settings: Settings,
    /// The program's arguments and environment.
    pub args: sys::Args,
    /// The trace that functions of the crate `container` require. It is not written anywhere.
    pub trace: &'static Trace,
    /// The fast paths that may be used for starting containers.
    pub fast_paths: FastPaths,
    /// The log, written to the bundle's FIFO, which is also the shim's standard error.
    pub log: Log,
    /// Whether every step is logged.
    pub debug: bool,
}

impl Daemon {
    /// Removes the socket, so that the shim can exit. If a client has already connected, the socket stays, and the
    /// client's connection is returned. The caller must serve this connection.
    ///
    /// # Errors
    /// Those of [`socket::retire`].
    pub fn retire(&self) -> Result<Option<OwnedFd>, sys::Error> {
        socket::retire(&self.listener, &self.socket_path)
    }
}

/// The result of [`start`].
#[derive(Debug)]
pub enum Started {
    /// The result in the original process: a shim listens, and its address was printed.
    Answered,
    /// The result in the daemon: the resources of the new shim.
    Daemon(Box<Daemon>),
}

/// Ensures that the group has a shim. If the group had none, a daemon is created, and the function returns in both
/// processes.
///
/// # Errors
/// If the group has no shim.
pub fn start(args: sys::Args, flags: &Flags<'_>) -> Result<Started, Failure> {
    // The program is sealed before standard input is read: sealing may execute the program again, which would then find
    // the input empty.
    let (trace, fast_paths) = seal(args)?;
    let params = Params::read(&super::input()?, flags, |name| args.env(name))?;
    let bundle = super::working_directory()?;
    let group = group::of(&bundle, flags.id)?;
    let directory = params.socket_dir.as_deref();
    let path = address::path(directory, &params.grpc_address, flags.namespace, &group);
    let reached = format!("{}{path}", address::SCHEME);
    let answer = answer(params.language, &reached);
    // After a restart, containerd reads this file to find a shim whose address it has not received or not recorded. If
    // this process is killed, `delete` finds its socket by this file, which therefore exists before the socket.
    write_whole(&bundle, ADDRESS, reached.as_bytes())?;
    let listener = match socket::claim(&path)? {
        Claim::Served => {
            super::print(&answer)?;
            return Ok(Started::Answered);
        }
        Claim::Ours(listener) => listener,
    };
    // The path refers to this process's own socket, because no other process replaces a socket on which a process
    // listens.
    let abandon = |_: &Failure| _ = rustix::fs::unlink(path.as_str());
    let settings = Settings::read(args).inspect_err(abandon)?;
    let daemon = Daemon {
        listener,
        socket_path: path.clone(),
        namespace: flags.namespace.to_string(),
        id: flags.id.to_string(),
        log: Log::of_bundle(&bundle, params.debug, flags.namespace, &group),
        group,
        bundle,
        publish_address: params.ttrpc_address,
        grpc_address: params.grpc_address,
        options: params.options,
        settings,
        args,
        trace,
        fast_paths,
        debug: params.debug,
    };
    match leave_behind(&daemon, &answer).inspect_err(abandon)? {
        Side::Caller(told) => Ok(told.map(|()| Started::Answered)?),
        Side::Daemon => Ok(Started::Daemon(Box::new(daemon))),
    }
}

/// The two processes after the clone.
#[derive(Debug)]
enum Side {
    /// The original process, with the result of printing the answer. The socket now belongs to the daemon.
    Caller(Result<(), sys::Error>),
    /// The daemon, whose address containerd has received.
    Daemon,
}

/// Creates the daemon by a clone. Returns in both processes.
fn leave_behind(daemon: &Daemon, answer: &[u8]) -> Result<Side, Failure> {
    // The daemon inherits the following settings. This process, which they also affect, exits soon.
    join(&daemon.options.shim_cgroup)?;
    raise_score()?;
    if daemon.args.env(SCHED_CORE).is_some_and(|text| !text.is_empty()) {
        let made = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup);
        made.context("prctl", "PR_SCHED_CORE")?;
    }
    // A write to a closed pipe or connection must fail with EPIPE instead of killing the process.
    sys::signal::set_mask(PIPE).context("rt_sigprocmask", "")?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let null = null.context("open", "/dev/null")?;
    let (hears, tells) = pipe_with(PipeFlags::CLOEXEC).context("pipe2", "")?;
    match clone3(CloneFlags::empty(), None).context("clone3", "daemon")? {
        Clone::Parent(_) => {
            let told = super::print(answer);
            if told.is_ok() {
                let _ = write(&tells, &[1]);
            }
            Ok(Side::Caller(told))
        }
        Clone::Child => {
            drop(tells);
            settle(daemon, null, &hears)?;
            // If the original process was killed before it could print the answer, the daemon must exit, since
            // containerd does not know of it.
            match retry_on_intr(|| read(&hears, &mut [0])) {
                Ok(1) => Ok(Side::Daemon),
                _ => Err("the shim's address was not passed to containerd".into()),
            }
        }
    }
}

/// Detaches the daemon from the original process's session, standard streams, descriptors and working directory. Only
/// the daemon's own descriptors stay open.
fn settle(daemon: &Daemon, null: OwnedFd, hears: &OwnedFd) -> Result<(), sys::Error> {
    setsid().context("setsid", "")?;
    // containerd waits until no process has the original process's standard output open.
    sys::stdio::replace(sys::stdio::stdin(), null.as_fd()).context("dup3", "stdin")?;
    sys::stdio::replace(sys::stdio::stdout(), null.as_fd()).context("dup3", "stdout")?;
    let log = daemon.log.fd().unwrap_or(null.as_fd());
    sys::stdio::replace(sys::stdio::stderr(), log).context("dup3", "stderr")?;
    drop(null);
    let mut kept = vec![daemon.listener.as_raw_fd(), hears.as_raw_fd()];
    kept.extend(daemon.log.fd().map(|fd| fd.as_raw_fd()));
    #[expect(unsafe_code, reason = "descriptors of the copied memory are closed")]
    // SAFETY: of the values that this process has copied, the daemon uses and drops only owners of kept descriptors.
    unsafe { sys::exec::close_all_but(3, &kept) }.context("close_range", "")?;
    sys::signal::reset_sigchld();
    // The group's other containers may exist longer than this container's bundle, which must not stay in use as the
    // working directory.
    chdir("/").context("chdir", "/")
}

/// Protects the program's executable from containers (CVE-2019-5736).
fn seal(args: sys::Args) -> Result<(&'static Trace, FastPaths), Failure> {
    let without = args.env(plan::WITHOUT).unwrap_or_default();
    let fast_paths = FastPaths::without(without).map_err(Failure::from)?;
    let trace: &'static Trace = Box::leak(Box::new(Trace::new("shim", args, 0, None)));
    trace.seal(args, fast_paths)?;
    Ok((trace, fast_paths))
}

/// Moves this process into the cgroup that the options specify for the shim. The cgroup must exist.
fn join(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Ok(());
    }
    // As in containerd, the path is relative to the root cgroup.
    let path = format!("/{}", path.trim_start_matches('/'));
    let hierarchies = Hierarchies::detect()?;
    let location = Location::resolve(&hierarchies, Some(&path), "")?;
    Ok(Cgroup::open(&location)?.enter()?)
}

/// Sets this process's oom_score_adj to containerd's value, which it has inherited, plus one, as containerd's shims do.
fn raise_score() -> Result<(), Failure> {
    let file = "/proc/self/oom_score_adj";
    let text = sys::fs::read_text(file).context("read", file)?;
    let own: i32 = text.trim().parse().unwrap_or(0);
    let score = own.saturating_add(1).min(GREATEST_SCORE).to_string();
    Ok(sys::fs::write_at(CWD, file, score.as_bytes()).context("write", file)?)
}
