//! The caller of dayfly, and the differences of a start without privileges on the host.
//!
//! A *rootless* caller is not uid 0: the container needs a user namespace, and newuidmap(1) and newgidmap(1) write its
//! mappings, unless only the caller's own ids are mapped. A *confined* caller is rootless or uid 0 of a user namespace
//! other than the initial one (`podman unshare`): it cannot create device nodes. For such a caller, init, not the
//! parent, opens the host's mounts. Init opens them in its own copy of the mount namespace, because only a process with
//! CAP_SYS_ADMIN in its mount namespace may clone mounts from it.
//!
//! Other differences:
//!
//! - An init that opens mounts shares neither the parent's memory nor its descriptors (`init/src/take.rs`).
//! - newuidmap(1) checks the owner of /proc/PID, so the process whose ids are mapped must be traceable. The rule
//!   `maps-before-undumpable` allows here what `undumpable-before-sharing` forbids for other callers.
//! - The intermediate joins PID and time namespaces, since it need not return from them.
//! - The OOM score is inherited from the parent (rule `inherited-oom-score`).
//! - Bind mounts of the host's cgroups, and read-only ones of /sys, are recursively read-only (CVE-2023-25809).

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};

use spec::mount_options::MountOptions;
use spec::{IdMapping, Linux, Spec};
use sys::clone::CloneFlags;

use crate::Error;
use crate::namespaces::{Namespaces, maps};
use crate::path::c_string;
use crate::step::{IdHelper, ParentStep};

/// The inode of the initial user namespace (`PROC_USER_INIT_INO`, linux/proc_ns.h).
const FIRST_USER_NAMESPACE: u64 = 0xefff_fffd;
/// The directories that execvp(3) searches if PATH is unset.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The caller of dayfly.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The caller's effective user.
    pub uid: u32,
    /// The caller's effective group.
    pub gid: u32,
    /// Whether the caller is in a user namespace other than the initial one.
    pub nested: bool,
    /// Whether setgroups(2) is denied to the caller.
    pub setgroups_denied: bool,
    /// Directories to search for newuidmap and newgidmap, in the format of `PATH`.
    pub path: String,
}

impl Caller {
    /// Probes the calling process; `path` is the `PATH` of its environment. This takes one system call for root.
    pub fn probe(path: Option<&str>) -> Self {
        let namespace = rustix::fs::stat(c"/proc/self/ns/user");
        let nested = namespace.is_ok_and(|stat| stat.st_ino != FIRST_USER_NAMESPACE);
        let denied =
            || sys::fs::read_text("/proc/self/setgroups").is_ok_and(|text| text == "deny\n");
        let uid = rustix::process::geteuid();
        Self {
            uid: uid.as_raw(),
            gid: if uid.is_root() { 0 } else { rustix::process::getegid().as_raw() },
            nested,
            setgroups_denied: nested && denied(),
            path: path.unwrap_or(DEFAULT_PATH).to_string(),
        }
    }

    /// Returns whether the caller is not root in its user namespace.
    pub fn is_rootless(&self) -> bool {
        self.uid != 0
    }

    /// Returns whether the caller lacks root's rights on the host.
    pub fn is_confined(&self) -> bool {
        self.uid != 0 || self.nested
    }

