//! Commands that are implemented in separate programs, which this process executes. These programs use a libc and are
//! slower.

use alloc::ffi::CString;
use core::iter;

use rustix::fs::{Access, access, readlink};
use sys::Errno;

use super::*;
use crate::execute::{execute, within};

/// Executes `program` with the command's name and arguments. The commands of dayfly-bench are those of `bench`, whose name
/// is left out.
pub fn command(program: &str, name: &str, invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let name = Some(name).filter(|name| *name != "bench");
    let words = iter::once(program).chain(name).chain(invocation.arguments.iter().copied());
    let argv = words.map(CString::new).collect::<Result<_, _>>()?;
    Err(match execute(&paths(program, invocation), argv, invocation.args) {
        Errno::NOENT => missing(program),
        errno => sys::Error::new("exec", program, errno).into(),
    })
}

/// Returns the path of a program that exists.
pub fn path(program: &str, invocation: &Invocation<'_>) -> Result<String, Failure> {
    let is_program = |path: &CString| access(path.as_c_str(), Access::EXEC_OK).is_ok();
    let found = paths(program, invocation).into_iter().find(is_program);
    found.and_then(|path| path.into_string().ok()).ok_or_else(|| missing(program))
}

fn missing(program: &str) -> Failure {
    failure!("{program} is missing: it must be in the directory of dayfly or in ../libexec/dayfly")
}

/// Returns the paths at which a program may be.
fn paths(program: &str, invocation: &Invocation<'_>) -> Vec<CString> {
    // The program is in this program's directory, in `../libexec/dayfly` relative to that directory, or in the search
    // path. Where /proc is not mounted, this program's directory is that of its name, or in the search path.
    let own = readlink("/proc/self/exe", Vec::new()).ok().and_then(|own| own.into_string().ok());
    let own = own.or_else(|| Some(invocation.args.iter().next()?.to_str().ok()?.into()));
    let own = own.as_deref().and_then(|own| own.rsplit_once('/'));
    let path = invocation.args.env("PATH").unwrap_or_default();
    let searched = path.split(':').filter(|directory| directory.starts_with('/'));
    let all = own.map(|(directory, _)| directory).into_iter().chain(searched);
    let all: Vec<String> = all
        .flat_map(|directory| [directory.into(), format!("{directory}/../libexec/dayfly")])
        .collect();
    within(&mut all.iter().map(String::as_str), program)
}
