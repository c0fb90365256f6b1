//! Plans: the groups that there shall be, as files say.
//!
//! Two kinds of files become the same thing: TOML of our own ([`toml`]) and libcgroup's cgconfig.conf
//! ([`cgconfig`]).

pub mod cgconfig;
pub mod toml;

use super::account::Owner;
use super::group::Group;
use crate::options::Ownership;
use report::Error;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a plan wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupPlan {
    /// The groups, in the order of the files.
    pub groups: Vec<GroupPlan>,
    /// Groups whose names have variables: made for a user when there is one.
    pub templates: Vec<GroupPlan>,
    /// Where hierarchies are said to be mounted.
    pub mounts: Vec<Mounted>,
    /// The files that are included.
    pub includes: Vec<Include>,
}

/// A file that is read with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// As it is written: from the directory of the file that includes it, or from /.
    pub file: PathBuf,
    /// Where it is written.
    pub source: Source,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name, and in which v1 hierarchies.
    pub group: Group,
    /// Where it is written.
    pub source: Source,
    /// Whom it belongs to.
    pub ownership: Ownership,
    /// Its values.
    pub settings: Vec<Setting>,
    /// Words for its CPUs.
    pub pin: Option<Setting>,
    /// Where its controllers, by name, and its owners, `task` and `admin`, are written.
    pub places: Vec<(String, Source)>,
}

impl GroupPlan {
    /// Where `what` is written; if that is not known, where the group is.
    #[must_use]
    pub fn place(&self, what: &str) -> &Source {
        let found = self.places.iter().find(|(name, _)| name == what);
        found.map_or(&self.source, |(_, source)| source)
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The file, by either interface's name.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where it is written.
    pub source: Source,
}

/// A line of a `mount` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The controller.
    pub controller: String,
    /// The directory.
    pub path: String,
    /// Where it is written.
    pub source: Source,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The file.
    pub file: Rc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl Source {
    /// An error there.
    #[must_use]
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::at(&*self.file, self.line, reason)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The two kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TOML of our own.
    Toml,
    /// libcgroup's cgconfig.conf.
    Cgconfig,
}

impl Kind {
    /// By the end of the file's name; else by what its content looks like.
    #[must_use]
    pub fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("conf") => Self::Cgconfig,
            _ if cgconfig::looks_like(text) => Self::Cgconfig,
            _ => Self::Toml,
        }
    }
}

/// Plans are written by people. What is longer than this, in bytes, is something else, or has no end.
const LONGEST: u64 = 1 << 20;

/// Reads a plan, of whichever kind.
///
/// # Errors
/// What is wrong, with file and line.
pub fn load(path: &Path) -> Result<CgroupPlan, Error> {
    let text = read(path)?;
    let plan = match Kind::of(path, &text) {
        Kind::Toml => toml::parse(&text, path)?,
        Kind::Cgconfig => cgconfig::parse(&text, path)?,
    };
    check_twice(&plan)?;
    Ok(plan)
}

/// The text of a file.
///
/// # Errors
/// Failing reads; a file that is no text, with the line where that shows; one that is too long.
pub fn read(path: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::of("open", path))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(Error::of("read", path))?;
    if bytes.len() as u64 > LONGEST {
        let reason = format!("{} is longer than {LONGEST} bytes: that is no plan", path.display());
        return Err(Error::refused(reason).advise("include lets a plan be several files"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::at(path.display().to_string(), line, "a byte that is no UTF-8 text")
    })
}

/// Refuses a group that is there twice: one of the two would be passed over.
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

/// For whom the groups of templates are made.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The user and group, by name or number.
    pub owner: Owner,
    /// What %p stands for.
    pub process: String,
    /// What %P stands for.
    pub pid: i32,
}

impl CgroupPlan {
    /// The groups of its templates as made for `subject`: %u and %U are the user's name and number,
    /// %g and %G the group's, %p and %P a process's name and number.
    ///
    /// # Errors
    /// A user who is not there.
    pub fn instantiate(&self, subject: &Subject) -> Result<Vec<GroupPlan>, Error> {
        let (user, group) = subject.owner.ids()?;
        let user = user.unwrap_or(0);
        let group = match group {
            Some(group) => group,
            None => primary_group(user),
        };
        let names =
            (super::account::name(user, "/etc/passwd"), super::account::name(group, "/etc/group"));
        let expand = |text: &str| {
            text.replace("%u", &names.0)
                .replace("%U", &user.to_string())
                .replace("%g", &names.1)
                .replace("%G", &group.to_string())
                .replace("%p", &subject.process)
                .replace("%P", &subject.pid.to_string())
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

fn primary_group(user: u32) -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(user)).then(|| fields.next()?.parse().ok()).flatten()
    });
    found.unwrap_or(user)
}
