//! Execution of another program in place of this process.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;

use sys::Errno;
use sys::exec::{StringArray, execve};

/// The search path if the environment has none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Executes the first of `paths` that can be executed, with the environment of this process. Returns why none can.
pub fn execute(paths: &[CString], argv: Vec<CString>, args: sys::Args) -> Errno {
    let argv = StringArray::leaked(argv);
    let envp = StringArray::leaked(args.environment().map(CString::from).collect());
    let mut why = Errno::NOENT;
    for path in paths {
        match execve(path, &argv, &envp, None) {
            Errno::NOENT | Errno::NOTDIR => {}
            errno => why = errno,
        }
    }
    why
}

/// Returns the paths of the file `name` in `directories`.
pub fn within(directories: &mut dyn Iterator<Item = &str>, name: &str) -> Vec<CString> {
    directories.filter_map(|at| CString::new(format!("{at}/{name}")).ok()).collect()
}
