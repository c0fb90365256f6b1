//! The hardware as text: exactly the output of `numactl --hardware`, followed by properties that numactl does not
//! report.

use super::{Cache, Hardware, Node};
use std::fmt;
use topology::List;

impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: List = self.nodes.iter().map(|node| node.id).collect();
        writeln!(f, "available: {} nodes ({ids})", ids.len())?;
        for node in &self.nodes {
            let id = node.id;
            write!(f, "node {id} cpus:")?;
            for cpu in node.cpus.iter() {
                write!(f, " {cpu}")?;
            }
            writeln!(f, "\nnode {id} size: {}", megabytes(node.size_bytes))?;
            writeln!(f, "node {id} free: {}", megabytes(node.free_bytes))?;
        }
        distances(f, &self.nodes)?;
        if !self.numa {
            writeln!(
                f,
                "This kernel knows no memory nodes (no /sys/devices/system/node): all counts as node 0."
            )?;
        }
        writeln!(f)?;
        self.beyond(f)
    }
}

impl Hardware {
    fn beyond(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = &self.cpus;
        for (name, list) in [
            ("present", &cpus.present),
            ("online", &cpus.online),
            ("offline", &cpus.offline),
            ("isolated", &cpus.isolated),
        ] {
            writeln!(f, "cpus {name}: {}", or_none(list))?;
        }
        let threads = match self.smt.active {
            true => "cores have more than one CPU",
            false => "one CPU a core",
        };
        writeln!(f, "SMT: {} ({threads})", self.smt.control.as_deref().unwrap_or("not available"))?;
        let of_nodes: u64 = self.nodes.iter().filter_map(|node| node.size_bytes).sum();
        if self.memory_bytes.is_some_and(|all| all.abs_diff(of_nodes) > all / 20) {
            let all = megabytes(self.memory_bytes);
            writeln!(f, "memory: {all} by /proc/meminfo, {} on nodes", megabytes(Some(of_nodes)))?;
        }
        writeln!(f, "sockets: {}", self.sockets.len())?;
        writeln!(f, "level 3 caches: {}", self.caches().filter(|(_, it)| it.is_known).count())?;
        for socket in &self.sockets {
            writeln!(f, "socket {} cpus: {}", socket.id, socket.cpus)?;
            for cache in &socket.caches {
                let (name, cpus) = (cache_name(cache), &cache.cpus);
                writeln!(f, "  {name}, node {} cpus: {cpus}", or_none(&cache.nodes))?;
                write!(f, "    cores:")?;
                for core in &cache.cores {
                    write!(f, " {core}")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

/// Returns the name of a cache.
pub(super) fn cache_name(cache: &Cache) -> String {
    match (cache.is_known, cache.size_bytes) {
        (false, _) => "no level 3 cache".to_owned(),
        (true, None) => "level 3 cache".to_owned(),
        (true, Some(bytes)) if bytes.is_multiple_of(1 << 20) => {
            format!("level 3 cache, {} MiB", bytes >> 20)
        }
        (true, Some(bytes)) => format!("level 3 cache, {} KiB", bytes >> 10),
    }
}

/// Formats whole megabytes of 2²⁰ bytes, as numactl does.
pub(super) fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not available".to_owned(), |bytes| format!("{} MB", bytes >> 20))
}

fn distances(f: &mut fmt::Formatter<'_>, nodes: &[Node]) -> fmt::Result {
    if nodes.iter().any(|node| node.distances.is_empty()) {
        return writeln!(f, "No distance information available.");
    }
    // numactl prints a trailing blank on each line.
    write!(f, "node distances:\nnode ")?;
    for node in nodes {
        write!(f, "{:>3} ", node.id)?;
    }
    for node in nodes {
        write!(f, "\n{:>3}: ", node.id)?;
        for distance in &node.distances {
            write!(f, "{distance:>3} ")?;
        }
    }
    writeln!(f)
}

fn or_none(list: &List) -> String {
    if list.is_empty() { "none".to_owned() } else { list.to_string() }
}
