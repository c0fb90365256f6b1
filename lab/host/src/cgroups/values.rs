//! `get` and `set`.

use super::group::{Group, Tree, entries};
use super::journal::{Journal, Write};
use super::key;
use super::setting::{self, Pending};
use crate::cgroups::options::{Get, Set};
use report::{Error, Format, sayln};
use serde_json::{Map, Value, json};
use spec::word;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use topology::Topology;

/// Prints the values.
///
/// # Errors
/// An unknown group or key.
pub fn get(options: &Get) -> Result<(), Error> {
    let tree = Tree::detect()?;
    let mut all = Map::new();
    let (groups, named) = groups_and_keys(&tree, options);
    // Nothing is printed before all groups are known to exist.
    for (index, group) in groups.iter().enumerate() {
        tree.existing(group)
            .map_err(|error| if index > 0 { misspelt(group, error) } else { error })?;
    }
    for group in groups {
        let mut keys = named.clone();
        for controller in options.controllers.iter().chain(&group.controllers) {
            let (directory, _) = tree.directory(group, controller)?;
            keys.extend(files(&directory, Some(controller)));
        }
        if options.all || keys.is_empty() {
            for directory in tree.existing(group)? {
                keys.extend(files(&directory, None));
            }
        }
        let mut values: Vec<(String, String)> = Vec::new();
        for key in keys {
            match setting::read(&tree, group, &key) {
                Ok(value) => values.push((key, value)),
                // If the user did not name the key, a file that can't be read at the moment is left out.
                Err(_) if !named.contains(&key) => {}
                Err(error) => return Err(error),
            }
        }
        if options.format == Format::Table {
            print(options, group, &values);
        }
        let object = values.into_iter().map(|(key, value)| (key, Value::from(value)));
        all.insert(group.path.clone(), Value::Object(object.collect()));
    }
    if options.format == Format::Json {
        sayln!("{}", json!(all));
    }
    Ok(())
}

/// Returns an error that suggests a file, if the argument `group` is misspelt and similar to a file's name. Otherwise,
/// returns `error`.
fn misspelt(group: &Group, error: Error) -> Error {
    let name = group.path.as_str();
    let has_form = group.controllers.is_empty() && name.contains('.') && !name.contains('/');
    match word::nearest(name, key::names()).filter(|_| has_form) {
        Some(file) => refused!("there is no group and no file {name:?}")
            .advise(format!("did you mean {file}?")),
        None => error,
    }
}

/// Returns the groups and the names of files among the arguments. The first argument is a group. A later argument is a
/// file if it has the form of a file's name and no group has that name.
fn groups_and_keys<'a>(tree: &Tree, options: &'a Get) -> (Vec<&'a Group>, Vec<String>) {
    let is_key = |(index, group): &(usize, &Group)| {
        let name = group.path.as_str();
        let has_form = *index > 0 && group.controllers.is_empty() && !name.contains('/');
        let controller = key::controller(name);
        let is_of_controller = name.len() > controller.len() && tree.home(controller).is_some();
        has_form && (is_of_controller || key::is_known(name)) && !tree.exists(group)
    };
    let words = options.groups.iter().enumerate();
    let (keys, groups): (Vec<_>, Vec<_>) = words.partition(is_key);
    let keys = keys.into_iter().map(|(_, key)| key.path.clone());
    (
        groups.into_iter().map(|(_, group)| group).collect(),
        options.keys.iter().cloned().chain(keys).collect(),
    )
}

/// Prints values in cgget's format.
fn print(options: &Get, group: &Group, values: &[(String, String)]) {
    if !options.no_headers {
        sayln!("{}:", group.path);
    }
    for (key, value) in values {
        // Lines after the first are indented, so that the names stand out.
        let text = value.replace('\n', "\n\t");
        if options.values_only {
            sayln!("{text}");
        } else {
            sayln!("{key}: {text}");
        }
    }
    if !options.no_headers {
        sayln!();
    }
}

/// Returns the names of a group's readable files, for one controller or for all.
fn files(directory: &Path, controller: Option<&str>) -> Vec<String> {
    let mode = |name: &str| fs::metadata(directory.join(name)).map_or(0, |data| data.mode());
    let mut names = entries(directory, fs::FileType::is_file);
    names.retain(|name| {
        mode(name) & 0o444 != 0 && controller.is_none_or(|it| key::controller(name) == it)
    });
    names
}

/// Sets values: all of them, or none.
///
/// # Errors
/// An unknown group or key; values that are invalid, or that the kernel refuses.
pub fn set(options: &Set) -> Result<(), Error> {
    let (groups, settings) = options.parts()?;
    let tree = Tree::detect()?;
    let topology = Topology::read("")?;
    let settings = match &options.copy_from {
        Some(source) => copied(&tree, source)?,
        None => settings,
    };
    let mut pending = Pending::new();
    let mut writes: Vec<Write> = Vec::new();
    for group in groups {
        tree.existing(group)?;
        for (key, value) in &settings {
            for write in setting::resolve(&tree, group, (key, value), &pending)? {
                setting::check_placement(&write, &topology)
                    .map_err(|reason| refused!("{key}: {reason}"))?;
                pending.insert(write.file.clone(), write.value.clone());
                writes.push(write);
            }
        }
    }
    Journal::begin()?.finish(writes)
}

/// Returns all settings of a group, without files that only trigger an action when written.
fn copied(tree: &Tree, source: &Group) -> Result<Vec<(String, String)>, Error> {
    let mut settings = Vec::new();
    for directory in tree.existing(source)? {
        for file in super::snapshot::settable(&directory) {
            let value = setting::read(tree, source, &file)?;
            let lines = value.lines().filter(|line| !line.is_empty());
            settings.extend(lines.map(|line| (file.clone(), line.to_owned())));
        }
    }
    Ok(settings)
}
