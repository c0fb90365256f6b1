//! Errors of a launch, which name step, object and errno.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use cgroup::resctrl;
use init::{Failure, SignalWords};
use plan::check::{Broken, check};
use plan::step::SecurityModule;
use plan::{CgroupPlan, Plan};
use rustix::fd::OwnedFd;
use sys::Errno;
use trace::Failed;

/// An error of a launch. When it is returned, everything that the launch had created has been
/// removed.
#[derive(Debug)]
pub enum Error {
    /// A step of the parent failed.
    Parent(sys::Error),
    /// A bug in the plan: its steps are in the wrong order, so that one step lacked the result of another.
    Plan {
        /// The broken rule.
        broken: Broken<'static>,
        /// The error of the step.
        cause: Box<Error>,
    },
    /// A step of the parent that prepares a mount of the configuration failed.
    Mount {
        /// The mount's source and destination.
        mount: String,
        /// The error of the step.
        error: sys::Error,
    },
    /// A step of init failed.
    Init {
        /// The step: name and object.
        step: String,
        /// The description of the failure.
        detail: String,
        /// The errno.
        errno: Errno,
    },
    /// execve(2) of the program failed.
    Exec {
        /// The error message.
        text: String,
        /// The errno.
        errno: Errno,
    },
    /// The program to run is missing or not executable.
    Program {
        /// The error message, in the form that engines parse.
        text: String,
        /// The errno: ENOENT, EACCES or another.
        errno: Errno,
    },
    /// The configuration would change the host.
    Refused(String),
    /// A hook failed.
    Hook(String),
    /// newuidmap(1) or newgidmap(1) failed.
    Helper(String),
    /// A cgroup operation failed.
    Cgroup(cgroup::Error),
    /// A resctrl operation failed.
    Resctrl(resctrl::Error),
    /// Assembling the root filesystem failed.
    Rootfs(rootfs::Error),
    /// The kernel lacks a security module that the configuration names.
    NoModule(SecurityModule),
    /// Init exited without a message. The usual cause is that the kernel killed init because its memory limit is too
    /// low.
    Died(String),
    /// The kernel kills every process created in the cgroup: see [`crate::kills_newborn`]. Contains the connection to
    /// the console socket, if any, for the next attempt: the socket's listener may accept only one connection.
    Stillborn(Option<OwnedFd>),
}

impl Error {
    /// Returns the error of an init that exited without a message; `signal` is the signal that killed it, if any.
    pub(crate) fn death(plan: &Plan, signal: Option<i32>) -> Self {
        Self::Died(match (signal, &plan.cgroup) {
            (Some(9), Some(CgroupPlan::Join { .. })) => {
                "the process was killed by SIGKILL (maybe the container has ended)".to_string()
            }
            (Some(9), Some(cgroup)) if cgroup.limits_memory() => {
                "container init was killed by SIGKILL (maybe its memory limit is too low)"
                    .to_string()
            }
            (Some(9), _) => "container init was killed by SIGKILL".to_string(),
            (Some(signal), _) => format!("container init was killed: {}", SignalWords(signal)),
            (None, _) => "container init ended unexpectedly".to_string(),
        })
    }

    /// Returns whether execve(2) of the program failed.
    pub fn is_of_exec(&self) -> bool {
        matches!(self, Self::Exec { .. })
    }

    /// Converts an error that results from a plan with steps in the wrong order to [`Error::Plan`], which contains the
    /// broken rule. Such an error is EBADF or ECHILD: a step finds no descriptor or process of an earlier step. Other
    /// errors are returned unchanged.
    #[cold]
    #[must_use]
    pub fn of_plan(self, plan: &'static Plan) -> Self {
        if ![Errno::BADF.errno(), Errno::CHILD.errno()].contains(&self.errno()) {
            return self;
        }
        match check(plan) {
            Ok(()) => self,
            Err(broken) => Self::Plan { broken, cause: Box::new(self) },
        }
    }
}

/// Returns init's description of a failure.
pub(crate) fn words(failure: &Failure) -> String {
    String::from_utf8_lossy(failure.text()).into_owned()
}

