//! `start`: ensures that a shim listens for a container's group, and returns its address.
//!
//! The daemon is a clone of the started program, without another exec. All operations that can fail come before the
//! clone, so that an answer implies a running shim: the socket is listening when the answer is written.

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
use sys::clone::Clone;
use sys::signal::SignalSet;

use super::bundle::write_whole;
use super::delete::ADDRESS;
use super::params::{Params, answer};
use super::settings::Settings;
use super::socket::{self, Claim};
use super::{Failure, address, group};
use crate::flags::Flags;
use crate::log::Log;

/// The environment variable that requests a core scheduling cookie for the shim.
const SCHED_CORE: &str = "SCHED_CORE";
/// The maximum oom_score_adj (proc_pid_oom_score_adj(5)).
const GREATEST_SCORE: i32 = 1000;
/// SIGPIPE's bit.
const PIPE: SignalSet = SignalSet(1 << 12);

/// The resources of a serving shim.
#[derive(Debug)]
pub struct Daemon {
    /// The socket to which containerd connects: listening, non-blocking, close-on-exec.
    pub listener: OwnedFd,
    /// The socket's path. [`Daemon::retire`] removes the socket.
    pub socket_path: String,
    /// containerd's namespace.
    pub namespace: String,
    /// The container for which the shim was started.
    pub id: String,
    /// The group that the shim serves: the pod's id, or the container's.
    pub group: String,
    /// The bundle's absolute path. The working directory is `/`.
    pub bundle: String,
    /// containerd's event socket, if given.
    pub publish_address: Option<String>,
    /// containerd's main socket; empty if not given.
    pub grpc_address: String,
    /// The options passed to `start`.
    pub options: Options,
    /// The settings of the host.
    pub settings: Settings,
    /// The program's arguments and environment.
    pub args: sys::Args,
    /// The trace for calls into the crate `container`: not written anywhere.
    pub trace: &'static Trace,
    /// The fast paths that starts may use.
    pub fast_paths: FastPaths,
    /// The log: the bundle's FIFO, which is also standard error.
    pub log: Log,
    /// Whether every step is logged.
    pub debug: bool,
}

impl Daemon {
    /// Removes the socket, so that the shim can exit. If a client has connected meanwhile, the socket stays, and the
    /// client's connection is returned, which must be served.
    ///
    /// # Errors
    /// As [`socket::retire`].
    pub fn retire(&self) -> Result<Option<OwnedFd>, sys::Error> {
        socket::retire(&self.listener, &self.socket_path)
    }
}

/// The result of a start.
#[derive(Debug)]
pub enum Started {
    /// A shim listens, and the caller has its address. This is the original process.
    Answered,
    /// This is the shim.
    Daemon(Box<Daemon>),
}

