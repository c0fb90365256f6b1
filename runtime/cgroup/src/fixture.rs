//! A plain directory that replaces a cgroup in tests, to show what is written to which file.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::directory::Directory;

/// A directory with the given files, which are empty at first. Setting limits writes to them.
pub(crate) struct Fixture {
    path: PathBuf,
}

impl Fixture {
    pub(crate) fn new(files: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dayfly-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        let fixture = Self { path };
        for file in files {
            fixture.put(file, "");
        }
        fixture
    }

    pub(crate) fn put(&self, file: &str, content: &str) -> &Self {
        fs::write(self.path.join(file), content).unwrap();
        self
    }

    pub(crate) fn get(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap()
    }

    pub(crate) fn directory(&self) -> Directory {
        Directory::open(self.path.to_str().unwrap()).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).unwrap();
    }
}
