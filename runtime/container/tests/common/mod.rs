//! Creates a cache, and a mount namespace, for a single test.
#![allow(dead_code, reason = "each test program uses its part")]

use std::env;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use dayfly_container::cache::Cache;

/// A directory for one test's cache, removed at its end.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    /// Chooses an unused path for the directory. Prints a message and returns `None` if the caller is not root.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !is_root() {
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dayfly-cache-test-{}-{count}", std::process::id());
        Some(Self { path: env::temp_dir().join(name) })
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub fn open(&self) -> Cache {
        Cache::open(self.path()).unwrap()
    }

    /// Returns the paths of all entries in one of the cache's directories.
    pub fn entries(&self, directory: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path.join(directory)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the directory is a cache, its mounts are removed first.
        let _ = Cache::clear(self.path());
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped, needs root");
    }
    is_root
}

const INSIDE: &str = "DAYFLY_TEST_NAMESPACE";

/// Runs `test`, the body of the test called `name`, in a separate mount namespace. For this, a child process runs this
/// test program again with only that test.
pub fn in_namespace(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    if !is_root() {
        return;
    }
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "--"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", name])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{name} failed in its namespace: {out}{err}");
}

const WORKER: &str = "DAYFLY_TEST_CACHE";

/// Waits for the end of standard input and returns the path of the cache, if this process is a [`worker`].
pub fn work() -> Option<String> {
    let path = env::var(WORKER).ok()?;
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    Some(path)
}

/// Returns a process that runs the test `name` with the path of a cache, for [`work`].
pub fn worker(name: &str, cache: &Scratch) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", name]).env(WORKER, cache.path());
    command
}

/// Returns the lines of this process's mount table.
pub fn mounts() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    table.lines().map(String::from).collect()
}
