//! A root filesystem with one static busybox and the links to it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Applets that get a link; the others run as `busybox NAME`.
const APPLETS: &[&str] = &[
    "[", "awk", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "echo", "env", "false",
    "grep", "head", "hostname", "id", "ip", "kill", "ln", "ls", "mkdir", "mknod", "mount",
    "nsenter", "printf", "ps", "pwd", "readlink", "rm", "sed", "seq", "setpriv", "setsid", "sh",
    "sleep", "sort", "stat", "stty", "sync", "tail", "tee", "test", "timeout", "touch", "tr",
    "true", "tty", "umount", "uname", "unshare", "usleep", "wc", "yes",
];

/// The directories of real distributions' images.
const DIRS: &[&str] =
    &["bin", "dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "usr", "var"];

/// The possible paths of the busybox from Debian's busybox-static (or Alpine's).
const BUSYBOX: &[&str] = &["/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"];

/// Returns the path of the machine's busybox.
///
/// # Errors
/// The name of the package to install.
pub fn busybox() -> Result<PathBuf, String> {
    BUSYBOX
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .ok_or_else(|| "no busybox: apt-get install busybox-static".to_owned())
}

/// A copy of busybox beside the beds, and a symbolic link to that copy. Each rootfs has hard links to both. Thus no
/// case can change the machine's own file, and no inodes are allocated: ext4's search for a free inode has to skip
/// inodes that were freed within the last minutes.
struct Shared {
    busybox: PathBuf,
    applet: PathBuf,
}

impl Shared {
    fn of(beside: &Path) -> &'static Self {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        SHARED.get_or_init(|| {
            let shared = Self { busybox: beside.join("busybox"), applet: beside.join("applet") };
            crate::program::copy(&busybox().expect("busybox"), &shared.busybox);
            symlink("busybox", &shared.applet).expect("link applet");
            shared
        })
    }
}

/// Creates `dir` and fills it with the root filesystem. `shared` is a directory on the same filesystem as `dir`. It
/// must exist until the end of the test run.
///
/// # Panics
/// When the machine has no busybox or the disk is full.
pub fn make(dir: &Path, shared: &Path) {
    fs::create_dir_all(dir).expect("make rootfs");
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod rootfs");
    for name in DIRS {
        fs::create_dir(dir.join(name)).expect("make rootfs directory");
    }
    fs::set_permissions(dir.join("tmp"), fs::Permissions::from_mode(0o1777)).expect("chmod tmp");
    let shared = Shared::of(shared);
    let busybox = dir.join("bin/busybox");
    // A case may have made a mount of its directory.
    fs::hard_link(&shared.busybox, &busybox)
        .or_else(|_| fs::copy(&shared.busybox, &busybox).map(drop))
        .expect("link busybox");
    for name in APPLETS {
        // linkat(2) makes a hard link to the symbolic link itself, without following it.
        let place = dir.join("bin").join(name);
        if fs::hard_link(&shared.applet, &place).is_err() {
            // A file system may limit the links to an inode, or not support hard links to symbolic links.
            symlink("busybox", place).expect("link applet");
        }
    }
    fs::write(
        dir.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\n",
    )
    .expect("write passwd");
    fs::write(dir.join("etc/group"), "root:x:0:\nuser:x:1000:\nextra:x:2000:\n")
        .expect("write group");
}
