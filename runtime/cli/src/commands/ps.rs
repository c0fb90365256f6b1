//! `ps`: prints the processes of a container.
//!
//! This process executes the host's ps(1) with the option `-q` (procps 3.3.11, 2015), whose value lists the pids to
//! print. `-q` overrides other selections, and ps then reads only the listed processes. So dayfly does not have to
//! parse and filter a table of all processes.
//!
//! For a container without processes, ps prints only the heading and exits with a failure, while `runc ps` succeeds. In
//! that case, dayfly executes a shell script that runs ps. If ps prints a heading, the script prints it and succeeds.
//! If ps prints none, it has failed for another reason, and the script fails.

use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use sys::Errno;
use sys::exec::{StringArray, execve};

use super::{is_json, print};
use crate::definition::options::FORMAT;
use crate::failure::Failure;
use crate::format;
use crate::invocation::Invocation;

const DEFAULT_OPTIONS: &[&str] = &["-ef"];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A pid that no process can have: PID_MAX_LIMIT of the kernel is 2²².
const NOBODY: i32 = i32::MAX;
/// A shell script that runs ps, and succeeds if ps prints a heading to standard output. If the options are invalid, ps
/// prints only to standard error.
const HEADING: &str = r#"heading=$(ps "$@"); [ -n "$heading" ] && printf '%s\n' "$heading""#;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let pids = invocation.container()?.pids()?;
    if is_json(invocation.values.text(&FORMAT), "table")? {
        // Without processes, runc prints null.
        let list = if pids.is_empty() { "null".to_owned() } else { format::json(&pids)? };
        return print(&format!("{list}\n"));
    }
    let given = invocation.arguments.get(1..).filter(|options| !options.is_empty());
    let options = given.unwrap_or(DEFAULT_OPTIONS);
    let environment = invocation.args.environment().map(CString::from).collect();
    let path = invocation.args.env("PATH").unwrap_or(DEFAULT_PATH);
    let (program, before, pids) = match pids.as_slice() {
        [] => ("sh", &["sh", "-c", HEADING, "ps"][..], NOBODY.to_string()),
        pids => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            ("ps", &["ps"][..], pids.join(","))
        }
    };
    let arguments = arguments(&[before, options, &["-q", &pids]])?;
    let (argv, envp) = (StringArray::leaked(arguments), StringArray::leaked(environment));
    Err(become_program(program, path, &argv, &envp).into())
}

fn arguments(parts: &[&[&str]]) -> Result<Vec<CString>, Failure> {
    parts.concat().into_iter().map(|text| CString::new(text).map_err(Failure::new)).collect()
}

/// Executes the first file `name` in the search path. Returns only if no such file can be executed.
fn become_program(
    name: &str,
    path: &str,
    argv: &StringArray<'_>,
    envp: &StringArray<'_>,
) -> sys::Error {
    let mut last = Errno::NOENT;
    for directory in path.split(':').filter(|directory| directory.starts_with('/')) {
        let Ok(program) = CString::new(format!("{directory}/{name}")) else { continue };
        match execve(&program, argv, envp, None) {
            Errno::NOENT | Errno::NOTDIR => {}
            errno => last = errno,
        }
    }
    sys::Error::new("exec", name, last)
}
