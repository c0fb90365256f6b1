//! The process file of `exec`.

use plan::ExecRequest;
use spec::Process;
use sys::clone::CloneFlags;

/// Parses, validates and compiles the file, and checks that a parsed file can be written and parsed again.
pub fn target(data: &[u8]) {
    let Ok(process) = Process::parse(data) else { return };
    if spec::validate_process(&process).is_err() {
        return;
    }
    for namespaces in [CloneFlags::empty(), CloneFlags::NEWPID | CloneFlags::NEWNS] {
        let request = ExecRequest::new("fuzz", 1, namespaces);
        if let Ok(plan) = plan::compile_exec(&process, request) {
            if let Err(broken) = plan::check::check(&plan) {
                panic!("{broken}");
            }
            let (host, init) = plan::labels(&plan);
            assert!(host.iter().chain(&init).all(|label| !label.name.is_empty()));
        }
    }
}
