//! An unprivileged user that exists for one case, with ranges of subordinate ids, and if necessary a cgroup of its own.
//!
//! The user's calls run in a mount namespace whose /etc lists the user, so nothing is added to the machine.

use crate::bed::Bed;
use crate::bundle::Bundle;
use crate::cgroups;
use crate::program;
use crate::view::View;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user's name in every case.
pub const NAME: &str = "mayfly";
/// The number of subordinate ids of a user.
pub const RANGE: u32 = 65_536;

/// The number of users of the run so far.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The first uid. It is outside the ranges of `--userns auto`, so that processes of such containers do not count as the
/// user's.
const FIRST: u32 = 28_700;
/// The maximum number of users of a run.
const MOST: u32 = 100;

/// Returns a uid that no other user of this run has, and that a user of a concurrent run is unlikely to have.
fn next_uid() -> u32 {
    FIRST + std::process::id() % 360 * MOST + NEXT.fetch_add(1, Ordering::Relaxed) % MOST
}

/// A user, and a bed whose calls run as that user.
pub struct User {
    /// The user's uid, which is also its gid.
    pub uid: u32,
    /// The first of the user's subordinate uids, which is also the first of its subordinate gids.
    pub first: u32,
    /// The bed of the user's calls.
    pub bed: Bed,
    cgroup: Option<PathBuf>,
    /// The process that holds the mount namespace of the user's calls.
    etc: Child,
    /// The process that holds the namespaces of a nested user.
    holder: Option<Child>,
    /// The user's systemd instance.
    systemd: Option<Child>,
    /// Flags added to all calls of the runtime.
    flags: &'static str,
}

/// The path of systemd.
const SYSTEMD: &str = "/lib/systemd/systemd";
/// A script that creates, if it is missing, the directory that marks a machine run by systemd (sd_booted(3)).
const BOOTED: &str = "[ -d /run/systemd/system ] || {\n\
    mkdir -p /run/systemd && mount -t tmpfs -o mode=755 tmpfs /run/systemd || exit 99\n\
    mkdir /run/systemd/system\n}\n";

/// Checks that the machine has everything that the calls of a user require.
///
/// # Errors
/// A missing requirement.
pub fn can_be() -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    for tool in ["newuidmap", "newgidmap", "setpriv", "unshare"] {
        if !path.split(':').any(|at| Path::new(at).join(tool).exists()) {
            return Err(format!("no {tool}: scripts/install-deps test"));
        }
    }
    Ok(())
}

/// Checks that the machine also has everything that a user with a systemd instance of its own requires.
///
/// # Errors
/// A missing requirement.
pub fn can_be_managed() -> Result<(), String> {
    can_be()?;
    for file in [SYSTEMD, "/usr/lib/systemd/user/dbus.socket"] {
        if !Path::new(file).exists() {
            return Err(format!("no {file}: the packages systemd and dbus-user-session"));
        }
    }
    Ok(())
}

fn is_cgroup(directory: &Path) -> bool {
    directory.join("cgroup.subtree_control").exists()
}

impl User {
    /// Makes a user without a cgroup.
    #[must_use]
    pub fn new(bed: &Bed) -> Self {
        Self::make(bed, next_uid(), None)
    }

    /// Makes a user with a cgroup of its own, as systemd would delegate one.
    ///
    /// # Panics
    /// When the cgroup can't be made.
    #[must_use]
    pub fn delegated(bed: &Bed) -> Self {
        let uid = next_uid();
        let path = cgroups::path_of(&format!("user{uid}"));
        let below = path.trim_start_matches('/');
        let parent = match bed.view {
            View::V2 => Path::new("/sys/fs/cgroup").join(below),
            View::Hybrid => Path::new("/sys/fs/cgroup/unified").join(below),
            // No part of cgroup v1 is delegated.
            View::V1 => return Self::make(bed, uid, None),
        };
        fs::create_dir_all(parent.join("session")).expect("make cgroup");
        // The controllers that user@.service delegates by default, as far as the host has them.
        let above: Vec<_> = parent.ancestors().skip(1).take_while(|at| is_cgroup(at)).collect();
        for (directory, controller) in
            above.iter().rev().flat_map(|at| [(at, "+pids"), (at, "+memory")])
        {
            let _ = fs::write(directory.join("cgroup.subtree_control"), controller);
        }
        Self::make(bed, uid, Some(parent))
    }

