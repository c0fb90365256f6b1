//! Plans: the groups that there shall be, as files say.
//!
//! Two kinds of files become the same thing: TOML of our own ([`toml`]) and libcgroup's cgconfig.conf
//! ([`cgconfig`]).

pub mod cgconfig;
pub mod toml;

use super::account::Owner;
use super::group::Group;
use crate::Error;
use crate::options::cgroup::Ownership;
use std::fmt;
use std::fs;
use std::path::Path;
use std::rc::Rc;

/// What a plan wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The groups, in the order of the files.
    pub groups: Vec<GroupPlan>,
    /// Groups whose names have variables: made for a user when there is one.
    pub templates: Vec<GroupPlan>,
    /// Where hierarchies are said to be mounted.
    pub mounts: Vec<Mounted>,
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

/// Reads a plan: TOML if the file's name ends so, cgconfig.conf if it ends in `.conf`; else whatever
/// its content looks like.
///
/// # Errors
/// What is wrong, with file and line.
pub fn load(path: &Path) -> Result<Plan, Error> {
    let text = fs::read_to_string(path).map_err(Error::of("read", path))?;
    let is_toml = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => true,
        Some("conf") => false,
        _ => !cgconfig::looks_like(&text),
    };
    let plan = if is_toml { toml::load(path)? } else { cgconfig::parse(&text, path)? };
    check_twice(&plan)?;
    Ok(plan)
}

/// Refuses a group or a value that is there twice: one of the two would be passed over.
fn check_twice(plan: &Plan) -> Result<(), Error> {
    for (at, group) in plan.groups.iter().enumerate() {
        let before = &plan.groups[..at];
        if let Some(other) = before.iter().find(|other| other.group.path == group.group.path) {
            let reason =
                format!("the group {} is at line {} already", group.group.path, other.source.line);
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

impl Plan {
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
