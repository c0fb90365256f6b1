//! Facts about a host: this host, or another host whose files are below a directory.

use report::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kinds of namespaces (namespaces(7)), by their names in /proc/self/ns.
pub const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// The source of facts.
#[derive(Debug)]
pub struct Facts {
    /// The directory that contains the host's files; empty for this host.
    root: PathBuf,
    /// Major and minor version of the kernel; zeros if unknown.
    pub version: (u32, u32),
    /// The kernel's release, as uname(1) prints it.
    pub release: String,
}

impl Facts {
    /// Returns the facts of this host, or of the host whose files are below `sysroot`.
    ///
    /// # Errors
    /// `sysroot` is not a directory, or contains no `/proc/sys/kernel/osrelease`.
    pub fn of(sysroot: Option<&Path>) -> Result<Self, Error> {
        let root = sysroot.unwrap_or(Path::new("")).to_owned();
        if let Some(root) = sysroot {
            fs::read_dir(root).map_err(Error::of("open", root))?;
        }
        let mut facts = Self { root, version: (0, 0), release: String::new() };
        facts.release = facts.text("/proc/sys/kernel/osrelease").ok_or_else(|| {
            let file = facts.path("/proc/sys/kernel/osrelease");
            refused!("{}: no such file", file.display())
                .advise("a sysroot must contain the relevant files of a host's /proc and /sys")
        })?;
        facts.version = version(&facts.release);
        Ok(facts)
    }

    /// Returns whether these are the facts of this host. Only then can the kernel also be probed.
    pub fn is_live(&self) -> bool {
        self.root.as_os_str().is_empty()
    }

    /// Returns the directory that serves as `/`; empty for this host.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory that serves as `/` as text, for functions that accept only UTF-8 paths.
    ///
    /// # Errors
    /// The path is not valid UTF-8.
    pub fn root_text(&self) -> Result<&str, Error> {
        let refused = || refused!("{}: the path is no UTF-8", self.root.display());
        self.root.to_str().ok_or_else(refused)
    }

    /// Returns the path at which the host's file `path` can be read.
    pub fn path(&self, path: &str) -> PathBuf {
        if self.is_live() { path.into() } else { self.root.join(path.trim_start_matches('/')) }
    }

    /// Returns the trimmed contents of a small file, or `None` if it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Returns whether the file exists.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the names in a directory, sorted; none if the directory cannot be read.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether the kernel has at least this version.
    pub fn since(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// Returns whether the kernel has a feature: on this host by `probe`, on another one by its version.
    pub fn can(&self, probe: fn() -> bool, (major, minor): (u32, u32)) -> bool {
        if self.is_live() { probe() } else { self.since(major, minor) }
    }

    /// Returns the value of an option in the kernel's configuration: `y` or `m`, or empty if the option is not set.
    /// `None` if the configuration is not available.
    pub fn built_with(&self, option: &str) -> Option<String> {
        let boot = self.text(&format!("/boot/config-{}", self.release));
        let text = boot.or_else(|| self.config_gz())?;
        let value = text.lines().find_map(|line| line.strip_prefix(option)?.strip_prefix('='));
        Some(value.unwrap_or_default().to_owned())
    }

    fn config_gz(&self) -> Option<String> {
        let mut gzip = Command::new("gzip");
        gzip.arg("-dc").arg(self.path("/proc/config.gz"));
        gzip.stdin(Stdio::null()).stderr(Stdio::null());
        let output = gzip.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    }

    /// Returns the value of a parameter on the kernel's command line; empty for a parameter without a value.
    pub fn boot_parameter(&self, name: &str) -> Option<String> {
        let line = self.text("/proc/cmdline")?;
        // Parameters after `--` are for init.
        let words = line.split_whitespace().take_while(|word| *word != "--");
        // If a parameter occurs several times, the last one counts.
        let values = words.filter_map(|word| match word.split_once('=') {
            Some((key, value)) => (key == name).then(|| value.to_owned()),
            None => (word == name).then(String::new),
        });
        values.last()
    }
}

/// Parses the major and minor version of a release such as `6.18.44-cloud-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}

/// A mount of the mount table (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: String,
    /// The per-mount options, including `idmapped`.
    pub options: String,
    /// The file system's type.
    pub kind: String,
    /// The options of the file system.
    pub super_options: String,
}

impl Mount {
    /// Returns whether the file system has the option `name`.
    pub fn has_super_option(&self, name: &str) -> bool {
        self.super_options.split(',').any(|option| option == name)
    }

    fn parse(line: &str) -> Option<Self> {
        let (own, shared) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(4);
        let (point, options) = (own.next()?, own.next()?);
        let mut shared = shared.splitn(3, ' ');
        let (kind, _source, super_options) = (shared.next()?, shared.next()?, shared.next()?);
        Some(Self {
            point: point.replace("\\040", " "),
            options: options.to_owned(),
            kind: kind.to_owned(),
            super_options: super_options.to_owned(),
        })
    }
}

/// Parses a mount table; malformed lines are skipped.
pub fn mounts(table: &str) -> Vec<Mount> {
    table.lines().filter_map(Mount::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.18.44"), (6, 18));
        assert_eq!(version("5.15.0-1031-aws"), (5, 15));
        assert_eq!(version("next"), (0, 0));
    }

    #[test]
    fn a_line_of_the_mount_table() {
        let line =
            "36 35 0:30 / /a\\040b rw,idmapped shared:1 - overlay overlay rw,lowerdir=/l1:/l2";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((&*mount.point, &*mount.kind), ("/a b", "overlay"));
        assert!(mount.options.contains("idmapped") && mount.has_super_option("lowerdir=/l1:/l2"));
        assert_eq!(mounts("nothing\n\n1 2 3 - x").len(), 0);
    }
}