    /// Makes a user that is root of a user namespace with all of the user's ids, and has a mount namespace, as in
    /// `podman unshare`.
    ///
    /// # Panics
    /// When the namespaces can't be made.
    #[must_use]
    pub fn nested(bed: &Bed) -> Self {
        let mut user = Self::make(bed, next_uid(), None);
        user.nest();
        user
    }

    /// Makes a user with a cgroup of its own and a systemd instance, as after a login.
    ///
    /// # Panics
    /// When systemd doesn't start.
    #[must_use]
    pub fn managed(bed: &Bed) -> Self {
        let mut user = Self::delegated(bed);
        user.sees_systemd();
        let log = fs::File::create(user.bed.dir.join("systemd.log")).expect("create log");
        let mut systemd = Command::new(user.bed.runtime());
        systemd.env("PROGRAM", SYSTEMD).arg("--user").env("SYSTEMD_LOG_TARGET", "console");
        if user.cgroup.is_some() {
            own(&user.manager(), user.uid);
            systemd.env("CGROUP", "manager");
        }
        systemd.stdout(log.try_clone().expect("log")).stderr(log);
        user.systemd = Some(systemd.spawn().expect("systemd"));
        let bus = user.bed.dir.join("run/bus");
        crate::wait::until_true("the user's bus", || bus.exists());
        user
    }

    /// Adds `--systemd-cgroup` to all calls, so that each container is in a scope of the user's systemd.
    pub fn asks_systemd(&mut self) {
        self.flags = "--systemd-cgroup";
        self.write_script();
    }

    /// Returns the scopes that the user's systemd has made.
    #[must_use]
    pub fn scopes(&self) -> Vec<PathBuf> {
        let mut scopes = Vec::new();
        let mut directories = vec![self.manager()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let below = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
            for path in below.filter(|path| !path.ends_with("init.scope")) {
                let is_scope = path.extension().is_some_and(|kind| kind == "scope");
                if is_scope { scopes.push(path) } else { directories.push(path) }
            }
        }
        scopes
    }

    /// Makes the user's calls see a machine run by systemd.
    ///
    /// # Panics
    /// When the directory that marks such a machine can't be made.
    pub fn sees_systemd(&mut self) {
        let made =
            Command::new("nsenter").args([&self.etc_namespace(), "sh", "-c", BOOTED]).status();
        assert!(made.is_ok_and(|status| status.success()), "/run/systemd/system");
    }

    /// Returns the option that makes nsenter(1) enter the mount namespace in which the user's commands run.
    fn etc_namespace(&self) -> String {
        format!("--mount=/proc/{}/ns/mnt", self.etc.id())
    }

    /// Returns the cgroup of the user's systemd.
    #[must_use]
    pub fn manager(&self) -> PathBuf {
        self.cgroup().join("manager")
    }

    /// Terminates the user's systemd, and all its units.
    pub fn end_systemd(&mut self) {
        let Some(mut systemd) = self.systemd.take() else { return };
        let pid = rustix::process::Pid::from_child(&systemd);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if crate::runtime::wait_within(&mut systemd, crate::wait::patience()).is_none() {
            let _ = systemd.kill();
            let _ = systemd.wait();
        }
    }

    /// Makes the user root of a user namespace, as in [`User::nested`].
    ///
    /// # Panics
    /// When the namespaces can't be made.
    pub fn nest(&mut self) {
        let first = self.first;
        let unshare = format!(
            "unshare --user --mount --map-root-user --map-users={first},1,{RANGE} \
             --map-groups={first},1,{RANGE} sleep"
        );
        let holder = Command::new(self.bed.runtime()).env("PROGRAM", unshare).arg("1000").spawn();
        let holder = self.holder.insert(holder.expect("unshare"));
        until_asleep(holder);
        self.write_script();
    }