impl Failed for Error {
    fn errno(&self) -> u16 {
        match self {
            Self::Parent(error) | Self::Mount { error, .. } => error.errno(),
            Self::Plan { cause, .. } => cause.errno(),
            Self::Init { errno, .. } | Self::Exec { errno, .. } | Self::Program { errno, .. } => {
                errno.errno()
            }
            Self::Cgroup(cgroup::Error::System(error))
            | Self::Resctrl(resctrl::Error::System(error))
            | Self::Rootfs(rootfs::Error::System(error)) => error.errno(),
            Self::NoModule(_) => Errno::OPNOTSUPP.errno(),
            Self::Cgroup(_)
            | Self::Resctrl(_)
            | Self::Rootfs(_)
            | Self::Refused(_)
            | Self::Hook(_)
            | Self::Helper(_)
            | Self::Died(_)
            | Self::Stillborn(_) => Errno::CANCELED.errno(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parent(error) => write!(f, "unable to start container process: {error}"),
            Self::Plan { broken, cause } => {
                write!(f, "{cause}; {broken}: this is a bug in dayfly, please report it")
            }
            Self::Mount { mount, error } => {
                write!(f, "unable to start container process: {mount}: {error}")
            }
            Self::Init { step, detail, errno } => {
                f.write_str("unable to start container process: error during container init: ")?;
                f.write_str(step)?;
                if !detail.is_empty() {
                    write!(f, ": {detail}")?;
                }
                let operation = if detail.is_empty() { step } else { detail };
                write!(f, ": {}", sys::refusal::describe(operation, *errno))
            }
            Self::Exec { text, .. } | Self::Program { text, .. } => {
                write!(f, "unable to start container process: {text}")
            }
            Self::Refused(text) | Self::Hook(text) => f.write_str(text),
            Self::Cgroup(error) => write!(f, "unable to start container process: {error}"),
            Self::Resctrl(error) => write!(f, "unable to start container process: {error}"),
            Self::Rootfs(error) => write!(f, "unable to assemble the root filesystem: {error}"),
            Self::NoModule(SecurityModule::AppArmor) => {
                f.write_str("apparmor: config provided but apparmor not supported by this kernel")
            }
            Self::NoModule(SecurityModule::SeLinux) => f.write_str(
                "selinux label is specified in config, but selinux is disabled or not supported",
            ),
            Self::Stillborn(_) => f.write_str(
                "unable to start container process: the kernel kills processes that are created \
                 in the container's cgroup (since Linux 6.14, if cgroup.kill of the caller's \
                 cgroup was ever written to: run the command in another cgroup)",
            ),
            Self::Helper(text) | Self::Died(text) => {
                write!(f, "unable to start container process: {text}")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Parent(error) | Self::Mount { error, .. } => Some(error),
            Self::Plan { cause, .. } => Some(cause),
            Self::Cgroup(error) => Some(error),
            Self::Resctrl(error) => Some(error),
            Self::Rootfs(error) => Some(error),
            _ => None,
        }
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::Parent(error)
    }
}

impl From<rootfs::Error> for Error {
    fn from(error: rootfs::Error) -> Self {
        Self::Rootfs(error)
    }
}

impl From<resctrl::Error> for Error {
    fn from(error: resctrl::Error) -> Self {
        Self::Resctrl(error)
    }
}

impl From<cgroup::Error> for Error {
    fn from(error: cgroup::Error) -> Self {
        Self::Cgroup(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::error::Error as _;
    use plan::step::ParentStep;
    use plan::{FastPaths, Kernel, Labelled, Request};
    use spec::resources::{Memory, Resources};
    use trace::Tracer;

    fn compiled() -> Plan {
        let text = r#"{"ociVersion": "1.3.0", "root": {"path": "rootfs"},
            "process": {"cwd": "/", "args": ["true"]},
            "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}]}}"#;
        let spec = spec::Spec::parse(text).unwrap();
        let seccomp = seccomp::Support::default();
        let kernel = Kernel { version: (6, 18), seccomp, fast_paths: FastPaths::all() };
        plan::compile(&spec, &Request::new("test", "/bundle", kernel)).unwrap()
    }

    /// Returns a plan that contains only those steps of the parent for which `keep` returns true.
    fn with_steps(keep: impl Fn(&ParentStep) -> bool) -> &'static Plan {
        let mut plan = compiled();
        plan.parent.retain(keep);
        Box::leak(Box::new(plan))
    }

    fn no_slot() -> Error {
        Error::Init { step: "exec".into(), detail: "slot".into(), errno: Errno::BADF }
    }

    #[test]
    fn a_launch_names_the_rule_that_its_plan_breaks() {
        let plan = with_steps(|step| step.label().name == "commit");
        let tracer = Tracer::off();
        let launched = crate::start(plan, Vec::new(), None, c"/", &tracer);
        let error = launched.map(|_| ()).unwrap_err();
        let Error::Plan { broken, .. } = &error else { panic!("{error}") };
        let told = error.to_string();
        assert!(told.contains(&format!("; rule {} is broken: ", broken.rule.name)), "{told}");
        assert!(told.contains("steps out of order launch: no child process"), "{told}");
        let cause = error.source().and_then(|cause| cause.source()).expect("a chain");
        assert_eq!(cause.downcast_ref::<sys::Error>().map(|error| error.errno), Some(Errno::CHILD));
    }

    #[test]
    fn a_killed_init_is_told_with_a_cause_that_can_be() {
        let of = |resources: Option<Resources>| {
            let mut plan = compiled();
            let location = cgroup::Location { unified: None, legacy: Vec::new(), unit: None };
            plan.cgroup = Some(match resources {
                Some(resources) => {
                    CgroupPlan::Create { location, resources: Box::new(resources), as_user: false }
                }
                None => CgroupPlan::Join { location, or_that_of: None },
            });
            Error::death(&plan, Some(9)).to_string()
        };
        let killed = "unable to start container process: container init was killed by SIGKILL";
        assert_eq!(of(Some(Resources::default())), killed);
        let memory = Memory { limit: Some(1), ..Memory::default() };
        let limited = Resources { memory: Some(memory), ..Resources::default() };
        let reason = " (maybe its memory limit is too low)";
        assert_eq!(of(Some(limited)), [killed, reason].concat());
        assert!(of(None).ends_with("killed by SIGKILL (maybe the container has ended)"));
    }

    #[test]
    fn only_what_comes_of_a_broken_plan_is_told_as_such() {
        let broken = with_steps(|step| step.label().name == "commit");
        assert!(matches!(no_slot().of_plan(broken), Error::Plan { .. }));
        assert!(matches!(no_slot().of_plan(with_steps(|_| true)), Error::Init { .. }));
        let other = Error::Parent(sys::Error::new("mkdir", "/a", Errno::NOSPC));
        assert!(matches!(other.of_plan(broken), Error::Parent(_)));
    }
}
