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
    /// Returns the groups.
    ///
    /// # Errors
    /// No group among the arguments.
    pub fn groups(&self) -> Result<Vec<&Group>, String> {
        let groups = self.words.iter().filter_map(|word| match word {
            Word::Group(group) => Some(group),
            Word::Setting(_) => None,
        });
        let groups: Vec<&Group> = groups.collect();
        match groups.is_empty() {
            true => Err("give a group and KEY=VALUE, such as: db memory.max=8G".into()),
            false => Ok(groups),
        }
    }

    /// Returns the values to set; empty if they are copied from another group.
    ///
    /// # Errors
    /// Neither a value nor a group to copy, or both.
    pub fn settings(&self) -> Result<Vec<Setting>, String> {
        let here = self.words.iter().filter_map(|word| match word {
            Word::Group(_) => None,
            Word::Setting(setting) => Some(setting),
        });
        let all: Vec<Setting> = here.chain(&self.more).cloned().collect();
        match (all.is_empty(), &self.copy_from) {
            (true, None) => Err("give KEY=VALUE, such as: db memory.max=8G; or --copy-from".into()),
            (false, Some(_)) => Err("--copy-from sets everything: give no KEY=VALUE".into()),
            _ => Ok(all),
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

#[cfg(test)]
mod tests {
    use super::super::CgroupCommand;
    use super::*;
    use crate::options::{Command, Options};
    use clap::Parser;

    fn parsed(line: &str) -> CgroupCommand {
        let words = ["dayfly", "cgroup"].into_iter().chain(line.split(' '));
        match Options::try_parse_from(words).unwrap().command {
            Command::Cgroup(command) => command,
            Command::Host(_) => panic!("{line}"),
        }
    }

    /// Returns the groups of a command line and its other arguments, or the error.
    fn parts(line: &str) -> Result<String, String> {
        let names =
            |groups: &[Group]| -> Vec<String> { groups.iter().map(Group::to_string).collect() };
        match parsed(line) {
            CgroupCommand::Set(set) => {
                let groups: Vec<Group> = set.groups()?.into_iter().cloned().collect();
                Ok(format!("{:?} {:?}", names(&groups), set.settings()?))
            }
            CgroupCommand::Exec(exec) => {
                exec.parts().map(|(groups, rest)| format!("{:?} {rest:?}", names(&groups)))
            }
            CgroupCommand::Classify(classify) => {
                classify.parts().map(|(groups, pids)| format!("{:?} {pids:?}", names(&groups)))
            }
            CgroupCommand::Pin(pin) => pin.parts().map(|(group, words)| format!("{group} {words}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn groups_and_other_words() {
        let set = r#"["a", "b"] [("memory.max", "8M")]"#;
        for (line, expected) in [
            ("set a b memory.max=8M", set),
            ("set memory.max=8M a b", set),
            ("set -r memory.max=8M a b", set),
            ("exec a/b ls -l", r#"["a/b"] ["ls", "-l"]"#),
            ("exec -g a/b ls -l", r#"["a/b"] ["ls", "-l"]"#),
            ("exec --group a/b -- ls -l", r#"["a/b"] ["ls", "-l"]"#),
            ("classify a 1 2", r#"["a"] [1, 2]"#),
            ("classify -g a 1 2", r#"["a"] [1, 2]"#),
            ("pin db node:0,cores:4", "db node:0,cores:4"),
            ("pin db=node:0,cores:4", "db node:0,cores:4"),
        ] {
            assert_eq!(parts(line).as_deref(), Ok(expected), "{line}");
        }
        for (line, says) in [
            ("set a", "give KEY=VALUE"),
            ("set --copy-from b a memory.max=8M", "give no KEY=VALUE"),
            ("set memory.max=8M", "give a group"),
            ("exec a", "such as"),
            ("classify 1 x", "\"x\" is no PID"),
            ("pin db", PIN),
        ] {
            let error = parts(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
