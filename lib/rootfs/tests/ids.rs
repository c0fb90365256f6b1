//! A stress test of id ranges: many concurrent processes, each of which may be killed at any moment. No range may ever
//! have two owners, and in the end all ranges must be free.

use dayfly_rootfs::ids::{Grants, Leases, Owner};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const PROCESSES: usize = 1000;
/// The number of concurrent processes, which is larger than the number of ranges.
const AT_A_TIME: usize = 100;
const RANGES: u32 = 64;
/// The environment variable that passes the test's directory to its children.
const DIRECTORY: &str = "DAYFLY_TEST_IDS";

fn grants() -> Grants {
    Grants::of(&[(1 << 20, 65536 * (RANGES + 1))])
}

fn leases(dir: &Path) -> Leases {
    Leases::open(dir.join("leases").to_str().expect("UTF-8")).expect("leases")
}

/// Opens a file or directory and locks it; returns `None` if another process holds the lock.
fn locked(path: &Path, flags: OFlags) -> Option<rustix::fd::OwnedFd> {
    let fd = openat(CWD, path.to_str()?, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR).ok()?;
    flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(fd)
}

/// Runs in each child process: leases a range, checks that no other process uses the range, keeps it for a while, and
/// then frees it or exits without freeing it.
#[test]
#[ignore = "run by a_thousand_processes"]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let (dir, own) = (Path::new(&dir), std::process::id());
    let directory = dir.join(format!("owner{own}"));
    fs::create_dir(&directory).expect("mkdir");
    let _alive = locked(&directory, OFlags::RDONLY | OFlags::DIRECTORY).expect("lock");
    let owner =
        Owner { since: u64::from(own), directory: directory.to_str().expect("UTF-8").into() };
    let leases = leases(dir);
    let first = loop {
        match leases.take(&grants(), &owner) {
            Ok(first) => break first,
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let held = dir.join("held").join(first.to_string());
    let Some(_held) = locked(&held, OFlags::RDWR | OFlags::CREATE) else {
        fs::write(dir.join("double").join(own.to_string()), first.to_string()).expect("write");
        return;
    };
    std::thread::sleep(Duration::from_millis(u64::from(own % 7)));
    if !own.is_multiple_of(5) {
        drop(_held);
        leases.give_back(first, &owner).expect("give back");
    }
}

#[test]
fn a_thousand_processes() {
    let dir = std::env::temp_dir().join(format!("dayfly-ids-{}", std::process::id()));
    for name in ["held", "double"] {
        fs::create_dir_all(dir.join(name)).expect("mkdir");
    }
    let spawn = || {
        Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "child", "--ignored", "-q"])
            .env(DIRECTORY, &dir)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("spawn")
    };
    let mut running: Vec<Child> = Vec::new();
    for number in 0..PROCESSES {
        if running.len() == AT_A_TIME {
            let mut oldest = running.remove(0);
            if number.is_multiple_of(3) {
                let _ = oldest.kill();
            }
            oldest.wait().expect("wait");
        }
        running.push(spawn());
        // Kill some of the processes before they are done.
        if number.is_multiple_of(4) {
            let victim = number % running.len();
            let _ = running[victim].kill();
        }
    }
    for mut child in running {
        child.wait().expect("wait");
    }
    let doubles = fs::read_dir(dir.join("double")).expect("read").count();
    assert_eq!(doubles, 0, "a range was handed out twice");
    assert!(fs::read_dir(dir.join("held")).expect("read").count() > 10, "few ranges were used");
    let leases = leases(&dir);
    leases.sweep().expect("sweep");
    assert_eq!(leases.list().expect("list"), []);
    fs::remove_dir_all(dir).expect("clear up");
}
