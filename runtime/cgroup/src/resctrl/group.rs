//! A container's resctrl group: creates it, sets its limits, adds processes, and removes it.

use alloc::format;
use alloc::string::{String, ToString};

use rustix::fs::{Access, CWD, Mode, access, mkdir, rmdir, statfs};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use spec::IntelRdt;
use sys::{Context, Errno};

use crate::resctrl::Error;

/// The kernel's standard mount point.
const ROOT: &str = "/sys/fs/resctrl";
const RDTGROUP_SUPER_MAGIC: u32 = 0x0765_5821;

/// The resctrl group of a container: a class of service, and optionally a monitoring group in that class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The mount point of resctrl.
    root: String,
    /// The directory of the class of service.
    directory: String,
    /// The directory of the monitoring group.
    monitor: Option<String>,
    /// Whether the class was created for this container alone, and is removed with the container.
    own: bool,
}

/// The limits of a group, in the format of its schemata file.
#[derive(Debug, Clone, Default)]
pub struct Schemata {
    /// The lines to write to the schemata file.
    text: String,
    /// The length in bytes of the first lines of `text`: those that must equal the limits of an existing group.
    fixed: usize,
}

impl Schemata {
    /// Returns the limits of a configuration: first those of the cache, then those of the memory
    /// bandwidth, then all others.
    pub fn of(rdt: &IntelRdt<'_>) -> Self {
        let mut schemata = Self::default();
        for line in rdt.l3_cache_schema.iter().chain(&rdt.mem_bw_schema) {
            schemata.add(line);
        }
        schemata.fixed = schemata.text.len();
        for line in &rdt.schemata {
            schemata.add(line);
        }
        schemata
    }

