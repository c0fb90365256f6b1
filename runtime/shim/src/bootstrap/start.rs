//! `start`: sees to it that a shim listens for a container's group, and says where.
//!
//! The daemon is a clone of the program that was started, without another exec. All that can fail comes before the
//! clone, so that whoever gets an answer has a shim: the socket listens when the answer is written.

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
use super::socket::{self, Claim};
use super::{Failure, address, group};
use crate::flags::Flags;
use crate::log::Log;

/// The environment variable that asks for a core scheduling cookie of its own.
const SCHED_CORE: &str = "SCHED_CORE";
/// The greatest oom_score_adj (proc_pid_oom_score_adj(5)).
const GREATEST_SCORE: i32 = 1000;
/// SIGPIPE's bit.
const PIPE: SignalSet = SignalSet(1 << 12);

/// What a shim that serves is made of.
#[derive(Debug)]
pub struct Daemon {
    /// The socket that containerd connects to: listens, non-blocking, close-on-exec.
    pub listener: OwnedFd,
    /// Its path. [`Daemon::retire`] removes it.
    pub socket_path: String,
    /// containerd's namespace.
    pub namespace: String,
    /// The container that it was started for.
    pub id: String,
    /// The group that it serves: the pod's id, or the container's.
    pub group: String,
    /// The bundle's absolute path. The working directory is `/`.
    pub bundle: String,
    /// containerd's socket for events, if it has named one.
    pub publish_address: Option<String>,
    /// containerd's socket for everything else; empty if it has named none.
    pub grpc_address: String,
    /// The options that it was started with.
    pub options: Options,
    /// The program's arguments and environment.
    pub args: sys::Args,
    /// For calls into the crate `container`: not written anywhere.
    pub trace: &'static Trace,
    /// Ways that starts may take.
    pub fast_paths: FastPaths,
    /// The log: the bundle's FIFO, which is standard error as well.
    pub log: Log,
    /// Whether every step is to be logged.
    pub debug: bool,
}

impl Daemon {
    /// Removes the socket, so that the shim can end, unless somebody has connected meanwhile: then that connection is
    /// returned, and is to be served.
    ///
    /// # Errors
    /// As [`socket::retire`].
    pub fn retire(&self) -> Result<Option<OwnedFd>, sys::Error> {
        socket::retire(&self.listener, &self.socket_path)
    }
}

/// What became of a start.
#[derive(Debug)]
pub enum Started {
    /// A shim listens, and the caller has been told. This is the process that was asked.
    Answered,
    /// This is the shim.
    Daemon(Box<Daemon>),
}

/// Starts; returns twice where there was no shim yet.
///
/// # Errors
/// If there is no shim afterwards.
pub fn start(args: sys::Args, flags: &Flags<'_>) -> Result<Started, Failure> {
    // May execute the program once more, which would find nothing on standard input.
    let (trace, fast_paths) = seal(args)?;
    let params = Params::read(&super::input()?, flags, |name| args.env(name))?;
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
        args,
        trace,
        fast_paths,
        debug: params.debug,
    };
    match leave_behind(&daemon, &reached, &answer) {
        Ok(Side::Caller(told)) => Ok(told.map(|()| Started::Answered)?),
        Ok(Side::Daemon) => Ok(Started::Daemon(Box::new(daemon))),
        Err(failure) => {
            // Nobody else can have taken the name: this process listens there still.
            let _ = rustix::fs::unlink(daemon.socket_path.as_str());
            Err(failure)
        }
    }
}

/// Which process this is after the clone.
#[derive(Debug)]
enum Side {
    /// The one that was asked, and whether it could answer. The socket is not its business any more.
    Caller(Result<(), sys::Error>),
    /// The shim, of which containerd has been told.
    Daemon,
}

/// Makes the daemon. Returns in both processes.
fn leave_behind(daemon: &Daemon, reached: &str, answer: &[u8]) -> Result<Side, Failure> {
    // containerd finds by it, when it comes up again, what it was not told or did not write down.
    write_whole(&daemon.bundle, ADDRESS, reached.as_bytes())?;
    // The daemon inherits all of these; this process is about to end.
    join(&daemon.options.shim_cgroup)?;
    raise_score()?;
    if daemon.args.env(SCHED_CORE).is_some_and(|text| !text.is_empty()) {
        let made = create_core_scheduling_cookie(getpid(), CoreSchedulingScope::ThreadGroup);
        made.context("prctl", "PR_SCHED_CORE")?;
    }
    // A write to who has gone fails, and ends nobody.
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
            // Who was killed before the answer leaves nobody behind who is not known.
            match retry_on_intr(|| read(&hears, &mut [0])) {
                Ok(1) => Ok(Side::Daemon),
                _ => Err("nobody was told of this shim".into()),
            }
        }
    }
}

/// Leaves all that is the caller's: session, standard streams, descriptors, working directory. Nothing else has been
/// opened in this program but the daemon's.
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
    // Containers of the group outlive this one's bundle.
    chdir("/").context("chdir", "/")
}

/// Moves the program out of a container's reach (CVE-2019-5736).
fn seal(args: sys::Args) -> Result<(&'static Trace, FastPaths), Failure> {
    let without = args.env(plan::WITHOUT).unwrap_or_default();
    let fast_paths = FastPaths::without(without).map_err(Failure::from)?;
    let trace: &'static Trace = Box::leak(Box::new(Trace::new("shim", args, 0, None)));
    trace.seal(args, fast_paths)?;
    Ok((trace, fast_paths))
}

/// Joins the cgroup that options name for the shim. It must be there.
fn join(path: &str) -> Result<(), Failure> {
    if path.is_empty() {
        return Ok(());
    }
    // Paths count from the root, as containerd's do.
    let path = format!("/{}", path.trim_start_matches('/'));
    let hierarchies = Hierarchies::detect()?;
    let location = Location::resolve(&hierarchies, Some(&path), "")?;
    Ok(Cgroup::open(&location)?.enter()?)
}

/// Makes this process a likelier victim of the OOM killer than containerd, by one, as containerd's shims do. What it
/// has is what containerd had when it started it.
fn raise_score() -> Result<(), Failure> {
    let file = "/proc/self/oom_score_adj";
    let text = sys::fs::read_text(file).context("read", file)?;
    let own: i32 = text.trim().parse().unwrap_or(0);
    let score = own.saturating_add(1).min(GREATEST_SCORE).to_string();
    Ok(sys::fs::write_at(CWD, file, score.as_bytes()).context("write", file)?)
}
