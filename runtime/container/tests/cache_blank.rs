//! The blank mount namespace is created once, completely, and empty.

mod common;

use std::ffi::CStr;
use std::fs;
use std::io::Write;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Scratch, in_namespace, mounts, work, worker};
use dayfly_container::cache::{Cache, Error};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, RawDir, fstat, openat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use sys::clone::CloneFlags;

/// Returns the inode that identifies a namespace.
fn inode(namespace: &OwnedFd) -> u64 {
    fstat(namespace).unwrap().st_ino
}

/// Opens `path` in the blank namespace. A relative path is relative to /proc/self.
fn inside(blank: &OwnedFd, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    sys::errand::fetch(|| {
        let this_process = openat(CWD, c"/proc/self", OFlags::PATH, Mode::empty())?;
        sys::ns::join(blank.as_fd(), CloneFlags::NEWNS)?;
        openat(this_process, path, flags, Mode::RWXU)
    })
}

/// Returns the mount table of the blank namespace.
fn mounts_inside(blank: &OwnedFd) -> String {
    let file = inside(blank, c"mountinfo", OFlags::RDONLY).unwrap();
    String::from_utf8(sys::fs::read_all(file).unwrap()).unwrap()
}

/// Requests the blank namespace again and again until no other process is creating it.
fn persist(cache: &Cache) -> OwnedFd {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match cache.blank() {
            Err(Error::Busy) if Instant::now() < deadline => sleep(Duration::from_millis(1)),
            result => return result.unwrap(),
        }
    }
}

/// Not a test, but the code of a worker process: requests the blank namespace and prints the result.
#[test]
fn asks_for_template() {
    let Some(path) = work() else { return };
    let answer = match Cache::open(&path).unwrap().blank() {
        Ok(blank) => inode(&blank).to_string(),
        Err(error) => error.to_string(),
    };
    println!("<{answer}>");
}

fn answer(output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let (_, rest) = output.split_once('<').unwrap();
    rest.split_once('>').unwrap().0.into()
}

#[test]
fn nothing_of_the_host_is_in_it() {
    in_namespace("nothing_of_the_host_is_in_it", || {
        let scratch = Scratch::new().unwrap();
        let blank = scratch.open().blank().unwrap();

        let mountinfo = mounts_inside(&blank);
        assert_eq!(mountinfo.lines().count(), 1, "{mountinfo}");
        assert!(mountinfo.contains(" / / ro,nosuid,nodev,noexec"), "{mountinfo}");
        assert!(mountinfo.contains(" tmpfs dayfly ro,"), "{mountinfo}");

        let root = inside(&blank, c"/", OFlags::RDONLY).unwrap();
        let up = inside(&blank, c"/../..", OFlags::RDONLY).unwrap();
        assert_eq!(fstat(&root).unwrap().st_mode & 0o7777, 0o555);
        assert_eq!(fstat(&up).unwrap().st_ino, fstat(&root).unwrap().st_ino);
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut entries = RawDir::new(&root, &mut buffer);
        assert_eq!(entries.next().unwrap().unwrap().file_name(), c".");
        assert_eq!(entries.next().unwrap().unwrap().file_name(), c"..");
        assert!(entries.next().is_none());
        let new = inside(&blank, c"/new", OFlags::CREATE | OFlags::WRONLY);
        assert_eq!(new.unwrap_err(), Errno::ROFS);
    });
}

#[test]
fn it_is_made_once() {
    in_namespace("it_is_made_once", || {
        let scratch = Scratch::new().unwrap();
        let before = mounts().len();
        let first = scratch.open().blank().unwrap();
        // The two new mounts are the tmpfs, and the blank namespace at its name in the tmpfs.
        assert_eq!(mounts().len(), before + 2);
        assert_eq!(inode(&first), inode(&scratch.open().blank().unwrap()));
        assert_eq!(mounts().len(), before + 2);
    });
}