    fn make(bed: &Bed, uid: u32, cgroup: Option<PathBuf>) -> Self {
        let first = uid * RANGE;
        let base = bed.dir.join(format!("user{uid}"));
        let (home, etc) = (base.join("home"), base.join("etc"));
        fs::create_dir_all(home.join("run")).expect("make home");
        fs::create_dir(&etc).expect("make etc");
        // The user may lack permission to read the checkout, so it gets a copy of the runtime.
        program::copy(bed.runtime(), &base.join("dayfly"));
        let add = |file: &str, line: String| {
            let text = fs::read_to_string(format!("/etc/{file}")).unwrap_or_default();
            fs::write(etc.join(file), format!("{text}{line}\n")).expect("write etc");
        };
        add("passwd", format!("{NAME}:x:{uid}:{uid}::{}:/bin/sh", home.display()));
        add("group", format!("{NAME}:x:{uid}:"));
        add("subuid", format!("{NAME}:{first}:{RANGE}"));
        add("subgid", format!("{NAME}:{first}:{RANGE}"));
        give(&home, uid);
        give(&home.join("run"), uid);
        if let Some(cgroup) = &cgroup {
            own(cgroup, uid);
            own(&cgroup.join("session"), uid);
        }
        let bed = bed.of_user(home, base.join("as-user"));
        let user = Self {
            uid,
            first,
            bed,
            cgroup,
            etc: keep_etc(&etc),
            holder: None,
            systemd: None,
            flags: "",
        };
        user.write_script();
        user
    }

    /// Writes the script that runs the runtime as the user. If the variable `PROGRAM` is set, the script executes that
    /// program instead of the runtime. The script adds the assignments in the variable `WITH` to the environment.
    fn write_script(&self) {
        let script = self.bed.runtime();
        let base = script.parent().expect("base").display();
        let flags = self.flags;
        let in_cgroup = self.cgroup.as_ref().map_or_else(String::new, |cgroup| {
            format!("echo $$ >{}/${{CGROUP:-session}}/cgroup.procs\n", cgroup.display())
        });
        let become_user = match &self.holder {
            Some(holder) => {
                format!("--target={} --user --mount --setuid=0 --setgid=0 --", holder.id())
            }
            None => {
                let (uid, etc) = (self.uid, self.etc_namespace());
                format!("{etc} --wdns=\"$PWD\" ${{SETPRIV:---setuid={uid} --setgid={uid} --}}")
            }
        };
        let text = format!(
            "#!/bin/sh\n{in_cgroup}export HOME={base}/home USER={NAME} XDG_RUNTIME_DIR={base}/home/run\n\
             unset CGROUP\nexec nsenter {become_user} ${{WITH:+env $WITH}} \
             ${{PROGRAM:-{base}/dayfly {flags}}} \"$@\"\n",
        );
        program::write(script, &text);
    }

    /// Returns the value of `SETPRIV` for a call that becomes the user with these options of setpriv(1).
    #[must_use]
    pub fn setpriv(&self, options: &str) -> String {
        format!("setpriv --reuid={uid} --regid={uid} {options}", uid = self.uid)
    }

    /// Returns the user's own cgroup.
    #[must_use]
    pub fn cgroup(&self) -> &Path {
        self.cgroup.as_deref().unwrap_or_else(|| Path::new("/"))
    }

    /// Returns a bundle that the user owns. Its container has no user namespace.
    #[must_use]
    pub fn plain(&self) -> Bundle<'_> {
        let bundle = self.bed.bundle();
        give_tree(&bundle.dir, self.uid);
        bundle.set("/linux/cgroupsPath", json!("")).unset("/linux/resources")
    }

    /// Returns a bundle whose container maps root to the user, and no other id.
    #[must_use]
    pub fn single(&self) -> Bundle<'_> {
        let own = json!([{ "containerID": 0, "hostID": self.uid, "size": 1 }]);
        let mut bundle = self.mapped(&own);
        // The tty group is not mapped.
        let mounts = bundle.config["mounts"].as_array_mut().expect("mounts");
        for options in mounts.iter_mut().filter_map(|mount| mount["options"].as_array_mut()) {
            options.retain(|option| *option != "gid=5");
        }
        bundle
    }

    /// Returns a bundle whose container maps root to the user, and the other ids to the user's subordinate ids.
    #[must_use]
    pub fn ranges(&self) -> Bundle<'_> {
        self.mapped(&json!([
            { "containerID": 0, "hostID": self.uid, "size": 1 },
            { "containerID": 1, "hostID": self.first, "size": RANGE },
        ]))
    }

    fn mapped(&self, ids: &Value) -> Bundle<'_> {
        self.plain()
            .push("/linux/namespaces", json!({ "type": "user" }))
            .set("/linux/uidMappings", ids.clone())
            .set("/linux/gidMappings", ids.clone())
    }

    /// Returns the processes that run as the user or one of the user's subordinate ids.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| self.owns(*pid) && !crate::leak::is_zombie(*pid)).collect()
    }

    /// Returns the remaining processes of the user, except the process that holds the user's namespaces, and the
    /// remaining cgroups in the user's cgroup.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let holder = self.holder.as_ref().map(Child::id);
        let others = self.processes().into_iter().filter(|pid| Some(pid.unsigned_abs()) != holder);
        let mut left: Vec<String> = others.map(|pid| format!("process {pid}")).collect();
        let entries = self.cgroup.iter().flat_map(fs::read_dir).flatten().flatten();
        let cgroups = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let cgroups = cgroups.filter(|path| !path.ends_with("session"));
        left.extend(cgroups.map(|path| format!("cgroup {}", path.display())));
        left
    }

    fn owns(&self, pid: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let uid = line.split_whitespace().next().and_then(|uid| uid.parse::<u32>().ok());
        uid.is_some_and(|uid| uid == self.uid || (self.first..self.first + RANGE).contains(&uid))
    }
}

