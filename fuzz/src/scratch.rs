//! A directory with ordinary files that takes the place of a cgroup's directory.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use cgroup::{Controllers, Hierarchies, Hierarchy, Location};

/// Returns this process's directory. Nothing removes it at the end, because libFuzzer exits without notice;
/// `scripts/fuzz` cleans up.
pub fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("dayfly-fuzz-{}", std::process::id()));
        fs::create_dir_all(path.join("c")).expect("make directory");
        path
    })
}

/// Removes this process's directory.
pub fn remove() {
    let _ = fs::remove_dir_all(directory());
}

/// Returns a host whose only hierarchy is this directory: v2, or v1 with all controllers.
fn host(unified: bool) -> Hierarchies {
    let root = directory().to_string_lossy().into_owned();
    let names = "cpu,cpuacct,cpuset,memory,pids,blkio,hugetlb,net_cls,net_prio,freezer,rdma,misc";
    let hierarchy = Hierarchy { controllers: Controllers::from_list(names), mount: root.clone() };
    match unified {
        true => Hierarchies { unified: Some(root.clone()), legacy: Vec::new(), root },
        false => Hierarchies { unified: None, legacy: vec![hierarchy], root },
    }
}

/// Returns the location of a cgroup with exactly these files.
pub fn location(unified: bool, files: &[(&str, &str)]) -> Location {
    let place = directory().join("c");
    for entry in fs::read_dir(&place).expect("read directory").flatten() {
        let _ = fs::remove_file(entry.path());
    }
    for (name, content) in files {
        let _ = fs::write(place.join(name), content);
    }
    Location::resolve(&host(unified), Some("/c"), "c").expect("location")
}
