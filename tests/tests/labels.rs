//! AppArmor profiles and SELinux labels on kernels with these modules: the confinement of containers, and of processes
//! that join them. The profiles and the policy are in tests/labels; `scripts/bed guest-labels` loads them in a guest, so
//! that the machine's own profiles and policy are not affected. `confinement` tests kernels without the modules.

#[path = "labels/apparmor.rs"]
pub mod apparmor;
#[path = "labels/selinux.rs"]
pub mod selinux;
#[path = "labels/selinux_mounts.rs"]
pub mod selinux_mounts;

use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runtime::Call;
use serde_json::Value;
use std::fs;

/// Prints the confinement of a process, as the kernel reports it.
pub const CURRENT: &str = "cat /proc/self/attr/current";

/// Returns the call of `exec` with a process.json.
fn exec_process(bed: &Bed, c: &Container<'_>, process: &Value) -> Call {
    let path = bed.dir.join("process.json");
    fs::write(&path, process.to_string()).expect("write process");
    c.id_call("exec", &["--process", &path.to_string_lossy()], &[])
}

/// Returns the confinement of a process.
fn current(pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/attr/current")).expect("read attr/current");
    text.trim_end_matches(['\0', '\n']).to_owned()
}
