//! The FIFOs that containerd makes for a process.

use crate::container::Container;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::PathBuf;

/// The FIFOs of a process, and its output.
pub struct Pipes {
    directory: PathBuf,
}

impl Pipes {
    /// Makes FIFOs in a directory of their own.
    ///
    /// # Panics
    /// When the FIFOs can't be made.
    #[must_use]
    pub fn new(container: &Container<'_>, name: &str) -> Self {
        let directory = container.bundle.join(format!("fifos-{name}"));
        fs::create_dir(&directory).expect("mkdir fifos");
        for name in ["stdin", "stdout", "stderr"] {
            mkfifoat(CWD, directory.join(name), Mode::from_raw_mode(0o600)).expect("mkfifo");
        }
        Self { directory }
    }

    /// Returns the path of a FIFO.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    /// Starts a thread that reads a FIFO to its end.
    #[must_use]
    pub fn reader(&self, name: &str) -> std::thread::JoinHandle<Vec<u8>> {
        let path = self.directory.join(name);
        std::thread::spawn(move || {
            let mut all = Vec::new();
            File::open(path).and_then(|mut file| file.read_to_end(&mut all)).expect("read fifo");
            all
        })
    }

    /// Opens a FIFO for writing.
    ///
    /// # Panics
    /// When the FIFO can't be opened.
    #[must_use]
    pub fn writer(&self, name: &str) -> File {
        let path = self.directory.join(name);
        OpenOptions::new().write(true).open(path).expect("open fifo")
    }
}
