//! `ps`: the processes of a container.
//!
//! The table is the host's ps(1) in place of this process: its option `-q` (procps 3.3.11, 2015) takes
//! the processes to show, whatever else was selected, and looks at no other process of the host. So
//! there is no table to read and filter.

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

pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let pids = invocation.container()?.pids()?;
    if is_json(invocation.values.text(&FORMAT), "table")? {
        // runc's word for none.
        let list = if pids.is_empty() { "null".to_owned() } else { format::json(&pids)? };
        return print(&format!("{list}\n"));
    }
    if pids.is_empty() {
        return Err(Failure::new("the container has no processes"));
    }
    let given = invocation.arguments.get(1..).filter(|options| !options.is_empty());
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let arguments = arguments(given.unwrap_or(DEFAULT_OPTIONS), &pids.join(","))?;
    let environment = invocation.args.environment().map(CString::from).collect();
    let path = invocation.args.env("PATH").unwrap_or(DEFAULT_PATH);
    Err(become_ps(path, &StringArray::new(arguments), &StringArray::new(environment)).into())
}

fn arguments(options: &[&str], pids: &str) -> Result<Vec<CString>, Failure> {
    let all = ["ps"].into_iter().chain(options.iter().copied()).chain(["-q", pids]);
    all.map(|text| CString::new(text).map_err(Failure::new)).collect()
}

/// Executes the first `ps` of the search path. Returns only if there is none that can be executed.
fn become_ps(path: &str, argv: &StringArray, envp: &StringArray) -> sys::Error {
    let mut last = Errno::NOENT;
    for directory in path.split(':').filter(|directory| directory.starts_with('/')) {
        let Ok(program) = CString::new(format!("{directory}/ps")) else { continue };
        match execve(&program, argv, envp, None) {
            Errno::NOENT | Errno::NOTDIR => {}
            errno => last = errno,
        }
    }
    sys::Error::new("exec", "ps", last)
}
