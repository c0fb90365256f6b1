//! Caches of a test's own.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use dayfly_cache::Cache;

/// A directory for one test's cache, removed at its end.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    /// `None`, with a word, where the caller is not root.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped, needs root");
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dayfly-cache-test-{}-{count}", std::process::id());
        Some(Self { path: std::env::temp_dir().join(name) })
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub fn open(&self) -> Cache {
        Cache::open(self.path()).unwrap()
    }

    /// The paths of all entries of one of the cache's directories.
    pub fn entries(&self, directory: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path.join(directory)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
