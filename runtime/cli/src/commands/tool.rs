//! Commands that are implemented in separate programs, which this process executes. These programs use a libc and are
//! slower.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fs::readlink;
use sys::Errno;
use sys::exec::{StringArray, execve};

use crate::failure::Failure;
use crate::invocation::Invocation;

/// Executes `program` with `words` and then the command's arguments.
pub fn command(program: &str, words: &[&str], invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let arguments: Result<Vec<CString>, _> = [program]
        .iter()
        .chain(words)
        .chain(invocation.arguments)
        .map(|&text| CString::new(text))
        .collect();
    let argv = StringArray::leaked(arguments.map_err(Failure::new)?);
    let envp = StringArray::leaked(invocation.args.environment().map(CString::from).collect());
    let mut last = Errno::NOENT;
    for path in candidates(program, invocation.args.env("PATH").unwrap_or_default()) {
        let Ok(path) = CString::new(path) else { continue };
        match execve(&path, &argv, &envp, None) {
            Errno::NOENT | Errno::NOTDIR => {}
            errno => last = errno,
        }
    }
    Err(match last {
        Errno::NOENT => Failure::new(format_args!(
            "{program} is missing: it must be in the directory of dayfly or in ../libexec/dayfly, \
             where make build and make install put it"
        )),
        errno => sys::Error::new("exec", program, errno).into(),
    })
}

/// Returns the paths to try, in order: in this program's directory, in `../libexec/dayfly` relative to that directory,
/// and in the search path.
fn candidates(program: &str, path: &str) -> Vec<String> {
    let own = readlink("/proc/self/exe", Vec::new()).ok().and_then(|own| own.into_string().ok());
    let directory =
        own.as_deref().and_then(|own| own.rsplit_once('/')).map(|(directory, _)| directory);
    let near = directory.into_iter().flat_map(|directory| {
        [format!("{directory}/{program}"), format!("{directory}/../libexec/dayfly/{program}")]
    });
    let searched = path.split(':').filter(|directory| directory.starts_with('/'));
    near.chain(searched.map(|directory| format!("{directory}/{program}"))).collect()
}
