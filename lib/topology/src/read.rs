//! Reads the topology from sysfs (Documentation/ABI/stable/sysfs-devices-system-cpu and -node).

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sys::{Context, Errno};

use crate::{Cpu, Error, List, Node, Topology};

impl Topology {
    /// Reads `/sys/devices/system/cpu` and `/sys/devices/system/node` below `root`; an empty `root` means this host.
    ///
    /// # Errors
    /// If a system call fails; [`Error::Unreadable`].
    pub fn read(root: &str) -> Result<Self, Error> {
        let root = root.trim_end_matches('/');
        let cpus = format!("{root}/sys/devices/system/cpu");
        let online = required_list(&format!("{cpus}/online"))?;
        let nodes = nodes(&format!("{root}/sys/devices/system/node"), &online)?;
        let cpu = |id| cpu(&format!("{cpus}/cpu{id}"), id, &online, &nodes);
        let cpus_of_host = online.iter().map(cpu).collect::<Result<Vec<_>, _>>()?;
        let smt_control = optional(&format!("{cpus}/smt/control"))?.unwrap_or_default();
        Ok(Self { cpus: cpus_of_host, nodes, smt_control: smt_control.trim().to_owned() })
    }
}

fn cpu(directory: &str, id: u32, online: &List, nodes: &[Node]) -> Result<Cpu, Error> {
    // Before Linux 5.2, only the second of these file names exists.
    let siblings = match list(&format!("{directory}/topology/core_cpus_list"))? {
        None => list(&format!("{directory}/topology/thread_siblings_list"))?,
        siblings => siblings,
    };
    let siblings =
        siblings.map_or_else(|| [id].into_iter().collect(), |it| it.intersection(online));
    let package = optional(&format!("{directory}/topology/physical_package_id"))?;
    // The number is -1 if the firmware does not report a package.
    let package = package.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let (l3, l3_bytes) = l3(directory, online)?;
    let node = nodes.iter().find(|node| node.cpus.contains(id)).map_or(0, |node| node.id);
    Ok(Cpu { id, siblings, l3, l3_bytes, package, node })
}

/// Reads the CPUs that share the level 3 cache of a CPU, and the size of the cache. The kernel numbers caches in the
/// order in which the firmware reports them; level 3 is usually index3.
fn l3(directory: &str, online: &List) -> Result<(List, u64), Error> {
    for index in [3, 2, 1, 4, 0] {
        let cache = format!("{directory}/cache/index{index}");
        let level = optional(&format!("{cache}/level"))?;
        if level.as_deref().map(str::trim) != Some("3") {
            continue;
        }
        let Some(shared) = list(&format!("{cache}/shared_cpu_list"))? else { continue };
        let size = optional(&format!("{cache}/size"))?.unwrap_or_default();
        let kib = size.trim().trim_end_matches('K').parse::<u64>().unwrap_or(0);
        return Ok((shared.intersection(online), kib.saturating_mul(1024)));
    }
    Ok((List::default(), 0))
}

/// Reads the memory nodes. On a kernel without NUMA, the directory does not exist, and all CPUs are on one node.
fn nodes(directory: &str, online: &List) -> Result<Vec<Node>, Error> {
    let Some(numbers) = list(&format!("{directory}/online"))? else {
        let (cpus, distances) = (online.clone(), [10].into());
        return Ok(Vec::from([Node { id: 0, cpus, memory: 0, free: 0, distances }]));
    };
    numbers.iter().map(|id| node(&format!("{directory}/node{id}"), id, online)).collect()
}

fn node(directory: &str, id: u32, online: &List) -> Result<Node, Error> {
    let cpus = list(&format!("{directory}/cpulist"))?.unwrap_or_default().intersection(online);
    let distances = optional(&format!("{directory}/distance"))?.unwrap_or_default();
    let distances = distances.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let meminfo = optional(&format!("{directory}/meminfo"))?.unwrap_or_default();
    // `Node 0 MemTotal:       12282068 kB`
    let bytes = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.split_once(key));
        let number = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
        number.unwrap_or(0).saturating_mul(1024)
    };
    Ok(Node { id, cpus, memory: bytes("MemTotal:"), free: bytes("MemFree:"), distances })
}

fn optional(path: &str) -> Result<Option<String>, Error> {
    match sys::fs::read_text(path) {
        // In virtual machines, reading unknown caches and nodes fails with EIO or ENODATA.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::IO | Errno::NODATA) => Ok(None),
        result => Ok(Some(result.context("read", path)?)),
    }
}

pub(crate) fn list(path: &str) -> Result<Option<List>, Error> {
    optional(path)?.map(|text| parsed(path, &text)).transpose()
}

pub(crate) fn required_list(path: &str) -> Result<List, Error> {
    parsed(path, &sys::fs::read_text(path).context("read", path)?)
}

fn parsed(path: &str, text: &str) -> Result<List, Error> {
    let unreadable = || Error::Unreadable { file: path.to_string(), content: text.to_string() };
    List::parse(text).ok_or_else(unreadable)
}
