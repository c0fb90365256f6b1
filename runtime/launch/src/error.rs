//! Why a launch failed, in words that name step, object and errno.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use init::Failure;
use plan::Plan;
use plan::check::{Broken, check};
use plan::step::SecurityModule;
use rustix::fd::OwnedFd;
use sys::Errno;
use trace::Failed;

/// Why a launch failed. Whatever it had made is gone when this is returned.
#[derive(Debug)]
pub enum Error {
    /// A step of the parent.
    Parent(sys::Error),
    /// A bug of the plan: it breaks a rule of order, so that a step lacked what another one was to leave for it.
    Plan {
        /// The rule.
        broken: Broken<'static>,
        /// The step's failure.
        cause: Box<Error>,
    },
    /// A step of the parent for a mount of the configuration.
    Mount {
        /// What was to be mounted where.
        mount: String,
        /// What exactly failed.
        error: sys::Error,
    },
    /// A step of init.
    Init {
        /// The step: name and object.
        step: String,
        /// What exactly failed.
        detail: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The program to run is not there or may not be run.
    Program {
        /// In the words that engines look for.
        text: String,
        /// ENOENT, EACCES or another.
        errno: Errno,
    },
    /// What the configuration asks for would be done to the host.
    Refused(String),
    /// A hook.
    Hook(String),
    /// newuidmap(1) or newgidmap(1).
    Helper(String),
    /// The cgroup.
    Cgroup(cgroup::Error),
    /// The group of the resctrl file system.
    Resctrl(resctrl::Error),
    /// The root filesystem.
    Rootfs(rootfs::Error),
    /// The kernel does not have a security module that the configuration names.
    NoModule(SecurityModule),
    /// Init ended without a word: killed from outside, mostly by a memory limit it cannot start in.
    Died(String),
    /// The kernel kills whoever is born into the cgroup: see [`crate::kills_newborn`]. With the connection to the
    /// console socket, if one was made: its listener may take no other one.
    Stillborn(Option<OwnedFd>),
}

impl Error {
    /// The end of an init that did not say why, by the signal that ended it if one did.
    pub(crate) fn death(signal: Option<i32>) -> Self {
        Self::Died(match signal {
            Some(9) => "container init was killed by SIGKILL (maybe its memory limit is too low)"
                .to_string(),
            Some(signal) => format!("container init was killed by signal {signal}"),
            None => "container init ended unexpectedly".to_string(),
        })
    }

    /// Names the rule of order that the plan breaks, if it breaks one and this is what comes of that: a step finds
    /// no descriptor (EBADF) or no process (ECHILD) where an earlier step was to leave it.
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

/// What init has said of a failure.
pub(crate) fn words(failure: &Failure) -> String {
    String::from_utf8_lossy(failure.text()).into_owned()
}

impl Failed for Error {
    fn errno(&self) -> u16 {
        match self {
            Self::Parent(error) | Self::Mount { error, .. } => error.errno(),
            Self::Plan { cause, .. } => cause.errno(),
            Self::Init { errno, .. } | Self::Program { errno, .. } => errno.errno(),
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
                write!(f, "{cause}; {broken}: this is a bug of dayfly, please report it")
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
            Self::Program { text, .. } => write!(f, "unable to start container process: {text}"),
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
                "unable to start container process: the kernel kills what is born into the container's \
                 cgroup (Linux 6.14 and newer, where cgroup.kill of the caller's cgroup was once written \
                 to: call from another one)",
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
    use core::error::Error as _;
    use plan::step::ParentStep;
    use plan::{FastPaths, Kernel, Labelled, Request};
    use trace::Tracer;

    /// A plan of which the parent runs these steps alone.
    fn with_steps(keep: impl Fn(&ParentStep) -> bool) -> &'static Plan {
        let text = r#"{"ociVersion": "1.3.0", "root": {"path": "rootfs"},
            "process": {"cwd": "/", "args": ["true"]},
            "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}]}}"#;
        let spec = spec::Spec::parse(text).unwrap();
        let seccomp = seccomp::Support::default();
        let kernel = Kernel { version: (6, 18), seccomp, fast_paths: FastPaths::all() };
        let mut plan = plan::compile(&spec, &Request::new("test", "/bundle", kernel)).unwrap();
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
        let launched = crate::launch(plan, crate::Given::default(), c"/", &tracer, &mut |_| Ok(()));
        let error = launched.map(|_| ()).unwrap_err();
        let Error::Plan { broken, .. } = &error else { panic!("{error}") };
        let told = error.to_string();
        assert!(told.contains(&format!("; rule {} is broken: ", broken.rule.name)), "{told}");
        assert!(told.contains("steps out of order launch: no child process"), "{told}");
        let cause = error.source().and_then(|cause| cause.source()).expect("a chain");
        assert_eq!(cause.downcast_ref::<sys::Error>().map(|error| error.errno), Some(Errno::CHILD));
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
