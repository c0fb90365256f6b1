//! `ls`: shows groups as a tree with their usage, or the hierarchies. On a terminal, long names are shortened to the
//! terminal's width.

use super::group::{Group, Tree, Version};
use super::setting;
use super::top::size_of_stdout;
use super::usage::{Usage, known, size, time};
use crate::cgroups::options::Ls;
use report::{Error, Format, Table, say, sayln};
use serde_json::json;

/// Shows groups or hierarchies.
///
/// # Errors
/// An unknown group; failing reads.
pub fn list(options: &Ls) -> Result<(), Error> {
    let tree = Tree::detect()?;
    if options.hierarchies {
        return hierarchies(&tree, options.format);
    }
    let tops = match options.groups.as_slice() {
        [] => vec![Group::at("/")?],
        groups => groups.to_vec(),
    };
    let mut groups = Vec::new();
    for top in &tops {
        tree.existing(top)?;
        groups.extend(tree.walk(top).into_iter().filter(|group| !group.path.is_empty()));
    }
    if options.names {
        for group in groups {
            sayln!("{}", group.path);
        }
        return Ok(());
    }
    // Groups that are removed meanwhile are left out.
    let looks = groups.iter().filter_map(|group| Some((group, Usage::of(&tree, group).ok()?)));
    match options.format {
        Format::Json => {
            let rows: Vec<Usage> = looks.map(|(_, usage)| usage).collect();
            sayln!("{}", json!(rows));
        }
        Format::Table => {
            let headings =
                ["group", "processes", "CPU time", "memory", "peak", "limit", "CPUs", "nodes"];
            let mut table = Table::new(&headings);
            for (group, usage) in looks {
                table.row(row(&tree, &tops, group, &usage));
            }
            let width = size_of_stdout().map(|(columns, _)| columns);
            say!("{}", table.within(width.filter(|_| !options.no_trunc)));
        }
    }
    Ok(())
}

fn row(tree: &Tree, tops: &[Group], group: &Group, usage: &Usage) -> Vec<String> {
    let depth = group.path.matches('/').count();
    let above =
        |top: &&Group| group.path.strip_prefix(&top.path).is_some_and(|rest| rest.starts_with('/'));
    let (indent, name) = match tops.iter().find(|top| top.path.is_empty() || above(top)) {
        Some(top) => {
            let levels = top.path.split('/').filter(|part| !part.is_empty()).count();
            let name = group.path.rsplit('/').next().unwrap_or_default();
            (depth.saturating_sub(levels.saturating_sub(1)), name)
        }
        None => (0, group.path.as_str()),
    };
    let list = |key: &str| setting::read(tree, group, key).unwrap_or_else(|_| "-".to_owned());
    vec![
        format!("{}{name}", "  ".repeat(indent)),
        usage.processes.to_string(),
        known(usage.cpu_ns, time),
        known(usage.memory, size),
        known(usage.memory_peak, size),
        known(usage.memory_limit, size),
        list("cpuset.cpus.effective"),
        list("cpuset.mems.effective"),
    ]
}

fn hierarchies(tree: &Tree, format: Format) -> Result<(), Error> {
    let version = |version| if version == Version::V1 { "v1" } else { "v2" };
    match format {
        Format::Json => {
            let all = tree.mounts.iter().map(|mount| {
                let interface = version(mount.version);
                json!({ "path": mount.path, "interface": interface, "controllers": mount.controllers })
            });
            sayln!("{}", json!(all.collect::<Vec<_>>()));
        }
        Format::Table => {
            let mut table = Table::new(&["hierarchy", "interface", "controllers"]).left(&[0, 1, 2]);
            for mount in &tree.mounts {
                let path = mount.path.display().to_string();
                let controllers = mount.controllers.join(" ");
                table.row(vec![path, version(mount.version).to_owned(), controllers]);
            }
            say!("{table}");
        }
    }
    Ok(())
}
