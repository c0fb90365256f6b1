//! Commands that are implemented in separate programs, which this process executes. These programs use a libc and are
//! slower.

use alloc::ffi::CString;
use core::iter;

use rustix::fs::readlink;
use sys::Errno;

use super::*;
use crate::execute::{execute, within};

/// Executes `program` with the command's name and arguments. The commands of dayfly-bench are those of `bench`, whose name
/// is left out.
pub fn command(program: &str, name: &str, invocation: &Invocation<'_>) -> Result<i32, Failure> {
    let name = Some(name).filter(|name| *name != "bench");
    let words = iter::once(program).chain(name).chain(invocation.arguments.iter().copied());
    let argv = words.map(CString::new).collect::<Result<_, _>>()?;
    // The program is in this program's directory, in `../libexec/dayfly` relative to that directory, or in the search
    // path.
    let own = readlink("/proc/self/exe", Vec::new()).ok().and_then(|own| own.into_string().ok());
    let own = own.as_deref().and_then(|own| own.rsplit_once('/'));
    let near =
        own.map(|(directory, _)| [directory.into(), format!("{directory}/../libexec/dayfly")]);
    let path = invocation.args.env("PATH").unwrap_or_default();
    let directories = near.iter().flatten().map(String::as_str);
    let searched = path.split(':').filter(|directory| directory.starts_with('/'));
    let paths = within(&mut directories.chain(searched), program);
    Err(match execute(&paths, argv, invocation.args) {
        Errno::NOENT => failure!(
            "{program} is missing: it must be in the directory of dayfly or in ../libexec/dayfly, \
             where make build and make install put it"
        ),
        errno => sys::Error::new("exec", program, errno).into(),
    })
}
