//! Reads mountinfo (proc_pid_mountinfo(5)) and renames what differs from run to run: ids, device numbers, peer groups.

use std::collections::BTreeMap;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount id.
    pub id: u64,
    /// Mount id of the parent.
    pub parent: u64,
    /// `MAJOR:MINOR`
    pub device: String,
    /// What of the file system is mounted.
    pub root: String,
    /// Mount point.
    pub place: String,
    /// Options of the mount.
    pub options: String,
    /// `shared:N`, `master:N`, `propagate_from:N`, `unbindable`.
    pub tags: Vec<String>,
    /// Type of the file system.
    pub kind: String,
    /// Source.
    pub source: String,
    /// Options of the file system.
    pub superblock: String,
}

/// Returns the mounts of the text of a mountinfo file, in its order.
#[must_use]
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let mut back = back.split(' ');
    Some(Mount {
        id: front.next()?.parse().ok()?,
        parent: front.next()?.parse().ok()?,
        device: front.next()?.to_owned(),
        root: front.next()?.to_owned(),
        place: front.next()?.to_owned(),
        options: front.next()?.to_owned(),
        tags: front.map(str::to_owned).collect(),
        kind: back.next()?.to_owned(),
        source: back.next()?.to_owned(),
        superblock: back.next().unwrap_or_default().to_owned(),
    })
}

/// Returns facts about a container's mounts. `host` are those of the host, whose devices and peer groups keep a name.
/// Of a mount that hides one of `masks`, only whose peer it is counts.
#[must_use]
pub fn facts(mounts: &[Mount], host: &[Mount], masks: &[String]) -> Vec<(String, String)> {
    let keys = keys(mounts);
    let mut order: Vec<&Mount> = mounts.iter().collect();
    order.sort_by_key(|mount| &keys[&mount.id]);
    let mut devices = Names::default();
    let mut groups = Names::default();
    for mount in host {
        devices.host(&mount.device, &mount.place);
        for group in mount.tags.iter().filter_map(|tag| tag.strip_prefix("shared:")) {
            groups.host(group, &mount.place);
        }
    }
    let mut facts = Vec::new();
    for mount in order {
        let key = format!("mount {}", keys[&mount.id]);
        let is_mask = masks.contains(&mount.place)
            && (mount.root.ends_with("null")
                || mount.kind == "tmpfs" && mount.superblock.starts_with("ro"));
        let mut tell = |what: &str, value: String| {
            if !is_mask || what == "propagation" {
                facts.push((format!("{key} | {what}"), value));
            }
        };
        tell("options", mount.options.clone());
        // The root of a pinned namespace is its kind and inode.
        tell(
            "root",
            mount.root.split_once(":[").map_or(mount.root.as_str(), |(kind, _)| kind).to_owned(),
        );
        tell("source", mount.source.clone());
        tell("superblock", mount.superblock.clone());
        if !is_mask {
            tell("device", devices.of(&mount.device, &keys[&mount.id]));
        }
        let parent = keys.get(&mount.parent).map_or("none", String::as_str);
        tell("parent", parent.to_owned());
        let tags: Vec<String> = mount
            .tags
            .iter()
            .map(|tag| match tag.split_once(':') {
                Some((kind, group)) => format!("{kind}:{}", groups.of(group, &keys[&mount.id])),
                None => tag.clone(),
            })
            .collect();
        tell("propagation", if tags.is_empty() { "private".to_owned() } else { tags.join(" ") });
        facts.push((key, if is_mask { "mask".to_owned() } else { mount.kind.clone() }));
    }
    facts
}

/// Returns the name of each mount: its mount point, with a number if others are there, from the lowest up.
fn keys(mounts: &[Mount]) -> BTreeMap<u64, String> {
    let mut keys = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut order: Vec<&Mount> = mounts.iter().collect();
    // A stack at one place is numbered from below, whichever of its mounts is the oldest.
    order.sort_by_key(|mount| depth(mounts, mount));
    for mount in order {
        let count = counts.entry(&mount.place).or_default();
        let name =
            if *count == 0 { mount.place.clone() } else { format!("{}#{count}", mount.place) };
        *count += 1;
        keys.insert(mount.id, name);
    }
    keys
}

/// Returns the number of mounts below a mount.
fn depth(mounts: &[Mount], mount: &Mount) -> usize {
    let parent = |child: &&Mount| {
        mounts.iter().find(|mount| mount.id == child.parent && mount.id != child.id)
    };
    std::iter::successors(Some(mount), parent).take(mounts.len()).count()
}

/// Names for numbers that differ from run to run.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn host(&mut self, number: &str, place: &str) {
        self.0.entry(number.to_owned()).or_insert_with(|| format!("host({place})"));
    }

    fn of(&mut self, number: &str, first: &str) -> String {
        self.0.entry(number.to_owned()).or_insert_with(|| format!("new({first})")).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{facts, parse};

    const HOST: &str = "1 0 8:1 / / rw shared:1 - ext4 /dev/vda rw\n";

    #[test]
    fn ids_do_not_count() {
        let one = "20 19 8:1 /x / rw master:1 - ext4 /dev/vda rw\n21 20 0:5 / /a rw shared:9 - tmpfs t rw\n22 21 0:6 / /a ro - tmpfs t rw\n";
        let other = "70 9 8:1 /x / rw master:1 - ext4 /dev/vda rw\n71 70 0:15 / /a rw shared:3 - tmpfs t rw\n75 71 0:16 / /a ro - tmpfs t rw\n";
        let told = facts(&parse(one), &parse(HOST), &[]);
        assert_eq!(told, facts(&parse(other), &parse(HOST), &[]));
        let find = |key: &str| told.iter().find(|fact| fact.0 == key).map(|fact| fact.1.as_str());
        assert_eq!(find("mount / | propagation"), Some("master:host(/)"));
        assert_eq!(find("mount /a | propagation"), Some("shared:new(/a)"));
        assert_eq!(find("mount /a#1 | parent"), Some("/a"));
        assert_eq!(find("mount /a#1"), Some("tmpfs"));
    }
}
