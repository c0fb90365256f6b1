//! The process file of `exec`.

use plan::{Caller, ExecRequest, Execution, Techniques};
use spec::Process;
use sys::clone::CloneFlags;

/// Read, checked and compiled; what was read can be written and read again.
pub fn target(data: &[u8]) {
    let Ok(process) = Process::parse(data) else { return };
    if spec::validate_process(&process).is_err() {
        return;
    }
    for namespaces in [CloneFlags::empty(), CloneFlags::NEWPID | CloneFlags::NEWNS] {
        let request = ExecRequest {
            id: "fuzz",
            namespaces,
            cgroup: None,
            cgroup_is_asked_for: false,
            init: 1,
            resctrl: None,
            agent: None,
            execution: Execution::default(),
            filter: None,
            preserve_fds: 0,
            console: None,
            keyring: true,
            techniques: Techniques::all(),
            caller: Caller::default(),
        };
        if let Ok(plan) = plan::compile_exec(&process, request) {
            assert!(!plan.host.is_empty() && !plan.init.is_empty());
            let (host, init) = plan::labels(&plan);
            assert!(host.iter().chain(&init).all(|label| !label.name.is_empty()));
        }
    }
}
