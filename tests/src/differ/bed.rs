//! The place of one worker: a tmpfs in a mount namespace of its own, with the files and namespaces of a host that
//! containers get, and the bundle.

use crate::differ::mountinfo::{self, Mount};
use crate::differ::view::View;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, unmount,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use sys::sched::Affinity;

/// The user that is not root, and its group.
pub const USER: u32 = 20_321;
/// The first of the 65,536 subordinate ids of this user.
pub const FIRST_SUB_ID: u32 = 1_500_000;

/// Namespaces that containers join, and their options of unshare(1). A PID namespace has nothing to change.
const STATEFUL: [(&str, &str); 3] = [("network", "--net"), ("ipc", "--ipc"), ("uts", "--uts")];

/// A worker's place.
pub struct Bed {
    /// The directory with everything.
    pub top: PathBuf,
    /// The id of the containers.
    pub id: String,
    /// The view of the cgroups.
    pub view: View,
    /// Whether the runtimes are run by [`USER`].
    pub is_rootless: bool,
    is_shared: Option<bool>,
    sleepers: Vec<Child>,
}

fn dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn file(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn tmpfs(path: &Path, flags: MountFlags, data: &CStr) -> io::Result<()> {
    dir(path)?;
    Ok(mount("tree", path, "tmpfs", flags, data)?)
}

fn node(path: &Path, kind: FileType, mode: u32, major: u32, minor: u32) -> io::Result<()> {
    mknodat(rustix::fs::CWD, path, kind, Mode::from_raw_mode(mode), makedev(major, minor))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

impl Bed {
    /// Makes a worker's place at `top`, in this process's mount namespace, which must be its own.
    ///
    /// # Errors
    /// Those of mount(2) and of file system calls.
    pub fn new(
        top: &Path,
        id: &str,
        view: View,
        probe: &Path,
        is_rootless: bool,
    ) -> io::Result<Self> {
        dir(top)?;
        tmpfs(top, MountFlags::empty(), c"mode=755,size=256m")?;
        // Runtimes' files in /run are this worker's.
        tmpfs(Path::new("/run"), MountFlags::NOSUID | MountFlags::NODEV, c"mode=755,size=64m")?;
        fs::copy(probe, top.join("probe"))?;
        fs::set_permissions(top.join("probe"), fs::Permissions::from_mode(0o755))?;
        let mut bed = Self {
            top: top.to_owned(),
            id: id.to_owned(),
            view,
            is_rootless,
            is_shared: None,
            sleepers: Vec::new(),
        };
        if is_rootless {
            bed.add_user()?;
        }
        bed.pin_namespaces()?;
        bed.build_host(false)?;
        Ok(bed)
    }

    /// Adds the user to the files in /etc, for newuidmap(1), and gives it a directory for its runtimes.
    fn add_user(&self) -> io::Result<()> {
        let user = self.top.join("user");
        dir(&user)?;
        for (name, line) in [
            ("passwd", format!("mayfly:x:{USER}:{USER}::{}:/bin/sh\n", user.display())),
            ("group", format!("mayfly:x:{USER}:\n")),
            ("subuid", format!("mayfly:{FIRST_SUB_ID}:65536\n")),
            ("subgid", format!("mayfly:{FIRST_SUB_ID}:65536\n")),
        ] {
            let (at, copy) = (Path::new("/etc").join(name), self.top.join(name));
            let before = fs::read_to_string(&at).unwrap_or_default();
            file(&copy, 0o644, &(before + &line))?;
            mount_bind(&copy, &at)?;
        }
        chown(&user, Some(USER), Some(USER))
    }

    /// Pins a namespace of each kind that containers join.
    fn pin_namespaces(&mut self) -> io::Result<()> {
        let pins = self.top.join("namespaces");
        tmpfs(&pins, MountFlags::empty(), c"mode=755")?;
        self.renew_namespaces()?;
        let pin = pins.join("pid");
        file(&pin, 0o644, "")?;
        let mut command = Command::new("unshare");
        // A PID namespace ends with its first process.
        command.arg(format!("--pid={}", pin.display()));
        command.args(["--fork", "--kill-child", "sleep", "infinity"]).stdin(Stdio::null());
        self.sleepers.push(command.spawn()?);
        Ok(())
    }

    /// Replaces the namespaces that a container may have changed: names, sysctls.
    ///
    /// # Errors
    /// Those of mount(2).
    pub fn renew_namespaces(&self) -> io::Result<()> {
        for (kind, option) in STATEFUL {
            self.renew(&self.namespaces().join(kind), option)?;
        }
        Ok(())
    }

    fn renew(&self, pin: &Path, option: &str) -> io::Result<()> {
        self.clear(pin);
        file(pin, 0o644, "")?;
        self.pin(pin, option)
    }

    /// Returns the directory of pinned namespaces.
    #[must_use]
    pub fn namespaces(&self) -> PathBuf {
        self.top.join("namespaces")
    }

    /// Replaces the words of a case (`draw.rs`) by this worker's paths.
    #[must_use]
    pub fn place(&self, text: &str) -> String {
        let top = self.top.display().to_string();
        text.replace("@H", &format!("{top}/host"))
            .replace("@N", &format!("{top}/namespaces"))
            .replace("@P", &format!("{top}/probe"))
            .replace("@L", &format!("{top}/hooks"))
            .replace("@B", &format!("{top}/bundle"))
            .replace("@C", &format!("/{}", self.id))
            .replace("@I", &self.id)
    }

    /// Replaces this worker's paths by words.
    #[must_use]
    pub fn unplace(&self, text: &str) -> String {
        text.replace(&self.top.display().to_string(), "@W").replace(&self.id, "@I")
    }

    /// Makes the host's tree of the kind that a seed asks for, if it is another one or has been changed.
    ///
    /// # Errors
    /// Those of mount(2).
    pub fn prepare_host(&mut self, is_shared: bool, is_changed: bool) -> io::Result<()> {
        if is_changed || self.is_shared != Some(is_shared) {
            self.build_host(is_shared)?;
        }
        Ok(())
    }

    /// Pins a new namespace at a file.
    fn pin(&self, pin: &Path, option: &str) -> io::Result<()> {
        // A mount namespace can be pinned only in one with a smaller number, and Linux 6.18 gives each CPU numbers of
        // its own. On the CPU that made this namespace, the next number is always greater.
        let all = Affinity::of(None)?;
        let mut is_pinned = false;
        for one in (0..).map_while(|nth| all.nth(nth)) {
            one.set(None)?;
            let mut command = Command::new("unshare");
            command.arg(format!("{option}={}", pin.display())).arg("true").stderr(Stdio::null());
            is_pinned = command.status()?.success();
            if is_pinned {
                break;
            }
        }
        all.set(None)?;
        if is_pinned {
            return Ok(());
        }
        Err(io::Error::other(format!("no namespace can be pinned at {}", pin.display())))
    }

    /// Unmounts everything at and below a path.
    fn clear(&self, below: &Path) {
        let below = below.display().to_string();
        loop {
            let mounts = self.mounts();
            let found = mounts.iter().rev().find(|mount| {
                mount.place == below || mount.place.starts_with(&format!("{below}/"))
            });
            let Some(found) = found else { return };
            let place = found.place.clone();
            if unmount(&*place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_err() {
                return;
            }
        }
    }

    fn build_host(&mut self, is_shared: bool) -> io::Result<()> {
        let private = MountPropagationFlags::PRIVATE;
        mount_change(c"/", private | MountPropagationFlags::REC)?;
        self.clear(&self.top.join("host"));
        // What a container without a mount namespace, or with shared mounts, has left.
        let bundle = self.top.join("bundle");
        self.clear(&bundle);
        let host = self.top.join("host");
        let at = |path: &str| host.join(path);
        tmpfs(&host, MountFlags::empty(), c"mode=755")?;
        mount_change(&host, private)?;
        fill(&at("dir"))?;
        for (name, text) in [("file", "host file\n"), ("rofile", "read-only\n")] {
            file(&at(name), 0o644, text)?;
        }
        file(&at("su"), 0o4755, "su\n")?;
        symlink("dir", at("link"))?;
        symlink("file", at("flink"))?;
        node(&at("fifo"), FileType::Fifo, 0o644, 0, 0)?;
        node(&at("null"), FileType::CharacterDevice, 0o666, 1, 3)?;
        fill(&at("tree"))?;
        tmpfs(&at("tree/nested"), MountFlags::NOSUID | MountFlags::NODEV, c"mode=755")?;
        file(&at("tree/nested/file"), 0o600, "nested\n")?;
        tmpfs(&at("tree/nested/deeper"), MountFlags::RDONLY, c"mode=700")?;
        dir(&at("tree/bind"))?;
        mount_bind(at("dir"), at("tree/bind"))?;
        remount(&at("tree/bind"), MountFlags::RDONLY | MountFlags::NOEXEC)?;
        dir(&at("ro"))?;
        mount_bind(at("dir"), at("ro"))?;
        remount(&at("ro"), MountFlags::RDONLY)?;
        mount_bind(at("rofile"), at("rofile"))?;
        remount(&at("rofile"), MountFlags::RDONLY)?;
        let all = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
        tmpfs(&at("flags"), all, c"mode=755")?;
        fill(&at("flags/x"))?;
        tmpfs(&at("tmpfs"), MountFlags::empty(), c"mode=1777")?;
        file(&at("tmpfs/file"), 0o644, "host's tmpfs\n")?;
        tmpfs(&at("private"), MountFlags::empty(), c"mode=755")?;
        tmpfs(&at("private/sub"), MountFlags::empty(), c"mode=755")?;
        tmpfs(&at("tree/unbindable"), MountFlags::empty(), c"mode=755")?;
        tmpfs(&at("shared"), MountFlags::empty(), c"mode=755")?;
        mount_change(at("shared"), MountPropagationFlags::SHARED)?;
        tmpfs(&at("shared/sub"), MountFlags::empty(), c"mode=755")?;
        dir(&at("slave"))?;
        rustix::mount::mount_bind_recursive(at("shared"), at("slave"))?;
        mount_change(at("slave"), MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        if is_shared {
            mount_change(c"/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
        }
        mount_change(at("private"), private | MountPropagationFlags::REC)?;
        mount_change(at("tree/unbindable"), MountPropagationFlags::UNBINDABLE)?;
        // Pins of mount namespaces have to be on private mounts.
        for pins in [at("pins"), at("tree/pins")] {
            dir(&pins)?;
            mount_bind(&pins, &pins)?;
            mount_change(&pins, private)?;
            for (name, option) in [("mnt", "--mount"), ("net", "--net")] {
                let pin = pins.join(name);
                file(&pin, 0o644, "")?;
                self.pin(&pin, option)?;
            }
        }
        // A seed may change the mount, but not the other workers' namespace.
        mount_change(self.namespaces(), private)?;
        self.is_shared = Some(is_shared);
        Ok(())
    }

    /// Returns the mounts of this worker's namespace.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        mountinfo::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Returns what the host is: its mounts, and the files of its tree.
    #[must_use]
    pub fn look(&self) -> Vec<String> {
        let mut mounts = self.mounts();
        // Runtimes' caches.
        mounts.retain(|mount| !mount.place.starts_with("/run/"));
        // What a container without a mount namespace leaves.
        let bundle = self.top.join("bundle");
        let (left, mounts): (Vec<Mount>, Vec<Mount>) =
            mounts.into_iter().partition(|mount| Path::new(&mount.place).starts_with(&bundle));
        let mut lines: Vec<String> = mountinfo::facts(&mounts, &[], &[])
            .into_iter()
            .map(|(key, value)| format!("{}={value}", key.replace(" | ", " ")))
            .collect();
        lines.extend(left.iter().map(|mount| format!("mount {}={}", mount.place, mount.kind)));
        list(&self.top.join("host"), &mut lines);
        lines
    }

    /// Makes the bundle's root filesystem from the entries of a case.
    ///
    /// # Errors
    /// Those of file system calls; an entry that can't be made is left out.
    pub fn build_image(&self, entries: &[Value]) -> io::Result<()> {
        let bundle = self.top.join("bundle");
        if bundle.exists() {
            self.clear(&bundle);
            fs::remove_dir_all(&bundle)?;
        }
        let root = bundle.join("rootfs");
        dir(&root)?;
        fs::hard_link(self.top.join("probe"), root.join("probe"))?;
        if self.is_rootless {
            for path in [&bundle, &root] {
                chown(path, Some(USER), Some(USER))?;
            }
        }
        for entry in entries {
            let _ = make_entry(&root, entry);
        }
        Ok(())
    }

    /// Returns what the root filesystem is, below what is mounted in it, which is unmounted.
    #[must_use]
    pub fn image(&self) -> Vec<String> {
        self.clear(&self.top.join("bundle"));
        let mut lines = Vec::new();
        list(&self.top.join("bundle/rootfs"), &mut lines);
        lines
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for sleeper in &mut self.sleepers {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        let _ = mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC);
        self.clear(&self.top);
        let _ = fs::remove_dir(&self.top);
    }
}

/// Returns the name of a worker's containers, by the worker's pid.
#[must_use]
pub fn id(pid: u32) -> String {
    format!("differ-{pid}")
}

/// Returns the directory of the worker with this name.
#[must_use]
pub fn top(id: &str) -> PathBuf {
    std::env::temp_dir().join(id)
}

/// Removes what a worker has left that was killed: its containers, their cgroups, its directory.
pub fn sweep(top: &Path, id: &str, view: View) {
    for parent in view.parents() {
        remove_cgroup(&parent.join(id));
    }
    // Its mounts have gone with its mount namespace.
    let _ = fs::remove_dir(top);
}

/// Removes a cgroup with those below it, and kills what is in them.
pub fn remove_cgroup(dir: &Path) {
    for entry in
        fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir())
    {
        remove_cgroup(&entry.path());
    }
    let left = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in left.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        // The pidfd is readable when the process has gone; then the cgroup is empty.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        let patience = Timespec { tv_sec: 2, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&patience));
    }
    let _ = fs::remove_dir(dir);
}

fn remount(path: &Path, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(path, MountFlags::BIND | flags, c"")?)
}

/// Fills a directory of the host's tree.
fn fill(path: &Path) -> io::Result<()> {
    dir(path)?;
    file(&path.join("file"), 0o644, "text\n")?;
    file(&path.join("su"), 0o4755, "su\n")?;
    file(&path.join("sg"), 0o2755, "sg\n")?;
    file(&path.join("owned"), 0o600, "owned\n")?;
    chown(path.join("owned"), Some(1000), Some(1000))?;
    dir(&path.join("sub"))?;
    dir(&path.join("b"))?;
    fs::set_permissions(path.join("sub"), fs::Permissions::from_mode(0o2775))?;
    file(&path.join("sub/file"), 0o640, "sub\n")?;
    symlink("file", path.join("link"))
}

fn make_entry(root: &Path, entry: &Value) -> io::Result<()> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    let number =
        |key: &str| entry[key].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let path = root.join(text("path").trim_start_matches('/'));
    if text("path") == "/" {
        return chown(root, Some(number("owner")), Some(number("owner")));
    }
    // Not through a link that an earlier entry has put there.
    let parent = path.parent().unwrap_or(root);
    dir(parent)?;
    if !fs::canonicalize(parent)?.starts_with(root) {
        return Ok(());
    }
    if fs::symlink_metadata(&path).is_ok_and(|meta| text("kind") != "dir" || !meta.is_dir()) {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
    }
    match text("kind") {
        "dir" => dir(&path)?,
        "link" => return symlink(text("target"), &path),
        "char" => node(
            &path,
            FileType::CharacterDevice,
            number("mode"),
            number("major"),
            number("minor"),
        )?,
        "fifo" => node(&path, FileType::Fifo, number("mode"), 0, 0)?,
        _ => fs::write(&path, if text("text").is_empty() { text("path") } else { text("text") })?,
    }
    lchown(&path, Some(number("owner")), Some(number("owner")))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(number("mode")))
}

/// Adds a line for each path below a directory, without following mounts into other devices than tmpfs.
fn list(top: &Path, lines: &mut Vec<String>) {
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let target = fs::read_link(&path)
            .map(|target| format!(" -> {}", target.display()))
            .unwrap_or_default();
        let size = if meta.is_file() { meta.len() } else { 0 };
        let name = path.strip_prefix(top).unwrap_or(&path).display();
        lines.push(format!(
            "/{name} {:o} {}:{} {} {size}{target}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.rdev()
        ));
        if meta.is_dir() && lines.len() < 2000 {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
    }
    lines.sort();
}
