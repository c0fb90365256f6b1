//! Runs a test in its own mount namespace, with a changed view of the host's cgroup mounts.
#![allow(dead_code, reason = "each test program uses its part")]

use std::env;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use dayfly_cgroup::{Cgroup, Error, Hierarchies, Location};
use spec::resources::Resources;

/// The hierarchies that a test can see in its own mount namespace. The host's mounts stay unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// Only cgroup v2: the file system of /sys/fs/cgroup/unified is mounted over /sys/fs/cgroup.
    Unified,
    /// Only cgroup v1: an empty file system is mounted over /sys/fs/cgroup/unified.
    Legacy,
    /// All hierarchies of the host.
    Hybrid,
}

impl View {
    fn prepare(self) -> &'static str {
        match self {
            View::Unified => "mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup",
            View::Legacy => "mount -t tmpfs -o size=64m tmpfs /sys/fs/cgroup/unified",
            View::Hybrid => "true",
        }
    }

    /// Returns whether this host can provide the view.
    fn is_there(self) -> bool {
        match Hierarchies::detect() {
            Ok(hierarchies) if hierarchies.is_unified() => self == View::Unified,
            Ok(hierarchies) => hierarchies.unified.is_some() || self == View::Legacy,
            Err(_) => false,
        }
    }
}

const VIEW: &str = "DAYFLY_TEST_VIEW";

/// Runs `test`, the body of the test called `name`, with `view`. The test program executes itself
/// again as a child process in a new mount namespace, and the child runs only this test. If the
/// host cannot provide the view, prints a message, and the test passes.
pub fn run(view: View, name: &str, test: impl FnOnce()) {
    if env::var_os(VIEW).is_some() {
        return test();
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("{name}: skipped, needs root");
    }
    if !view.is_there() {
        return eprintln!("{name}: skipped, this host has no {view:?} view");
    }
    let script = format!("{} && exec \"$0\" --exact --nocapture {name}", view.prepare());
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", &script])
        .arg(env::current_exe().unwrap())
        .env(VIEW, format!("{view:?}"))
        .output()
        .unwrap();
    show(&output);
    assert!(output.status.success(), "{name} failed in its view");
}

fn show(output: &Output) {
    if !output.status.success() {
        eprintln!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A parent directory for the cgroups of one test. It is removed when the test ends.
pub struct Scratch {
    pub hierarchies: Hierarchies,
    top: String,
}

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let top = format!("/dayfly-test-{}-{count}", std::process::id());
        Self { hierarchies: Hierarchies::detect().unwrap(), top }
    }

    /// Returns the location of the cgroup `name` below this test's own directory.
    pub fn location(&self, name: &str) -> Location {
        Location::resolve(&self.hierarchies, Some(&format!("{}/{name}", self.top)), "id").unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let top = Location::resolve(&self.hierarchies, Some(&self.top), "id").unwrap();
        if let Err(error) = Cgroup::delete(&top) {
            eprintln!("{error}");
        }
    }
}

/// Parses `linux.resources` from JSON.
pub fn resources(json: &str) -> Resources {
    serde_json::from_str(json).unwrap()
}

pub fn create(location: &Location, json: &str) -> Result<Cgroup, Error> {
    Cgroup::create(location, &resources(json), None)
}

/// Reads a file, without the trailing newline.
pub fn read(directory: &str, file: &str) -> String {
    let path = format!("{directory}/{file}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")).trim_end().into()
}

pub fn exists(directory: &str) -> bool {
    fs::exists(directory).unwrap()
}

/// Returns the directories of a location, v2 first.
pub fn directories(location: &Location) -> Vec<&str> {
    let legacy = location.legacy.iter().map(|legacy| &legacy.place);
    location.unified.iter().chain(legacy).map(|place| place.directory()).collect()
}

/// A process in a cgroup. It is killed when the test ends.
pub struct Inmate(pub Child);

impl Inmate {
    /// Starts a shell that joins `cgroup`, and then runs `script`.
    pub fn new(cgroup: &Cgroup, script: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cgroup.add(child.id().cast_signed()).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        Self(child)
    }

    /// Starts a process that does nothing.
    pub fn idle(cgroup: &Cgroup) -> Self {
        Self::new(cgroup, "exec sleep 100")
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.0.id().cast_signed()).unwrap()
    }

    /// Returns whether the process has exited; does not wait.
    pub fn is_gone(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for the exit of the process; returns the signal that killed it.
    pub fn signal(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.0.wait().unwrap().signal()
    }

    /// Waits for the exit of the process; returns the script's output.
    pub fn output(mut self) -> String {
        let mut text = String::new();
        use std::io::Read;
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.0.wait().unwrap();
        text.trim_end().into()
    }
}

impl Drop for Inmate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
