//! The hardware as a picture: a box for each node with its level 3 caches, cores and CPUs, and a matrix of the
//! distances.

use super::text::{cache_name, megabytes};
use super::{Hardware, Node};
use crate::measure::chart::{Boxes, Cell, Outer, Tray};
use report::count::counted;
use topology::List;

/// Returns the picture of `hardware`.
pub(super) fn of(hardware: &Hardware) -> Boxes {
    let mut boxes: Vec<Outer> = hardware.nodes.iter().map(|node| outer(hardware, node)).collect();
    let offline = &hardware.cpus.offline;
    if !offline.is_empty() {
        let cells = offline.iter().map(|cpu| vec![(cpu.to_string(), 2)]);
        let tray =
            Tray { title: "node and cache are not known".to_owned(), groups: cells.collect() };
        boxes.push(Outer { title: "offline".to_owned(), note: String::new(), trays: vec![tray] });
    }
    let known = hardware.nodes.iter().all(|node| !node.distances.is_empty());
    let distances = |node: &Node| node.distances.iter().map(u32::to_string).collect();
    let row = |node: &Node| known.then(|| (node.id.to_string(), distances(node)));
    Boxes {
        title: format!(
            "{}, {}, {}, CPUs {}",
            counted(hardware.nodes.len(), "memory node"),
            counted(hardware.sockets.len(), "socket"),
            counted(hardware.caches().filter(|(_, it)| it.is_known).count(), "level 3 cache"),
            hardware.cpus.online,
        ),
        boxes,
        matrix: hardware.nodes.iter().filter_map(row).collect(),
    }
}

fn outer(hardware: &Hardware, node: &Node) -> Outer {
    let within = |list: &List| list.intersection(&node.cpus);
    let isolated = &hardware.cpus.isolated;
    let cell = |cpu: u32| (cpu.to_string(), usize::from(isolated.contains(cpu)));
    let mut trays = Vec::new();
    for (socket, cache) in hardware.caches() {
        let groups: Vec<Vec<Cell>> = cache
            .cores
            .iter()
            .map(within)
            .filter(|core| !core.is_empty())
            .map(|core| core.iter().map(cell).collect())
            .collect();
        if !groups.is_empty() {
            let title = format!("socket {}: {}", socket.id, cache_name(cache));
            trays.push(Tray { title, groups });
        }
    }
    let cpus = if node.cpus.is_empty() { "no CPUs, " } else { "" };
    let memory = match node.size_bytes {
        Some(0) => "no memory".to_owned(),
        size => format!("{}, {} free", megabytes(size), megabytes(node.free_bytes)),
    };
    Outer { title: format!("node {}", node.id), note: format!("{cpus}{memory}"), trays }
}