#[test]
fn what_is_not_a_mount_namespace_is_not_used() {
    in_namespace("what_is_not_a_mount_namespace_is_not_used", || {
        let scratch = Scratch::new().unwrap();
        let cache = scratch.open();
        cache.blank().unwrap();
        let name = scratch.path.join("mounts/namespace");
        rustix::mount::mount_bind("/proc/self/ns/net", name.to_str().unwrap()).unwrap();
        let blank = cache.blank().unwrap();
        assert_eq!(sys::nsfs::kind(blank.as_fd()), Ok(CloneFlags::NEWNS));
    });
}

#[test]
fn a_later_namespace_makes_its_own() {
    in_namespace("a_later_namespace_makes_its_own", || {
        let scratch = Scratch::new().unwrap();
        let ours = scratch.open().blank().unwrap();
        let output = Command::new("unshare")
            .args(["-m", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(worker("asks_for_template", &scratch).get_args())
            .env("DAYFLY_TEST_CACHE", scratch.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let theirs: u64 = answer(&output.stdout).parse().unwrap();
        assert_ne!(theirs, inode(&ours));
        assert_eq!(inode(&ours), inode(&scratch.open().blank().unwrap()));
    });
}

#[test]
fn nothing_of_it_propagates() {
    in_namespace("nothing_of_it_propagates", || {
        let status = Command::new("mount").args(["--make-rshared", "/"]).status().unwrap();
        assert!(status.success());
        let scratch = Scratch::new().unwrap();
        scratch.open().blank().unwrap();
        let ours: Vec<_> = mounts().into_iter().filter(|m| m.contains(scratch.path())).collect();
        assert_eq!(ours.len(), 2);
        assert!(!ours.iter().any(|mount| mount.contains(" shared:")), "{ours:?}");
    });
}

/// Nobody's recursive bind mount contains the file of the blank namespace; older builds' mounts are removed.
#[test]
fn no_bind_mount_contains_it() {
    in_namespace("no_bind_mount_contains_it", || {
        let scratch = Scratch::new().unwrap();
        let blank = scratch.open().blank().unwrap();
        let old = scratch.path.join("mounts/blank");
        fs::write(&old, "").unwrap();
        let file = format!("/proc/self/fd/{}", blank.as_raw_fd());
        rustix::mount::mount_bind(file.as_str(), old.to_str().unwrap()).unwrap();
        let name = scratch.path.join("mounts/namespace");
        rustix::mount::unmount(name.to_str().unwrap(), UnmountFlags::DETACH).unwrap();
        scratch.open().blank().unwrap();
        assert!(!old.exists());

        let place = scratch.path.join("place");
        fs::create_dir(&place).unwrap();
        let [from, to] = [&scratch.path, &place].map(|path| path.to_str().unwrap());
        rustix::mount::mount_bind_recursive(from, to).unwrap();
        let pins = mounts().into_iter().filter(|mount| mount.contains(" mnt:[")).count();
        assert!(mounts().iter().any(|mount| mount.contains(&format!(" {to}/mounts "))));
        rustix::mount::unmount(to, UnmountFlags::DETACH).unwrap();
        fs::remove_dir(&place).unwrap();
        assert_eq!(pins, 1);
    });
}

#[test]
fn it_is_made_on_whatever_cpu() {
    in_namespace("it_is_made_on_whatever_cpu", || {
        let scratch = Scratch::new().unwrap();
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).take(4);
        let cpus: Vec<String> = cpus.map(|cpu| cpu.to_string()).collect();
        // The caller's namespace is created on one CPU, and the blank namespace is requested on another.
        for (made, asked) in cpus.iter().flat_map(|a| cpus.iter().map(move |b| (a, b))) {
            for _ in 0..5 {
                let asker = worker("asks_for_template", &scratch);
                let output = Command::new("taskset")
                    .args(["-c", made, "unshare", "-m", "taskset", "-c", asked])
                    .arg(asker.get_program())
                    .args(asker.get_args())
                    .env("DAYFLY_TEST_CACHE", scratch.path())
                    .stdin(Stdio::null())
                    .output()
                    .unwrap();
                let answer = answer(&output.stdout);
                assert!(answer.parse::<u64>().is_ok(), "{made} {asked}: {answer}");
            }
        }
    });
}

#[test]
fn many_at_once_get_one_or_none() {
    in_namespace("many_at_once_get_one_or_none", || {
        for _ in 0..5 {
            let scratch = Scratch::new().unwrap();
            let before = mounts().len();
            let (start, mut hold) = std::io::pipe().unwrap();
            let asker = || {
                let mut asker = worker("asks_for_template", &scratch);
                asker.stdin(start.try_clone().unwrap()).stdout(Stdio::piped()).spawn().unwrap()
            };
            let askers: Vec<_> = (0..50).map(|_| asker()).collect();
            hold.write_all(b"go").unwrap();
            drop(hold);
            let answers = askers.into_iter().map(|asker| {
                let output = asker.wait_with_output().unwrap();
                assert!(output.status.success());
                answer(&output.stdout)
            });
            let mut answers: Vec<_> = answers.collect();
            answers.sort_unstable();
            answers.dedup();
            let blank = inode(&scratch.open().blank().unwrap()).to_string();
            answers.retain(|answer| *answer != Error::Busy.to_string());
            assert_eq!(answers, [blank]);
            assert_eq!(mounts().len(), before + 2);
        }
    });
}

#[test]
fn a_killed_maker_leaves_nothing_half_made() {
    in_namespace("a_killed_maker_leaves_nothing_half_made", || {
        let scratch = Scratch::new().unwrap();
        let before = mounts();
        let mut made = 0;
        for round in 0..80 {
            let (start, hold) = std::io::pipe().unwrap();
            let mut asker = worker("asks_for_template", &scratch);
            let mut asker = asker.stdin(start).stdout(Stdio::null()).spawn().unwrap();
            // After this time the process is running and waits for its input. From then on it takes about two
            // milliseconds.
            sleep(Duration::from_millis(20));
            drop(hold);
            let until = Instant::now() + Duration::from_micros(round * 40);
            while Instant::now() < until {}
            asker.kill().unwrap();
            asker.wait().unwrap();
            made += usize::from(mounts().len() > before.len());
            let blank = persist(&scratch.open());
            assert_eq!(mounts().len(), before.len() + 2);
            assert_eq!(mounts_inside(&blank).lines().count(), 1);
            Cache::clear(scratch.path()).unwrap();
            assert_eq!(mounts(), before);
        }
        eprintln!("{made} of 80 makers had mounted something when they were killed");
    });
}

#[test]
fn clear_leaves_nothing() {
    in_namespace("clear_leaves_nothing", || {
        let scratch = Scratch::new().unwrap();
        let before = mounts();
        assert_eq!(Cache::clear(scratch.path()), Ok(()));
        let cache = scratch.open();
        let blank = cache.blank().unwrap();
        Cache::clear(scratch.path()).unwrap();
        assert_eq!(mounts(), before);
        assert!(!scratch.path.exists());
        // A start in progress can still use the open blank, but cannot create a blank namespace in the removed cache.
        inside(&blank, c"/", OFlags::RDONLY).unwrap();
        assert!(matches!(cache.blank(), Err(Error::System(error)) if error.errno == Errno::NOENT));
        assert_eq!(mounts(), before);
        scratch.open().blank().unwrap();
        fs::write(scratch.path.join("unknown"), "").unwrap();
        assert!(Cache::clear(scratch.path()).is_err());
        fs::remove_file(scratch.path.join("unknown")).unwrap();
        Cache::clear(scratch.path()).unwrap();
        assert_eq!(mounts(), before);
    });
}
