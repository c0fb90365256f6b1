//! Moves a process back and forth between two cgroups.

use super::*;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, openat};
use std::cell::Cell;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;
use std::process::Child;

/// A cgroup for measurements; dropping it removes the cgroup.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    directory: OwnedFd,
}

impl Group {
    /// Creates a cgroup for the purpose `name`, and removes those that killed checks have left.
    ///
    /// # Errors
    /// Failing system calls: EACCES without root.
    pub fn named(name: &str, top: &Path) -> Result<Self, Error> {
        let start = format!("dayfly-{name}-");
        for entry in fs::read_dir(top).into_iter().flatten().flatten() {
            let of = entry.file_name();
            let pid = of.to_str().and_then(|of| of.strip_prefix(&start)?.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // rmdir(2) fails if the cgroup is in use.
                let _ = fs::remove_dir(entry.path());
            }
        }
        let path = top.join(format!("{start}{}", std::process::id()));
        fs::create_dir(&path).map_err(Error::of("make", &path))?;
        let opened = sys::fs::open_dir(CWD, &path).map_err(Error::of("open", &path));
        opened.map(|directory| Self { path: path.clone(), directory }).inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        })
    }

    fn open(&self, file: &CStr) -> Result<OwnedFd, Errno> {
        openat(&self.directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Returns the descriptor of the cgroup's directory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // On a busy host, an exiting process may leave the cgroup late, and v1 does not notify of this.
        for wait in (1..100).map(Duration::from_millis) {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(wait);
                }
                _ => return,
            }
        }
    }
}

/// A process and the two cgroups that it moves between.
#[derive(Debug)]
pub struct Migration {
    // Fields are dropped in this order: the process must end before its cgroups are removed.
    traveller: Listening,
    places: [Group; 2],
    next: Cell<bool>,
}

/// A program that ends at the end of its standard input: when this is dropped, or when this process exits.
#[derive(Debug)]
pub struct Listening(pub Child);

impl Drop for Listening {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Migration {
    /// Creates the two cgroups, and the process that is moved. The cgroups are in a v1 hierarchy if one is mounted
    /// whose new cgroups accept processes without further settings; otherwise, they are in v2. They are in the cgroup
    /// `below`, which is made if it does not exist.
    ///
    /// # Errors
    /// No hierarchy is suitable; EACCES without root.
    pub fn prepare(layout: &Layout, below: &str) -> Result<Self, Error> {
        let fits = |path: &&String| {
            ["freezer", "pids", "memory", "devices"].iter().any(|name| path.ends_with(name))
        };
        let legacy = layout.legacy.iter().find(fits);
        let top = legacy.or(layout.unified.as_ref());
        let top = top.ok_or_else(|| refused!("no cgroup hierarchy to move in"))?;
        let top = Path::new(top).join(below.trim_start_matches('/'));
        fs::create_dir_all(&top).map_err(Error::of("make", &top))?;
        let places = [Group::named("here", &top)?, Group::named("there", &top)?];
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = cat.spawn().map_err(Error::of("execute", Path::new("cat")))?;
        Ok(Self { traveller: Listening(child), places, next: Cell::new(false) })
    }

    /// Returns the directory of one of the two cgroups.
    pub fn place(&self) -> &Path {
        &self.places[0].path
    }

    /// Returns whether a process can move itself through the file `tasks`, which v1 has.
    pub fn has_tasks(&self) -> bool {
        let [place, _] = &self.places;
        rustix::fs::accessat(place.descriptor(), c"tasks", Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Creates a process that moves itself into a cgroup by writing to `file`, as an init does, and exits. Returns the
    /// duration of the write in microseconds.
    ///
    /// # Errors
    /// Those of writing to the file.
    pub fn self_step(&self, file: &CStr) -> Result<f64, Errno> {
        let [place, _] = &self.places;
        let file = place.open(file)?;
        super::in_a_process(|| {
            let start = Instant::now();
            rustix::io::write(&file, b"0")?;
            Ok(start.elapsed())
        })
    }

    /// Moves the process to the other cgroup. Returns the duration in microseconds.
    ///
    /// # Errors
    /// Those of writing to cgroup.procs.
    pub fn step(&self) -> Result<f64, Errno> {
        let to = &self.places[usize::from(self.next.replace(!self.next.get()))];
        let pid = self.traveller.0.id().to_string();
        let file = to.open(c"cgroup.procs")?;
        let start = Instant::now();
        rustix::io::write(&file, pid.as_bytes())?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }
}
