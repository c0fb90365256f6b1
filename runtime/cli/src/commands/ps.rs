//! `ps`: prints the processes of a container.
//!
//! This process executes the host's ps(1) with the option `-q` (procps 3.3.11, 2015), whose value lists the pids to
//! print. `-q` overrides other selections, and ps then reads only the listed processes. So dayfly does not have to
//! parse and filter a table of all processes.
//!
//! For a container without processes, ps prints only the heading and exits with a failure, while `runc ps` succeeds. In
//! that case, dayfly executes a shell script that runs ps. If ps prints a heading, the script prints it and succeeds.
//! If ps prints none, it has failed for another reason, and the script fails.

use alloc::ffi::CString;

use super::*;
use crate::execute::{DEFAULT_PATH, execute, within};
use crate::format::json;

const DEFAULT_OPTIONS: &[&str] = &["-ef"];

/// A pid that no process can have: PID_MAX_LIMIT of the kernel is 2²².
const NOBODY: i32 = i32::MAX;
/// A shell script that runs ps, and succeeds if ps prints a heading to standard output. If the options are invalid, ps
/// prints only to standard error.
const HEADING: &str = r#"heading=$(ps "$@"); [ -n "$heading" ] && printf '%s\n' "$heading""#;

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let pids = invocation.container()?.pids()?;
    if is_json(invocation.values.text(&FORMAT), "table")? {
        // Without processes, runc prints null.
        return print(&json(&Some(&pids).filter(|pids| !pids.is_empty()))?);
    }
    let given = invocation.arguments.get(1..).filter(|options| !options.is_empty());
    let options = given.unwrap_or(DEFAULT_OPTIONS);
    let path = invocation.args.env("PATH").unwrap_or(DEFAULT_PATH);
    let (program, before, pids) = match pids.as_slice() {
        [] => ("sh", &["sh", "-c", HEADING, "ps"][..], NOBODY.to_string()),
        pids => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            ("ps", &["ps"][..], pids.join(","))
        }
    };
    let words = [before, options, &["-q", &pids]].concat();
    let argv = words.into_iter().map(CString::new).collect::<Result<_, _>>()?;
    let mut directories = path.split(':').filter(|directory| directory.starts_with('/'));
    let errno = execute(&within(&mut directories, program), argv, invocation.args);
    Err(sys::Error::new("exec", program, errno).into())
}
