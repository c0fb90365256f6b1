//! A directory with ordinary files in the place of a cgroup's.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use cgroup::{Controllers, Hierarchies, Hierarchy, Location};

/// This process's directory. It stays: libFuzzer ends a process without a word, and `scripts/fuzz` cleans
/// up after it.
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

/// A host whose only hierarchy is here: of v2, or with all controllers of v1.
fn host(unified: bool) -> Hierarchies {
    let root = directory().to_string_lossy().into_owned();
    let names = "cpu,cpuacct,cpuset,memory,pids,blkio,hugetlb,net_cls,net_prio,freezer,rdma,misc";
    let hierarchy = Hierarchy { controllers: Controllers::from_list(names), mount: root.clone() };
    match unified {
        true => Hierarchies { unified: Some(root.clone()), legacy: Vec::new(), root },
        false => Hierarchies { unified: None, legacy: vec![hierarchy], root },
    }
}

/// A place for a cgroup with these files; files that were there before are gone.
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