/// Kills all processes of the user, and removes everything else that the user's containers have
/// left behind.
impl Drop for User {
    fn drop(&mut self) {
        let mut left = self.bed.finish();
        for keeper in [self.holder.as_mut(), Some(&mut self.etc)].into_iter().flatten() {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
        self.end_systemd();
        let gone = |check: &dyn Fn() -> bool| {
            let start = std::time::Instant::now();
            while !check() && start.elapsed() < crate::wait::patience() / 4 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        gone(&|| self.processes().is_empty());
        for pid in self.processes() {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            left.push(format!("process left behind: {pid} {}", command.replace('\0', " ")));
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if let Some(cgroup) = &self.cgroup {
            remove_tree(&cgroup.join("manager"));
            // A process that has exited may remain in the cgroup for a moment.
            let session = cgroup.join("session");
            gone(&|| fs::remove_dir(&session).is_ok() || !session.exists());
            for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    left.push(format!("cgroup left behind: {}", entry.path().display()));
                    let _ = fs::remove_dir(entry.path());
                }
            }
            let _ = fs::remove_dir(cgroup);
        }
        assert!(left.is_empty() || std::thread::panicking(), "{left:?}");
    }
}

/// Starts a process with a mount namespace of its own, in which the files in `etc` are mounted over those in /etc.
fn keep_etc(etc: &Path) -> Child {
    let binds = "for file in passwd group subuid subgid; do\n\
         [ -e /etc/$file ] || touch /etc/$file\n\
         mount --bind \"$0/$file\" /etc/$file || exit 99\ndone\nexec sleep 10000\n";
    let mut unshare = Command::new("unshare");
    let unshare = unshare.args(["-m", "--propagation", "private", "sh", "-c", binds]).arg(etc);
    let keeper = unshare.spawn().expect("unshare");
    until_asleep(&keeper);
    keeper
}

/// Waits until a process has made its namespaces and sleeps.
fn until_asleep(keeper: &Child) {
    let comm = format!("/proc/{}/comm", keeper.id());
    crate::wait::until_true("the user's namespaces", || {
        fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
    });
}

/// Makes a cgroup if it is missing, and makes a user its owner.
fn own(cgroup: &Path, uid: u32) {
    let _ = fs::create_dir(cgroup);
    give(cgroup, uid);
    for file in ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        give(&cgroup.join(file), uid);
    }
}

/// Removes empty cgroups.
fn remove_tree(cgroup: &Path) {
    let Ok(entries) = fs::read_dir(cgroup) else { return };
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        remove_tree(&entry.path());
    }
    let _ = fs::remove_dir(cgroup);
}

fn give(path: &Path, uid: u32) {
    // Some cgroups lack some of the files.
    let _ = chown(path, Some(uid), Some(uid));
}

/// Makes a user the owner of all directories in a tree. Files keep their owner, since root filesystems share their
/// files.
fn give_tree(dir: &Path, uid: u32) {
    chown(dir, Some(uid), Some(uid)).expect("chown");
    for entry in fs::read_dir(dir).expect("read").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            give_tree(&entry.path(), uid);
        }
    }
}

/// Returns the owner of a file.
///
/// # Panics
/// When the file does not exist.
#[must_use]
pub fn owner(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("stat").uid()
}
