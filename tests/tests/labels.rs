//! AppArmor profiles and SELinux labels on kernels that have these modules: what containers and what joins
//! them is confined by. Profiles and policy are those of tests/labels, which `scripts/guest-labels` loads; a
//! machine's own are left alone. `confinement` has what a kernel without the modules says.

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

/// What a process may change to, as the kernel tells it of this one.
pub const CURRENT: &str = "cat /proc/self/attr/current";

/// `exec` of a process.json.
fn exec_process(bed: &Bed, c: &Container<'_>, process: &Value) -> Call {
    let path = bed.dir.join("process.json");
    fs::write(&path, process.to_string()).expect("write process");
    c.id_call("exec", &["--process", &path.to_string_lossy()], &[])
}

/// What a process is confined by.
fn current(pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/attr/current")).expect("read attr/current");
    text.trim_end_matches(['\0', '\n']).to_owned()
}
