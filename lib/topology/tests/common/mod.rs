//! Topologies of other hosts: expands `fixtures/NAME/topology.txt` into a directory with the structure of sysfs.
//!
//! | line | means |
//! |---|---|
//! | `cpus LIST` | the CPUs that are online |
//! | `package ID LIST` | a socket |
//! | `l3 package SIZE`, `l3 N SIZE` | one level 3 cache per socket, or one per N consecutive CPUs |
//! | `smt STRIDE CONTROL` | CPU i and i + STRIDE share a core, unless STRIDE is 1; CONTROL: content of smt/control |
//! | `node ID LIST MEMORY FREE DISTANCES…` | a memory node |
//!
//! Tests of other crates include this module by its path.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use topology::{List, Topology};

/// A directory that stands for the root directory of another host; removed when dropped.
pub struct Sysroot {
    /// The directory.
    pub path: PathBuf,
}

impl Sysroot {
    /// Returns the host that `fixtures/NAME` describes.
    pub fn of(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../lib/topology/tests/fixtures")
            .join(name)
            .join("topology.txt");
        let sysroot = Self::empty();
        sysroot.expand(&fs::read_to_string(file).expect("fixture"));
        sysroot
    }

    /// Creates an empty directory for a host.
    pub fn empty() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dayfly-sysroot-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("make the sysroot");
        Self { path }
    }

    /// Writes a file in the directory.
    pub fn put(&self, file: &str, content: &str) -> &Self {
        let path = self.path.join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("parent")).expect("make a directory");
        fs::write(path, format!("{content}\n")).expect("write a file");
        self
    }

    /// Returns the directory's path as text.
    pub fn root(&self) -> &str {
        self.path.to_str().expect("path")
    }

    /// Reads the topology from the directory.
    pub fn topology(&self) -> Topology {
        Topology::read(self.root()).expect("topology")
    }

    fn expand(&self, text: &str) {
        let mut cpus = List::default();
        let mut packages = Vec::new();
        let mut nodes = Vec::new();
        let (mut stride, mut l3, mut l3_size) = (1, String::new(), String::new());
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["cpus", list] => cpus = list_of(list),
                ["package", id, list] => packages.push((id.to_string(), list_of(list))),
                ["l3", kind, size] => (l3, l3_size) = (kind.to_string(), size.to_string()),
                ["smt", apart, control] => {
                    stride = apart.parse().expect("stride");
                    self.put("sys/devices/system/cpu/smt/control", control);
                    let active = if *control == "on" { "1" } else { "0" };
                    self.put("sys/devices/system/cpu/smt/active", active);
                }
                ["node", id, list, memory, free, distances @ ..] => {
                    nodes.push(id.parse().expect("node"));
                    self.node(id, list, memory, free, distances);
                }
                _ => panic!("not a line of a topology: {line}"),
            }
        }
        let nodes: List = nodes.into_iter().collect();
        for file in ["online", "has_cpu", "has_memory", "has_normal_memory"] {
            self.put(&format!("sys/devices/system/node/{file}"), &nodes.to_string());
        }
        for file in ["online", "possible", "present"] {
            self.put(&format!("sys/devices/system/cpu/{file}"), &cpus.to_string());
        }
        for cpu in cpus.iter() {
            let (package, members) =
                packages.iter().find(|(_, list)| list.contains(cpu)).expect("a package");
            let siblings: List = match stride {
                1 => [cpu].into_iter().collect(),
                _ => cpus.iter().filter(|other| other % stride == cpu % stride).collect(),
            };
            let siblings = siblings.intersection(members);
            let shared = match l3.parse::<u32>() {
                Ok(size) => cpus.iter().filter(|other| other / size == cpu / size).collect(),
                Err(_) => members.clone(),
            };
            let file = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/{name}");
            let core = siblings.first().expect("a core");
            self.put(&file("topology/physical_package_id"), package);
            self.put(&file("topology/core_id"), &core.to_string());
            self.put(&file("topology/core_cpus_list"), &siblings.to_string());
            self.put(&file("topology/thread_siblings_list"), &siblings.to_string());
            self.put(&file("cache/index3/level"), "3");
            self.put(&file("cache/index3/size"), &l3_size);
            self.put(&file("cache/index3/shared_cpu_list"), &shared.to_string());
        }
    }

    fn node(&self, id: &str, list: &str, memory: &str, free: &str, distances: &[&str]) {
        let file = |name: &str| format!("sys/devices/system/node/node{id}/{name}");
        self.put(&file("cpulist"), &list_of(list).to_string());
        self.put(&file("distance"), &distances.join(" "));
        let kib = |text: &str| text.trim_end_matches('M').parse::<u64>().expect("size") * 1024;
        let (memory, free) = (kib(memory), kib(free));
        self.put(
            &file("meminfo"),
            &format!("Node {id} MemTotal: {memory} kB\nNode {id} MemFree: {free} kB"),
        );
    }
}

impl Drop for Sysroot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn list_of(text: &str) -> List {
    List::parse(text).expect("a list of CPUs")
}
