use super::*;
use std::ffi::CString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::string::String;
use std::{env, format, fs, process};

const MODE: Mode = Mode::from_raw_mode(0o755);

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn scratch(name: &str) -> Scratch {
    let dir = env::temp_dir().join(format!("dayfly-inside-{name}-{}", process::id()));
    let _ = fs::remove_dir_all(&dir);
    for below in ["root/a/b/c", "root/proc", "outside"] {
        fs::create_dir_all(dir.join(below)).unwrap();
    }
    fs::write(dir.join("root/a/file"), "").unwrap();
    let links = [
        ("absolute", "/a/b"),
        ("relative", "a/b"),
        ("up", "../../../../a/b"),
        ("a/b/back", "../.././a//b/"),
        ("chain", "second"),
        ("second", "/third"),
        ("third", "a/file"),
        ("circle", "other"),
        ("other", "circle"),
        ("self", "self"),
        ("dangling", "/none/below"),
        ("a/climbing", "../../../none/../none/x"),
        ("to-chain", "dangling"),
        ("hung", "a/file/none"),
    ];
    for (link, text) in links {
        symlink(text, dir.join("root").join(link)).unwrap();
    }
    Scratch(dir)
}

fn open_dir(path: &Path) -> OwnedFd {
    openat(CWD, path.to_str().unwrap(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let (one, other) = (fstat(one).unwrap(), fstat(other).unwrap());
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// The walk returns the same files and errors as the kernel.
#[test]
fn the_walk_and_the_kernel_agree() {
    let dir = scratch("agree");
    let root = open_dir(&dir.0.join("root"));
    let names = [
        "",
        ".",
        "..",
        "/",
        "../..",
        "a",
        "a/b/",
        "a/b/..",
        "a/b/../../..",
        "a/file",
        "a/file/x",
        "a/none",
        "none/x",
        "absolute",
        "absolute/c",
        "absolute/..",
        "relative/back/c",
        "up/c",
        "up/../../../../a",
        "chain",
        "circle",
        "circle/x",
        "self",
        "dangling",
        "dangling/x",
        "a/climbing",
        "to-chain",
        "hung",
        "a/b/back/back/back",
        "second/",
        "a//b///c",
    ];
    for name in names {
        let path = CString::new(name).unwrap();
        for links in [Links::Follow, Links::KeepLast, Links::Refuse] {
            for flags in [OFlags::PATH, OFlags::PATH | OFlags::DIRECTORY, OFlags::RDONLY] {
                // Paths with a trailing slash, which must be directories, are not tested here.
                if name.ends_with('/')
                    && name.len() > 1
                    && (name == "second/" || links == Links::KeepLast)
                {
                    continue;
                }
                let flags = match links {
                    Links::KeepLast => flags | OFlags::NOFOLLOW,
                    _ => flags,
                };
                let kernel = open(root.as_fd(), &path, flags, links);
                assert!(!REFUSED.load(Ordering::Relaxed));
                let walked = walk_to(root.as_fd(), &path, flags, links);
                match (&kernel, &walked) {
                    (Ok(kernel), Ok(walked)) => assert!(same(kernel, walked), "{name} {links:?}"),
                    _ => assert_eq!(
                        kernel.as_ref().err(),
                        walked.as_ref().err(),
                        "{name} {links:?} {flags:?}"
                    ),
                }
            }
        }
    }
}

#[test]
fn links_to_open_files_are_refused_and_those_of_proc_itself_are_not() {
    let root = open_dir(Path::new("/"));
    let walk = |path: &str| {
        walk_to(root.as_fd(), &CString::new(path).unwrap(), OFlags::PATH, Links::Follow).map(drop)
    };
    assert_eq!(walk("proc/self/exe"), Err(Errno::LOOP));
    assert_eq!(walk("proc/self/root/etc"), Err(Errno::LOOP));
    assert_eq!(walk("proc/self/ns/mnt"), Err(Errno::LOOP));
    assert_eq!(walk("proc/self/status"), Ok(()));
    assert_eq!(walk("proc/mounts"), Ok(()));
}

#[test]
fn what_is_missing_is_made_where_links_lead_inside() {
    let dir = scratch("made");
    let root = open_dir(&dir.0.join("root"));
    let at = |name: &str| dir.0.join("root").join(name);
    make_directories(root.as_fd(), c"dangling", MODE).unwrap();
    assert!(at("none/below").is_dir());
    make_directories(root.as_fd(), c"to-chain/deep/er", MODE).unwrap();
    assert!(at("none/below/deep/er").is_dir());
    make_file(root.as_fd(), c"a/climbing", MODE, MODE).unwrap();
    assert!(at("none/x").is_file());
    assert!(fs::symlink_metadata(at("a/climbing")).unwrap().is_symlink());
    // An existing file is opened and not created again.
    make_file(root.as_fd(), c"third", MODE, MODE).unwrap();
    for circle in [c"circle", c"self/x", c"circle/x"] {
        assert_eq!(make_file(root.as_fd(), circle, MODE, MODE).unwrap_err(), Errno::LOOP);
        assert_eq!(make_directories(root.as_fd(), circle, MODE).unwrap_err(), Errno::LOOP);
    }
    assert_eq!(make_file(root.as_fd(), c"hung", MODE, MODE).unwrap_err(), Errno::NOTDIR);
    assert_eq!(fs::read_dir(dir.0.join("outside")).unwrap().count(), 0);
    assert!(!dir.0.join("none").exists());
}

#[test]
fn paths_that_are_too_long_are_refused() {
    let dir = scratch("long");
    let root = open_dir(&dir.0.join("root"));
    let long = |length: usize| CString::new("a/".repeat(length / 2)).unwrap();
    let walk = |path: &CString| walk_to(root.as_fd(), path, OFlags::PATH, Links::Follow);
    assert_eq!(walk(&long(2 * LONGEST)).unwrap_err(), Errno::NAMETOOLONG);
    assert_eq!(walk(&long(LONGEST - 2)).unwrap_err(), Errno::NOENT);
    // Each of these links doubles the length of the remaining path.
    let mut text = String::from("x");
    for _ in 0..1000 {
        text.push_str("/x");
    }
    symlink(&text, dir.0.join("root/x")).unwrap();
    let path = CString::new("x").unwrap();
    let refused = walk(&path).unwrap_err();
    assert!(refused == Errno::NAMETOOLONG || refused == Errno::LOOP, "{refused:?}");
}

/// Tests the walk while an attacker keeps exchanging a directory for a link that leads out of the root.
#[test]
fn a_neighbour_cannot_lead_the_walk_outside() {
    use std::sync::atomic::AtomicBool;
    let dir = scratch("race");
    let root = open_dir(&dir.0.join("root"));
    let (place, other) = (dir.0.join("root/a/b"), dir.0.join("root/a/swap"));
    symlink(dir.0.join("outside"), &other).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(
                    CWD,
                    place.to_str().unwrap(),
                    CWD,
                    other.to_str().unwrap(),
                    flags,
                );
            }
        });
        for number in 0..2000 {
            let path = CString::new(format!("a/b/c/../new{number}/../../b/file")).unwrap();
            let _ = make_file(root.as_fd(), &path, MODE, MODE);
            let _ = make_directories(root.as_fd(), &path, MODE);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(dir.0.join("outside")).unwrap().count(), 0);
}
