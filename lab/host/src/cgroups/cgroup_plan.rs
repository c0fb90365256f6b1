//! Cgroup plans: files that describe the cgroups of a host.
//!
//! Two formats are parsed into the same structure: TOML ([`toml`]) and libcgroup's cgconfig.conf ([`cgconfig`]).

pub mod cgconfig;
pub mod toml;

use super::error::suggest;
use super::group::Group;
use crate::account::{self, Owner};
use crate::cgroups::options::Ownership;
use report::Error;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

/// A parsed cgroup plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupPlan {
    /// The groups, in the order of the files.
    pub groups: Vec<GroupPlan>,
    /// Groups whose names contain variables, to be instantiated for a user.
    pub templates: Vec<GroupPlan>,
    /// The `mount` lines: controllers and directories.
    pub mounts: Vec<Setting>,
    /// The included files, by their paths as written: relative to the including file's directory, or absolute.
    pub includes: Vec<Named>,
}

/// A word of a cgroup plan, and its line.
pub type Named = (String, Source);

/// A group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPlan {
    /// The group's name, and the v1 hierarchies to which the group is limited.
    pub group: Group,
    /// The line that defines the group.
    pub source: Source,
    /// The owners and permissions of the group.
    pub ownership: Ownership,
    /// The values of the group.
    pub settings: Vec<Setting>,
    /// The CPUs to which the group is pinned.
    pub pin: Option<Setting>,
    /// The parent, if it must exist on the host.
    pub parent: Option<Parent>,
    /// The lines that set the group's controllers, `task` and `admin`. Each comes with the controller's name, or with
    /// `task` or `admin`.
    pub places: Vec<Named>,
}

impl GroupPlan {
    /// Returns the line that sets `what`, or the line that defines the group if no line does.
    pub fn place(&self, what: &str) -> &Source {
        let found = self.places.iter().find(|(name, _)| name == what);
        found.map_or(&self.source, |(_, source)| source)
    }
}

/// The parent of a group, if the cgroup plan does not make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The parent itself, in every hierarchy.
    pub group: Group,
    /// The line that names the parent.
    pub source: Source,
    /// The name of the cgroup plan's group whose name is most similar to the parent's, if any is similar.
    pub similar: Option<String>,
}

/// A value to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The file, by its v1 or v2 name.
    pub key: String,
    /// The value.
    pub value: String,
    /// The line that sets the value.
    pub source: Source,
}

impl Setting {
    /// Returns an error about this setting.
    pub fn wrong(&self, reason: &str) -> Error {
        self.source.error(format!("{}: {reason}", self.key))
    }
}

/// A line of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The file.
    pub file: Rc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl Source {
    /// Returns an error about this line.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::at(&*self.file, self.line, reason)
    }

    /// Returns the error that there is no `what` of this name. The advice lists the known names, and `more`.
    fn unknown(&self, what: &str, name: &str, known: &[&str], more: &str) -> Error {
        let error = self.error(format!("there is no {what} {name:?}"));
        suggest(error, name, known, format!("there are {}{more}", known.join(", ")))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The format of a cgroup plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TOML.
    Toml,
    /// libcgroup's cgconfig.conf.
    Cgconfig,
}

impl Kind {
    /// Determines the format by the file's extension, or by the content if the extension is of neither format.
    pub fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("conf") => Self::Cgconfig,
            _ if cgconfig::looks_like(text) => Self::Cgconfig,
            _ => Self::Toml,
        }
    }
}

/// The maximum size of a cgroup plan, in bytes. A longer file is not a cgroup plan, or is endless like a device.
const LONGEST: u64 = 1 << 20;

/// Reads a cgroup plan in either format.
///
/// # Errors
/// The mistake, with file and line.
pub fn load(path: &Path) -> Result<CgroupPlan, Error> {
    let text = read(path)?;
    let plan = match Kind::of(path, &text) {
        Kind::Toml => toml::parse(&text, path)?,
        Kind::Cgconfig => cgconfig::parse(&text, path)?,
    };
    check_twice(&plan)?;
    Ok(plan)
}

/// Reads a file as text.
///
/// # Errors
/// The file can't be read, or is too long, or is not UTF-8. In the last case, the error names the
/// line of the first invalid byte.
pub fn read(path: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::of("open", path))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(Error::of("read", path))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refused!(
            "{} is longer than {LONGEST} bytes: that is not a cgroup plan",
            path.display()
        )
        .advise("include splits a cgroup plan into several files"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::at(path.display().to_string(), line, "a byte that is no UTF-8 text")
    })
}

/// Rejects a group that is defined twice.
fn check_twice(plan: &CgroupPlan) -> Result<(), Error> {
    let mut lines = HashMap::new();
    for group in &plan.groups {
        let path = &group.group.path;
        if let Some(line) = lines.insert(path, group.source.line) {
            let reason = format!("the group {path} is at line {line} already");
            return Err(group.source.error(reason));
        }
    }
    Ok(())
}

impl CgroupPlan {
    /// Instantiates the templates for a user: %u and %U are the user's name and number, %g and %G the group's, %p and
    /// %P a process's name and number.
    ///
    /// # Errors
    /// An unknown user.
    pub fn instantiate(
        &self,
        owner: &Owner,
        process: &str,
        pid: i32,
    ) -> Result<Vec<GroupPlan>, Error> {
        let (user, group) = owner.ids()?;
        let user = user.unwrap_or(0);
        let group = group.unwrap_or_else(|| account::primary_group(user));
        let words = [
            ("%u", account::name(user, "/etc/passwd")),
            ("%U", user.to_string()),
            ("%g", account::name(group, "/etc/group")),
            ("%G", group.to_string()),
            ("%p", process.to_owned()),
            ("%P", pid.to_string()),
        ];
        let expand = |text: &str| {
            words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
        };
        let mut groups = self.templates.clone();
        for template in &mut groups {
            template.group.path = expand(&template.group.path);
            let ownership = &mut template.ownership;
            for owner in [&mut ownership.task, &mut ownership.admin].into_iter().flatten() {
                owner.user = owner.user.as_deref().map(expand);
                owner.group = owner.group.as_deref().map(expand);
            }
        }
        Ok(groups)
    }
}
