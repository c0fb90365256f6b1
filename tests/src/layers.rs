//! Makes layers by hand, in the form in which an image store keeps them.

use crate::bed::Bed;
use crate::rootfs;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A store with the layers of one image.
pub struct Layers {
    /// The value of `--store`.
    pub store: PathBuf,
    /// The value of `--layers`.
    pub list: PathBuf,
    /// The value of `DAYFLY_IDS`, the file of leased id ranges.
    pub leases: PathBuf,
    count: usize,
}

impl Layers {
    /// Makes `count` layers. The lowest contains busybox; each other layer adds a file, and writes its number to
    /// `/last`. The second layer also removes a file and replaces a directory of the lowest.
    ///
    /// # Panics
    /// When the layers can't be made.
    #[must_use]
    pub fn new(bed: &Bed, count: usize) -> Self {
        Self::at(bed, &bed.dir.join(format!("store{count}")), count)
    }

    /// Makes `count` layers, as [`Layers::new`] does, in the directory `store`.
    ///
    /// # Panics
    /// When the layers can't be made.
    #[must_use]
    pub fn at(bed: &Bed, store: &Path, count: usize) -> Self {
        let layers = store.join("layers");
        let base = layers.join("base");
        let scratch = bed.bundle().rootfs();
        fs::create_dir_all(&layers).expect("make store");
        fs::set_permissions(store, fs::Permissions::from_mode(0o700)).expect("chmod store");
        copy(&scratch, &base);
        fs::write(base.join("removed"), "x").expect("write");
        fs::create_dir(base.join("replaced")).expect("mkdir");
        fs::write(base.join("replaced/old"), "x").expect("write");
        fs::write(base.join("secret"), "of root\n").expect("write");
        fs::set_permissions(base.join("secret"), fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::write(base.join("of-user"), "of user\n").expect("write");
        chown(base.join("of-user"), Some(1000), Some(1001)).expect("chown");
        fs::hard_link(base.join("of-user"), base.join("of-user-too")).expect("link");
        let mut list = format!("{}\n", base.display());
        for number in 1..count {
            let layer = layers.join(format!("layer{number}"));
            fs::create_dir(&layer).expect("make layer");
            fs::write(layer.join(format!("file{number}")), "").expect("write");
            fs::write(layer.join("last"), format!("{number}\n")).expect("write");
            if number == 1 {
                let whiteout = layer.join("removed");
                mknodat(CWD, whiteout, FileType::CharacterDevice, Mode::empty(), 0).expect("mknod");
                let opaque = layer.join("replaced");
                fs::create_dir(&opaque).expect("mkdir");
                fs::write(opaque.join("new"), "x").expect("write");
                let (name, flags) = ("trusted.overlay.opaque", XattrFlags::empty());
                setxattr(opaque, name, b"y", flags).expect("setxattr");
            }
            let _ = writeln!(list, "{}", layer.display());
        }
        let file = store.join("list");
        fs::write(&file, list).expect("write list");
        Self { store: store.to_owned(), list: file, leases: bed.dir.join("ids"), count }
    }

    /// Returns the flags `--layers` and `--store`.
    #[must_use]
    pub fn flags(&self) -> [String; 4] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        ["--layers".into(), text(&self.list), "--store".into(), text(&self.store)]
    }

    /// Returns the number of layers in the list.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns every file of every layer, with owner, permissions, size and time of change, to detect modifications.
    #[must_use]
    pub fn fingerprint(&self) -> Vec<String> {
        let mut all = Vec::new();
        walk(&self.store.join("layers"), &mut all);
        all.sort();
        all
    }

    /// Returns the resources that a container has left behind: its directory in the store, its
    /// range of ids, mounts.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let names = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect()
        };
        let mut left = names(&self.store.join("containers"));
        left.extend(names(&self.leases));
        let store = self.store.display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        left.extend(mounts.lines().filter(|line| line.contains(&store)).map(str::to_owned));
        left
    }
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.expect("cp").success(), "cp -a {}", from.display());
    debug_assert!(rootfs::busybox().is_ok());
}

fn walk(dir: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("read layer").flatten() {
        let path = entry.path();
        let file = fs::symlink_metadata(&path).expect("stat");
        all.push(format!(
            "{} {}:{} {:o} {} {}.{}",
            path.display(),
            file.uid(),
            file.gid(),
            file.mode(),
            file.size(),
            file.ctime(),
            file.ctime_nsec()
        ));
        if file.is_dir() {
            walk(&path, all);
        }
    }
}
