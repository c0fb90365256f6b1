//! Cgroup plans for other hosts, whose files are in test directories.

#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

use common::Sysroot;
use dayfly_host::cgroups::apply::Changes;
use dayfly_host::cgroups::cgroup_plan;
use dayfly_host::cgroups::options::PlanFile;
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn options(file: PathBuf, sysroot: &Sysroot) -> PlanFile {
    PlanFile { file, user: None, process: None, pid: None, sysroot: Some(sysroot.path.clone()) }
}

/// Returns the changes that the cgroup plan `text` needs on the host that the article on application consolidation
/// describes. The test directory is removed from the paths.
fn changes(name: &str, text: &str) -> Result<String, String> {
    let host = Sysroot::of("nehalem-ex");
    let file = host.path.join(name);
    fs::write(&file, text).unwrap();
    let told = |text: String| text.replace(&format!("{}/", host.root()), "/");
    match Changes::of(&options(file, &host), false) {
        Ok(changes) => Ok(told(changes.to_string())),
        Err(error) => Err(told(error.to_string())),
    }
}

/// Loads the cgconfig.conf that the article shows, and checks the changes that this file needs.
#[test]
fn the_four_groups_of_seed_002() {
    let file = fixture("seed-002/cgconfig.conf");
    let plan = cgroup_plan::load(&file).unwrap();
    assert_eq!((plan.groups.len(), plan.mounts.len()), (4, 8));
    for (number, group) in (1..).zip(&plan.groups) {
        assert_eq!(group.group.to_string(), format!("cpuset:test{number}"));
        let task = group.ownership.task.as_ref().unwrap();
        let user = if number == 1 { "oracle".to_owned() } else { format!("oracle{number}") };
        assert_eq!(task.user.as_deref(), Some(user.as_str()));
        assert_eq!(task.group.as_deref(), Some("dba"));
        let admin = group.ownership.admin.as_ref().unwrap();
        assert_eq!(admin.user.as_deref(), Some("root"));
    }
    let host = Sysroot::of("nehalem-ex");
    let text = Changes::of(&options(file.clone(), &host), false).unwrap().to_string();
    let text = text.replace(host.root(), "");
    for number in 1..=4 {
        assert!(
            text.contains(&format!("test{number}\n  + /cgroup/cpuset/test{number}\n")),
            "{text}"
        );
    }
    assert_eq!(text.matches("  + cpuset.cpus = 0-31\n").count(), 4, "{text}");
    assert_eq!(text.matches("  + cpuset.mems = 0-3\n").count(), 4);
    assert!(text.contains("  + tasks oracle4:dba\n  + admin root:root\n"), "{text}");
    // On a smaller host, the cgroup plan is rejected with file and line.
    let small = Sysroot::of("mesh-smt");
    let error = Changes::of(&options(file, &small), false).unwrap_err().to_string();
    assert!(
        error.contains("cgconfig.conf:24: cpuset.mems: memory nodes 1-3 do not exist"),
        "{error}"
    );
}

#[test]
fn pinned_by_words() {
    let text = changes(
        "plan.toml",
        "[group.test1]\npin = \"node:0\"\n[group.test2]\npin = \"node:1\"\nmemory.max = \"8G\"\n",
    )
    .unwrap();
    assert_eq!(
        text,
        "test1\n  + /sys/fs/cgroup/test1\n  + cpuset.mems = 0\n  + cpuset.cpus = 0,4,8,12,16,20,24,28\n\
         test2\n  + /sys/fs/cgroup/test2\n  + cpuset.mems = 1\n  + cpuset.cpus = 1,5,9,13,17,21,25,29\n  \
         + memory.max = 8589934592\n"
    );
}

#[test]
fn named_with_file_and_line() {
    for (name, text, says) in [
        (
            "p.toml",
            "[group.a]\n\ncpuset.cpus = \"0-40\"\n",
            "/p.toml:3: cpuset.cpus: CPUs 32-40 do not exist: this host has 0-31",
        ),
        (
            "p.toml",
            "[group.a]\npin = \"node:7\"\n",
            "/p.toml:2: pin nodes:7: there is no memory node 7",
        ),
        (
            "p.toml",
            "[group.a]\nmemory.limit_in_byte = 5\n",
            "/p.toml:2: no controller has a file \"memory.limit_in_byte\"; did you mean memory.limit_in_bytes?",
        ),
        (
            "p.toml",
            "[group.a]\nmemory.max = \"8X\"\n",
            "/p.toml:2: memory.max: \"8X\" is not a size",
        ),
        (
            "p.toml",
            "[group.a]\nnet_cls.classid = 1\n",
            "/p.toml:2: cgroup v2 has no net_cls.classid",
        ),
        (
            "p.toml",
            "[group.a]\ncontrollers = [\"memroy\"]\n",
            "/p.toml:2: no mounted hierarchy has the controller \"memroy\"; did you mean memory?",
        ),
        (
            "p.conf",
            "group a {\ncpuset {\ncpuset.cpu = 0;\n} }\n",
            "/p.conf:3: no controller has a file \"cpuset.cpu\"; did you mean cpuset.cpus?",
        ),
        (
            "p.conf",
            "group a {\n cpu { }\n memroy { } }\n",
            "/p.conf:3: no mounted hierarchy has the controller \"memroy\"; did you mean memory?",
        ),
        ("p.conf", "group a {\n}\ngroup a { }\n", "/p.conf:3: the group a is at line 1 already"),
    ] {
        let error = changes(name, text).unwrap_err();
        assert!(error.starts_with(says), "{text}: {error}");
    }
}

#[test]
fn templates_for_a_user() {
    let host = Sysroot::of("nehalem-ex");
    let file = host.path.join("t.conf");
    let text =
        "template users/%u/%p { perm { task { uid = %u; gid = %g; } } cpu { cpu.shares = 512; } }";
    fs::write(&file, text).unwrap();
    let mut options = options(file, &host);
    options.user = Some("root".parse().unwrap());
    options.process = Some("bash".to_owned());
    let text = Changes::of(&options, false).unwrap().to_string();
    assert!(text.contains("users/root/bash\n"), "{text}");
    assert!(text.contains("tasks root:root"), "{text}");
    assert!(text.contains("cpu.weight = 59"), "{text}");
}
