//! A runtime under a seccomp filter that refuses system calls, as an outer container's filter may.
//!
//! A separate thread loads the filter and starts the program, so that the filter does not apply to the suite itself.

use seccomp::{Arch, Profile, Support};
use serde_json::json;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use sys::seccomp::Instruction;

/// A system call that fails with an errno.
#[derive(Debug, Clone)]
pub struct Refused {
    filter: Vec<Instruction>,
}

impl Refused {
    /// Compiles a filter that makes the system call named `call` fail. The compiler is dayfly's own;
    /// `tests/differential/` of its crate compares it with libseccomp.
    ///
    /// # Panics
    /// For an unknown call.
    #[must_use]
    pub fn new(call: &str, errno: rustix::io::Errno) -> Self {
        assert!(seccomp::number(call, Arch::NATIVE).is_some(), "{call} is no system call");
        let profile = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{
                "names": [call],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": errno.raw_os_error(),
            }],
        });
        let text = profile.to_string();
        let profile = Profile::parse(&text).expect("a profile");
        let program = seccomp::compile(&profile, &Support::default()).expect("a filter");
        Self { filter: program.filter }
    }

    /// Returns the system call that must fail in every run of the runtime. The environment variable `DAYFLY_REFUSED`
    /// names the call and the errno, for example `openat2:ENOSYS`.
    pub fn by_default() -> Option<&'static Self> {
        static GIVEN: OnceLock<Option<Refused>> = OnceLock::new();
        let read = || {
            let given = std::env::var("DAYFLY_REFUSED").ok()?;
            let (call, errno) = given.split_once(':').expect("DAYFLY_REFUSED=CALL:ERRNO");
            let errno = match errno {
                "ENOSYS" => rustix::io::Errno::NOSYS,
                "EPERM" => rustix::io::Errno::PERM,
                other => panic!("DAYFLY_REFUSED: {other} is neither ENOSYS nor EPERM"),
            };
            Some(Self::new(call, errno))
        };
        GIVEN.get_or_init(read).as_ref()
    }

    /// Starts a program under a filter that refuses these calls. The program runs as root.
    pub(crate) fn spawn(list: &[Self], command: &mut Command) -> io::Result<Child> {
        let start = || {
            for refused in list {
                sys::seccomp::load(&refused.filter, 0)?;
            }
            // If a uid is set, the standard library forks with clone(2). So the program can be started even if the
            // filter refuses clone3(2).
            command.uid(0).spawn()
        };
        std::thread::scope(|scope| scope.spawn(start).join().expect("the thread"))
    }
}
