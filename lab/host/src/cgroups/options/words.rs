//! The positional arguments: the group first, then the values, processes, program or CPUs. libcgroup's options, which
//! name the group, are accepted too.

use super::{Classify, Exec, Pin, Set};
use crate::cgroups::group::Group;
use std::ffi::OsString;

/// A file of a group, and its value.
pub type Setting = (String, String);

/// An argument of `set`.
#[derive(Debug, Clone)]
pub enum Word {
    /// A group.
    Group(Group),
    /// KEY=VALUE
    Setting(Setting),
}

pub(super) fn word(text: &str) -> Result<Word, String> {
    match text.contains('=') {
        true => setting(text).map(Word::Setting),
        false => text.parse().map(Word::Group),
    }
}

pub(super) fn setting(text: &str) -> Result<Setting, String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE")?;
    // Users of cgset sometimes quote twice: cpuset.cpus='0-3' within quotes.
    let value = value.trim().trim_matches(['\'', '"']);
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl Set {
    /// Returns the groups, and the values to set: none if they are copied from another group.
    ///
    /// # Errors
    /// No group among the arguments; neither a value nor a group to copy, or both.
    pub fn parts(&self) -> Result<(Vec<&Group>, Vec<Setting>), String> {
        let (mut groups, mut settings) = (Vec::new(), Vec::new());
        for word in &self.words {
            match word {
                Word::Group(group) => groups.push(group),
                Word::Setting(setting) => settings.push(setting.clone()),
            }
        }
        settings.extend(self.more.iter().cloned());
        match (groups.is_empty(), settings.is_empty(), &self.copy_from) {
            (true, ..) => Err("give a group and KEY=VALUE, such as: db memory.max=8G".into()),
            (_, true, None) => {
                Err("give KEY=VALUE, such as: db memory.max=8G; or --copy-from".into())
            }
            (_, false, Some(_)) => Err("--copy-from sets everything: give no KEY=VALUE".into()),
            _ => Ok((groups, settings)),
        }
    }
}

impl Classify {
    /// Returns the groups and the processes.
    ///
    /// # Errors
    /// A missing argument; a process id that is not a number.
    pub fn parts(&self) -> Result<(Vec<Group>, Vec<i32>), String> {
        const SUCH: &str = "give a group and PIDs, such as: db 4242";
        let (groups, pids) = group_first(&self.groups, &self.words, |word| Some(word), SUCH)?;
        let pid = |text: &String| text.parse().map_err(|_| format!("{text:?} is no PID: {SUCH}"));
        Ok((groups, pids.iter().map(pid).collect::<Result<_, _>>()?))
    }
}

impl Exec {
    /// Returns the groups, and the program with its arguments.
    ///
    /// # Errors
    /// A missing argument; an invalid group name.
    pub fn parts(&self) -> Result<(Vec<Group>, &[OsString]), String> {
        let such = "give a group and a command, such as: db sleep 10";
        group_first(&self.groups, &self.words, |word| word.to_str(), such)
    }
}

/// Returns the groups, and the arguments after them: `named` if the groups are given by options, and otherwise the first
/// argument is the group.
fn group_first<'w, W>(
    named: &[Group],
    words: &'w [W],
    text: fn(&W) -> Option<&str>,
    such: &str,
) -> Result<(Vec<Group>, &'w [W]), String> {
    let (groups, rest) = match (named, words) {
        ([], [group, rest @ ..]) => {
            (vec![text(group).ok_or("the group's name is not UTF-8")?.parse()?], rest)
        }
        (groups, words) => (groups.to_vec(), words),
    };
    if rest.is_empty() { Err(such.to_owned()) } else { Ok((groups, rest)) }
}

impl Pin {
    /// Returns the group, and the words that select its CPUs, such as `node:0`.
    ///
    /// # Errors
    /// Too few or too many arguments; an invalid group name.
    pub fn parts(&self) -> Result<(Group, &str), String> {
        let (group, words) = match self.words.as_slice() {
            [group, words] => (group.as_str(), words.as_str()),
            [both] => both.split_once('=').ok_or(PIN)?,
            _ => return Err(PIN.into()),
        };
        Ok((group.parse()?, words))
    }
}

const PIN: &str = "give a group and the words for its CPUs, such as: db node:0";
