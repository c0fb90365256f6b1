//! The devices controller of cgroup v1. devices.list shows the combined result of all writes to devices.allow and
//! devices.deny, so cgroup plans are compared with devices.list.

use super::journal::Write;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The devices that a group may use: type and numbers, each with its accesses.
type Allowed = BTreeMap<(String, String), BTreeSet<char>>;

/// Returns those files of `writes` whose groups already have the wanted devices. This can be determined only if the
/// first write denies all devices: if the first write allows all devices, devices.list does not show which of them were
/// denied afterwards.
pub fn as_wanted<'w>(writes: impl Iterator<Item = &'w Write>) -> HashSet<PathBuf> {
    let mut groups: BTreeMap<&Path, Vec<&Write>> = BTreeMap::new();
    for write in writes {
        if let ("devices.allow" | "devices.deny", Some(group)) = (write.name(), write.file.parent())
        {
            groups.entry(group).or_default().push(write);
        }
    }
    let is_so = |(group, writes): &(&Path, Vec<&Write>)| {
        let list = fs::read_to_string(group.join("devices.list")).unwrap_or_default();
        wanted(writes).is_some_and(|wanted| wanted == listed(list.lines()))
    };
    let so = groups.into_iter().filter(is_so);
    so.flat_map(|(_, writes)| writes).map(|write| write.file.clone()).collect()
}

/// Returns the devices allowed after all writes, if the first write denies all devices and the others only allow some.
fn wanted(writes: &[&Write]) -> Option<Allowed> {
    let (first, rest) = writes.split_first()?;
    let is_all = |value: &str| value.split_whitespace().next() == Some("a");
    let denies = |write: &Write| write.file.ends_with("devices.deny");
    if !denies(first) || !is_all(&first.value) || rest.iter().any(|write| denies(write)) {
        return None;
    }
    if rest.iter().any(|write| is_all(&write.value)) {
        return None;
    }
    Some(listed(rest.iter().map(|write| write.value.as_str())))
}

/// Parses lines such as `c 1:3 rwm`. Accesses to the same device are merged, as the kernel does.
fn listed<'l>(lines: impl Iterator<Item = &'l str>) -> Allowed {
    let mut all = Allowed::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(numbers)) = (words.next(), words.next()) else { continue };
        let access = words.next().unwrap_or("rwm").chars();
        all.entry((kind.to_owned(), numbers.to_owned())).or_default().extend(access);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &str, value: &str) -> Write {
        Write { file: PathBuf::from(file), value: value.to_owned(), source: String::new() }
    }

    #[test]
    fn what_there_will_be() {
        let all = [
            write("/g/devices.deny", "a *:* rwm"),
            write("/g/devices.allow", "c 1:3 mr"),
            write("/g/devices.allow", "c 1:5 rwm"),
            write("/g/devices.allow", "c 1:3 w"),
        ];
        let listed_now = listed("c 1:3 rwm\nc 1:5 rwm\n".lines());
        let first = |count: usize| wanted(&all[..count].iter().collect::<Vec<_>>());
        assert_eq!(first(4), Some(listed_now.clone()));
        assert_ne!(first(2), Some(listed_now));
        assert_eq!(first(1), Some(Allowed::new()));
        assert_eq!(wanted(&[&all[1]]), None, "of what was there nothing is known");
        assert_eq!(wanted(&[&all[0], &write("/g/devices.allow", "a")]), None);
    }
}