/// Starts a shim; returns twice if the group had none yet.
///
/// # Errors
/// If the group has no shim afterwards.
pub fn start(args: sys::Args, flags: &Flags<'_>) -> Result<Started, Failure> {
    // This may execute the program once more, which would find standard input empty.
    let (trace, fast_paths) = seal(args)?;
    let params = Params::read(&super::input()?, flags, |name| args.env(name))?;
    let settings = Settings::read(args)?;
    let bundle = super::working_directory()?;
    let group = group::of(&bundle, flags.id)?;
    let directory = params.socket_dir.as_deref();
    let path = address::path(directory, &params.grpc_address, flags.namespace, &group);
    let reached = format!("{}{path}", address::SCHEME);
    let answer = answer(params.language, &reached);
    let listener = match socket::claim(&path)? {
        Claim::Served => {
            write_whole(&bundle, ADDRESS, reached.as_bytes())?;
            super::print(&answer)?;
            return Ok(Started::Answered);
        }
        Claim::Ours(listener) => listener,
    };
    let daemon = Daemon {
        listener,
        socket_path: path,
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
    match leave_behind(&daemon, &reached, &answer) {
        Ok(Side::Caller(told)) => Ok(told.map(|()| Started::Answered)?),
        Ok(Side::Daemon) => Ok(Started::Daemon(Box::new(daemon))),
        Err(failure) => {
            // The name cannot belong to another process: this process still listens there.
            let _ = rustix::fs::unlink(daemon.socket_path.as_str());
            Err(failure)
        }
    }
}

/// The process after the clone.
#[derive(Debug)]
enum Side {
    /// The original process, and the result of writing the answer. It no longer manages the socket.
    Caller(Result<(), sys::Error>),
    /// The shim. containerd has its address.
    Daemon,
}

/// Creates the daemon. Returns in both processes.
fn leave_behind(daemon: &Daemon, reached: &str, answer: &[u8]) -> Result<Side, Failure> {
    // After a restart, containerd uses it to find a shim that it did not learn of or did not record.
    write_whole(&daemon.bundle, ADDRESS, reached.as_bytes())?;
    // The daemon inherits all of these; this process is about to exit.
    join(&daemon.options.shim_cgroup)?;
    raise_score()?;
    if daemon.args.env(SCHED_CORE).is_some_and(|text| !text.is_empty()) {
        let made = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup);
        made.context("prctl", "PR_SCHED_CORE")?;
    }
    // A write to a closed connection fails instead of killing the process.
    sys::signal::set_mask(PIPE).context("rt_sigprocmask", "")?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let null = null.context("open", "/dev/null")?;
    let (hears, tells) = pipe_with(PipeFlags::CLOEXEC).context("pipe2", "")?;
    match launch::copy_process().context("clone3", "daemon")? {
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
            // If the caller was killed before the answer, the daemon must not stay behind unknown.
            match retry_on_intr(|| read(&hears, &mut [0])) {
                Ok(1) => Ok(Side::Daemon),
                _ => Err("nobody was told of this shim".into()),
            }
        }
    }
}

/// Releases the caller's session, standard streams, descriptors and working directory. This program has opened no
/// others except the daemon's.
fn settle(daemon: &Daemon, null: OwnedFd, hears: &OwnedFd) -> Result<(), sys::Error> {
    setsid().context("setsid", "")?;
    // The caller waits for the end of its standard output.
    sys::stdio::replace(sys::stdio::stdin(), null.as_fd()).context("dup3", "stdin")?;
    sys::stdio::replace(sys::stdio::stdout(), null.as_fd()).context("dup3", "stdout")?;
    let log = daemon.log.fd().unwrap_or(null.as_fd());
    sys::stdio::replace(sys::stdio::stderr(), log).context("dup3", "stderr")?;
    drop(null);
    let mut kept = vec![daemon.listener.as_raw_fd(), hears.as_raw_fd()];
    kept.extend(daemon.log.fd().map(|fd| fd.as_raw_fd()));
    sys::exec::close_all_but(3, &kept).context("close_range", "")?;
    sys::signal::hear_of_children();
    // The group's containers outlive this container's bundle.
    chdir("/").context("chdir", "/")
}

/// Protects the program from containers (CVE-2019-5736).
fn seal(args: sys::Args) -> Result<(&'static Trace, FastPaths), Failure> {
    let without = args.env(plan::WITHOUT).unwrap_or_default();
    let fast_paths = FastPaths::without(without).map_err(Failure::from)?;
    let trace: &'static Trace = Box::leak(Box::new(Trace::new("shim", args, 0, None)));
    trace.seal(args, fast_paths)?;
    Ok((trace, fast_paths))
}

/// Joins the cgroup that the options name for the shim. The cgroup must exist.
fn join(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Ok(());
    }
    // Paths are relative to the root, as containerd's are.
    let path = format!("/{}", path.trim_start_matches('/'));
    let hierarchies = Hierarchies::detect()?;
    let location = Location::resolve(&hierarchies, Some(&path), "")?;
    Ok(Cgroup::open(&location)?.enter()?)
}

/// Raises this process's OOM score above containerd's by one, as containerd's shims do. The current score is inherited
/// from containerd.
fn raise_score() -> Result<(), Failure> {
    let file = "/proc/self/oom_score_adj";
    let text = sys::fs::read_text(file).context("read", file)?;
    let own: i32 = text.trim().parse().unwrap_or(0);
    let score = own.saturating_add(1).min(GREATEST_SCORE).to_string();
    Ok(sys::fs::write_at(CWD, file, score.as_bytes()).context("write", file)?)
}