    /// Returns an error for settings that this caller cannot give to a container. If runc has an error for such a
    /// setting, the text begins like runc's.
    pub(crate) fn check(
        &self,
        spec: &Spec<'_>,
        linux: &Linux<'_>,
        keep_groups: bool,
    ) -> Result<(), Error> {
        if !self.is_rootless() {
            return Ok(());
        }
        // The pattern names all fields: a new field does not compile before it is decided here whether such a caller can
        // set it. For those that are left out, the kernel decides.
        let Linux {
            uid_mappings,
            gid_mappings: _,
            net_devices,
            namespaces: _,
            sysctl: _,
            resources: _,
            cgroups_path: _,
            devices: _,
            seccomp: _,
            rootfs_propagation: _,
            masked_paths: _,
            readonly_paths: _,
            mount_label: _,
            intel_rdt: _,
            memory_policy: _,
            personality: _,
            time_offsets: _,
        } = linux;
        let namespaces = Namespaces::of(linux);
        if !namespaces.user() {
            return Err(Error::config(
                "rootless container requires user namespaces: \"dayfly spec --rootless\" writes a config.json with one",
            ));
        }
        if namespaces.new.contains(CloneFlags::NEWUSER) {
            // The specification's rules refuse mappings for one kind of ids alone.
            if uid_mappings.is_empty() {
                return Err(Error::config("rootless containers requires at least one UID mapping"));
            }
            check_mounts(spec, linux)?;
        }
        if !net_devices.is_empty() {
            let text = "network devices are not supported for rootless containers";
            return Err(Error::config(text));
        }
        if namespaces.new.contains(CloneFlags::NEWUSER)
            && namespaces.joined.contains(CloneFlags::NEWTIME)
        {
            let text =
                "a time namespace cannot be joined from a new user namespace: it is not its own";
            return Err(Error::config(text));
        }
        if keep_groups {
            return Ok(());
        }
        let groups = spec.process.as_ref().map(|process| &process.user.additional_gids[..]);
        self.check_groups(groups.unwrap_or_default())
    }

    /// Refuses supplementary groups if the caller cannot set them.
    pub(crate) fn check_groups(&self, groups: &[u32]) -> Result<(), Error> {
        if self.is_rootless() && !groups.is_empty() {
            let text =
                "cannot set any additional groups in a rootless container (setgroups(2) is denied)";
            return Err(Error::config(text));
        }
        Ok(())
    }

    /// Returns whether newuidmap and newgidmap are installed. These programs can map more ids than the caller's own.
    pub fn can_map(&self) -> bool {
        ["newuidmap", "newgidmap"].iter().all(|name| self.find(name).is_some())
    }

    /// Returns the step that writes the mappings of a new user namespace.
    ///
    /// # Errors
    /// Fails if a helper is needed, but PATH contains none.
    pub fn map_ids(&self, linux: &Linux<'_>) -> Result<ParentStep, Error> {
        let (uids, gids) = (&linux.uid_mappings[..], &linux.gid_mappings[..]);
        if !self.is_rootless() {
            return Ok(ParentStep::MapIds(maps(uids, gids)));
        }
        let own = |list: &[IdMapping], id: u32| match list {
            [map] => map.host_id == id && map.size == 1,
            _ => false,
        };
        if own(uids, self.uid) && own(gids, self.gid) {
            return Ok(ParentStep::MapOwnId(maps(uids, gids)));
        }
        let maps = maps(uids, gids);
        Ok(ParentStep::MapIdsThrough([
            self.helper("newuidmap", maps.uid_map)?,
            self.helper("newgidmap", maps.gid_map)?,
        ]))
    }

    /// Returns a setuid helper together with the mappings that the helper writes.
    fn helper(&self, name: &'static str, map: String) -> Result<IdHelper, Error> {
        let path = self.find(name).ok_or(Error::NoHelper(name))?;
        Ok(IdHelper { path, name, map })
    }

    fn find(&self, name: &str) -> Option<CString> {
        let directories = self.path.split(':').filter(|directory| directory.starts_with('/'));
        let mut candidates = directories.filter_map(|at| c_string(format!("{at}/{name}")).ok());
        candidates.find(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
    }
}

/// Refuses mounts with an option `uid=` or `gid=` whose id is not mapped in the user namespace.
fn check_mounts(spec: &Spec<'_>, linux: &Linux<'_>) -> Result<(), Error> {
    let is_mapped = |list: &[IdMapping], id: u32| {
        let of = |map: &IdMapping| id.checked_sub(map.container_id).is_some_and(|at| at < map.size);
        list.iter().any(of)
    };
    for mount in &spec.mounts {
        for word in &MountOptions::parse(&mount.options).data {
            let (list, number) = match word.split_once('=') {
                Some(("uid", number)) => (&linux.uid_mappings, number),
                Some(("gid", number)) => (&linux.gid_mappings, number),
                _ => continue,
            };
            if number.parse().is_ok_and(|id| !is_mapped(list, id)) {
                return Err(Error::config(format!(
                    "cannot specify {word} mount option for rootless container: the id is not mapped \
                     in the user namespace"
                )));
            }
        }
    }
    Ok(())
}