    fn add(&mut self, line: &str) {
        if !line.is_empty() {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Returns the first line that must equal the limits of an existing group, but does not.
    fn disagreement(&self, present: &str) -> Option<&str> {
        let fixed = self.text.get(..self.fixed).unwrap_or_default();
        fixed.lines().find(|line| !agrees(present, line))
    }
}

impl Group {
    /// Returns the group of a container. The group's class is the class that the configuration names, or else a class
    /// named after the container.
    ///
    /// # Errors
    /// If resctrl is not mounted or does not support a limit, or if the named class does not exist and the
    /// configuration contains no limits.
    pub fn resolve(rdt: &IntelRdt<'_>, id: &str) -> Result<Self, Error> {
        Self::resolve_at(&root()?, rdt, id)
    }

    fn resolve_at(root: &str, rdt: &IntelRdt<'_>, id: &str) -> Result<Self, Error> {
        let is_there = |path: &str| access(path, Access::EXISTS).is_ok();
        for (wanted, setting, feature, info) in [
            (&rdt.l3_cache_schema, "l3CacheSchema", "CAT", "L3"),
            (&rdt.mem_bw_schema, "memBwSchema", "MBA", "MB"),
        ] {
            if wanted.is_some() && !is_there(&format!("{root}/info/{info}")) {
                return Err(Error::Missing { setting, feature });
            }
        }
        let clos = rdt.clos_id.as_deref();
        let directory = match clos {
            None => format!("{root}/{id}"),
            Some("/") => root.to_string(),
            Some(clos) => format!("{root}/{clos}"),
        };
        let exists = is_there(&directory);
        if clos.is_some() && Schemata::of(rdt).text.is_empty() && !exists {
            return Err(Error::NoClass(directory));
        }
        Ok(Self {
            root: root.to_string(),
            monitor: rdt.enable_monitoring.then(|| format!("{directory}/mon_groups/{id}")),
            directory,
            own: clos.is_none() && !exists,
        })
    }

    /// Returns the mount point, which is also the directory of the default class.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Returns the directory of the class of service.
    pub(crate) fn class(&self) -> &str {
        &self.directory
    }

    /// Returns the directory of the monitoring group, if there is one.
    pub(crate) fn monitor(&self) -> Option<&str> {
        self.monitor.as_deref()
    }

    /// Returns the class `class` below `root`, with or without a monitoring group.
    #[cfg(test)]
    pub(crate) fn at(root: &str, class: &str, monitor: Option<&str>) -> Self {
        let directory = format!("{root}/{class}");
        let monitor = monitor.map(|name| format!("{directory}/mon_groups/{name}"));
        Self { root: root.to_string(), directory, monitor, own: false }
    }

    /// Creates the group if it is missing, sets its limits, and moves a process into it.
    ///
    /// # Errors
    /// If the kernel refuses an operation, in which case the error contains the kernel's reason; if an existing class
    /// has other limits.
    pub fn enter(&self, schemata: &Schemata, pid: Pid) -> Result<(), Error> {
        let made = self.make(&self.directory)?;
        self.limit(schemata, made)?;
        if let Some(monitor) = &self.monitor {
            self.make(monitor)?;
        }
        self.join(pid)
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// If the kernel refuses to move the process.
    pub fn join(&self, pid: Pid) -> Result<(), Error> {
        let pid = pid.as_raw_nonzero().to_string();
        // The process is moved to the class first, because a change of the class removes it from its monitoring group.
        self.write(&format!("{}/tasks", self.directory), &pid)?;
        match &self.monitor {
            Some(monitor) => self.write(&format!("{monitor}/tasks"), &pid),
            None => Ok(()),
        }
    }

    /// Changes limits of the group. Limits that `lines` does not contain stay unchanged.
    ///
    /// # Errors
    /// If the kernel refuses a limit. The error contains the kernel's reason.
    pub fn update(&self, lines: &[&str]) -> Result<(), Error> {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        self.write(&format!("{}/schemata", self.directory), &text)
    }

    /// Removes the directories that were created for the container. Missing directories are ignored.
    ///
    /// # Errors
    /// Those of rmdir(2).
    pub fn remove(&self) -> Result<(), Error> {
        // Removing a class also removes its monitoring groups.
        let made = if self.own { Some(&self.directory) } else { self.monitor.as_ref() };
        match made.map(|directory| (rmdir(directory.as_str()), directory)) {
            None | Some((Ok(()) | Err(Errno::NOENT), _)) => Ok(()),
            Some((Err(errno), directory)) => Err(self.refused("rmdir", directory, errno)),
        }
    }

    /// Creates a directory. Returns false if it already exists.
    fn make(&self, directory: &str) -> Result<bool, Error> {
        match mkdir(directory, Mode::from_raw_mode(0o755)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(self.refused("mkdir", directory, errno)),
        }
    }

    fn limit(&self, schemata: &Schemata, made: bool) -> Result<(), Error> {
        if schemata.text.is_empty() {
            return Ok(());
        }
        let file = format!("{}/schemata", self.directory);
        if !made && schemata.fixed > 0 {
            let present = sys::fs::read_text(file.as_str()).context("read", &file)?;
            if let Some(line) = schemata.disagreement(&present) {
                let (line, directory) = (line.to_string(), self.directory.clone());
                return Err(Error::OtherSchemata { line, directory });
            }
        }
        self.write(&file, &schemata.text)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        sys::fs::write_at(CWD, file, text.as_bytes()).map_err(|errno| {
            let object = format!("{:?} to {file}", text.trim_end());
            self.refused("write", &object, errno)
        })
    }

    /// Returns an error that contains the kernel's reason from `info/last_cmd_status`, which is more specific than the
    /// errno.
    fn refused(&self, op: &'static str, object: &str, errno: Errno) -> Error {
        let status = sys::fs::read_text(format!("{}/info/last_cmd_status", self.root));
        let object = match status.as_deref().map(str::trim) {
            Ok(status) if !matches!(status, "" | "ok") => format!("{object} ({status})"),
            _ => object.to_string(),
        };
        sys::Error::new(op, object, errno).into()
    }
}

/// Returns whether this host supports limits for `resource`: the cache (`L3`) or the memory bandwidth (`MB`).
pub fn is_enabled(resource: &str) -> bool {
    let info = |root| access(format!("{root}/info/{resource}"), Access::EXISTS);
    root().is_ok_and(|root| info(root).is_ok())
}

/// Returns the mount point of resctrl.
fn root() -> Result<String, Error> {
    let missing = |errno| match errno {
        Errno::NOENT => Error::NotMounted,
        errno => sys::Error::new("statfs", ROOT, errno).into(),
    };
    if sys::fs::magic(&statfs(ROOT).map_err(missing)?) == RDTGROUP_SUPER_MAGIC {
        return Ok(ROOT.to_string());
    }
    let table =
        sys::fs::read_text("/proc/self/mountinfo").context("read", "/proc/self/mountinfo")?;
    mounted(&table).map(str::to_string).ok_or(Error::NotMounted)
}

/// Returns the mount point of the first resctrl mount in the text of a mountinfo file.
fn mounted(table: &str) -> Option<&str> {
    let line = table.lines().find(|line| line.contains(" - resctrl "))?;
    line.split(' ').nth(4)
}

/// Returns whether a group's schemata contain the same values as `line`, for all cache domains in `line`.
fn agrees(present: &str, line: &str) -> bool {
    let Some((kind, wanted)) = line.split_once(':') else { return false };
    let values = present.lines().find_map(|line| {
        let (name, values) = line.split_once(':')?;
        (name.trim() == kind.trim()).then_some(values)
    });
    let Some(values) = values else { return false };
    let same = |a: &str, b: &str| {
        let (Some((id, mask)), Some((other, value))) = (a.split_once('='), b.split_once('='))
        else {
            return false;
        };
        id.trim() == other.trim() && significant(mask).eq_ignore_ascii_case(significant(value))
    };
    wanted.split(';').all(|wanted| values.split(';').any(|value| same(wanted, value)))
}

/// Returns a number without leading zeros.
fn significant(number: &str) -> &str {
    number.trim().trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A directory that stands for a resctrl mount on which cache and memory bandwidth can be limited.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("resctrl-{}-{name}", std::process::id()));
            for directory in ["info/L3", "info/MB", "mon_groups"] {
                fs::create_dir_all(path.join(directory)).unwrap();
            }
            Self::fill(&path);
            Self(path)
        }

        /// Creates the files that the kernel creates in each group.
        fn fill(directory: &Path) {
            fs::create_dir_all(directory.join("mon_groups")).unwrap();
            fs::write(directory.join("schemata"), "    L3:0=ff;1=0ff\n    MB:0= 20;1=100\n")
                .unwrap();
            fs::write(directory.join("tasks"), "").unwrap();
        }

        fn with_class(self, name: &str) -> Self {
            Self::fill(&self.0.join(name));
            self
        }

        fn resolve(&self, rdt: &str) -> Result<(Group, Schemata), String> {
            let rdt: IntelRdt<'_> = serde_json::from_str(rdt).unwrap();
            let group = Group::resolve_at(self.0.to_str().unwrap(), &rdt, "box");
            Ok((group.map_err(|error| error.to_string())?, Schemata::of(&rdt)))
        }

        fn enter(&self, rdt: &str) -> Result<Group, String> {
            let (group, schemata) = self.resolve(rdt)?;
            group.enter(&schemata, Pid::from_raw(7).unwrap()).map_err(|error| error.to_string())?;
            Ok(group)
        }

        fn read(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_class_that_is_there_is_used_and_left() {
        let tree = Tree::new("class").with_class("gold");
        let group = tree.enter(r#"{"closID": "gold"}"#).unwrap();
        assert_eq!(tree.read("gold/tasks"), "7");
        assert!(tree.read("gold/schemata").starts_with("    L3:0=ff"), "nothing is written");
        group.remove().unwrap();
        assert!(tree.0.join("gold").exists());
    }

    #[test]
    fn the_default_class() {
        let tree = Tree::new("default");
        let group = tree.enter(r#"{"closID": "/"}"#).unwrap();
        assert_eq!(tree.read("tasks"), "7");
        group.remove().unwrap();
        assert!(tree.0.exists());
    }

    #[test]
    fn limits_are_written_in_order_and_must_agree_with_a_class_in_use() {
        let tree = Tree::new("limits").with_class("gold");
        let all = r#"{"closID": "gold", "schemata": ["L2:0=f", "L3:1=1"],
                      "memBwSchema": "MB:0=20;1=100", "l3CacheSchema": "L3:0=0FF"}"#;
        let group = tree.enter(all).unwrap();
        assert_eq!(tree.read("gold/schemata"), "L3:0=0FF\nMB:0=20;1=100\nL2:0=f\nL3:1=1\n");
        fs::write(tree.0.join("gold/schemata"), "").unwrap();
        group.update(&["L3:0=f", "MB:0=10"]).unwrap();
        assert_eq!(tree.read("gold/schemata"), "L3:0=f\nMB:0=10\n");
        let tree = Tree::new("differ").with_class("gold");
        for other in [
            r#"{"closID": "gold", "l3CacheSchema": "L3:0=f"}"#,
            r#"{"closID": "gold", "l3CacheSchema": "L3:2=ff"}"#,
            r#"{"closID": "gold", "l3CacheSchema": "L3CODE:0=ff"}"#,
            r#"{"closID": "gold", "memBwSchema": "MB:0=20;1=10"}"#,
        ] {
            let error = tree.enter(other).unwrap_err();
            assert!(error.contains("gold exists and has other schemata than"), "{error}");
        }
        assert_eq!(tree.read("gold/tasks"), "");
    }

    #[test]
    fn a_class_of_its_own_goes_with_the_container() {
        let tree = Tree::new("own");
        let (group, schemata) = tree.resolve(r#"{"schemata": ["MB:0=70"]}"#).unwrap();
        assert!(group.make(&group.directory).unwrap());
        Tree::fill(&tree.0.join("box"));
        fs::write(tree.0.join("box/schemata"), "").unwrap();
        group.limit(&schemata, true).unwrap();
        group.join(Pid::from_raw(8).unwrap()).unwrap();
        assert_eq!(
            (tree.read("box/schemata"), tree.read("box/tasks")),
            ("MB:0=70\n".into(), "8".into())
        );
        // The kernel removes the files in a group's directory together with the group; here, the test does so.
        fs::remove_dir_all(tree.0.join("box")).unwrap();
        fs::create_dir(tree.0.join("box")).unwrap();
        group.remove().unwrap();
        assert!(!tree.0.join("box").exists());
        group.remove().unwrap();
        // A class that already existed is not removed, because the class does not belong to the container alone.
        let tree = Tree::new("other").with_class("box");
        tree.enter("{}").unwrap().remove().unwrap();
        assert!(tree.0.join("box").exists());
    }

    #[test]
    fn monitoring_groups() {
        let tree = Tree::new("monitor").with_class("gold");
        fs::create_dir(tree.0.join("gold/mon_groups/box")).unwrap();
        fs::write(tree.0.join("gold/mon_groups/box/tasks"), "").unwrap();
        let group = tree.enter(r#"{"closID": "gold", "enableMonitoring": true}"#).unwrap();
        assert_eq!(
            (tree.read("gold/tasks"), tree.read("gold/mon_groups/box/tasks")),
            ("7".into(), "7".into())
        );
        fs::remove_file(tree.0.join("gold/mon_groups/box/tasks")).unwrap();
        group.remove().unwrap();
        assert!(!tree.0.join("gold/mon_groups/box").exists() && tree.0.join("gold").exists());
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let tree = Tree::new("refused");
        let error = tree.resolve(r#"{"closID": "gold"}"#).unwrap_err();
        assert!(error.contains("must be pre-created when schemata, l3CacheSchema"), "{error}");
        fs::remove_dir(tree.0.join("info/L3")).unwrap();
        fs::remove_dir(tree.0.join("info/MB")).unwrap();
        assert_eq!(
            tree.resolve(r#"{"l3CacheSchema": "L3:0=f"}"#).unwrap_err(),
            "intelRdt.l3CacheSchema is specified in config, but Intel RDT/CAT is not enabled"
        );
        assert_eq!(
            tree.resolve(r#"{"memBwSchema": "MB:0=10"}"#).unwrap_err(),
            "intelRdt.memBwSchema is specified in config, but Intel RDT/MBA is not enabled"
        );
    }

    #[test]
    fn the_kernel_says_why() {
        let tree = Tree::new("status").with_class("gold");
        fs::write(tree.0.join("info/last_cmd_status"), "Mask out of range\n").unwrap();
        fs::remove_file(tree.0.join("gold/tasks")).unwrap();
        let error = tree.enter(r#"{"closID": "gold"}"#).unwrap_err();
        assert!(error.contains("gold/tasks (Mask out of range): no such file"), "{error}");
    }

    #[test]
    fn mounts_elsewhere_are_found() {
        let table =
            "22 1 0:20 / /sys rw - sysfs sysfs rw\n40 22 0:50 / /rdt rw - resctrl resctrl rw\n";
        assert_eq!(mounted(table), Some("/rdt"));
        assert_eq!(mounted("22 1 0:20 / /resctrl rw - sysfs sysfs rw\n"), None);
    }
}
