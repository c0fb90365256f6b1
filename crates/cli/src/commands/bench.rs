//! `bench` and `trace`: hand over to the program `dayfly-bench`, which has a libc and takes its time.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fs::readlink;
use sys::Errno;
use sys::exec::{StringArray, execve};

use crate::failure::Failure;
use crate::invocation::Invocation;

const PROGRAM: &str = "dayfly-bench";

/// `bench`.
pub fn command(invocation: &Invocation<'_>) -> Result<(), Failure> {
    execute(invocation, &[PROGRAM])
}

/// `trace`, one of the program's own commands.
pub fn trace(invocation: &Invocation<'_>) -> Result<(), Failure> {
    execute(invocation, &[PROGRAM, "trace"])
}

fn execute(invocation: &Invocation<'_>, words: &[&str]) -> Result<(), Failure> {
    let arguments: Result<Vec<CString>, _> =
        words.iter().chain(invocation.arguments).map(|&text| CString::new(text)).collect();
    let argv = StringArray::new(arguments.map_err(Failure::new)?);
    let envp = StringArray::new(invocation.args.environment().map(CString::from).collect());
    let mut last = Errno::NOENT;
    for path in candidates(invocation.args.env("PATH").unwrap_or_default()) {
        let Ok(path) = CString::new(path) else { continue };
        match execve(&path, &argv, &envp, None) {
            Errno::NOENT | Errno::NOTDIR => {}
            errno => last = errno,
        }
    }
    Err(match last {
        Errno::NOENT => Failure::new(format_args!(
            "{PROGRAM} is not there: it belongs beside dayfly or in ../libexec/dayfly; \
             make build and make install put it there"
        )),
        errno => sys::Error::new("exec", PROGRAM, errno).into(),
    })
}

/// Where the program may be: beside this one, where packages put what only programs call, and in the
/// search path.
fn candidates(path: &str) -> Vec<String> {
    let own = readlink("/proc/self/exe", Vec::new()).ok().and_then(|own| own.into_string().ok());
    let directory =
        own.as_deref().and_then(|own| own.rsplit_once('/')).map(|(directory, _)| directory);
    let near = directory.into_iter().flat_map(|directory| {
        [format!("{directory}/{PROGRAM}"), format!("{directory}/../libexec/dayfly/{PROGRAM}")]
    });
    let searched = path.split(':').filter(|directory| directory.starts_with('/'));
    near.chain(searched.map(|directory| format!("{directory}/{PROGRAM}"))).collect()
}
