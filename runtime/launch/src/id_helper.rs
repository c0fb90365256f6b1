//! newuidmap(1) and newgidmap(1): setuid programs that map ranges of ids for a user without privileges.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use init::hooks::{self, Manner};
use init::step::Hook;
use plan::step::IdHelper;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::pread;
use rustix::process::Pid;
use sys::exec::StringArray;
use sys::{Context, Errno};

use crate::Error;

/// The maximum number of bytes of a helper's output quoted in its error.
const QUOTED: usize = 240;

/// Runs the helpers, which write uid_map and gid_map of the process `member`, and so of its user namespace.
///
/// # Errors
/// The error of a helper.
pub fn map_ids(member: Pid, helpers: &[IdHelper]) -> Result<(), Error> {
    helpers.iter().try_for_each(|helper| run(member, helper))
}

fn run(member: Pid, helper: &IdHelper) -> Result<(), Error> {
    let output = memfd_create(c"output", MemfdFlags::CLOEXEC).context("memfd_create", "output")?;
    let pid = member.as_raw_nonzero().to_string();
    let words = [helper.name, &pid].into_iter().chain(helper.map.split_ascii_whitespace());
    let argv: Result<Vec<CString>, _> = words.map(CString::new).collect();
    let argv = argv.map_err(|_| sys::Error::new("exec", helper.name, Errno::INVAL))?;
    let program = Hook {
        path: &helper.path,
        argv: StringArray::leaked(argv),
        envp: StringArray::leaked(Vec::new()),
        is_of_process: false,
        timeout: None,
    };
    let path = || helper.path.to_string_lossy();
    let child =
        hooks::spawn(&program, &output, &output, &Manner::default()).context("clone3", path())?;
    let status = hooks::wait(&child.pidfd).context("waitid", path())?;
    if status.exit_status() == Some(0) {
        return Ok(());
    }
    let mut quoted = [0; QUOTED];
    let length = pread(&output, &mut quoted, 0).unwrap_or(0);
    let said = String::from_utf8_lossy(quoted.get(..length).unwrap_or_default());
    Err(Error::Helper(format!(
        "map ids through {}: {} (the ranges of a user are in /etc/subuid and /etc/subgid; the \
         helper needs the privileges of its file, which no_new_privs, nosuid or a container can \
         prevent)",
        helper.name,
        said.trim().replace('\n', "; ")
    )))
}
