//! The environment of a case: its directory, state root and containers.

use crate::bundle::Bundle;
use crate::leak;
use crate::rootfs;
use crate::runtime::Call;
use crate::shim::NAMESPACE;
use crate::view::View;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of beds, bundles and container ids that the run has made so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns every container id that the run may have given out so far.
pub(crate) fn ids() -> Vec<String> {
    (0..COUNT.load(Ordering::Relaxed)).map(id).collect()
}

fn id(number: usize) -> String {
    format!("df{}-{number}", std::process::id())
}

/// The directory, the state root and the containers of a case.
pub struct Bed {
    /// The view of the whole run.
    pub view: View,
    /// The case's own directory.
    pub dir: PathBuf,
    shared: PathBuf,
    runtime: PathBuf,
    environment: Vec<(&'static str, &'static str)>,
    calls: AtomicUsize,
    ids: Mutex<Vec<String>>,
}

impl Bed {
    /// Makes a bed below `shared`, which lives as long as the run.
    ///
    /// # Panics
    /// When the directory can't be made.
    #[must_use]
    pub fn new(view: View, runtime: &Path, shared: &Path) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = shared.join(format!("bed{number}"));
        fs::create_dir(&dir).expect("make bed");
        Self {
            view,
            dir,
            shared: shared.to_owned(),
            runtime: runtime.to_owned(),
            environment: Vec::new(),
            calls: AtomicUsize::new(0),
            ids: Mutex::new(Vec::new()),
        }
    }

    /// Sets an environment variable for every call.
    #[must_use]
    pub fn with_variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    /// Returns whether a defence of the runtime is switched off, so that an attack on it should succeed.
    #[must_use]
    pub fn is_undefended(&self) -> bool {
        self.environment
            .iter()
            .any(|(name, names)| *name == "DAYFLY_UNDEFENDED" && !names.is_empty())
    }

    /// Returns a bed in `dir` with another `runtime`: a script that runs the runtime as another user.
    #[must_use]
    pub(crate) fn of_user(&self, dir: PathBuf, runtime: PathBuf) -> Self {
        Self {
            view: self.view,
            dir,
            shared: self.shared.clone(),
            runtime,
            calls: AtomicUsize::new(0),
            environment: self.environment.clone(),
            ids: Mutex::new(Vec::new()),
        }
    }

    /// Returns the state root, the argument of `--root`.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Returns the path of the runtime under test.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Returns a container id that is unique on this machine.
    ///
    /// # Panics
    /// Only if another case panicked while taking an id.
    #[must_use]
    pub fn id(&self) -> String {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = id(number);
        self.ids.lock().expect("ids").push(id.clone());
        id
    }

    /// Returns a call of the runtime with this bed's `--root`, and a JSON log of its own.
    pub fn call<A: AsRef<OsStr>>(&self, args: &[A]) -> Call {
        let (stem, log) = self.call_files();
        let mut all: Vec<OsString> = vec![
            "--root".into(),
            self.root().into(),
            "--log".into(),
            log.clone().into(),
            "--log-format".into(),
            "json".into(),
        ];
        all.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self.in_environment(Call::new(&self.runtime, &stem, &log, &all))
    }

    /// Returns a call of the runtime with exactly these arguments.
    pub fn call_bare<A: AsRef<OsStr>>(&self, args: &[A]) -> Call {
        let (stem, log) = self.call_files();
        let all: Vec<OsString> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        self.in_environment(Call::new(&self.runtime, &stem, &log, &all))
    }

    /// Returns a call of another program, with the same deadline.
    pub fn program<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Call {
        let (stem, log) = self.call_files();
        let all: Vec<OsString> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        self.in_environment(Call::new(Path::new(program), &stem, &log, &all))
    }

    fn in_environment(&self, call: Call) -> Call {
        self.environment.iter().fold(call, |call, (name, value)| call.env(name, value))
    }

    fn call_files(&self) -> (PathBuf, PathBuf) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        (self.dir.join(format!("call{number}")), self.dir.join(format!("call{number}.log")))
    }

    /// Returns a new bundle with a rootfs of its own.
    #[must_use]
    pub fn bundle(&self) -> Bundle<'_> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir.join(format!("bundle{number}"));
        rootfs::make(&dir.join("rootfs"), &self.shared);
        Bundle::new(self, dir)
    }

    /// Deletes every container of the case through the runtime; returns everything that remains afterwards.
    ///
    /// # Panics
    /// As [`Bed::id`].
    #[must_use]
    pub fn finish(&self) -> Vec<String> {
        let ids = self.ids.lock().expect("ids").clone();
        let mut left = Vec::new();
        for id in &ids {
            if !self.root().join(id).exists() {
                continue;
            }
            let outcome = self.call(&["delete", "--force", id]).run();
            if outcome.code() != 0 {
                left.push(format!("delete --force failed: {outcome}"));
            }
            if self.root().join(id).exists() {
                left.push(format!("state left behind: {}", self.root().join(id).display()));
            }
        }
        // A case must delete the containers of shims itself, but it may have failed before that.
        let of_shims = self.root().join(NAMESPACE);
        for id in ids.iter().filter(|id| of_shims.join(id).exists()) {
            left.push(format!("state left behind: {}", of_shims.join(id).display()));
            let root = of_shims.to_string_lossy();
            let outcome = self.call_bare(&["--root", &root, "delete", "--force", id]).run();
            if outcome.code() != 0 {
                left.push(format!("delete --force failed: {outcome}"));
            }
        }
        let mut found = leak::find(self.view, &self.dir, &ids);
        // An exiting process may need a moment to vanish.
        for _ in 0..100 {
            if found.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            found = leak::find(self.view, &self.dir, &ids);
        }
        left.extend(found);
        left
    }

    /// Removes the directory. If the case failed, also kills the processes and removes the cgroups that the case left
    /// behind.
    ///
    /// # Panics
    /// As [`Bed::id`].
    pub fn remove(&self, clean: bool) {
        if !clean {
            leak::sweep(self.view, &self.ids.lock().expect("ids"));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
